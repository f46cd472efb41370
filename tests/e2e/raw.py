# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets made by hand, for raw sockets."""

from __future__ import annotations

import os
import socket
import struct

SYN = 2


def syn(source: str, to: str, from_port: int, to_port: int) -> bytes:
    """A packet that begins a connection."""
    tcp = struct.pack("!HHIIBBHHH", from_port, to_port, int.from_bytes(os.urandom(4)), 0, 5 << 4, SYN, 8192, 0, 0)
    if ":" in source:
        ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to)
        header = struct.pack("!IHBB", 6 << 28, len(tcp), socket.IPPROTO_TCP, 64) + ends
    else:
        ends = socket.inet_aton(source) + socket.inet_aton(to)
        header = ipv4_header(socket.IPPROTO_TCP, source, to, len(tcp))
    checksum = internet_checksum(ends + struct.pack("!II", len(tcp), socket.IPPROTO_TCP) + tcp)
    return header + tcp[:16] + struct.pack("!H", checksum) + tcp[18:]


def ipv4_header(protocol: int, source: str, to: str, length: int, fragment: int = 0) -> bytes:
    """Without a checksum, which the kernel puts in; `fragment` is an offset in units of 8 bytes."""
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 1, fragment, 64, protocol, 0) + ends


def internet_checksum(data: bytes) -> int:
    """RFC 1071; of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
