# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What goes through a stateful translator: whole, unchanged, on the fast path, with every error that belongs to it."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from ipaddress import IPv4Network

import pytest
from conftest import ROUTER_DATAPATHS
from declined import Tap
from nat64 import BOUND, CONFIG, POOL, V6_OTHER, Nat64Network, ask, in_ipv6, refusal
from scapy.layers.inet import ICMP, IP, UDP, fragment
from scapy.packet import Raw
from siit import TRANSLATOR4, TRANSLATOR4_IN_IPV6, TRANSLATOR6, V4, V4_IN_IPV6, V6
from test_siit_traffic import UDP_ASK, UDP_ECHO, discover, in_order, listen, next_error, own_kib, transfer, whole

pytestmark = pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)

# linux/in.h
IP_RECVTTL = 12
# linux/udp.h
UDP_SEGMENT = 103
# The query identifier of pings from IPv4, whose binding must be there before they come, and of those of one session.
QUERY = "77"

MANY = """
import hashlib, socket, sys, threading
def work(i):
    data = hashlib.shake_128(i.to_bytes(4, "big")).digest(1 << 18)
    with socket.create_connection((sys.argv[1], 4000), timeout=20) as sock:
        threading.Thread(target=sock.sendall, args=(data,)).start()
        got = b""
        while len(got) < len(data) and (chunk := sock.recv(1 << 16)):
            got += chunk
    unchanged.append(got == data)
unchanged = []
threads = [threading.Thread(target=work, args=(i,)) for i in range(int(sys.argv[2]))]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(unchanged.count(True))
"""

TCP_ECHO = """
import socket, socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while chunk := self.request.recv(1 << 16):
            self.request.sendall(chunk)
class Server(socketserver.ThreadingTCPServer):
    request_queue_size, daemon_threads = 256, True
server = Server((sys.argv[1], 4000), Echo)
print("listening", flush=True)
server.serve_forever()
"""


def test_ping_udp_tcp(nat64: Nat64Network) -> None:
    """Only packets that open a session take the slow path; no packet is dropped, and the program stays small."""
    running = nat64.nat64()
    tap = Tap(nat64)
    # The rest of a session waits until its first packet was answered, and ping waits an interval for its last answers.
    for count in (1, 20):
        ping = ("ping", "-e", QUERY, f"-c{count}", f"-l{count}", "-i2", "-W2", V4_IN_IPV6)
        assert f"{count} received" in nat64.run(nat64.v6, *ping).stdout
    listen(nat64, nat64.v4, UDP_ECHO, V4)
    assert nat64.script(nat64.v6, UDP_ASK, V6, V4_IN_IPV6, "0", "1", "1000", "8000").strip() == "all"
    transfer(nat64, (nat64.v6, nat64.v4, V6, V4_IN_IPV6, V4), 16)
    counters = nat64.counters()
    assert counters[f"{nat64.path()}.translated_4to6"] > 100 < counters[f"{nat64.path()}.translated_6to4"]
    needless = tap.needless()
    seen = [name for name, n in counters.items() if n]
    report = "\n".join([*needless, *(f"{name} {counters[name]}" for name in seen)])
    if nat64.datapath == "tun":
        assert needless, report
    else:
        assert needless == [], report
        # The tap has captured everything that the slow path has translated, and the fast path has no other reason to decline.
        assert 2 < counters["slow.translated_4to6"] + counters["slow.translated_6to4"] <= len(tap.packets()), report
        assert [name for name in seen if name.startswith("fast.decline")] == ["fast.decline_state"], report
        assert counters["state.refused_by_fast_path"] == 0
    assert nat64.drops() == {}
    assert own_kib(running.process.pid) < 16 * 1024


def test_pings_that_do_not_fit(nat64: Nat64Network) -> None:
    """What an operator tries first: from behind the translator, and to a binding of it (RFC 6146 section 3.4)."""
    for name, link in ((nat64.v4, "a0"), (nat64.v6, "a0"), (nat64.translator, "b4"), (nat64.translator, "b6")):
        nat64.ip(name, "link", "set", link, "mtu", "1500")
    nat64.nat64()
    nat64.bind("add", "icmp", f"{BOUND}:{QUERY}", f"[{V6}]:{QUERY}")
    for size in ("2000", "10000"):
        for host, target in ((nat64.v6, V4_IN_IPV6), (nat64.v4, BOUND)):
            ping = nat64.run(host, "ping", "-e", QUERY, "-c2", "-i0.2", "-W5", "-s", size, target, check=False).stdout
            assert "2 received" in ping, ping
    assert nat64.counters()["slow.held"] > 8
    assert nat64.drops() == {}


def test_many_connections_at_once(nat64: Nat64Network) -> None:
    """Each gets its own bytes back, over a port of the pool that no other has."""
    nat64.nat64()
    listen(nat64, nat64.v4, TCP_ECHO, V4)
    assert nat64.script(nat64.v6, MANY, V4_IN_IPV6, "100").strip() == "100"
    bindings = nat64.shown("bindings")
    assert len({binding["v4"] for binding in bindings}) == len(bindings) == 100
    assert nat64.drops() == {}


def test_a_page(nat64: Nat64Network) -> None:
    """curl gets a file of an IPv4-only web server by its address in the prefix."""
    nat64.nat64()
    page = nat64.scratch / "page"
    page.write_bytes(bytes(range(256)) * 4096)
    serve = (sys.executable, "-m", "http.server", "--bind", V4, "--directory", str(nat64.scratch), "8080")
    nat64.start(nat64.v4, *serve, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    nat64.until(lambda: ":8080" in nat64.run(nat64.v4, "ss", "-Hltn").stdout)
    curl = ("curl", "--silent", "--fail", "--max-time", "10", f"http://[{V4_IN_IPV6}]:8080/page")
    for _ in range(3):
        assert nat64.run(nat64.v6, *curl, text=False).stdout == page.read_bytes()
    assert nat64.drops() == {}


@pytest.mark.parametrize("reverse", [False, True], ids=["to-ipv4", "to-ipv6"])
def test_load_in_super_packets(nat64: Nat64Network, reverse: bool) -> None:
    """iperf3 over links of 1500 bytes: what the sender's kernel left whole crosses as one packet."""
    nat64.nat64()
    nat64.run(nat64.v4, "ip", "route", "replace", "default", "via", TRANSLATOR4, "mtu", "1500")
    nat64.ip(nat64.v6, "route", "replace", "default", "via", TRANSLATOR6, "mtu", "1500")
    nat64.start(nat64.v4, "iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
    nat64.until(lambda: ":5201" in nat64.run(nat64.v4, "ss", "-Hltn").stdout)
    options = ["-c", V4_IN_IPV6, "-n", "128M", "-P", "4", "--json", *(["-R"] if reverse else [])]
    report = json.loads(nat64.run(nat64.v6, "iperf3", *options).stdout)
    # What is on its way when the sender has sent enough is not counted.
    received = report["end"]["sum_received"]["bytes"]
    assert received > 32 << 20
    shown = nat64.run(nat64.translator, str(nat64.program), "show", "counters", "--json").stdout
    counters = json.loads(shown)
    name = f"{nat64.path()}.translated_{'4to6' if reverse else '6to4'}"
    assert counters["bytes"][name] >= received
    if nat64.datapath != "xdp":
        # A virtual Ethernet whose other end has an XDP program sends none.
        assert counters["bytes"][name] / counters["counters"][name] > 5000
    assert nat64.drops() == {}


def test_udp_super_packets(nat64: Nat64Network) -> None:
    """One write of many datagrams (UDP_SEGMENT) is as many datagrams at the other end, both ways."""
    nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    for sender, to, receiver in ((inside, (V4_IN_IPV6, 4000), outside), (outside, mapped, inside)):
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1200)
        sent = [bytes([number]) * 1200 for number in range(40)] + [b"the rest"]
        sender.sendto(b"".join(sent), to)
        assert [receiver.recv(2000) for _ in sent] == sent
    assert nat64.drops() == {}


def test_the_longest_datagram(nat64: Nat64Network) -> None:
    """It crosses in fragments, and so does its answer."""
    nat64.nat64()
    nat64.narrow(1500)
    listen(nat64, nat64.v4, UDP_ECHO, V4)
    assert nat64.script(nat64.v6, UDP_ASK, V6, V4_IN_IPV6, "65507", "40000").strip() == "all"
    assert nat64.drops("too_big") == {}


def test_fragments_out_of_order(nat64: Nat64Network) -> None:
    """Those that come before the first one wait for it: only that says the ports."""
    nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    address, port = ask(inside, (V4_IN_IPV6, 4000), outside)
    raw = nat64.socket(V4, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    data = bytes(range(256)) * 16
    parts = fragment(IP(src=V4, dst=address, id=7) / UDP(sport=4000, dport=port) / Raw(data), 1000)
    for part in reversed(parts):
        raw.sendto(bytes(part), (address, 0))
    assert inside.recv(5000) == data
    assert nat64.counters()["slow.held"] == len(parts) - 1 > 3
    assert nat64.drops() == {}


def test_hairpin(nat64: Nat64Network) -> None:
    """Two IPv6 hosts reach each other by the addresses that the IPv4 side knows, over UDP and TCP."""
    nat64.nat64()
    server, client = nat64.socket(V6), nat64.socket(V6_OTHER)
    address, port = ask(server, (V4_IN_IPV6, 4000), nat64.socket(V4, 4000))
    seen, _ = ask(client, (in_ipv6(address), port), server)
    assert any(seen == in_ipv6(str(pooled)) for pooled in IPv4Network(POOL))
    nat64.bind("add", "tcp", f"{BOUND}:4000", f"[{V6}]:4000")
    transfer(nat64, (nat64.v6, nat64.v6, V6_OTHER, in_ipv6(BOUND), V6), 4)
    # The error about a packet that turned turns as well.
    server.close()
    assert refusal(client, (in_ipv6(address), port)) == "ECONNREFUSED"
    assert nat64.drops() == {}


def test_a_hairpin_to_nobody(nat64: Nat64Network) -> None:
    """A port of the pool that is nobody's is refused at once."""
    nat64.nat64()
    assert refusal(nat64.socket(V6), (in_ipv6(BOUND), 4000)) == "EHOSTUNREACH"
    assert nat64.counters()["slow.drop.no_binding"] == 1


@pytest.mark.parametrize("mtu", [1280, 1400, 1500, 9000])
def test_path_mtu(nat64: Nat64Network, mtu: int) -> None:
    """Each host learns what fits the narrow hop of the other family; headers differ by 20 bytes."""
    nat64.nat64()
    nat64.narrow(mtu)
    learned = min(mtu + 20, 9000)
    assert discover(nat64, nat64.v6, V4_IN_IPV6, 48) == learned
    assert not whole(nat64, nat64.v6, V4_IN_IPV6, learned - 47)
    nat64.bind("add", "icmp", f"{BOUND}:{QUERY}", f"[{V6}]:{QUERY}")
    for size, answered in ((mtu - 20 - 28, True), (mtu - 20 - 27, False)):
        pings = ("ping", "-e", QUERY, "-M", "do", "-c2", "-i0.01", "-W1", "-s", str(size), BOUND)
        assert (nat64.run(nat64.v4, *pings, check=False).returncode == 0) == answered
    route = nat64.run(nat64.v4, "ip", "route", "get", BOUND).stdout
    assert f" mtu {mtu - 20} " in route


@pytest.mark.parametrize("mtu", [1280, 1500])
def test_tcp_finds_the_path_mtu(nat64: Nat64Network, mtu: int) -> None:
    """Both ends believe in 9000 bytes; the hop in the middle teaches them."""
    nat64.nat64()
    nat64.narrow(mtu)
    transfer(nat64, (nat64.v6, nat64.v4, V6, V4_IN_IPV6, V4), 4)
    nat64.bind("add", "tcp", f"{BOUND}:4000", f"[{V6}]:4000")
    transfer(nat64, (nat64.v4, nat64.v6, V4, BOUND, V6), 4)


def test_traceroute_from_ipv6(nat64: Nat64Network) -> None:
    """The translator answers with an address of the router's, the IPv4 router with its own in the prefix.

    The first probe of a hop begins a session, and the others belong to it: each line names one router.
    """
    nat64.nat64()
    raw = nat64.socket(V6, 0, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    hops = in_order(nat64, [TRANSLATOR6, TRANSLATOR6, TRANSLATOR4_IN_IPV6])
    for limit, expected in enumerate([*((3, 0, hop) for hop in hops), (1, 4, V4_IN_IPV6)], 1):
        probe = nat64.socket(V6)
        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, limit)
        for _ in range(3):
            probe.sendto(b"trace", (V4_IN_IPV6, 33434))
            assert next_error(raw) == expected, f"hop {limit}"


def test_every_packet_of_a_session_takes_as_many_hops(nat64: Nat64Network) -> None:
    """The first one, later ones, fragments and errors, which go different ways through the router."""
    nat64.nat64()
    inside, outside = nat64.socket(V6, 4001), nat64.socket(V4, 4000)
    inside.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
    outside.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)

    def arrives(
        data: bytes, sender: socket.socket, to: tuple[str, int], receiver: socket.socket
    ) -> tuple[tuple[str, int], int]:
        """From where, and with how many hops left."""
        sender.sendto(data, to)
        got, extra, _, source = receiver.recvmsg(20_000, 100)
        assert got == data
        return source[:2], next(int.from_bytes(value[:4], sys.byteorder) for _, _, value in extra)

    left = []
    for data in (b"first", b"second", b"third", bytes(12_000), b"last"):
        source, hops = arrives(data, inside, (V4_IN_IPV6, 4000), outside)
        left += [hops, arrives(data, outside, source, inside)[1]]
    taken = 2 if nat64.datapath in ("inline", "direct", "xdp") else 3
    assert left == [64 - taken] * len(left)
    # An error of a node, whose own hop limit it has.
    inside.close()
    error = nat64.socket(V4, 0, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    outside.sendto(b"gone", source)
    packet = IP(error.recv(1500))
    assert (packet[ICMP].type, packet[ICMP].code, packet.ttl) == (3, 3, 64 - taken)


def test_traceroute_from_ipv4(nat64: Nat64Network) -> None:
    """To a bound port: the router's own address, the translator's, and the pool's for what is behind it."""
    nat64.nat64()
    nat64.bind("add", "udp", f"{BOUND}:33434", f"[{V6}]:33434")
    raw = nat64.socket(V4, 0, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    hops = in_order(nat64, [TRANSLATOR4, "192.0.2.0", BOUND])
    for ttl, expected in enumerate([*((11, 0, hop) for hop in hops), (3, 3, BOUND)], 1):
        probe = nat64.socket(V4)
        probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        for _ in range(3):
            probe.sendto(b"trace", (BOUND, 33434))
            packet = IP(raw.recv(1500))
            assert (packet[ICMP].type, packet[ICMP].code, packet.src) == expected, f"hop {ttl}"


def test_errors_reach_the_sender(nat64: Nat64Network) -> None:
    """A closed port is a refused connection, both ways, for the first packet and for later ones."""
    nat64.nat64()
    inside = nat64.socket(V6)
    outside = nat64.socket(V4, 4000)
    address, port = ask(inside, (V4_IN_IPV6, 4000), outside)
    outside.close()
    inside.connect((V4_IN_IPV6, 4000))
    for _ in range(3):
        inside.send(b"anybody?")
        with pytest.raises(ConnectionRefusedError):
            inside.recv(1)
    inside.close()
    outside = nat64.socket(V4)
    outside.connect((address, port))
    for _ in range(3):
        outside.send(b"anybody?")
        with pytest.raises(ConnectionRefusedError):
            outside.recv(1)
    with pytest.raises(ConnectionRefusedError):
        nat64.connect(V6, (V4_IN_IPV6, 4999))
    nat64.bind("add", "tcp", f"{BOUND}:4999", f"[{V6}]:4999")
    with pytest.raises(ConnectionRefusedError):
        nat64.connect(V4, (BOUND, 4999))
    assert nat64.drops() == {}


def test_a_datagram_without_checksum(nat64: Nat64Network) -> None:
    """It gets one (RFC 6146 section 3.4), and so do fragments, unless the configuration says otherwise."""
    nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    address, port = ask(inside, (V4_IN_IPV6, 4000), outside)
    raw = nat64.socket(V4, 0, socket.SOCK_RAW, socket.IPPROTO_UDP)
    datagram = struct.pack("!HHHH", 4000, port, 13, 0) + b"plain"
    raw.sendto(datagram, (address, 0))
    assert inside.recv(10) == b"plain"
    long = bytes(range(250)) * 20
    raw.sendto(struct.pack("!HHHH", 4000, port, 8 + len(long), 0) + long, (address, 0))
    assert inside.recv(10000) == long
    assert nat64.drops() == {}
    assert nat64.reload(CONFIG.replace("pref64", 'udp_zero_checksum = "drop"\npref64')) == (0, "")
    raw.sendto(datagram, (address, 0))
    nat64.until(lambda: nat64.counters()["slow.drop.udp_zero_checksum"] == 1)
