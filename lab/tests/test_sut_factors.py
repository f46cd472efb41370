# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Systems with factors at work in lanes of the nursery's shape: what is translated, where, and what is remembered."""

from pathlib import Path

import pytest

from diolkos_lab.experiment.definition import Subject, Topology
from diolkos_lab.run.conntrack import empty_conntrack
from diolkos_lab.sut import definition, lookup, offer
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import run_to_end

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("clean_machine")]
AT = addresses.NURSERY


def _lane() -> Lane:
    return Lane("test", Shape(1, False, True, Topology().pref64, 1500, addresses=AT))


def _started(lane: Lane, folder: Path, system: str, datapath: str, family: str, **levels: str | int) -> RunningSystem:
    known = definition.load_all()[system]
    part = [known.datapath[datapath].factor[name].level.get(str(level)) for name, level in levels.items()]
    for command in (command for each in part if each for command in each.tries):
        if reason := offer.obstacle(command):
            pytest.skip(reason)
    found = lookup.find(known, {})
    if isinstance(found, lookup.Missing):
        pytest.skip(found.reason)
    subject = Subject(system=system, datapath=datapath, family=family)
    running = RunningSystem(found, subject, lane, folder / system, levels=levels)
    running.start()
    return running


def _run(lane: Lane, folder: Path, role: str, *command: str) -> str:
    status, text = run_to_end(lane.namespace(role), list(command), folder / "out")
    assert status == 0, text
    return text


@pytest.mark.parametrize("family", ["ipv6", "ipv4"])
def test_a_lane_of_the_nursery_has_its_addresses(tmp_path: Path, family: str) -> None:
    with _lane() as lane:
        assert str(lane.client_address(6)) == "fc00::1" and AT.alias(6).exploded.startswith("fe00:")
        running = _started(lane, tmp_path, "native", "kernel", family)
        assert str(running.target) == {"ipv6": "fd00::1", "ipv4": "10.253.0.1"}[family]
        assert "inet6 fd00::2/64" in _run(lane, tmp_path, "router", "ip", "address", "show", "dev", addresses.SERVER_LINK)


@pytest.mark.parametrize("family", ["ipv6", "ipv4"])
@pytest.mark.parametrize("place", ["client", "router"])
@pytest.mark.parametrize("backend", ["iptables-legacy", "iptables-nft", "nft-list", "nft-map"])
def test_rules_lead_from_the_alias_to_the_server_and_the_kernel_remembers_where_they_stand(
    tmp_path: Path, backend: str, place: str, family: str
) -> None:
    with _lane() as lane:
        running = _started(
            lane, tmp_path, "natrules", "dnat", family, rules=20, position="middle", place=place, backend=backend
        )
        assert running.target == AT.alias(6 if family == "ipv6" else 4), "and it answered"
        assert running.place == lane.namespace(place)
        table = running.sessions
        assert table and table.count() >= 1
        other = "router" if place == "client" else "client"
        count = ("cat", "/proc/sys/net/netfilter/nf_conntrack_count")
        assert _run(lane, tmp_path, other, *count).strip() == "0"
        empty_conntrack(lane)
        assert table.count() == 0
        running.stop()
        running.start()
        shown = {"nft": ("nft", "list", "ruleset"), "iptables-nft": ("nft", "list", "ruleset")}
        tables = f"{'ip6' if family == 'ipv6' else 'ip'}tables-legacy-save"
        rules = _run(lane, tmp_path, place, *(shown.get(backend) or shown.get(backend[:3]) or (tables,)))
        assert rules.count(str(AT.server(6 if family == "ipv6" else 4))) == 1, "a second start adds nothing"


@pytest.mark.parametrize("place", ["client", "router"])
@pytest.mark.parametrize(("datapath", "tracked"), [("hooks", False), ("conntrack", True), ("notrack", False)])
def test_controls_have_what_they_say_and_no_more(tmp_path: Path, datapath: str, tracked: bool, place: str) -> None:
    with _lane() as lane:
        running = _started(lane, tmp_path, "natrules", datapath, "ipv6", place=place)
        assert running.target == AT.server(6)
        held = _run(lane, tmp_path, place, "cat", "/proc/sys/net/netfilter/nf_conntrack_count").strip()
        assert (held != "0") == tracked


@pytest.mark.parametrize("family", ["ipv6", "ipv4"])
@pytest.mark.parametrize("engine", ["kernel", "wireguard-go"])
def test_a_tunnel_carries_what_goes_to_the_server(tmp_path: Path, engine: str, family: str) -> None:
    with _lane() as lane:
        running = _started(lane, tmp_path, "wireguard", "tunnel", family, engine=engine)
        sent = _run(lane, tmp_path, "client", "wg", "show", "wg0", "transfer") if engine == "kernel" else ""
        assert engine != "kernel" or sent.split()[-1] != "0"
        assert "dev wg0" in _run(lane, tmp_path, "client", "ip", "route", "get", str(running.target))
        assert running.processes or engine == "kernel"
        running.stop()
        running.start()
        running.stop()


@pytest.mark.parametrize("family", ["ipv6", "ipv4"])
def test_a_bridge_is_no_router(tmp_path: Path, family: str) -> None:
    with _lane() as lane:
        running = _started(lane, tmp_path, "bridge", "veth", family)
        text = _run(lane, tmp_path, "client", "ping", "-n", "-c1", "-W2", str(running.target))
        assert "ttl=64" in text, "nobody has counted a hop"


def test_what_does_not_work_in_an_empty_namespace_is_said() -> None:
    assert offer.obstacle(("true",)) is None
    assert offer.obstacle(("sh", "-c", "echo no such table >&2; exit 3")) == (
        "`sh -c echo no such table >&2; exit 3` ended with exit code 3: no such table"
    )
