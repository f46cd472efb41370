# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos trace` about fragments and ICMP errors: the real packet, sent by hand afterwards, becomes what was told."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest
from nat64 import Nat64Network, ask
from pyroute2.netns import create_socket
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6PacketTooBig, IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_trace import every_way, told, trace

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


def same_ends(packet: dict, real: Packet) -> bool:
    """Whether a packet that was told has the addresses and the length of the real one."""
    ends = [ip_address(packet["src"]), ip_address(packet["dst"])]
    return ends == [ip_address(real.src), ip_address(real.dst)] and packet["length"] == len(bytes(real))


def goes_as_told(net: SiitNetwork, report: dict, reason: str, send) -> None:
    """The programs decline it for the reason that was told, and the slow path has it."""
    assert report["path"] == "slow"
    name = f"fast.{reason}"
    before = net.counters().get(name, 0)
    send()
    if net.path() == "fast":
        assert reason in report["path_because"]
        net.until(lambda: net.counters()[name] > before)


@every_way
def test_packet_too_big_through_a_session(nat64: Nat64Network, hosts: tuple[Host, Host]) -> None:
    """From a router of the IPv6 side, about an answer that was too big for it (RFC 7915 section 5.2: 20 bytes less)."""
    nat64.nat64()
    v4, v6 = hosts
    address, port = ask(nat64.socket(V6, 4711), (V4_IN_IPV6, 53), nat64.socket(V4, 53))
    quoted = f"udp {V4_IN_IPV6} 53 > {V6} 4711 length 1452"
    report = trace(nat64, f"icmp {ROUTER6} > {V4_IN_IPV6} too-big mtu 1400 quoting '{quoted}'")
    assert report["verdict"] == "forward"
    assert told(report, "binding").startswith(f"found: udp [{V6}]:4711 is {address}:{port}")
    assert told(report, "source") == f"{address} stands in for the router {ROUTER6} (RFC 6791)"
    sent = report["sent"][0]
    assert sent["mtu"] == 1380

    data = bytes(1452 - 48)
    about = IPv6(src=V4_IN_IPV6, dst=V6, hlim=64) / UDP(sport=53, dport=4711) / data
    error = IPv6(src=ROUTER6, dst=V4_IN_IPV6, hlim=64) / ICMPv6PacketTooBig(mtu=1400) / Raw(bytes(about)[:1232])
    goes_as_told(nat64, report, "decline_icmp", lambda: v6.send(error))
    real = v4.arrives(socket.IPPROTO_ICMP)
    assert same_ends(sent["packet"], real)
    assert (real[ICMP].type, real[ICMP].code, real[ICMP].nexthopmtu) == (3, 4, 1380)
    inner = IP(bytes(real[ICMP].payload))
    assert (inner.src, inner[UDP].sport, inner.dst, inner[UDP].dport) == (V4, 53, address, port)
    shown = sent["quoted"]
    assert (shown["src"], shown["src_port"], shown["dst"], shown["dst_port"]) == (V4, 53, address, port)


@every_way
def test_an_error_about_no_session(nat64: Nat64Network, hosts: tuple[Host, Host]) -> None:
    """Nobody has that port: the name of the drop is that of the counter, and an error is never answered."""
    nat64.nat64()
    v4, _ = hosts
    about = f"udp 192.0.2.1 40000 > {V4} 53"
    report = trace(nat64, f"icmp {V4} > 192.0.2.1 unreachable port quoting '{about}'")
    assert (report["verdict"], report["reason"], report["answer"]) == ("drop", "icmp_inner_unmapped", None)
    assert told(report, "binding") == "none is that of the quoted packet: udp 192.0.2.1:40000"
    inner = IP(src="192.0.2.1", dst=V4) / UDP(sport=40000, dport=53)
    error = IP(src=V4, dst="192.0.2.1") / ICMP(type=3, code=3) / Raw(bytes(inner))
    goes_as_told(nat64, report, "decline_icmp", lambda: v4.send(error))
    nat64.until(lambda: nat64.counters()["slow.drop.icmp_inner_unmapped"] == 1)


@every_way
def test_a_later_fragment_waits_for_the_first(nat64: Nat64Network, hosts: tuple[Host, Host]) -> None:
    """Asking holds none; the first takes along what really waits (RFC 6146 section 3.4)."""
    nat64.nat64()
    v4, v6 = hosts
    datagram = f"udp {V6} 4711 > {V4_IN_IPV6} 53 fragment"
    later, first = f"{datagram} offset 8 id 77", f"{datagram} offset 0 id 77 more"
    waits = trace(nat64, later)
    assert (waits["verdict"], waits["sent"]) == ("held", [])
    assert "would be held until then" in told(waits, "fragment")
    assert len(trace(nat64, first)["sent"]) == 1

    ip = IPv6(src=V6, dst=V4_IN_IPV6, hlim=64)
    goes_as_told(
        nat64, waits, "decline_transport", lambda: v6.send(ip / IPv6ExtHdrFragment(nh=17, offset=1, m=0, id=77) / Raw(ZEROS))
    )
    nat64.until(lambda: len(trace(nat64, first)["sent"]) == 2)
    both = trace(nat64, first)
    assert (both["verdict"], both["path"]) == ("emitted", "slow")
    assert told(both, "fragment").endswith("1 is held and leaves behind it")
    assert nat64.shown("sessions") == []

    v6.send(ip / IPv6ExtHdrFragment(nh=17, offset=0, m=1, id=77) / UDP(sport=4711, dport=53, len=16, chksum=0x1234))
    for sent, offset, more in zip(both["sent"], (0, 8), (True, False), strict=True):
        real = v4.arrives(socket.IPPROTO_UDP)
        assert (real.frag * 8, bool(real.flags & 1), real.id) == (offset, more, 77)
        assert (sent["packet"]["fragment_offset"], sent["packet"]["more_fragments"]) == (offset, more)
        assert (sent["packet"]["dst"], sent["packet"]["length"]) == (real.dst, len(bytes(real)))
    port = nat64.shown("sessions")[0]["v4"].split(":")[-1]
    known = trace(nat64, later)
    assert (known["verdict"], told(known, "fragment")) == (
        "forward",
        "the first one of the packet has passed, with the ports 4711 > 53",
    )
    assert port in told(known, "binding")


siit_ways = pytest.mark.parametrize("siit", ["tc", "tun", "direct"], indirect=True)


@siit_ways
def test_fragments_without_state(siit: SiitNetwork, hosts: tuple[Host, Host]) -> None:
    """The second fragment of a datagram goes by itself, in both directions."""
    siit.siit()
    v4, v6 = hosts
    inward = trace(siit, f"udp {V4} 53 > {V6_MAPPED} 40000 fragment offset 1480 id 77 more")
    assert inward["verdict"] == "forward"
    assert "translated by itself" in told(inward, "fragment")
    fragment = IP(src=V4, dst=V6_MAPPED, id=77, frag=185, flags="MF", proto=17) / Raw(ZEROS)
    goes_as_told(siit, inward, "decline_fragment", lambda: v4.send(fragment))
    real = v6.arrives(44)
    assert same_ends(inward["sent"][0]["packet"], real)
    assert (real[IPv6ExtHdrFragment].offset, real[IPv6ExtHdrFragment].m, real[IPv6ExtHdrFragment].id) == (185, 1, 77)
    assert inward["sent"][0]["packet"]["fragment_offset"] == 1480

    outward = trace(siit, f"udp {V6} 40000 > {V4_IN_IPV6} 53 fragment offset 1480 id 77")
    fragment = IPv6(src=V6, dst=V4_IN_IPV6, hlim=64) / IPv6ExtHdrFragment(nh=17, offset=185, m=0, id=77) / Raw(ZEROS)
    goes_as_told(siit, outward, "decline_transport", lambda: v6.send(fragment))
    real = v4.arrives(socket.IPPROTO_UDP)
    assert same_ends(outward["sent"][0]["packet"], real)
    assert (real.frag, real.id, int(real.flags)) == (185, 77, 0)


def test_an_error_without_state(siit: SiitNetwork, hosts: tuple[Host, Host]) -> None:
    """What names no node of the other side is told by its address; the rest arrives as told (RFC 7915 section 4.2: 20 more)."""
    siit.siit()
    v4, v6 = hosts
    about = f"tcp ack {V6_MAPPED} 40000 > {V4} 443"
    report = trace(siit, f"icmp {V4} > {V6_MAPPED} unreachable fragmentation-needed mtu 1400 quoting '{about} length 1500'")
    assert (report["verdict"], report["path"], report["sent"][0]["mtu"]) == ("forward", "slow", 1420)
    assert told(report, "quoted").startswith(f"source {V6} is {V6_MAPPED} by the mapping")
    inner = IP(src=V6_MAPPED, dst=V4, flags="DF", len=1500, proto=6) / Raw(bytes(40))
    v4.send(IP(src=V4, dst=V6_MAPPED) / ICMP(type=3, code=4, nexthopmtu=1400) / Raw(bytes(inner)))
    real = v6.arrives(socket.IPPROTO_ICMPV6)
    while ICMPv6PacketTooBig not in real:  # Neighbour discovery of the link.
        real = v6.arrives(socket.IPPROTO_ICMPV6)
    assert real[ICMPv6PacketTooBig].mtu == 1420

    stray = trace(
        siit, f"icmp 2001:db8:6::9 > {V4_IN_IPV6} unreachable no-route quoting 'udp {V4_IN_IPV6} 53 > 2001:db8:9::1 7'"
    )
    assert stray["reason"] == "icmp_inner_unmapped"
    assert told(stray, "quoted").endswith("destination 2001:db8:9::1 has no IPv4 address")
