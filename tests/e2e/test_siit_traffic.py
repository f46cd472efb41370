# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What goes through a stateless translator, both ways, by mapping and by prefix."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys

import pytest
from conftest import ROUTER_DATAPATHS
from network import create_socket
from scapy.layers.inet import ICMP, IP
from siit import (
    CONFIG,
    TRANSLATOR4,
    TRANSLATOR4_IN_IPV6,
    TRANSLATOR6,
    V4,
    V4_IN_IPV6,
    V6,
    V6_EMBEDDED,
    V6_EMBEDDING,
    V6_MAPPED,
    SiitNetwork,
)

pytestmark = pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)

# linux/udp.h
UDP_NO_CHECK6_RX = 102

UDP_ECHO = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
sock = socket.socket(family, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], 4000))
print("listening", flush=True)
while True:
    data, peer = sock.recvfrom(65535)
    sock.sendto(data[::-1], peer)
"""

UDP_ASK = """
import os, socket, sys
source, to = sys.argv[1:3]
sock = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((source, 0))
sock.settimeout(5)
sock.connect((to, 4000))
for size in map(int, sys.argv[3:]):
    data = os.urandom(size)
    sock.send(data)
    assert sock.recv(65535) == data[::-1], size
print("all")
"""

TCP_SERVER = """
import hashlib, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], 4000), family=family)
print("listening", flush=True)
sock = listener.accept()[0]
digest, parts = hashlib.sha256(), []
while chunk := sock.recv(1 << 20):
    digest.update(chunk)
    parts.append(chunk)
for part in parts:
    sock.sendall(part)
sock.close()
print(digest.hexdigest(), flush=True)
"""

TCP_CLIENT = """
import hashlib, socket, sys, threading
source, to, megabytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
sock = socket.create_connection((to, 4000), source_address=(source, 0))
sent, got = hashlib.sha256(), hashlib.sha256()
for i in range(megabytes):
    chunk = hashlib.shake_128(i.to_bytes(4, "big")).digest(1 << 20)
    sent.update(chunk)
    sock.sendall(chunk)
sock.shutdown(socket.SHUT_WR)
while chunk := sock.recv(1 << 20):
    got.update(chunk)
assert sent.digest() == got.digest()
print(sent.hexdigest())
"""

# Who asks, from which of its addresses, whom, and at which of its addresses that one answers.
WAYS = {
    "4to6-mapped": ("v4", V4, V6_MAPPED, V6),
    "4to6-embedded": ("v4", V4, V6_EMBEDDED, V6_EMBEDDING),
    "6to4-mapped": ("v6", V6, V4_IN_IPV6, V4),
    "6to4-embedded": ("v6", V6_EMBEDDING, V4_IN_IPV6, V4),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, siit: SiitNetwork) -> tuple[str, str, str, str, str]:
    """Namespaces of who asks and who answers; the asker's address, the address asked, that which answers."""
    asker, source, to, answering = WAYS[request.param]
    names = (siit.v4, siit.v6) if asker == "v4" else (siit.v6, siit.v4)
    return *names, source, to, answering


def listen(net: SiitNetwork, name: str, code: str, address: str) -> subprocess.Popen:
    """Start Python code that prints one line when it listens."""
    process = net.start(name, sys.executable, "-c", code, address, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "listening"
    return process


def transfer(net: SiitNetwork, way: tuple[str, str, str, str, str], megabytes: int) -> None:
    """Bytes to the other side and back again, unchanged."""
    asker, answerer, source, to, answering = way
    server = listen(net, answerer, TCP_SERVER, answering)
    sent = net.script(asker, TCP_CLIENT, source, to, str(megabytes))
    assert server.stdout.readline() == sent


def own_kib(pid: int) -> int:
    """Memory that a process has written to. The pages of its file are not its own, and a debug build has twice as many."""
    with open(f"/proc/{pid}/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon:", "RssShmem:")))


def test_ping_udp_tcp(siit: SiitNetwork, way: tuple[str, str, str, str, str]) -> None:
    """Each by mapping and by prefix, begun on either side; no packet is dropped, and the program stays small."""
    running = siit.siit()
    asker, answerer, source, to, answering = way
    assert "5 received" in siit.run(asker, "ping", "-c5", "-i0.2", "-W2", "-I", source, to).stdout
    listen(siit, answerer, UDP_ECHO, answering)
    assert siit.script(asker, UDP_ASK, source, to, "0", "1", "1000", "8000").strip() == "all"
    transfer(siit, way, 16)
    counters = siit.counters()
    assert counters[f"{siit.path()}.translated_4to6"] > 100 < counters[f"{siit.path()}.translated_6to4"]
    assert {name: n for name, n in counters.items() if "drop" in name and n} == {}
    assert own_kib(running.process.pid) < 12 * 1024


def test_a_datagram_of_64_kilobytes(siit: SiitNetwork, way: tuple[str, str, str, str, str]) -> None:
    """The longest that IPv4 can carry arrives in fragments, and so does its answer."""
    siit.siit()
    siit.narrow(1500)
    asker, answerer, source, to, answering = way
    listen(siit, answerer, UDP_ECHO, answering)
    assert siit.script(asker, UDP_ASK, source, to, "65507", "40000").strip() == "all"
    counters = siit.counters()
    assert {name: n for name, n in counters.items() if "drop" in name and "too_big" not in name and n} == {}


@pytest.mark.parametrize("mtu", [1280, 1400, 1500, 9000])
def test_path_mtu_from_ipv4(siit: SiitNetwork, mtu: int) -> None:
    """The IPv4 host learns what fits the narrow IPv6 hop: 20 bytes less, which the longer header takes."""
    siit.siit()
    siit.narrow(mtu)
    learned = mtu - 20
    assert discover(siit, siit.v4, V6_MAPPED, 28) == learned
    assert not whole(siit, siit.v4, V6_MAPPED, learned - 27)


@pytest.mark.parametrize("mtu", [1280, 1400, 1500, 9000])
def test_path_mtu_from_ipv6(siit: SiitNetwork, mtu: int) -> None:
    """The IPv6 host learns what fits the narrow IPv4 hop: 20 bytes more, as far as its own link has them."""
    siit.siit()
    siit.narrow(mtu)
    learned = min(mtu + 20, 9000)
    assert discover(siit, siit.v6, V4_IN_IPV6, 48) == learned
    assert not whole(siit, siit.v6, V4_IN_IPV6, learned - 47)


def discover(net: SiitNetwork, name: str, to: str, headers: int) -> int:
    """Ping with packets of the path MTU known so far until one goes through; that MTU, in bytes."""
    for _ in range(8):
        route = net.run(name, "ip", "route", "get", to).stdout
        mtu = int(known[1]) if (known := re.search(r"\bmtu (\d+)", route)) else 9000
        if whole(net, name, to, mtu - headers):
            return mtu
    raise AssertionError(f"a packet of {mtu} bytes, which the path is said to carry, does not go through")


def whole(net: SiitNetwork, name: str, to: str, size: int) -> bool:
    """Whether a ping of this size goes through without a fragment."""
    return net.run(name, "ping", "-M", "do", "-c1", "-W2", "-s", str(size), to, check=False).returncode == 0


@pytest.mark.parametrize("mtu", [1280, 1400, 1500, 9000])
@pytest.mark.parametrize("way", ["4to6-mapped", "6to4-mapped"], indirect=True)
def test_tcp_finds_the_path_mtu(siit: SiitNetwork, way: tuple[str, str, str, str, str], mtu: int) -> None:
    """Both ends believe in 9000 bytes; the hop in the middle teaches them."""
    siit.siit()
    siit.narrow(mtu)
    transfer(siit, way, 4)


def test_traceroute_from_ipv4(siit: SiitNetwork) -> None:
    """Every hop has an address: the router's own, the translator's, the IPv6 router's stand-in (RFC 6791), the end."""
    siit.siit()
    raw = create_socket(siit.v4, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.settimeout(5)
    heard = []
    for ttl in range(1, 5):
        with create_socket(siit.v4, socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
            probe.sendto(b"trace", (V6_MAPPED, 33434))
        packet = IP(raw.recv(1500))
        heard.append((packet[ICMP].type, packet[ICMP].code, packet.src))
    hops = in_order(siit, [TRANSLATOR4, "192.0.0.8", "192.0.0.8"])
    assert heard[: len(hops) + 1] == [(11, 0, hop) for hop in hops] + [(3, 3, V6_MAPPED)]


def test_traceroute_from_ipv6(siit: SiitNetwork) -> None:
    """The translator answers with an address of the router's, the IPv4 router with its own in the prefix."""
    siit.siit()
    raw = create_socket(siit.v6, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    raw.settimeout(5)
    heard = []
    for hops in range(1, 5):
        with create_socket(siit.v6, socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
            probe.sendto(b"trace", (V4_IN_IPV6, 33434))
        heard.append(next_error(raw))
    hops = in_order(siit, [TRANSLATOR6, TRANSLATOR6, TRANSLATOR4_IN_IPV6])
    assert heard[: len(hops) + 1] == [(3, 0, hop) for hop in hops] + [(1, 4, V4_IN_IPV6)]


def test_udp_without_checksum_of_a_tunnel(siit: SiitNetwork) -> None:
    """It is dropped, but from or to ports of the list it passes as it is, in fragments too, to a socket that takes it."""
    siit.configure(CONFIG.replace("pref64", "udp_zero_checksum_ports = [4789]\npref64"))
    siit.siit()
    raw = create_socket(siit.v4, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    heard = create_socket(siit.v6, socket.AF_INET6, socket.SOCK_DGRAM)
    heard.bind((V6, 4789))
    heard.settimeout(5)
    heard.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)

    def send(source: int, to: int, data: bytes) -> None:
        raw.sendto(struct.pack("!HHHH", source, to, 8 + len(data), 0) + data, (V6_MAPPED, 0))

    for data in (b"tunnel", bytes(20_000)):
        send(5000, 4789, data)
        assert heard.recv(30_000) == data
    send(4789, 5000, b"to nobody")
    send(5000, 4790, b"not of a tunnel")
    siit.until(lambda: siit.counters()["slow.drop.udp_zero_checksum"] == 1)
    assert siit.reload(CONFIG) == (0, "")
    send(5000, 4789, b"no more")
    siit.until(lambda: siit.counters()["slow.drop.udp_zero_checksum"] == 2)


def in_order(net: SiitNetwork, hops: list[str]) -> list[str]:
    """Router, translator, router. With a placement at the interfaces, the translator is no hop of its own."""
    return [hops[0], hops[2]] if net.datapath in ("inline", "direct", "xdp") else hops


def next_error(raw: socket.socket) -> tuple[int, int, str]:
    """Type, code and source of the next ICMPv6 error; neighbours' questions are none."""
    while True:
        message, peer = raw.recvfrom(1500)
        if message[0] < 128:
            return message[0], message[1], peer[0]


PADDED = """
import socket, struct, sys
link, source, to, router = sys.argv[1:5]
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((link, 0))
def total(data):
    words = sum(struct.unpack(f"!{len(data) // 2}H", data))
    words = (words & 0xffff) + (words >> 16)
    return ~((words & 0xffff) + (words >> 16)) & 0xffff
addresses = socket.inet_aton(source) + socket.inet_aton(to)
udp = struct.pack("!HHHH", 4001, 4000, 12, 0) + b"abcd"
udp = udp[:6] + struct.pack("!H", total(addresses + struct.pack("!HH", 17, 12) + udp)) + udp[8:]
ip = struct.pack("!BBHHHBBH", 0x45, 0, 32, 1, 0x4000, 64, 17, 0) + addresses
ip = ip[:10] + struct.pack("!H", total(ip)) + ip[12:]
ethernet = bytes.fromhex(router.replace(":", "")) + raw.getsockname()[4] + b"\\x08\\x00"
raw.send((ethernet + ip + udp).ljust(60, b"\\x00"))
"""


def test_a_short_packet_in_a_padded_frame(siit: SiitNetwork) -> None:
    """What Ethernet adds at the end of a short packet is no part of it, and changes nothing about its way."""
    siit.siit()
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout
    with create_socket(siit.v6, socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        sock.bind((V6, 4000))
        sock.settimeout(5)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        router = siit.ip_json(siit.translator, "link", "show", "b4")[0]["address"]
        siit.script(siit.v4, PADDED, "a0", V4, V6_MAPPED, router)
        data, ancillary, _, _ = sock.recvmsg(100, 100)
    hop_limit = int.from_bytes(ancillary[0][2], sys.byteorder)
    # Through the device, the translation is one hop, and each of the two times that the kernel forwards is another. Every
    # other way takes as many as the kernel's two.
    assert (data, hop_limit) == (b"abcd", 62 if siit.datapath in ("inline", "direct", "xdp") else 61)
