# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Scans and floods from behind the translator, by one node and by many: what they fill is theirs, and bounded.

Floods of SYNs from many sources, of both sides, stand in `test_nat64_limits`.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv6Address
from pathlib import Path

import pytest
from nat64 import BOUND, CONFIG, POOL, UNSHARED, V6_ELSEWHERE, V6_OTHER, Nat64Network, ask, in_ipv6, refusal, with_keys
from raw import internet_checksum, ipv4_header, syn
from siit import V4, V4_IN_IPV6, V6
from test_nat64_faults import connected
from test_siit_traffic import own_kib

FLOOD = 6000
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14  # linux/in.h, which Python does not name
LIMITS = ("max_sessions = 1000", "max_sessions_per_source = 400", *UNSHARED)


def datagram(source: str, to: str, from_port: int, to_port: int, payload: bytes = b"scan") -> bytes:
    """One that nobody waits for."""
    ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to)
    udp = struct.pack("!HHHH", from_port, to_port, 8 + len(payload), 0) + payload
    checksum = internet_checksum(ends + struct.pack("!II", len(udp), socket.IPPROTO_UDP) + udp)
    header = struct.pack("!IHBB", 6 << 28, len(udp), socket.IPPROTO_UDP, 64)
    return header + ends + udp[:6] + struct.pack("!H", checksum) + payload


def one_node(number: int) -> tuple[str, str, int, int]:
    """From one port to many ports of many hosts: a scan as worms make them."""
    return V6_ELSEWHERE, in_ipv6(f"198.51.100.{10 + number % 200}"), 7000, 1000 + number


def one_link(number: int) -> tuple[str, str, int, int]:
    """From many addresses of one /64, which is one source."""
    return str(IPv6Address("2001:db8:7::") + number * 0x1234567), V4_IN_IPV6, 7000 + number % 9, 9999


def many_links(number: int) -> tuple[str, str, int, int]:
    """From hundreds of /64s."""
    return str(IPv6Address("2001:db8:8::") + ((number % 600) << 64) + number % 7), V4_IN_IPV6, 1024 + number, 9999


FLOODS = {
    "scan-by-one-node": (datagram, one_node, "source_session_limit", 400),
    "scan-by-one-link": (datagram, one_link, "source_session_limit", 400),
    "scan-by-many-links": (datagram, many_links, "session_limit", 1000),
    "syns-of-one-node": (syn, one_node, "source_session_limit", 400),
    "syns-of-one-link": (syn, one_link, "source_session_limit", 400),
}


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood(nat64: Nat64Network, flood: str) -> None:
    """Tables and the kernel's maps keep their limits; flows that were there go on, and others get in where there is room."""
    make, ends, refused, most = FLOODS[flood]
    running = nat64.nat64(with_keys(*LIMITS))
    pid = running.process.pid
    connection, peer = connected(nat64)
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    before_kib, before_bytes = own_kib(pid), hash_map_bytes(pid)

    raw = nat64.socket(V6, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number in range(FLOOD):
        source, to, from_port, to_port = ends(number)
        raw.sendto(make(source, to, from_port, to_port), (to, 0))
        if number % 500 == 0:
            assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
            assert ask(outside, mapped, inside) == (V4_IN_IPV6, 4000)
            connection.sendall(b"still here")
            assert peer.recv(100) == b"still here"

    counters = nat64.counters()
    assert counters[f"slow.drop.{refused}"] > FLOOD // 10, counters
    assert nat64.drops(refused) == {}
    assert most <= counters["state.sessions"] <= most + 2
    assert counters["state.sources"] <= most + 2
    assert own_kib(pid) < before_kib + 4096
    assert hash_map_bytes(pid) - before_bytes < most * 400
    if refused.startswith("source"):
        ask(nat64.socket(V6), (V4_IN_IPV6, 4000), outside)


def test_a_pool_that_is_used_up(nat64: Nat64Network) -> None:
    """Every port is given to one socket; each of those that come too late is refused by ICMP, and counted."""
    nat64.nat64(with_keys(*UNSHARED).replace(f'"{POOL}"', f'"{BOUND}"\nports = "5000-5063"'))
    outside = nat64.socket(V4, 4000)
    having = [nat64.socket(address) for address in (V6, V6_OTHER) for _ in range(32)]
    got = [ask(sock, (V4_IN_IPV6, 4000), outside) for sock in having]
    assert sorted(got) == [(BOUND, port) for port in range(5000, 5064)]
    late = [nat64.socket(address) for address in (V6, V6_OTHER, V6_ELSEWHERE) for _ in range(10)]
    assert {refusal(sock, (V4_IN_IPV6, 4000)) for sock in late} == {"EHOSTUNREACH"}
    assert nat64.counters()["slow.drop.pool_exhausted"] == len(late)
    assert nat64.drops("pool_exhausted") == {}
    assert [ask(sock, (V4_IN_IPV6, 4000), outside) for sock in having] == got


# --- greedy networks and strangers, with the shares that are the default


def test_two_greedy_links_leave_ports_to_others(nat64: Nat64Network) -> None:
    """Each makes up addresses and takes what it can get of the only address in the pool; a third still gets ports."""
    nat64.nat64(CONFIG.replace(f'"{POOL}"', f'"{BOUND}"\nports = "5000-5999"'))
    raw = nat64.socket(V6, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for link in ("2001:db8:7::", "2001:db8:8::"):
        for number in range(3000):
            source = str(IPv6Address(link) + 0x1000 + number)
            raw.sendto(datagram(source, V4_IN_IPV6, 7000, 9999), (V4_IN_IPV6, 0))
    outside = nat64.socket(V4, 4000)
    for _ in range(50):
        ask(nat64.socket(V6), (V4_IN_IPV6, 4000), outside)
    refused = {f"slow.drop.{level}_binding_limit" for level in ("host", "source", "site")}
    counters = nat64.counters()
    assert sum(counters.get(name, 0) for name in refused) > 4000, counters
    assert counters.get("slow.drop.pool_exhausted", 0) == 0
    assert counters["state.bindings"] < 600


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
def test_strangers_leave_the_table_to_the_nodes(nat64: Nat64Network) -> None:
    """Sources that nobody has, to a port that is bound: a node goes on to open sessions, as many as its share."""
    nat64.nat64(with_keys("max_sessions = 1000"))
    outside = nat64.socket(V4, 4000)
    inside = nat64.socket(V6)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    raw = nat64.socket(V4, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number in range(FLOOD):
        source = f"203.0.113.{1 + number % 250}"
        raw.sendto(datagram4(source, mapped[0], 1024 + number, mapped[1]), (mapped[0], 0))
    counters = nat64.counters()
    refused = {f"slow.drop.outside_{level}_limit" for level in ("session", "node", "peer")}
    assert sum(counters.get(name, 0) for name in refused) > FLOOD // 2, counters
    assert counters["state.sessions"] <= 250
    inside = nat64.socket(V6)  # the other one has what strangers sent
    for port in range(4001, 4101):
        ask(inside, (V4_IN_IPV6, port), nat64.socket(V4, port))


@pytest.mark.parametrize("bound", [True, False], ids=["to-a-bound-port", "to-nobody"])
def test_first_fragments_of_a_stranger_cost_others_nothing(nat64: Nat64Network, bound: bool) -> None:
    """Datagrams in two fragments pass in both directions, while a stranger sends first fragments and no others."""
    nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    raw = nat64.socket(V4, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    to_port = mapped[1] if bound else mapped[1] ^ 1
    payload = bytes(range(256)) * 8
    more_fragments = 0x2000
    first = bytearray(ipv4_header(socket.IPPROTO_UDP, "203.0.113.7", mapped[0], 24, more_fragments))
    first += struct.pack("!HHHH", 4500, to_port, 1000, 0xABCD) + bytes(16)
    for number in range(1, 30_001):
        first[4:6] = number.to_bytes(2)
        raw.sendto(first, (mapped[0], 0))
        if number % 3000 == 0:
            outside.sendto(payload, mapped)
            assert inside.recvfrom(4000)[0] == payload
            inside.sendto(payload, (V4_IN_IPV6, 4000))
            assert outside.recvfrom(4000)[0] == payload


def test_a_scan_does_not_silence_packet_too_big(nat64: Nat64Network) -> None:
    """Errors about free ports have used up what may be sent; the path MTU is told all the same."""
    nat64.nat64(CONFIG + "[icmp]\nrate = 1\nburst = 1\n")
    outside = nat64.socket(V4, 4000)
    mapped = ask(nat64.socket(V6), (V4_IN_IPV6, 4000), outside)
    scan = nat64.socket(V4)
    for number in range(100):
        scan.sendto(b"scan", (mapped[0], 1024 + (mapped[1] + 1 + number) % 60_000))
    big = nat64.socket(V4, 4001)
    big.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    big.connect(mapped)
    big.send(bytes(8972))
    nat64.until(lambda: big.getsockopt(socket.IPPROTO_IP, IP_MTU) == 8980)


def datagram4(source: str, to: str, from_port: int, to_port: int) -> bytes:
    """One of IPv4, with its checksum."""
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    udp = struct.pack("!HHHH", from_port, to_port, 8, 0)
    checksum = internet_checksum(ends + struct.pack("!HH", socket.IPPROTO_UDP, len(udp)) + udp)
    return ipv4_header(socket.IPPROTO_UDP, source, to, len(udp)) + udp[:6] + struct.pack("!H", checksum)


def hash_map_bytes(pid: int) -> int:
    """What the kernel says that the program's hash maps take (BPF_MAP_TYPE_HASH, 1)."""
    # By number: a map may be open more than once.
    taken: dict[str, int] = {}
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = info.read_text()
        except FileNotFoundError:
            continue  # closed meanwhile, as the state file is
        lines = dict(line.split(":\t") for line in text.splitlines() if ":\t" in line)
        if lines.get("map_type", "").strip() == "1":
            taken[lines["map_id"]] = int(lines["memlock"])
    return sum(taken.values())
