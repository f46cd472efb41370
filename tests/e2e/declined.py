# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packets that the fast path of a NAT64 leaves to the slow path, one by one, and which of them it has to leave.

Their number depends on timing: a host repeats what is acknowledged late. What follows an RST takes the slow path, too. A test
that limits the number fails at random. What kind of packet takes the slow path does not depend on timing.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from nat64 import POOL, Nat64Network
from network import create_socket
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, IPv6
from scapy.packet import Packet
from siit import PREF64
from test_clat_offloads import SO_RCVBUFFORCE

# linux/if_ether.h
ETH_P_ALL = 3
SYN, RST, ACK = 0x02, 0x04, 0x10


class Tap:
    """Captures what the kernel gives to the TUN device. The programs at the device run before, so it is what they decline.

    A packet is captured before the slow path reads it, and so before any packet that it causes.
    """

    def __init__(self, nat64: Nat64Network) -> None:
        self.nat64 = nat64
        self.captured: list[Packet] = []
        self.sock = create_socket(nat64.translator, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        nat64.sockets.append(self.sock)
        # Super-packets count in full.
        self.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)
        self.sock.bind(("diolkos0", ETH_P_ALL))
        self.sock.setblocking(False)

    def packets(self) -> list[Packet]:
        """The packets up to now that are to be translated, in order."""
        while True:
            try:
                data, address = self.sock.recvfrom(128)
            except BlockingIOError:
                return self.captured
            packet = IPv6(data) if data[0] >> 4 == 6 else IP(data)
            if address[2] == socket.PACKET_OUTGOING and is_to_be_translated(packet):
                self.captured.append(packet)

    def needless(self) -> list[str]:
        """Descriptions of the packets that the fast path should have translated."""
        bindings = {(b["protocol"], b["v4"]): b["v6"] for b in self.nat64.shown("bindings")}
        return needless(self.packets(), bindings)


def is_to_be_translated(packet: Packet) -> bool:
    """Whether its destination is in the prefix or in the pool: not what the kernel sends by itself."""
    if IPv6 in packet:
        return IPv6Address(packet.dst) in IPv6Network(PREF64)
    return IPv4Address(packet.dst) in IPv4Network(POOL)


def needless(packets: Iterable[Packet], bindings: dict[tuple[str, str], str]) -> list[str]:
    """Descriptions of the packets that the fast path should have translated.

    The slow path has to see the first packet of each session, a SYN that opens it again, and what follows an RST, which is
    another RST in these tests. `bindings`: the node's endpoint by protocol and IPv4 endpoint.
    """
    found = []
    known = set()
    for packet in packets:
        session = session_of(packet, bindings)
        flags = int(packet[TCP].flags) if TCP in packet else 0
        if session in known and flags & (SYN | ACK) != SYN and not flags & RST:
            found.append(packet.summary())
        known.add(session)
    return found


def session_of(packet: Packet, bindings: dict[tuple[str, str], str]) -> tuple[str, str, str]:
    """The session of a packet: protocol, node, peer."""
    protocol, source, destination = ports_of(packet)
    if IPv6 in packet:
        peer = IPv4Address(int(IPv6Address(packet.dst)) & 0xFFFFFFFF)
        return protocol, f"[{packet.src}]:{source}", f"{peer}:{destination}"
    bound = f"{packet.dst}:{destination}"
    return protocol, bindings.get((protocol, bound), bound), f"{packet.src}:{source}"


def ports_of(packet: Packet) -> tuple[str, int, int]:
    """Protocol, source port and destination port; the identifier of an echo stands for both."""
    for protocol, layer in (("tcp", TCP), ("udp", UDP)):
        if layer in packet:
            return protocol, packet[layer].sport, packet[layer].dport
    for layer in (ICMP, ICMPv6EchoRequest, ICMPv6EchoReply):
        if layer in packet:
            return "icmp", packet[layer].id, packet[layer].id
    raise AssertionError(f"the slow path got a packet that belongs to no session: {packet.summary()}")
