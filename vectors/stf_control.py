# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Control packets: a plain datagram in each direction that every configuration of the vectors translates.

A test whose packets are all dropped, or whose answers leave by the port of the question, is passed by a pipeline that
translates nothing. With a packet each way that has to come out on the other side, it is not.

Both sides are written from RFC 6052 section 2.2, RFC 7757 section 3.3.1 and RFC 7915, and their checksums summed afresh.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

NODE, PEER = IPv4Address("8.8.8.8"), IPv4Address("9.9.9.9")
PORTS = (5000, 5001)
DATA = b"control"
UDP = 17


def control_packets(config: dict) -> list[tuple[bytes, bytes]]:
    """What is sent and what has to come out, from IPv4 to IPv6 and back."""
    mappings = [(ip_network(m["v4"]), ip_network(m["v6"])) for m in config.get("eam", [])]
    node, peer = NODE, PEER
    if config.get("clat"):
        node = mappings[0][0].network_address
    elif not config.get("pref64") and NODE not in mappings[0][0]:
        node = mappings[0][0].network_address
        peer = mappings[1][0].network_address if len(mappings) > 1 else node + 1
    # The mapped host of a CLAT is the sender of IPv4 packets.
    v4 = (node, peer) if config.get("clat") else (peer, node)
    v6 = tuple(embedded(address, config, mappings) for address in v4)
    down = ipv4(*v4, 64), ipv6(*v6, 63)
    up = ipv6(*reversed(v6), 64), ipv4(*reversed(v4), 63)
    return [down, up]


def embedded(v4: IPv4Address, config: dict, mappings: list[tuple[IPv4Network, IPv6Network]]) -> IPv6Address:
    """By the longest mapping, otherwise by the first prefix."""
    found = [mapping for mapping in mappings if v4 in mapping[0]]
    if found:
        net4, net6 = max(found, key=lambda mapping: mapping[0].prefixlen)
        suffix = int(v4) & int(net4.hostmask)
        return IPv6Address(int(net6.network_address) | suffix << (96 - net6.prefixlen + net4.prefixlen))
    prefix = ip_network(config["pref64"][0])
    bits = int(v4) << (96 - prefix.prefixlen)
    if prefix.prefixlen < 96:
        # Bits 64 to 71 are left out: what would stand there and behind it moves by eight.
        low = (1 << 64) - 1
        bits = (bits & ~low) | (bits & low) >> 8
    return IPv6Address(int(prefix.network_address) | bits)


def ipv4(source: IPv4Address, to: IPv4Address, ttl: int) -> bytes:
    """Without DF, as a packet that fits 1260 bytes leaves a translator."""
    body = udp(source.packed + to.packed)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, ttl, UDP, 0) + source.packed + to.packed
    return header[:10] + checksum(header) + header[12:] + body


def ipv6(source: IPv6Address, to: IPv6Address, hop_limit: int) -> bytes:
    """No traffic class, no flow label."""
    body = udp(source.packed + to.packed)
    return struct.pack("!IHBB", 6 << 28, len(body), UDP, hop_limit) + source.packed + to.packed + body


def udp(addresses: bytes) -> bytes:
    """With its checksum."""
    datagram = struct.pack("!HHHH", *PORTS, 8 + len(DATA), 0) + DATA
    value = checksum(addresses + struct.pack("!II", len(datagram), UDP) + datagram)
    return datagram[:6] + (value if any(value) else b"\xff\xff") + datagram[8:]


def checksum(data: bytes) -> bytes:
    """RFC 1071."""
    total = sum(int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (total ^ 0xFFFF).to_bytes(2, "big")
