# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A NAT64 in drivers (placement `xdp`) through restarts. The suites of NAT64 run with this placement, too."""

from __future__ import annotations

import re
import subprocess

import pytest
from nat64 import Nat64Network, ask, with_keys
from siit import V4, V4_IN_IPV6, V6
from test_router_xdp import MANY

pytestmark = pytest.mark.parametrize("nat64", ["xdp"], indirect=True)


def lost(ping: subprocess.Popen) -> str:
    """What ping says of the packets that were lost."""
    return re.search(r"(\S+)% packet loss", ping.communicate(timeout=60)[0])[1]


def test_a_restart_loses_nothing(nat64: Nat64Network) -> None:
    """With a state file the programs stay in the drivers, and each gives way to its successor."""
    state = with_keys(f'state = "{nat64.scratch}/state"')
    running = nat64.nat64(state)
    assert nat64.run(nat64.v6, "ping", "-c3", "-i0.1", "-W2", V4_IN_IPV6).returncode == 0
    ping = nat64.start(nat64.v6, "ping", "-q", "-f", "-c60000", "-W5", V4_IN_IPV6, stdout=subprocess.PIPE, text=True)
    # The session has to be known to the programs before the one who knows it ends.
    nat64.until(lambda: nat64.counters()["fast.sent_xdp"] > MANY)
    for _ in range(2):
        assert running.stop() == 0
        assert "xdp" in nat64.run(nat64.translator, "ip", "link").stdout
        running = nat64.nat64()
    assert lost(ping) == "0"
    assert nat64.diolkos("stop")[0] == 0
    assert "xdp" not in nat64.run(nat64.translator, "ip", "link").stdout


def test_without_the_program_neighbours_are_followed(nat64: Nat64Network) -> None:
    """One packet in a few seconds takes the way of tc, which asks a stale neighbour."""
    running = nat64.nat64(with_keys(f'state = "{nat64.scratch}/state"'))
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    ask(inside, (V4_IN_IPV6, 4000), outside)
    nat64.until(lambda: ask(inside, (V4_IN_IPV6, 4000), outside) and nat64.counters()["fast.sent_xdp"] > 0)
    assert running.stop() == 0
    for key, value in (("delay_first_probe_time", "1"), ("retrans_time_ms", "100")):
        nat64.sysctl(nat64.translator, f"net.ipv4.neigh.b4.{key}", value)
    known = nat64.ip_json(nat64.v4, "link", "show", "a0")[0]["address"]
    nat64.run(nat64.translator, "ip", "neigh", "replace", V4, "lladdr", known, "dev", "b4", "nud", "stale")
    nat64.ip(nat64.v4, "link", "set", "a0", "address", "02:00:00:00:00:77")
    outside.settimeout(0.2)

    def arrives() -> bool:
        inside.sendto(b"question", (V4_IN_IPV6, 4000))
        try:
            return outside.recv(100) == b"question"
        except TimeoutError:
            return False

    assert not arrives()
    nat64.until(arrives)
    assert nat64.diolkos("stop")[0] == 0
