# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The fields of translated packets, as Scapy reads them from the wire. Every expectation is from RFC 7915."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from conftest import program
from network import SERVER4, SERVER_SYNTHESIZED, Network, create_socket
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6TimeExceeded, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

ETH_P_ALL = 3
OURS4 = "192.0.0.1"

SILENCE = """
table inet silence {{
    chain {hook} {{
        type filter hook {hook} priority 0;
        {where}drop;
    }}
}}
"""


class Wire:
    """Sends IPv4 from the client and IPv6 from the router, and hears what comes out on the other side."""

    def __init__(self, net: Network, datapath: str) -> None:
        # Without the fast path the kernel carries packets between uplink and TUN device, which is a hop of its own.
        self.hops = 2 if datapath == "tun" else 1
        # Nobody answers what is sent here: an answer could be heard for what is sent next.
        for name, hook, where in ((net.router, "forward", ""), (net.client, "input", "iifname diolkos0 ")):
            net.run(name, "nft", "-f", "-", input=SILENCE.format(hook=hook, where=where))
        self.clat = net.clat(datapath)
        self.ours6 = self.clat.log().split("<-> ")[1].split()[0]
        self.raw4 = create_socket(net.client, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.router = self.tap(net.router, "down0")
        self.tun = self.tap(net.client, "diolkos0")
        links = {name: net.ip_json(name, "link", "show", link)[0] for name, link in
                 ((net.client, "wan0"), (net.router, "down0"))}  # fmt: skip
        self.ether = Ether(dst=links[net.client]["address"], src=links[net.router]["address"])

    @staticmethod
    def tap(name: str, interface: str) -> socket.socket:
        """A socket that hears everything on an interface."""
        tap = create_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        tap.bind((interface, ETH_P_ALL))
        tap.settimeout(0.1)
        return tap

    def to_ipv6(self, packet: Packet) -> IPv6:
        """Send an IPv4 packet from the client; what the router gets of it."""
        self.forget(self.router)
        self.raw4.sendto(bytes(packet), (packet.dst, 0))
        return self.hear(self.router, lambda frame: self.ipv6(Ether(frame)))

    def to_ipv4(self, packet: Packet) -> IP:
        """Send an IPv6 packet from the router; what comes in on the client's TUN device of it."""
        self.forget(self.tun)
        self.router.send(bytes(self.ether / packet))
        return self.hear(self.tun, self.ipv4)

    def ipv6(self, frame: Ether) -> IPv6 | None:
        """The packet of a frame, if it is one from the CLAT, and not Neighbour Discovery (hop limit 255)."""
        ours = IPv6 in frame and frame[IPv6].src == self.ours6 and frame[IPv6].hlim != 255
        return frame[IPv6] if ours else None

    @staticmethod
    def ipv4(frame: bytes) -> IP | None:
        """A packet of the TUN device, if it is one for the CLAT."""
        packet = IP(frame) if frame and frame[0] >> 4 == 4 else None
        return packet if packet and packet.dst == OURS4 else None

    @staticmethod
    def forget(tap: socket.socket) -> None:
        """Drop what was heard before."""
        tap.setblocking(False)
        try:
            while True:
                tap.recv(65535)
        except BlockingIOError:
            tap.settimeout(0.1)

    @staticmethod
    def hear(tap: socket.socket, pick) -> Packet:
        """The first packet that is picked, with patience."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                found = pick(tap.recv(65535))
            except TimeoutError:
                continue
            if found is not None:
                return found
        raise AssertionError("nothing was heard")


@pytest.fixture(scope="module", params=["tc", "tun", "clsact"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    """A running CLAT with ears on both sides, one for all tests of this file."""
    network = Network(program())
    try:
        network.build()
        yield Wire(network, request.param)
    finally:
        network.remove()


def sound(packet: Packet) -> bool:
    """Scapy computes the same checksums."""
    again = packet.copy()
    layers = [layer for layer in (IP, TCP, UDP, ICMP, ICMPv6EchoRequest, ICMPv6EchoReply) if layer in again]
    for layer in layers:
        field = "cksum" if layer in (ICMPv6EchoRequest, ICMPv6EchoReply) else "chksum"
        delattr(again[layer], field)
    return bytes(again) == bytes(packet)


@pytest.mark.parametrize("tos", [0, 0x03, 0xB8, 0xFF])
def test_ipv4_to_ipv6_header(wire: Wire, tos: int) -> None:
    """Section 4.1: all eight bits of TOS, hop limit one less, flow label 0, lengths, next header, addresses."""
    got = wire.to_ipv6(IP(src=OURS4, dst=SERVER4, tos=tos, ttl=17, flags="DF") / UDP(sport=5, dport=6) / b"diolkos")
    assert (got.version, got.tc, got.fl, got.plen, got.nh, got.hlim) == (6, tos, 0, 15, 17, 17 - wire.hops)
    assert (got.src, got.dst) == (wire.ours6, SERVER_SYNTHESIZED)
    assert bytes(got[UDP].payload) == b"diolkos"
    assert sound(got)


@pytest.mark.parametrize("tos", [0, 0x03, 0xB8, 0xFF])
@pytest.mark.parametrize("payload", [1231, 1232, 1233])
def test_ipv6_to_ipv4_header(wire: Wire, tos: int, payload: int) -> None:
    """Section 5.1: up to 1260 bytes the packet may be fragmented on its way, beyond it carries DF."""
    packet = IPv6(src=SERVER_SYNTHESIZED, dst=wire.ours6, tc=tos, hlim=33, fl=0xBEEF) / UDP(sport=6, dport=5)
    got = wire.to_ipv4(packet / Raw(b"x" * payload))
    assert (got.version, got.ihl, got.tos, got.len, got.proto) == (4, 5, tos, 28 + payload, 17)
    assert got.ttl == 33 - wire.hops
    assert (got.src, got.dst) == (SERVER4, OURS4)
    if got.len <= 1260:
        assert got.flags == 0
    else:
        assert got.flags == "DF"
    assert sound(got)


def test_identifications_of_what_may_be_fragmented_differ(wire: Wire) -> None:
    """Section 5.1, by RFC 6864: an identification that repeats would mix the fragments of two packets."""
    packet = IPv6(src=SERVER_SYNTHESIZED, dst=wire.ours6) / UDP(sport=6, dport=5) / b"x"
    seen = {wire.to_ipv4(packet).id for _ in range(8)}
    assert len(seen) == 8


@pytest.mark.parametrize("kind", ["request", "reply"])
def test_echo(wire: Wire, kind: str) -> None:
    """Sections 4.2 and 5.2: types 8 and 0 are 128 and 129, identifier and sequence number stay."""
    four = IP(src=OURS4, dst=SERVER4, flags="DF") / ICMP(type=8 if kind == "request" else 0, id=0x1234, seq=7) / b"abc"
    got = wire.to_ipv6(four)
    echo = got[ICMPv6EchoRequest if kind == "request" else ICMPv6EchoReply]
    assert (got.nh, echo.code, echo.id, echo.seq, echo.data) == (58, 0, 0x1234, 7, b"abc")
    assert sound(got)

    layer = ICMPv6EchoReply if kind == "request" else ICMPv6EchoRequest
    back = wire.to_ipv4(IPv6(src=SERVER_SYNTHESIZED, dst=wire.ours6) / layer(id=0x1234, seq=7, data=b"abc"))
    assert (back.proto, back[ICMP].type) == (1, 0 if kind == "request" else 8)
    assert (back[ICMP].id, back[ICMP].seq, bytes(back[ICMP].payload)) == (0x1234, 7, b"abc")
    assert sound(back)


def zero_checksum_payload(packet: Packet, layer: type[Packet]) -> Packet:
    """The packet with two bytes of payload for which its transport checksum computes to zero."""
    probe = packet / b"\x00\x00"
    word = type(probe)(bytes(probe))[layer].chksum
    return packet / word.to_bytes(2, "big")


def test_a_udp_checksum_that_computes_to_zero(wire: Wire) -> None:
    """RFC 768: it is sent as 0xffff, both ways; 0 would say that there is none."""
    wanted = zero_checksum_payload(IPv6(src=wire.ours6, dst=SERVER_SYNTHESIZED) / UDP(sport=5, dport=6), UDP)
    data = bytes(wanted[UDP].payload)
    got = wire.to_ipv6(IP(src=OURS4, dst=SERVER4, flags="DF") / UDP(sport=5, dport=6) / data)
    assert got[UDP].chksum == 0xFFFF

    wanted = zero_checksum_payload(IP(src=SERVER4, dst=OURS4) / UDP(sport=6, dport=5), UDP)
    data = bytes(wanted[UDP].payload)
    back = wire.to_ipv4(IPv6(src=SERVER_SYNTHESIZED, dst=wire.ours6) / UDP(sport=6, dport=5) / data)
    assert back[UDP].chksum == 0xFFFF


def test_tcp_is_carried_whole(wire: Wire) -> None:
    """Options, flags and urgent pointer are not the translator's business; the checksum is right."""
    segment = TCP(sport=5, dport=6, seq=99, ack=1, flags="SECU", urgptr=3, options=[("MSS", 1432), ("SAckOK", b"")])
    got = wire.to_ipv6(IP(src=OURS4, dst=SERVER4, flags="DF") / segment / b"data")
    assert (got[TCP].seq, got[TCP].flags, got[TCP].urgptr) == (99, "SECU", 3)
    assert ("MSS", 1432) in got[TCP].options
    assert sound(got)


def test_errors_of_routers_reach_the_application(wire: Wire) -> None:
    """Section 5.2: an IPv6 router's Time Exceeded about a packet of ours becomes one about the IPv4 packet."""
    about = IPv6(src=wire.ours6, dst=SERVER_SYNTHESIZED, hlim=1) / UDP(sport=5, dport=6) / b"where"
    got = wire.to_ipv4(IPv6(src="2001:2:0:1::1", dst=wire.ours6) / ICMPv6TimeExceeded() / about)
    assert (got[ICMP].type, got[ICMP].code) == (11, 0)
    inner = got[ICMP].payload
    assert (inner.src, inner.dst, inner.proto, inner.dport) == (OURS4, SERVER4, 17, 6)

    got = wire.to_ipv4(IPv6(src=SERVER_SYNTHESIZED, dst=wire.ours6) / ICMPv6DestUnreach(code=4) / about)
    assert (got.src, got[ICMP].type, got[ICMP].code) == (SERVER4, 3, 3)


def test_traceroute_shows_every_hop(net: Network, datapath: str) -> None:
    """The translator itself is the first hop (with `tun` the kernel behind it the second), the server the last."""
    net.clat(datapath)
    hops = ["192.0.0.8"] * (3 if datapath == "tun" else 2) + [SERVER4]
    raw = create_socket(net.client, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.settimeout(5)
    heard = []
    for ttl in range(1, len(hops) + 1):
        probe = create_socket(net.client, socket.AF_INET, socket.SOCK_DGRAM)
        probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        probe.sendto(b"trace", (SERVER4, 33434))
        packet = IP(raw.recv(1500))
        heard.append((packet[ICMP].type, packet[ICMP].code, packet.src))
        probe.close()
    assert heard == [(11, 0, hop) for hop in hops[:-1]] + [(3, 3, SERVER4)]
