# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets as bytes: in Ethernet frames, and what two of them have in common."""

from __future__ import annotations

from tables import HOST_MAC, PORT4, PORT6, SWITCH_MAC

ETHERNET = 14


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
