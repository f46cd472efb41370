# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fragments and ICMP errors, sent by hand: the programs leave them to the slow path, and each arrives as the RFCs say."""

from __future__ import annotations

import socket

import pytest
from nat64 import Nat64Network, ask, is_pooled
from network import create_socket
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6PacketTooBig, IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_trace import every_way

ROUTER6 = "2001:db8:6::9"
ETH_P = {4: 0x0800, 6: 0x86DD}
ZEROS = bytes(8)


class Host:
    """One of the two hosts: sends what it likes, and sees what arrives."""

    def __init__(self, net: SiitNetwork, name: str) -> None:
        self.net, self.name = net, name
        version = 6 if name == net.v6 else 4
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        self.raw = create_socket(name, family, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.tap = create_socket(name, socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P[version]))
        self.tap.bind(("a0", ETH_P[version]))
        self.tap.settimeout(5)
        self.layer = IPv6 if version == 6 else IP

    def send(self, packet: Packet) -> None:
        """The kernel routes it by its destination; all else is as it is given."""
        self.raw.sendto(bytes(packet), (packet.dst, 0))

    def arrives(self, protocol: int) -> Packet:
        """The next packet of a protocol, or next header, that somebody else sent."""
        while True:
            data, (_, _, kind, *_) = self.tap.recvfrom(9000)
            packet = self.layer(data)
            number = packet.nh if self.layer is IPv6 else packet.proto
            if kind == socket.PACKET_HOST and number == protocol:
                return packet

    def close(self) -> None:
        self.raw.close()
        self.tap.close()


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> tuple[Host, Host]:
    """The IPv4 host and the IPv6 host of the network that the test has."""
    name = "nat64" if "nat64" in request.fixturenames else "siit"
    net = request.getfixturevalue(name)
    both = Host(net, net.v4), Host(net, net.v6)
    request.addfinalizer(lambda: [host.close() for host in both])
    return both


def is_declined(net: SiitNetwork, reason: str, send) -> None:
    """The programs decline it for this reason, and the slow path has it."""
    name = f"fast.{reason}"
    before = net.counters().get(name, 0)
    send()
    if net.path() == "fast":
        net.until(lambda: net.counters()[name] > before)


@every_way
def test_packet_too_big_through_a_session(nat64: Nat64Network, hosts: tuple[Host, Host]) -> None:
    """From a router of the IPv6 side, about an answer that was too big for it (RFC 7915 section 5.2: 20 bytes less)."""
    nat64.nat64()
    v4, v6 = hosts
    address, port = ask(nat64.socket(V6, 4711), (V4_IN_IPV6, 53), nat64.socket(V4, 53))
    data = bytes(1452 - 48)
    about = IPv6(src=V4_IN_IPV6, dst=V6, hlim=64) / UDP(sport=53, dport=4711) / data
    error = IPv6(src=ROUTER6, dst=V4_IN_IPV6, hlim=64) / ICMPv6PacketTooBig(mtu=1400) / Raw(bytes(about)[:1232])
    is_declined(nat64, "decline_icmp", lambda: v6.send(error))
    real = v4.arrives(socket.IPPROTO_ICMP)
    # An address of the pool stands in for the router (RFC 6791); 20 bytes less twice.
    assert (real.src, real.dst, len(bytes(real))) == (address, V4, 1240)
    assert (real[ICMP].type, real[ICMP].code, real[ICMP].nexthopmtu) == (3, 4, 1380)
    inner = IP(bytes(real[ICMP].payload))
    assert (inner.src, inner[UDP].sport, inner.dst, inner[UDP].dport) == (V4, 53, address, port)


@every_way
def test_an_error_about_no_session(nat64: Nat64Network, hosts: tuple[Host, Host]) -> None:
    """Nobody has that port: it is dropped, and counted by its reason."""
    nat64.nat64()
    v4, _ = hosts
    inner = IP(src="192.0.2.1", dst=V4) / UDP(sport=40000, dport=53)
    error = IP(src=V4, dst="192.0.2.1") / ICMP(type=3, code=3) / Raw(bytes(inner))
    is_declined(nat64, "decline_icmp", lambda: v4.send(error))
    nat64.until(lambda: nat64.counters()["slow.drop.icmp_inner_unmapped"] == 1)


@every_way
def test_a_later_fragment_waits_for_the_first(nat64: Nat64Network, hosts: tuple[Host, Host]) -> None:
    """The first takes along what waits for it (RFC 6146 section 3.4)."""
    nat64.nat64()
    v4, v6 = hosts
    ip = IPv6(src=V6, dst=V4_IN_IPV6, hlim=64)
    later = ip / IPv6ExtHdrFragment(nh=17, offset=1, m=0, id=77) / Raw(ZEROS)
    is_declined(nat64, "decline_transport", lambda: v6.send(later))
    nat64.until(lambda: nat64.counters()["slow.held"] == 1)
    assert nat64.shown("sessions") == []

    v6.send(ip / IPv6ExtHdrFragment(nh=17, offset=0, m=1, id=77) / UDP(sport=4711, dport=53, len=16, chksum=0x1234))
    for offset, more in ((0, True), (8, False)):
        real = v4.arrives(socket.IPPROTO_UDP)
        assert (real.frag * 8, bool(real.flags & 1), real.id, len(bytes(real))) == (offset, more, 77, 28)
        assert is_pooled(real.src) and real.dst == V4
    assert len(nat64.shown("sessions")) == 1
    # Its ports are known now: nothing waits.
    v6.send(later)
    real = v4.arrives(socket.IPPROTO_UDP)
    assert (real.frag * 8, real.id) == (8, 77)


siit_ways = pytest.mark.parametrize("siit", ["tc", "tun", "direct"], indirect=True)


@siit_ways
def test_fragments_without_state(siit: SiitNetwork, hosts: tuple[Host, Host]) -> None:
    """The second fragment of a datagram goes by itself, in both directions."""
    siit.siit()
    v4, v6 = hosts
    fragment = IP(src=V4, dst=V6_MAPPED, id=77, frag=185, flags="MF", proto=17) / Raw(ZEROS)
    is_declined(siit, "decline_fragment", lambda: v4.send(fragment))
    real = v6.arrives(44)
    assert (real.src, real.dst, len(bytes(real))) == (V4_IN_IPV6, V6, 40 + 8 + 8)
    assert (real[IPv6ExtHdrFragment].offset, real[IPv6ExtHdrFragment].m, real[IPv6ExtHdrFragment].id) == (185, 1, 77)

    fragment = IPv6(src=V6, dst=V4_IN_IPV6, hlim=64) / IPv6ExtHdrFragment(nh=17, offset=185, m=0, id=77) / Raw(ZEROS)
    is_declined(siit, "decline_transport", lambda: v6.send(fragment))
    real = v4.arrives(socket.IPPROTO_UDP)
    assert (real.src, real.dst, len(bytes(real))) == (V6_MAPPED, V4, 28)
    assert (real.frag, real.id, int(real.flags)) == (185, 77, 0)


def test_an_error_without_state(siit: SiitNetwork, hosts: tuple[Host, Host]) -> None:
    """It arrives with an MTU of 20 bytes more (RFC 7915 section 4.2); one about a node without IPv4 address is dropped."""
    siit.siit()
    v4, v6 = hosts
    inner = IP(src=V6_MAPPED, dst=V4, flags="DF", len=1500, proto=6) / Raw(bytes(40))
    v4.send(IP(src=V4, dst=V6_MAPPED) / ICMP(type=3, code=4, nexthopmtu=1400) / Raw(bytes(inner)))
    real = v6.arrives(socket.IPPROTO_ICMPV6)
    while ICMPv6PacketTooBig not in real:  # Neighbour discovery of the link.
        real = v6.arrives(socket.IPPROTO_ICMPV6)
    assert real[ICMPv6PacketTooBig].mtu == 1420

    about = IPv6(src=V4_IN_IPV6, dst="2001:db8:9::1") / UDP(sport=53, dport=7)
    stray = IPv6(src=ROUTER6, dst=V4_IN_IPV6, hlim=64) / ICMPv6DestUnreach(code=0) / Raw(bytes(about))
    v6.send(stray)
    siit.until(lambda: siit.counters()["slow.drop.icmp_inner_unmapped"] == 1)
