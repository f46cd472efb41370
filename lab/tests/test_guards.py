# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each guard objects to its own disturbance, and to nothing in an undisturbed trial."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diolkos_lab.experiment.definition import Guards, Topology
from diolkos_lab.experiment.frames import ForwardingRateLoad
from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.experiment.loads import DnsLoad, HttpLoad, PingLoad, PpsLoad, TcpLoad, UdpLoad
from diolkos_lab.experiment.procedures import PacketTrial
from diolkos_lab.load.reading import Reading
from diolkos_lab.run.counters import Device, NetCounters, difference
from diolkos_lab.run.guards import GUARDS, Evidence, RoleAccount, Tun, judge, limited_by_authority, slow_share
from diolkos_lab.topology.processes import TICK_S

GIGABYTE = 10**9
QUIET = Device(0, 0, 0, 0, 0, 0)


def _protocols(ipv6: int = 0, ipv4: int = 0, echos6: int = 0, echos4: int = 0, queries: int = 0) -> dict[str, int]:
    return {
        "Ip6InOctets": ipv6,
        "Ip6OutOctets": 0,
        "IpExtInOctets": ipv4,
        "IpExtOutOctets": 0,
        "Icmp6InEchos": echos6,
        "IcmpInEchos": echos4,
        "UdpInDatagrams": queries // 2,
        "Udp6InDatagrams": queries - queries // 2,
    }


TCP = Evidence(
    tuns=(Tun("through", Device(10**7, 100_000, 0, int(1.02 * GIGABYTE), 700_000, 0)),),
    server_family="ipv6",
    cores=2,
    elapsed_s=1.0,
    foreign_s=0.05,
    steal_s=0.0,
    clock_jump_s=0.0001,
    outside_drops=0,
    server=NetCounters({}, _protocols(ipv6=int(1.03 * GIGABYTE))),
    server_link=Device(int(1.04 * GIGABYTE), 700_000, 0, 10**7, 100_000, 0),
    reading=Reading({"throughput": 8e9, "retransmits": 500.0}, received_bytes=GIGABYTE, segments=700_000),
    load=TcpLoad(name="tcp-upload", seconds=1),
)
PING = replace(
    TCP,
    server=NetCounters({}, _protocols(echos6=100)),
    tuns=(Tun("through", Device(0, 100, 0, 0, 100, 0)),),
    reading=Reading({"rtt": 1e-5, "loss": 0.0}),
    load=PingLoad(name="ping", count=102),
)
# A DNS64 asks the authority twice for a new name.
DNS = replace(
    TCP,
    tuns=(),
    server=NetCounters({}, _protocols(queries=60_000)),
    reading=Reading({"rate": 30_000.0, "loss": 0.0}, answers=30_000),
    load=DnsLoad(name="dns", cache="cold", seconds=1),
    authority_rate=70_000.0,
)
# Small fetches through a fast path that leaves the opening and closing of connections to the TUN device.
HTTP = replace(
    TCP,
    tuns=(Tun("past", Device(250_000, 3000, 0, 250_000, 3000, 0)),),
    server=NetCounters({}, _protocols(ipv6=2_500_000)),
    reading=Reading({"latency": 2e-4, "rate": 1000.0}, received_bytes=1_273_000, connections=1000),
    load=HttpLoad(name="http", object_bytes=1024, by="literal", seconds=1),
)
# An overload: half of what was offered is lost at the first ring, which is what is measured.
PPS = replace(
    TCP,
    tuns=(Tun("through", Device(0, 100_000, 0, 0, 100_000, 0)),),
    server=NetCounters({}, _protocols()),
    outside_drops=100_000,
    reading=Reading({"sent": 2e5, "received": 1e5, "loss": 0.5}, packets=100_000, pace_error=-0.001, behind_s=1e-5),
    load=PpsLoad(name="pps", seconds=1).at(200_000),
)
# The same rate, and nothing lost: there a stall's loss would be all of it.
LIGHT = replace(PPS, reading=replace(PPS.reading, metrics={**PPS.reading.metrics, "received": 2e5, "loss": 0.0}))


def _names(evidence: Evidence, topology: Topology | None = None) -> list[str]:
    return [entry.guard for entry in judge(evidence, Guards(), topology or Topology())]


def test_undisturbed_trials_are_trusted() -> None:
    assert _names(TCP) == []
    assert _names(PING) == []
    assert _names(PPS) == []
    assert _names(replace(TCP, tuns=(Tun("past", Device(5000, 50, 0, 5000, 50, 0)),))) == []
    assert _names(replace(TCP, tuns=())) == []


@pytest.mark.parametrize(
    ("guard", "change"),
    [
        ("steal", {"steal_s": 0.1}),
        ("foreign-cpu", {"foreign_s": 0.55}),
        ("cpu-account", {"accounts": (RoleAccount("both ends", 1.05, 1),)}),
        ("clock-jump", {"clock_jump_s": -3600.0}),
        ("stopped", {"still_s": 10.3}),
        ("pace", {**vars(PPS), "reading": replace(PPS.reading, pace_error=-0.02)}),
        ("pace", {**vars(PPS), "reading": replace(PPS.reading, behind_s=0.02)}),
        ("stall", {**vars(LIGHT), "reading": replace(LIGHT.reading, stalls_s=(0.0003, 0.004))}),
        ("slow-sink", {**vars(PPS), "sink_drops": 100}),
        ("wrong-path", {**vars(PPS), "tuns": (Tun("through", QUIET),)}),
        ("outside-drops", {"outside_drops": 1000}),
        ("link-rate", {"server_link": Device(GIGABYTE // 2, 700_000, 0, 10**7, 100_000, 0)}),
        ("unknown-authority", {**vars(DNS), "authority_rate": None}),
        ("wrong-path", {"server": NetCounters({}, _protocols(ipv4=GIGABYTE))}),
        ("wrong-path", {"tuns": (Tun("through", QUIET),)}),
        ("wrong-path", {"tuns": (Tun("past", None),)}),
        ("wrong-path", {"tuns": (*TCP.tuns, Tun("through", QUIET))}),
    ],
)
def test_each_disturbance_is_named(guard: str, change: dict[str, Any]) -> None:
    found = judge(replace(TCP, **change), Guards(), Topology())
    assert [entry.guard for entry in found] == [guard]
    assert found[0].detail[0].islower() or found[0].detail[0].isdigit()


def test_a_ring_holds_what_a_short_stall_delays() -> None:
    """256 packets wait at a veth; at 200 000 a second that is 1.28 ms, of which the witness may miss half a millisecond."""
    short = replace(LIGHT, reading=replace(LIGHT.reading, stalls_s=(0.001,) * 100))
    assert _names(short) == []
    slow = replace(LIGHT, load=PpsLoad(name="pps", seconds=1).at(2000), reading=replace(LIGHT.reading, stalls_s=(0.1,)))
    assert _names(slow) == []
    # 3.55 ms more than the ring holds cost 710 of 200 000 packets: more than half of what PDR@0.5 % allows.
    long = replace(LIGHT, reading=replace(LIGHT.reading, stalls_s=(0.00458,)))
    assert _names(long) == ["stall"]
    assert _names(replace(long, reading=replace(long.reading, stalls_s=(0.0035,)))) == [], "494: less than half of it"
    together = PpsLoad(name="pps", seconds=1, placement="one-cpu").at(200_000)
    assert _names(replace(long, load=together)) == [], "then nothing comes while nobody can take it"


def test_a_system_that_joins_packets_is_not_passed_by() -> None:
    """It has read 100 000 of them, and written 2000 that the kernel cuts."""
    assert _names(replace(PPS, tuns=(Tun("through", Device(0, 2000, 0, 0, 100_000, 0)),))) == []
    assert _names(replace(PPS, tuns=(Tun("through", Device(0, 2000, 0, 0, 2000, 0)),))) == ["wrong-path"]


def test_where_delays_count_a_stall_matters_that_costs_no_packet() -> None:
    """A ring holds all of them, but more than one in 2000 waits."""
    load = LatencyLoad(name="latency", packets=200_000).at(200_000)
    timed = replace(LIGHT, load=load, reading=replace(LIGHT.reading, stalls_s=(0.0003,)))
    assert _names(timed) == ["stall"]
    assert _names(replace(timed, reading=replace(timed.reading, stalls_s=(0.0002,)))) == [], "with what may come before: 450"
    assert _names(replace(timed, load=load.probe(200_000, 1))) == [], "a probe asks for loss"


@pytest.mark.parametrize(
    ("stall_s", "expected", "found"),
    [
        (0.003, 0.0, ["stall"]),
        (0.003, 0.035, ["stall"]),  # 5.6 % of what will be lost
        (0.003, 0.043, []),  # 4.6 %
        (0.0045, 0.5, ["stall"]),  # 1.4 %, but a third of a percent of the throughput
    ],
)
def test_a_stall_that_explains_little_of_the_expected_loss_is_none_that_matters(
    stall_s: float, expected: float, found: list[str]
) -> None:
    """It may have cost 394 of 200 000 packets, and 694 in the last case. What the trial lost is not asked."""
    load = PpsLoad(name="pps", seconds=1).at(200_000, knee=200_000 * (1 - expected))
    for lost in (0.0, 0.5):
        reading = replace(PPS.reading, metrics={**PPS.reading.metrics, "loss": lost}, stalls_s=(stall_s,))
        judged = judge(replace(PPS, load=load, reading=reading), Guards(stall_ratio=0.001), Topology())
        assert [entry.guard for entry in judged] == found


@pytest.mark.parametrize(("stall_s", "found"), [(0.0009, []), (0.0035, ["stall"])])
def test_a_search_for_no_loss_bears_no_stall_that_may_cost_a_packet(stall_s: float, found: list[str]) -> None:
    """Whether or not one was lost: who objects to the trials that lost alone finds a rate that is too high."""
    trial = PacketTrial(name="rfc8219", test="throughput", seconds=1, offered=200_000)
    for lost in (0.0, 0.001, 0.01):
        reading = replace(PPS.reading, metrics={**PPS.reading.metrics, "loss": lost}, stalls_s=(stall_s,))
        assert _names(replace(PPS, load=trial, reading=reading)) == found
        assert _names(replace(PPS, reading=reading)) == [], "a curve can bear it"


@pytest.mark.parametrize(("stalls_s", "found"), [((0.01, 0.009), []), ((0.012, 0.009), ["stall"])])
def test_where_more_is_offered_than_goes_a_stall_costs_its_share_of_the_time(
    stalls_s: tuple[float, ...], found: list[str]
) -> None:
    """19 and 21 ms of a second, of which a hypervisor may take 2 %. However many packets were sent meanwhile."""
    load = ForwardingRateLoad(name="forwarding-rate", seconds=1)
    for sent in (1e5, 1e7):
        reading = replace(PPS.reading, metrics={"sent": sent, "received": 1e5, "rate": 1e5}, stalls_s=stalls_s)
        judged = judge(replace(PPS, load=load, reading=reading), Guards(steal_share=0.02), Topology())
        assert [entry.guard for entry in judged] == found


def test_receiver_above_link_rate() -> None:
    """The rule that a published study lacked: what is faster than the link was never received."""
    assert _names(TCP, Topology(link_rate=1e9)) == ["link-rate"]
    assert _names(TCP, Topology(link_rate=1e10)) == []


def test_datagrams_are_judged_by_what_arrived() -> None:
    """A sender may write more than the link carries; a receiver cannot get it. A busy generator is no reason for distrust."""
    metrics = {"throughput": 8e9, "sent_rate": 2e10, "loss": 0.6, "socket_loss": 0.0}
    udp = replace(TCP, load=UdpLoad(name="udp", seconds=1), reading=replace(TCP.reading, metrics=metrics))
    assert _names(udp, Topology(link_rate=1e10)) == []
    faster = replace(udp, reading=replace(TCP.reading, metrics={**metrics, "throughput": 1.6e10}))
    assert _names(faster, Topology(link_rate=1e10)) == ["link-rate"]
    assert _names(faster) == [], "a veth pair has no rate"


def test_echoes_on_the_wrong_path() -> None:
    assert _names(replace(PING, server=NetCounters({}, _protocols(echos4=100)))) == ["wrong-path"]
    assert _names(replace(PING, tuns=(Tun("through", QUIET),))) == ["wrong-path"]


def test_the_names_of_a_trial_are_new_or_known_as_the_load_says() -> None:
    assert _names(DNS) == []
    assert _names(replace(DNS, server=NetCounters({}, _protocols(queries=20_000)))) == ["wrong-path"], "from a cache"
    warm = replace(DNS, load=DnsLoad(name="dns", cache="warm", seconds=1), authority_rate=None)
    assert _names(warm) == ["wrong-path"], "not from the cache"
    assert _names(replace(warm, server=NetCounters({}, _protocols(queries=3)))) == []


@pytest.mark.parametrize(
    ("authority", "system_s", "limited"), [(70_000, 0.5, False), (50_000, 0.5, True), (50_000, 0.95, False)]
)
def test_a_rate_that_the_authority_limits_is_a_lower_bound(authority: float, system_s: float, limited: bool) -> None:
    """It is no reason to leave the trial out: the fastest resolvers would lose their best trials."""
    evidence = replace(DNS, authority_rate=authority, system_s=system_s)
    assert _names(evidence) == []
    assert limited_by_authority(evidence, Guards()) == limited


def test_connections_may_be_opened_through_the_device_but_not_used_through_it() -> None:
    assert _names(HTTP) == []
    assert slow_share(HTTP) == 0
    through = replace(HTTP, tuns=(Tun("past", Device(1_000_000, 6000, 0, 1_500_000, 6000, 0)),))
    assert slow_share(through) == 1
    assert _names(through) == [], "it is the system's own result"
    assert _names(replace(HTTP, server=NetCounters({}, _protocols(ipv4=2_500_000)))) == ["wrong-path"]
    assert _names(replace(HTTP, tuns=(Tun("through", HTTP.tuns[0].device),))) == ["wrong-path"], "nothing is taken off"


def test_behind_a_plat_ipv4_arrives() -> None:
    tcp = replace(TCP, server_family="ipv4")
    assert _names(tcp) == ["wrong-path"]
    assert _names(replace(tcp, server=NetCounters({}, _protocols(ipv4=int(1.03 * GIGABYTE))))) == []
    ping = replace(PING, server_family="ipv4", server=NetCounters({}, _protocols(echos4=100)))
    assert _names(ping) == []
    assert _names(replace(ping, tuns=(Tun("through", QUIET),))) == ["wrong-path"]


@pytest.mark.parametrize(
    ("evidence", "share"),
    [
        (replace(TCP, tuns=(Tun("past", TCP.tuns[0].device),)), 1.0),
        (replace(TCP, tuns=(Tun("past", Device(0, 0, 0, GIGABYTE // 4, 0, 0)),)), 0.25),
        (replace(PING, tuns=(Tun("past", Device(0, 10, 0, 0, 10, 0)),)), 0.1),
        (replace(PPS, tuns=(Tun("past", PPS.tuns[0].device),)), 1.0),
        (TCP, None),
    ],
)
def test_what_a_fast_path_leaves_to_the_slow_one_is_told_and_not_excused(evidence: Evidence, share: float | None) -> None:
    assert _names(evidence) == []
    assert slow_share(evidence) == (None if share is None else pytest.approx(share, abs=1e-4))


OUTCOMES = st.fixed_dictionaries(
    {
        "throughput": st.floats(0, 1e10),
        "retransmits": st.floats(0, 1e6),
        "rate": st.floats(0, 1e6),
        "rtt": st.floats(0, 1),
        "latency": st.floats(0, 1),
        "sent": st.just(2e5),
        "received": st.floats(0, 2e5),
        "loss": st.floats(0, 1),
        "unanswered": st.floats(0, 1),
    }
)
DISTURBED: list[dict[str, Any]] = [
    {},
    {"steal_s": 0.1},
    {"foreign_s": 0.55},
    {"clock_jump_s": 9.0},
    {"outside_drops": 1000},
    {"reading": {"stalls_s": (0.004,)}},
    {"reading": {"pace_error": 0.1}},
    {"authority_rate": None},
]


@given(outcome=OUTCOMES, disturbance=st.sampled_from(DISTURBED), evidence=st.sampled_from([TCP, PING, DNS, HTTP, PPS, LIGHT]))
def test_no_guard_looks_at_what_a_trial_brought(
    outcome: dict[Any, float], disturbance: dict[str, Any], evidence: Evidence
) -> None:
    """Whatever a trial lost, and however fast it was: trials are left out, or not, by what disturbed them.

    So the share that is left out cannot depend on the system, where systems are disturbed alike.
    """
    before = replace(evidence, **{**disturbance, "reading": replace(evidence.reading, **disturbance.get("reading", {}))})
    after = replace(before, reading=replace(before.reading, metrics=outcome))
    assert judge(after, Guards(), Topology()) == judge(before, Guards(), Topology())


def test_less_than_the_clock_resolves_is_no_theft() -> None:
    """One tick for each CPU, in a fifth of a second of two CPUs: 5 %."""
    assert _names(replace(TCP, elapsed_s=0.2, foreign_s=0.0, steal_s=2 * TICK_S)) == []
    assert _names(replace(TCP, elapsed_s=0.2, foreign_s=0.0, steal_s=3 * TICK_S)) == ["steal"]


def test_every_guard_has_a_test() -> None:
    tested = {mark.args[1][n][0] for mark in test_each_disturbance_is_named.pytestmark for n in range(len(mark.args[1]))}
    assert {guard.__name__.replace("_", "-") for guard in GUARDS} == tested


def test_differences_of_counters() -> None:
    before = NetCounters({"up0": Device(1, 1, 1, 1, 1, 1)}, {"A": 5})
    after = NetCounters({"up0": Device(3, 3, 1, 3, 3, 2), "tun0": Device(7, 7, 7, 7, 7, 7)}, {"A": 9, "B": 2})
    change = difference(after, before)
    assert change.devices["up0"] == Device(2, 2, 0, 2, 2, 1)
    assert change.devices["tun0"] == Device(7, 7, 7, 7, 7, 7)
    assert change.protocols == {"A": 4, "B": 2}
