# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Acknowledgements that are late: at every moment of a connection the fast path translates them."""

from __future__ import annotations

import socket
import struct

import pytest
from conftest import ROUTER_DATAPATHS
from declined import Tap
from nat64 import Nat64Network
from siit import V4, V4_IN_IPV6, V6

pytestmark = pytest.mark.parametrize("nat64", [path for path in ROUTER_DATAPATHS if path != "tun"], indirect=True)

# linux/in6.h
IPV6_CHECKSUM = 7
ACK = 0x10
# More than any retransmission adds.
LATE = 40


def test_late_acknowledgements(nat64: Nat64Network) -> None:
    """They take the fast path before and after each FIN, as the FINs do. None is dropped."""
    nat64.nat64()
    tap = Tap(nat64)
    listener = nat64.listener(V4, 4000)
    inside = nat64.connect(V6, (V4_IN_IPV6, 4000))
    outside, _ = listener.accept()
    raw = nat64.socket(V6, 0, socket.SOCK_RAW, socket.IPPROTO_TCP)
    # Where the kernel puts the checksum.
    raw.setsockopt(socket.IPPROTO_IPV6, IPV6_CHECKSUM, 16)
    late = struct.pack("!HHIIBBHHH", inside.getsockname()[1], 4000, 1, 1, 5 << 4, ACK, 1000, 0, 0)

    def acknowledge_late() -> None:
        """Send them and wait until they are translated."""
        before = translated(nat64)
        for _ in range(LATE):
            raw.sendto(late, (V4_IN_IPV6, 0))
        nat64.until(lambda: translated(nat64) >= before + LATE)

    acknowledge_late()
    inside.shutdown(socket.SHUT_WR)
    assert outside.recv(1) == b""
    acknowledge_late()
    outside.close()
    assert inside.recv(1) == b""
    acknowledge_late()
    assert tap.needless() == []
    assert len(tap.packets()) < LATE
    assert nat64.states("tcp") == ["v4-fin-v6-fin-rcv"], "the tables have heard of what they have not seen"
    assert nat64.drops() == {}


def translated(nat64: Nat64Network) -> int:
    """Packets from the node that both paths together have translated."""
    counters = nat64.counters()
    return counters["fast.translated_6to4"] + counters["slow.translated_6to4"]
