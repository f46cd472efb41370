# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sessions that programs open on all CPUs at once, while ports are few and configurations change; `tests/soak/lending.py`
does it for longer."""

from __future__ import annotations

import pytest
from crowd import Crowd
from nat64 import TRANSLATOR, UNSHARED, Nat64Network
from siit import TRANSLATOR4, TRANSLATOR6, V4, V4_IN_IPV6, V6

# Few enough that ports are used again and again after a reload; both pools have some of them.
POOLS = ['"192.0.2.0/31"\nports = "5000-5999"', '"192.0.2.1"\nports = "5250-5999"']
# Without shares, or the fast path would open nothing in a pool this small.
CONFIGS = ["\n".join([TRANSLATOR, "[nat64]", *UNSHARED, "[[nat64.pool4]]", f"address = {pool}", ""]) for pool in POOLS]
FLOWS = 6000


def moves(address: str, port: int) -> bool:
    """Whether one of the configurations lacks an address and port of the other."""
    return address == "192.0.2.0" or port < 5250


@pytest.mark.parametrize("nat64", ["tc", "inline"], indirect=True)
def test_a_crowd_of_nodes(nat64: Nat64Network) -> None:
    """What a peer sends reaches the node that has sent to it, and no external port serves two nodes."""
    nat64.nat64(CONFIGS[0])
    crowd = Crowd(nat64, V4, V4_IN_IPV6)
    turns = iter(range(1, 1000))

    def reload() -> bool:
        assert nat64.reload(CONFIGS[next(turns) % 2]) == (0, "")
        return True

    seen = crowd.run(FLOWS, seed=1, meanwhile=reload, moves=moves)
    counters = nat64.counters()
    assert seen["strays"] == []
    assert seen["returns"] == []
    # Else nothing was tried: programs have opened sessions, and ports have changed hands.
    assert seen["heard"] > seen["sent"] // 10, seen
    assert seen["moved"] > 0, seen
    by_programs, by_controller = counters["fast.translated_6to4"], counters["slow.translated_6to4"]
    assert by_programs > (by_programs + by_controller) // 5, counters


def test_no_neighbour_is_lost(nat64: Nat64Network) -> None:
    """Other namespaces may fill the kernel's table of neighbours. Those of the crowd stay in it."""
    Crowd(nat64, V4, V4_IN_IPV6)
    ways = ((nat64.v6, TRANSLATOR6), (nat64.translator, V6), (nat64.translator, V4), (nat64.v4, TRANSLATOR4))
    for name, address in ways:
        [known] = nat64.ip_json(name, "neigh", "show", address)
        assert known["state"] == ["PERMANENT"]


def test_a_fault_would_be_seen(nat64: Nat64Network) -> None:
    """Of a flow that says that it is two, one datagram is a stray, and its port serves two nodes."""
    nat64.nat64(CONFIGS[0])
    crowd = Crowd(nat64, V4, V4_IN_IPV6)
    liar = crowd.start(nat64.v6, "lie", V4_IN_IPV6)
    heard = lambda: nat64.counters()["fast.translated_4to6"] + nat64.counters()["slow.translated_4to6"]  # noqa: E731
    nat64.until(lambda: heard() >= 3)
    # Whether a reload may take the port away or not.
    seen = crowd.judge([liar], moves=lambda *_: True)
    assert (len(seen["strays"]), len(seen["returns"]), seen["heard"]) == (1, 1, 3)
