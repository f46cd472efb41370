# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos dns64` under clients that ask more than their share: the others are answered all the same.

The resolver never answers names that begin with "slow", so each such question waits for seconds.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from dns64 import CLIENT, DNS64, PREF64, RESOLVER, Dns64Network

CONFIG = f"""
[dns64]
listen = ["[{DNS64}]:53"]
upstream = ["{RESOLVER}"]
pref64 = ["{PREF64}"]
"""

# Addresses of the client: two /64s of attackers, a neighbour of the first one, and a stranger.
ATTACKERS = ("2001:2:0:a::2", "2001:2:0:b::2")
NEIGHBOUR = "2001:2:0:a::3"
STRANGER = "2001:2:1:c::2"

QUERY = """
import socket, struct, sys
dns64, own = sys.argv[1:3]
def query(label, id_=1, rtype=28):
    name = bytes([len(label)]) + label.encode() + b"\\7example\\0"
    return struct.pack("!HHHHHH", id_ & 0xffff, 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", rtype, 1)
def framed(message):
    return struct.pack("!H", len(message)) + message
def tcp():
    return socket.create_connection((dns64, 53), source_address=(own, 0))
def udp():
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    one.bind((own, 0))
    one.connect((dns64, 53))
    one.settimeout(20)
    return one
"""

# Every question on a socket of its own; how many answers of each code there were.
FRESH = (
    QUERY
    + """
sockets = []
for number in range(int(sys.argv[4])):
    sockets.append(udp())
    sockets[-1].send(query(f"{sys.argv[3]}-{number}"))
codes = [one.recv(4096)[3] & 15 for one in sockets]
print(codes.count(0), len(codes))
"""
)

BY_TCP = (
    QUERY
    + """
connection = tcp()
connection.sendall(b"".join(framed(query(name.strip(), id_)) for id_, name in enumerate(sys.stdin)))
while connection.recv(1 << 20):
    pass
"""
)

# A question that is answered without upstream follows each hundred, so that the kernel drops none.
BY_UDP = (
    QUERY
    + """
one = udp()
arpa = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\\x08ipv4only\\4arpa\\0" + struct.pack("!HH", 1, 1)
for number in range(int(sys.argv[3])):
    one.send(query(f"slow-{own[7:].replace(':', '-')}-{number}", number | 8))
    if number % 100 == 99:
        one.send(arpa)
        while one.recv(4096)[:2] != b"\\0\\7":
            pass
"""
)


def address(net: Dns64Network, own: str) -> None:
    """Give the client one more address."""
    net.ip(net.client, "address", "add", f"{own}/128", "dev", "lo", "nodad")
    net.ip(net.router, "route", "add", f"{own}/128", "via", CLIENT)


def network(net: Dns64Network, more: str = "") -> None:
    """The addresses, the resolver, and the DNS64."""
    for own in (*ATTACKERS, NEIGHBOUR, STRANGER):
        address(net, own)
    net.resolver_that("is_silent_about_slow")
    net.dns64("--config", str(net.config(CONFIG + more)))


def fresh(net: Dns64Network, own: str, label: str, count: int = 35) -> str:
    """Ask new names from an address; how many answers were good, and how many there were."""
    return net.python(FRESH, DNS64, own, label, str(count)).strip()


def by_tcp(net: Dns64Network, own: str, names: list[str]) -> None:
    """Ask names on one connection, which stays open."""
    path = net.scratch / "names"
    path.write_text("".join(f"{name}\n" for name in names))
    with path.open() as source:
        net.start(net.client, sys.executable, "-c", BY_TCP, DNS64, own, stdin=source, stdout=subprocess.DEVNULL)
    # All are taken in, or no more are taken in.
    net.until(lambda: (now := net.counters())["query_tcp"] >= len(names) or now.get("tcp_paused", 0) > 0)


@pytest.mark.parametrize("names", ["different", "equal"])
def test_one_connection(dns64_network: Dns64Network, names: str) -> None:
    """4500 slow names, or one of them 5000 times, on one connection: it waits for itself."""
    net = dns64_network
    network(net, "rate = 0\n")
    labels = [f"slow-{number}" for number in range(4500)] if names == "different" else ["slow"] * 5000
    by_tcp(net, ATTACKERS[0], labels)
    assert fresh(net, STRANGER, "fresh") == "35 35"
    assert fresh(net, NEIGHBOUR, "near") == "35 35", "in the same /64"
    assert net.counters()["tcp_paused"] > 0


def test_datagrams_of_two_networks(dns64_network: Dns64Network) -> None:
    """3000 slow names each: their oldest ones give way."""
    net = dns64_network
    network(net, "rate = 5000\nburst = 5000\n")
    for attacker in ATTACKERS:
        net.python(BY_UDP, DNS64, attacker, "3000")
    assert fresh(net, STRANGER, "fresh") == "35 35"
    assert fresh(net, NEIGHBOUR, "near") == "35 35", "in the same /64"
    assert net.counters()["busy.client"] >= 2 * (3000 - 512)


def test_the_largest_holder_makes_room(dns64_network: Dns64Network) -> None:
    """There are no more places than the attackers hold."""
    net = dns64_network
    network(net, "rate = 0\nmax_outstanding = 40\nmax_outstanding_of_client = 30\n")
    for attacker in ATTACKERS:
        net.python(BY_UDP, DNS64, attacker, "200")
    assert fresh(net, STRANGER, "fresh", 13) == "13 13"
    counters = net.counters()
    assert counters["busy.client"] >= 170
    assert counters["busy.full"] >= 10


def test_connections_of_several_networks(dns64_network: Dns64Network) -> None:
    """All places are taken, and yet there is one for a newcomer: an attacker's connection is closed."""
    net = dns64_network
    network(net, "max_tcp = 8\ntcp_idle_s = 60\n")
    code = (
        QUERY
        + """
import signal
connections = [tcp() for _ in range(2)]
print("open", flush=True)
signal.pause()
"""
    )
    for number in range(4):
        attacker = f"2001:2:{number + 2}::2"
        address(net, attacker)
        log = net.scratch / f"open-{number}"
        with log.open("w") as sink:
            net.start(net.client, sys.executable, "-c", code, DNS64, attacker, stdout=sink)
        net.until(lambda log=log: "open" in log.read_text())
    assert len(net.dig("v4.example", "AAAA", "+tcp", "-b", STRANGER).data()) == 1
    assert net.counters()["tcp_evicted"] == 1


def test_questions_by_tcp_have_the_rate_too(dns64_network: Dns64Network) -> None:
    """They wait, and each is answered."""
    net = dns64_network
    network(net, "rate = 20\nburst = 5\n")
    code = (
        QUERY
        + """
connection = tcp()
connection.sendall(b"".join(framed(query(f"name-{number}", number)) for number in range(20)))
answers = b""
while len(answers) < 20 * 62:
    answers += connection.recv(4096) or exit("closed")
print("all")
"""
    )
    assert net.python(code, DNS64, ATTACKERS[0]).strip() == "all"
    assert net.counters()["limited.delayed"] >= 10
