# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Alarms before something is full: in the log, in the status and in the metrics, and over when it is free again."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address

import pytest
from nat64 import BOUND, POOL, UNSHARED, Nat64Network, ask, with_keys
from prometheus import METRICS, scraped
from raw import syn
from siit import V4, V4_IN_IPV6, V6
from test_nat64_state import all_datapaths
from test_router_status import status

# A pool of ten ports.
TEN_PORTS = with_keys(*UNSHARED).replace(f'"{POOL}"', f'"{BOUND}"\nports = "5000-5009"')


def alarms(net: Nat64Network) -> dict[str, str]:
    """The alarms that are raised, with what they say."""
    return {alarm["resource"]: alarm["text"] for alarm in status(net)["alarms"]}


@all_datapaths
def test_a_pool_that_fills(nat64: Nat64Network) -> None:
    """Seven of ten ports are no alarm, the eighth is one; it is said once, with what to do."""
    running = nat64.nat64(TEN_PORTS + METRICS)
    outside = nat64.socket(V4, 4000)
    for _ in range(7):
        ask(nat64.socket(V6), (V4_IN_IPV6, 4000), outside)
    used = 'diolkos_resource_used{resource="udp_ports"}'
    raised = 'diolkos_resource_alarm{resource="udp_ports"}'
    nat64.until(lambda: scraped(nat64, nat64.translator)[used] >= 7)
    if nat64.datapath == "tun":
        assert "udp_ports" not in alarms(nat64)
    ask(nat64.socket(V6), (V4_IN_IPV6, 4000), outside)
    nat64.until(lambda: "udp_ports" in alarms(nat64))
    text = alarms(nat64)["udp_ports"]
    assert "of 10 UDP ports of the pool are in use" in text
    assert "add addresses to nat64.pool4" in text
    assert f"alarm     udp_ports: {text}" in nat64.run(nat64.translator, str(nat64.program), "show", "status").stdout
    samples = scraped(nat64, nat64.translator)
    assert (samples[raised], samples['diolkos_resource_limit{resource="udp_ports"}']) == (1, 10)
    assert samples['diolkos_resource_alarm{resource="tcp_ports"}'] == 0
    assert running.log().count("alarm udp_ports: ") == 1


def test_it_is_over_when_there_is_room_again(nat64: Nat64Network) -> None:
    """Bindings of the operator fill the pool and leave it. The log has a line for each."""
    running = nat64.nat64(TEN_PORTS + METRICS)
    for port in range(5000, 5009):
        nat64.bind("add", "udp", f"{BOUND}:{port}", f"[{V6}]:{port}")
    nat64.until(lambda: "9 of 10 UDP ports" in alarms(nat64).get("udp_ports", ""))
    for port in range(5000, 5009):
        nat64.bind("del", "udp", f"{BOUND}:{port}")
    nat64.until(lambda: alarms(nat64) == {}, patience=30)
    nat64.until(lambda: "alarm udp_ports is over: 0 of 10 UDP ports of the pool are in use (0 %)" in running.log())
    assert scraped(nat64, nat64.translator)['diolkos_resource_alarm{resource="udp_ports"}'] == 0
    assert running.log().count("alarm udp_ports") == 2


def test_a_reload_changes_the_line(nat64: Nat64Network) -> None:
    """0 switches alarms off, and 101 is refused."""
    nat64.nat64(with_keys("max_sessions = 4", "alarm_percent = 50", *UNSHARED))
    outside = nat64.socket(V4, 4000)
    for _ in range(2):
        ask(nat64.socket(V6), (V4_IN_IPV6, 4000), outside)
    nat64.until(lambda: "2 of 4 sessions are in use (50 %)" in alarms(nat64).get("sessions", ""))
    assert nat64.reload(with_keys("max_sessions = 4", "alarm_percent = 0", *UNSHARED)) == (0, "")
    nat64.until(lambda: alarms(nat64) == {})
    code, said = nat64.reload(with_keys("max_sessions = 4", "alarm_percent = 101", *UNSHARED))
    assert code == 2
    assert "nat64.alarm_percent: 101 % is not between 0 and 100 %" in said


@pytest.mark.parametrize("nat64", ["tun"], indirect=True)
def test_thousands_of_sources_near_their_share_are_one_line(nat64: Nat64Network) -> None:
    """Each of two thousand hosts uses up what it may have. The log has one line, and the metrics have the number."""
    running = nat64.nat64(with_keys("max_sessions_per_source = 1") + METRICS)
    nat64.listener(V4, 8000)
    raw = nat64.socket(V6, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number in range(2000):
        source = str(IPv6Address("2001:db8:8::") + (number << 64))
        raw.sendto(syn(source, V4_IN_IPV6, 1024, 8000), (V4_IN_IPV6, 0))
    near = 'diolkos_prefixes_near_share{kind="source"}'
    nat64.until(lambda: scraped(nat64, nat64.translator)[near] == 2000, patience=60)
    nat64.until(lambda: "2000 sources and 2000 hosts have " in alarms(nat64).get("shares", ""))
    text = alarms(nat64)["shares"]
    assert text.count("2001:db8:8:") == 3
    lines = [line for line in running.log().splitlines() if "alarm" in line]
    assert len([line for line in lines if "alarm shares: " in line]) == 1, lines
    assert len(lines) <= 3, lines
