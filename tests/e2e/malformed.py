# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets that are none, or that a NAT64 may not translate, around a session that exists.

Each kind is one packet and the name under which it has to be dropped. All have an IP header that a router forwards,
otherwise its kernel would be the one that is tested. A storm of them is what chance makes of good and bad ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrRouting,
)
from scapy.packet import Packet, Raw
from siit import PREF64, V4, V4_IN_IPV6, V6

DATA = bytes(range(64))


@dataclass(frozen=True)
class Session:
    """Of UDP: the node's port, the address and port that it has in IPv4, and the peer's port."""

    node_port: int
    address: str
    port: int
    peer_port: int


def of_ipv4(session: Session) -> list[tuple[Packet, str]]:
    """What arrives from the peer."""
    ip = IP(src=V4, dst=session.address, ttl=64)
    # What left before, as an error quotes it.
    quote = bytes(IP(src=session.address, dst=V4) / UDP(sport=session.port, dport=session.peer_port) / DATA)
    return [
        (ip / UDP(sport=session.peer_port, dport=session.port, len=7) / DATA, "udp_length"),
        (ip / UDP(sport=session.peer_port, dport=session.port, len=1000) / DATA, "udp_length"),
        (IP(src=V4, dst=session.address, proto=17) / Raw(DATA[:7]), "transport_truncated"),
        (IP(src=V4, dst=session.address, proto=6) / Raw(DATA[:19]), "transport_truncated"),
        (IP(src=V4, dst=session.address, proto=1) / Raw(DATA[:3]), "transport_truncated"),
        (IP(src=V4, dst=session.address, proto=58) / Raw(DATA), "protocol"),
        (IP(src=V4, dst=session.address, proto=41) / Raw(DATA), "transport_unknown"),
        (IP(src=V4, dst=session.address, proto=132) / Raw(DATA), "transport_unknown"),
        (ip / ICMP(type=3, code=3) / Raw(quote[:19]), "icmp_inner_truncated"),
        (ip / ICMP(type=3, code=3) / Raw(quote[:23]), "icmp_inner_truncated"),
        (ip / ICMP(type=3, code=3, chksum=0x1234) / Raw(quote), "icmp_checksum"),
        (ip / ICMP(type=3, code=3) / bytes(IP(src=session.address, dst=V4) / ICMP(type=11) / quote), "icmp_inner_nested"),
        (ip / ICMP(type=5) / Raw(quote), "icmp_single_hop"),
        (ip / ICMP(type=40) / Raw(quote), "icmp_type"),
        # The last byte of a datagram is its 65535th at most, and parts in between are multiples of 8 bytes.
        (IP(src=V4, dst=session.address, proto=17, frag=8191) / Raw(DATA), "fragment_malformed"),
        (IP(src=V4, dst=session.address, proto=17, frag=1, flags="MF") / Raw(DATA[:13]), "fragment_malformed"),
        # A fragment of ICMP waits for the others, unless it overlaps one of them.
        (IP(src=V4, dst=session.address, proto=1, frag=1, id=1) / Raw(DATA), "fragment_timeout"),
        (IP(src=V4, dst=session.address, proto=1, frag=1, id=2) / Raw(DATA), "fragment_overlap"),
        (IP(src=V4, dst=session.address, proto=1, frag=2, id=2) / Raw(DATA), "fragment_overlap"),
        (ip / TCP(sport=1, dport=session.port, flags="A"), "no_binding"),
        (ip / UDP(sport=session.peer_port, dport=session.port ^ 1) / DATA, "no_binding"),
        (
            IP(src=session.address, dst=session.address) / UDP(sport=session.port ^ 1, dport=session.port) / DATA,
            "source_in_pool",
        ),
    ]


def of_ipv6(session: Session) -> list[tuple[Packet, str]]:
    """What arrives from the node."""
    ip = IPv6(src=V6, dst=V4_IN_IPV6, hlim=64)
    quote = bytes(IPv6(src=V4_IN_IPV6, dst=V6) / UDP(sport=session.peer_port, dport=session.node_port) / DATA)
    inside = PREF64.replace("::/96", "::198.51.100.77")
    return [
        (ip / UDP(sport=session.node_port, dport=session.peer_port, len=7) / DATA, "udp_length"),
        (ip / UDP(sport=session.node_port, dport=session.peer_port, len=1000) / DATA, "udp_length"),
        (IPv6(src=V6, dst=V4_IN_IPV6, nh=17) / Raw(DATA[:7]), "transport_truncated"),
        (IPv6(src=V6, dst=V4_IN_IPV6, nh=6) / Raw(DATA[:19]), "transport_truncated"),
        (IPv6(src=V6, dst=V4_IN_IPV6, nh=58) / Raw(DATA[:3]), "transport_truncated"),
        (IPv6(src=V6, dst=V4_IN_IPV6, nh=1) / Raw(DATA), "protocol"),
        (IPv6(src=V6, dst=V4_IN_IPV6, nh=4) / Raw(DATA), "transport_unknown"),
        (IPv6(src=V6, dst=V4_IN_IPV6, nh=132) / Raw(DATA), "transport_unknown"),
        # A header of options that is longer than its packet.
        (IPv6(src=V6, dst=V4_IN_IPV6, nh=60) / Raw(b"\x11\xff" + DATA), "extension_chain"),
        (ip / IPv6ExtHdrRouting(addresses=[V6], segleft=1) / UDP() / DATA, "routing_segments_left"),
        (ip / IPv6ExtHdrFragment(nh=60, offset=0, m=1, id=1) / IPv6ExtHdrDestOpt() / UDP() / DATA[:56], "fragment_extension"),
        (ip / IPv6ExtHdrFragment(nh=17, offset=8191, m=0, id=2) / Raw(DATA), "fragment_malformed"),
        (ip / IPv6ExtHdrFragment(nh=58, offset=1, m=0, id=3) / Raw(DATA), "fragment_timeout"),
        (ip / IPv6ExtHdrFragment(nh=58, offset=1, m=0, id=4) / Raw(DATA), "fragment_overlap"),
        (ip / IPv6ExtHdrFragment(nh=58, offset=2, m=0, id=4) / Raw(DATA), "fragment_overlap"),
        (ip / ICMPv6DestUnreach(code=4) / Raw(quote[:39]), "icmp_inner_truncated"),
        (ip / ICMPv6DestUnreach(code=4, cksum=0x1234) / Raw(quote), "icmp_checksum"),
        (ip / ICMPv6TimeExceeded() / bytes(IPv6(src=V4_IN_IPV6, dst=V6) / ICMPv6TimeExceeded() / quote), "icmp_inner_nested"),
        (ip / ICMPv6ND_NS(tgt=V6), "icmp_single_hop"),
        (IPv6(src=inside, dst=V4_IN_IPV6) / UDP() / DATA, "source_in_prefix"),
        (IPv6(src=V6, dst=PREF64.replace("::/96", "::224.0.0.5")) / UDP() / DATA, "multicast"),
        (IPv6(src=V6, dst=PREF64.replace("::/96", "::127.0.0.1")) / UDP() / DATA, "destination_illegal"),
        (ip / TCP(sport=session.node_port, dport=session.peer_port, flags="A"), "no_connection"),
    ]


def good(session: Session) -> list[Packet]:
    """What would pass, to be spoilt."""
    to4, to6 = IPv6(src=V6, dst=V4_IN_IPV6), IP(src=V4, dst=session.address)
    return [
        to4 / UDP(sport=session.node_port, dport=session.peer_port) / DATA,
        to4 / TCP(sport=7000, dport=7000, flags="S"),
        to4 / ICMPv6EchoRequest(id=7) / DATA,
        to4 / IPv6ExtHdrFragment(nh=17, offset=0, m=1, id=9) / UDP(sport=session.node_port, dport=7, len=200, chksum=7) / DATA,
        to4 / IPv6ExtHdrDestOpt() / UDP(sport=session.node_port, dport=session.peer_port) / DATA,
        to6 / UDP(sport=session.peer_port, dport=session.port) / DATA,
        to6 / TCP(sport=7000, dport=session.port, flags="S"),
        IP(src=V4, dst=session.address, proto=17, frag=3, id=9) / Raw(DATA),
    ]


def storm(packets: list[Packet], seed: int, count: int) -> Iterator[bytes]:
    """Packets with some bytes changed, left out at their end, or added."""
    chance = random.Random(seed)
    templates = [bytes(packet) for packet in packets]
    for _ in range(count):
        packet = bytearray(chance.choice(templates))
        is_ipv4 = packet[0] >> 4 == 4
        for _ in range(chance.randrange(4)):
            # Most often not the addresses: what is not for the translator never reaches it.
            at = chance.choice([*range(12), *range(20, 60)] if is_ipv4 else [*range(8), *range(40, 80), chance.randrange(80)])
            packet[at % len(packet)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.3:
            del packet[chance.randrange(1, len(packet)) :]
        if chance.random() < 0.1:
            packet += chance.randbytes(chance.randrange(1400))
        if is_ipv4 and len(packet) >= 20 and chance.random() < 0.9:
            if chance.random() < 0.7:
                packet[2:4] = len(packet).to_bytes(2)
            packet[10:12] = b"\0\0"
            words = sum(int.from_bytes(packet[at : at + 2]) for at in range(0, 20, 2))
            packet[10:12] = (~(words % 0xFFFF) & 0xFFFF).to_bytes(2)
        elif not is_ipv4 and len(packet) >= 40 and chance.random() < 0.7:
            packet[4:6] = (len(packet) - 40).to_bytes(2)
        yield bytes(packet)
