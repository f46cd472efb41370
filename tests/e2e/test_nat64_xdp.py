# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A NAT64 in drivers (placement `xdp`) through restarts. The suites of NAT64 run with this placement, too."""

from __future__ import annotations

import subprocess

import pytest
from nat64 import Nat64Network, with_keys
from siit import V4_IN_IPV6
from test_router_xdp import MANY, lost


@pytest.mark.parametrize("nat64", ["xdp"], indirect=True)
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
