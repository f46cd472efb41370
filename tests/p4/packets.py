# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets as bytes: in Ethernet frames, and what two of them have in common."""

from __future__ import annotations

import struct

from tables import HOST_MAC, PORT4, PORT6, SWITCH_MAC

ETHERNET = 14
TCP, UDP, ICMPV6 = 6, 17, 58


def framed(packet: bytes) -> tuple[int, bytes]:
    """The port by which a packet comes, and its frame. What is no IP comes as IPv4, as from a host that says so."""
    if packet and packet[0] >> 4 == 6:
        return PORT6, SWITCH_MAC + HOST_MAC + b"\x86\xdd" + packet
    return PORT4, SWITCH_MAC + HOST_MAC + b"\x08\x00" + packet


def is_ipv4(packet: bytes) -> bool:
    """By its version."""
    return packet[0] >> 4 == 4


def without_id(packet: bytes) -> bytes:
    """An IPv4 packet without identification and header checksum."""
    return packet[:4] + packet[6:10] + packet[12:]


def sum16(data: bytes) -> int:
    """Ones' complement sum of 16-bit words."""
    total = sum(int.from_bytes(data[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def checksum_is_right(packet: bytes) -> bool:
    """That of an IPv4 header without options."""
    return sum16(packet[:20]) == 0xFFFF


def finished(pseudo: bytes, protocol: int, segment: bytes, at: int) -> bytes:
    """With the checksum of a pseudo-header (addresses; empty: none) and all behind it."""
    front = pseudo + len(segment).to_bytes(4, "big") + protocol.to_bytes(4, "big") if pseudo else b""
    value = ~sum16(front + segment) & 0xFFFF
    if protocol == UDP and not value:
        value = 0xFFFF
    return segment[:at] + value.to_bytes(2, "big") + segment[at + 2 :]


SYN, MSS_OFFSET = 0x02, 6


def tcp(pseudo: bytes, source: int, destination: int, data: bytes, flags: int = 0x10, offset: int = 5) -> bytes:
    """A segment; its header is as long as its offset says, or pretends to be."""
    options = bytes([1]) * (4 * max(0, offset - 5))
    if flags & SYN and offset == MSS_OFFSET:
        options = bytes.fromhex("020405b4")  # MSS 1460, as systems send it
    header = struct.pack("!HHIIBBHHH", source, destination, 1, 1, offset << 4, flags, 1000, 0, 0)
    return finished(pseudo, TCP, header + options + data, 16)


def udp(pseudo: bytes, source: int, destination: int, data: bytes) -> bytes:
    """A datagram."""
    return finished(pseudo, UDP, struct.pack("!HHHH", source, destination, 8 + len(data), 0) + data, 6)


def icmp(pseudo: bytes, kind: int, code: int, number: int, sequence: int, data: bytes) -> bytes:
    """An echo. ICMPv6 has a pseudo-header."""
    return finished(pseudo, ICMPV6, struct.pack("!BBHHH", kind, code, 0, number, sequence) + data, 2)


def ipv4(source: bytes, to: bytes, protocol: int, body: bytes, ttl: int, tos: int, number: int, fragment: int) -> bytes:
    """A packet without options."""
    header = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(body), number, fragment, ttl, protocol, 0) + source + to
    return header[:10] + (~sum16(header) & 0xFFFF).to_bytes(2, "big") + header[12:] + body


def ipv6(source: bytes, to: bytes, protocol: int, body: bytes, hop_limit: int, traffic_class: int, label: int) -> bytes:
    """A packet without extension headers."""
    return struct.pack("!IHBB", 6 << 28 | traffic_class << 20 | label, len(body), protocol, hop_limit) + source + to + body
