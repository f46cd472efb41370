# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Frames with headers that the parser does not know, and with less than it expects: unchanged by the other port, or dropped."""

from __future__ import annotations

import struct

import pytest
from control import INSERT, Change, Piped
from packets import TCP, UDP, ipv4, ipv6, udp
from tables import HOST_MAC, PORT4, PORT6, SESSIONS, SWITCH_MAC, hop, local_macs, settings, stateless

V4, V4_PEER = bytes([192, 0, 2, 2]), bytes([198, 51, 100, 2])
PREFIX = bytes.fromhex("20010db8006400000000000000")[:12]
CONFIG = {"pref64": ["2001:db8:64::/96"]}
KNOWN_ETHERTYPES = {0x0800, 0x0806, 0x86DD}
KNOWN_PROTOCOLS = {TCP, UDP, 1, 58}
BODY = bytes(range(1, 65))


@pytest.fixture(params=["stateless", "sessions"])
def working(request: pytest.FixtureRequest, switch: Piped) -> Piped:
    """A switch that translates what it knows."""
    if request.param == "stateless":
        switch.control.write(stateless(CONFIG))
    else:
        everywhere = [hop("0.0.0.0/0", PORT4, HOST_MAC, SWITCH_MAC, 1500), hop("::/0", PORT6, HOST_MAC, SWITCH_MAC, 1500)]
        switch.control.write([settings(SESSIONS), *local_macs(SWITCH_MAC), *everywhere])
        # For each protocol a session that would fit, if the parser took what follows the header for ports.
        ports = BODY[:4]
        to6 = PREFIX + V4_PEER + PREFIX + V4 + b"\x00\x07" + bytes(4)
        to4 = V4 + V4_PEER + b"\x00\x07" + bytes(4)
        for protocol in range(256):
            key4 = V4_PEER + V4 + bytes([protocol]) + ports
            key6 = PREFIX + V4 + PREFIX + V4_PEER + bytes([protocol]) + ports
            switch.control.write(
                [Change(INSERT, "session4", "to6", key4, data=to6), Change(INSERT, "session6", "to4", key6, data=to4)]
            )
    return switch


def frame(ethertype: int, payload: bytes, to: bytes = SWITCH_MAC) -> bytes:
    """From the host."""
    return to + HOST_MAC + struct.pack("!H", ethertype) + payload


def is_declined(switch: Piped, port: int, sent: bytes) -> bool:
    """Whether it leaves unchanged by the shadow."""
    return switch.send(port, sent) == [(port ^ 1, sent)]


def test_what_is_known_is_translated(working: Piped) -> None:
    """Otherwise the tests below could not fail."""
    ports = struct.unpack("!HH", BODY[:4])
    out4 = working.send(PORT4, frame(0x0800, ipv4(V4_PEER, V4, UDP, udp(V4_PEER + V4, *ports, BODY), 64, 0, 1, 0x4000)))
    ends6 = PREFIX + V4, PREFIX + V4_PEER
    out6 = working.send(PORT6, frame(0x86DD, ipv6(*ends6, UDP, udp(b"".join(ends6), *ports, BODY), 64, 0, 0)))
    assert [(port, sent[12:14]) for port, sent in (*out4, *out6)] == [(PORT6, b"\x86\xdd"), (PORT4, b"\x08\x00")]


def test_every_ethertype_that_is_unknown(working: Piped) -> None:
    """VLAN tags, MPLS, PPPoE and LLDP among them, with an IP packet behind that would be translated."""
    inner = ipv4(V4_PEER, V4, UDP, BODY, 64, 0, 1, 0x4000)
    types = [*range(0, 0x10000, 257), 0x8100, 0x88A8, 0x9100, 0x8847, 0x8848, 0x8863, 0x8864, 0x88CC, 0x8035, 0x0805, 0x86DE]
    for ethertype in (each for each in types if each not in KNOWN_ETHERTYPES):
        for payload in (inner, b"\x00\x05\x08\x00" + inner, b""):
            assert is_declined(working, PORT4, frame(ethertype, payload)), hex(ethertype)


def test_every_protocol_that_is_unknown(working: Piped) -> None:
    """Extension headers among them: whatever is behind the IP header is no port."""
    for protocol in (each for each in range(256) if each not in KNOWN_PROTOCOLS):
        of4 = frame(0x0800, ipv4(V4_PEER, V4, protocol, BODY, 64, 0, 1, 0x4000))
        of6 = frame(0x86DD, ipv6(PREFIX + V4, PREFIX + V4_PEER, protocol, BODY, 64, 0, 0))
        assert is_declined(working, PORT4, of4), protocol
        assert is_declined(working, PORT6, of6), protocol
    # Those of the other family.
    assert is_declined(working, PORT4, frame(0x0800, ipv4(V4_PEER, V4, 58, BODY, 64, 0, 1, 0x4000)))
    assert is_declined(working, PORT6, frame(0x86DD, ipv6(PREFIX + V4, PREFIX + V4_PEER, 1, BODY, 64, 0, 0)))


def test_every_version_and_header_length_that_is_wrong(working: Piped) -> None:
    """The EtherType says IP, the first byte something else."""
    good4 = ipv4(V4_PEER, V4, UDP, BODY, 64, 0, 1, 0x4000)
    good6 = ipv6(PREFIX + V4, PREFIX + V4_PEER, UDP, BODY, 64, 0, 0)
    for first in range(256):
        for port, ethertype, good in ((PORT4, 0x0800, good4), (PORT6, 0x86DD, good6)):
            sent = frame(ethertype, bytes([first]) + good[1:])
            if (ethertype, first) != (0x0800, 0x45) and not (ethertype == 0x86DD and first >> 4 == 6):
                assert working.send(port, sent) in ([], [(port ^ 1, sent)]), hex(first)


def test_frames_of_every_length(working: Piped) -> None:
    """Cut off anywhere, and with a length in the header that is none: never a packet of another length."""
    for protocol in (*KNOWN_PROTOCOLS, 44):
        for port, ethertype, whole in (
            (PORT4, 0x0800, ipv4(V4_PEER, V4, protocol, BODY, 64, 0, 1, 0x4000)),
            (PORT6, 0x86DD, ipv6(PREFIX + V4, PREFIX + V4_PEER, protocol, BODY, 64, 0, 0)),
        ):
            for length in range(len(whole)):
                sent = frame(ethertype, whole[:length])
                assert working.send(port, sent) in ([], [(port ^ 1, sent)]), (protocol, length)
    for length in range(14):
        assert working.send(PORT4, frame(0x0800, b"")[:length]) == []
