# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packets that the fast path of a NAT64 leaves to the slow path, one by one, and which of them it has to leave.

Their number depends on timing. A host resends a FIN that is acknowledged late, and the slow path gets it again. The second FIN
takes the session out of the fast path's maps, so acknowledgements that are in flight at that moment take the slow path, too. A
test that limits the number fails at random. What kind of packet takes the slow path does not depend on timing.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from nat64 import POOL, Nat64Network
from pyroute2.netns import create_socket
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, IPv6
from scapy.packet import Packet
from siit import PREF64
from test_clat_offloads import SO_RCVBUFFORCE

# linux/if_ether.h
ETH_P_ALL = 3
FIN_SYN_RST = 0x07
FIN = 0x01


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

    The slow path has to see the first packet of each session, each segment with SYN, FIN or RST, and every segment after the
    FINs of both sides. `bindings`: the node's endpoint by protocol and IPv4 endpoint.
    """
    found = []
    known = set()
    finished = defaultdict(set)
    for packet in packets:
        session, side = session_of(packet, bindings)
        flags = int(packet[TCP].flags) if TCP in packet else 0
        if session in known and not flags & FIN_SYN_RST and len(finished[session]) < 2:
            found.append(packet.summary())
        known.add(session)
        if flags & FIN:
            finished[session].add(side)
    return found


def session_of(packet: Packet, bindings: dict[tuple[str, str], str]) -> tuple[tuple[str, str, str], str]:
    """The session of a packet: protocol, node, peer; and the side from which the packet comes."""
    protocol, source, destination = ports_of(packet)
    if IPv6 in packet:
        peer = IPv4Address(int(IPv6Address(packet.dst)) & 0xFFFFFFFF)
        return (protocol, f"[{packet.src}]:{source}", f"{peer}:{destination}"), "v6"
    bound = f"{packet.dst}:{destination}"
    return (protocol, bindings.get((protocol, bound), bound), f"{packet.src}:{source}"), "v4"


def ports_of(packet: Packet) -> tuple[str, int, int]:
    """Protocol, source port and destination port; the identifier of an echo stands for both."""
    for protocol, layer in (("tcp", TCP), ("udp", UDP)):
        if layer in packet:
            return protocol, packet[layer].sport, packet[layer].dport
    for layer in (ICMP, ICMPv6EchoRequest, ICMPv6EchoReply):
        if layer in packet:
            return "icmp", packet[layer].id, packet[layer].id
    raise AssertionError(f"the slow path got a packet that belongs to no session: {packet.summary()}")
