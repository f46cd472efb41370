# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What comes from outside to ports that no node has, in floods: programs drop it, and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from nat64 import CONFIG, V4_OTHER, Nat64Network, ask, refusal, with_keys
from network import create_socket
from siit import V4, V4_IN_IPV6, V6
from stateful import end, start, stop_for_good

FLOWS = 300
FLOOD = 40_000
# A port of the pool that no node gets: the operator has it, for a test of what becomes of it.
BOUND, HOST = "192.0.2.1:4000", f"[{V6}]:4000"

# Datagrams from ADDRESS to ports of the pool in turn; no two have the same ports. Some milliseconds of rest between them, so
# that no queue on the way is too short.
FLOOD_SOURCE = """
import socket, sys, time
source, number = sys.argv[1], int(sys.argv[2])
sockets = []
for port in range(20000, 20040):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((source, port))
    sockets.append(sock)
for n in range(number):
    sockets[n % 40].sendto(b"flood", (f"192.0.2.{n % 7 + 1}", 1024 + n * 7919 % 60000))
    if n % 50 == 49:
        time.sleep(0.002)
"""


def flood(net: Nat64Network, number: int = FLOOD) -> subprocess.Popen:
    """Begin one, from an address that nobody talks to."""
    return net.start(net.v4, "python3", "-c", FLOOD_SOURCE, V4_OTHER, str(number), stdout=subprocess.DEVNULL)


@contextmanager
def in_flood(net: Nat64Network) -> Iterator[None]:
    """While one is there, on the same CPU: what each CPU leaves to the slow path is used up, and programs decide the rest."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        running = flood(net, 1_000_000)
        before = unsolicited(net)[0]
        net.until(lambda: unsolicited(net)[0] > before + 1000)
        yield
        assert running.poll() is None
        running.kill()
        running.wait()
    finally:
        os.sched_setaffinity(0, cpus)


def arrived(net: Nat64Network, host: socket.socket, to: tuple[str, int]) -> int:
    """How many datagrams arrive of 40 that peers send who have not been heard before, in a flood."""
    with in_flood(net):
        for _ in range(40):
            with closing(create_socket(net.v4, kind=socket.SOCK_DGRAM)) as peer:
                peer.sendto(b"hello", to)
            time.sleep(0.005)
    host.settimeout(0.3)
    heard = 0
    with suppress(TimeoutError):
        while True:
            # The flood may have come to this port, too.
            heard += host.recv(100) == b"hello"
    host.settimeout(5)
    return heard


def unsolicited(net: Nat64Network) -> tuple[int, int]:
    """How many packets programs have dropped, and the slow path, because no node has their port."""
    counters = net.counters()
    return counters["fast.drop.no_binding"], counters["slow.drop.no_binding"]


@pytest.mark.parametrize("nat64", ["tc", "inline"], indirect=True)
def test_new_flows_in_a_flood(nat64: Nat64Network) -> None:
    """Each new port was one that no node has, a moment before, and the answer comes at once."""
    nat64.nat64()
    server = nat64.socket(V4, 7)
    running = flood(nat64)
    nat64.until(lambda: unsolicited(nat64)[0] > 100)
    flows = 0
    while flows < FLOWS or running.poll() is None:
        node = nat64.socket(V6)
        node.sendto(b"question", (V4_IN_IPV6, 7))
        question, seen_as = server.recvfrom(100)
        server.sendto(b"answer", seen_as)
        # The flood may come to this port, too, once it is the node's.
        answer = next(data for data in iter(lambda: node.recv(100), b"") if data != b"flood")  # noqa: B023
        assert (question, answer) == (b"question", b"answer")
        node.close()
        flows += 1
    # And from peers that the node has not asked (RFC 4787 REQ-8: endpoint-independent filtering).
    node = nat64.socket(V6)
    assert arrived(nat64, node, ask(node, (V4_IN_IPV6, 7), server)) == 40
    by_program, by_daemon = unsolicited(nat64)
    assert by_program > FLOOD // 2, (by_program, by_daemon)
    # Some of them were heard, so that they could be answered.
    assert by_daemon > 0


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
def test_a_port_that_is_bound_hears_everybody(nat64: Nat64Network) -> None:
    """What the operator binds, and what a reload gives a node, is open at once; what ends is closed."""
    static = f'[[nat64.static]]\nprotocol = "udp"\nv4 = "{BOUND}"\nv6 = "{HOST}"\n'
    nat64.nat64()
    host = nat64.socket(V6, 4000)
    to = (BOUND.split(":", maxsplit=1)[0], 4000)
    heard = lambda: arrived(nat64, host, to)  # noqa: E731
    assert heard() == 0
    for _ in range(2):
        nat64.bind("add", "udp", BOUND, HOST)
        assert heard() == 40
        nat64.bind("del", "udp", BOUND)
        assert heard() == 0
    text = with_keys()
    assert nat64.reload(text + static) == (0, "")
    assert heard() == 40
    assert nat64.reload(text) == (0, "")
    assert heard() == 0


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
def test_who_asks_slowly_is_answered(nat64: Nat64Network) -> None:
    """Without a flood, each is told that nobody is there (RFC 6146 section 3.5.1), as without programs."""
    nat64.nat64()
    peer = nat64.socket(V4)
    for port in range(5000, 5010):
        assert refusal(peer, ("192.0.2.2", port)) == "EHOSTUNREACH"
    assert unsolicited(nat64) == (0, 10)


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_restart(nat64: Nat64Network, how: signal.Signals) -> None:
    """The next run knows the ports of the flows that go on."""
    running = start(nat64)
    server, node = nat64.socket(V4, 7), nat64.socket(V6)
    seen_as = ask(node, (V4_IN_IPV6, 7), server)
    end(running, how)
    server.sendto(b"while nobody is there", seen_as)
    assert node.recv(100) == b"while nobody is there"
    running = start(nat64)
    assert arrived(nat64, node, seen_as) == 40
    # What is opened and ended now is what this run knows.
    nat64.bind("add", "udp", BOUND, HOST)
    nat64.bind("del", "udp", BOUND)
    assert arrived(nat64, node, seen_as) == 40
    stop_for_good(nat64)
    assert running.wait() == 0


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
@pytest.mark.parametrize("what", ["many networks", "the operator's address"])
def test_a_source_of_ours_has_its_own_reason(nat64: Nat64Network, what: str) -> None:
    """Where programs do not know all addresses of ours, they drop nothing: the slow path says whose a packet pretends to be."""
    if what == "many networks":
        # More than programs know.
        nat64.nat64(CONFIG + "".join(f'[[nat64.pool4]]\naddress = "203.0.113.{2 * n}"\n' for n in range(20)))
        ours = "203.0.113.38"
    else:
        nat64.nat64(with_keys('routes4 = ["192.0.2.0/29", "203.0.113.0/24"]'))
        ours = "203.0.113.38"
        for port in (20000, 20001):
            nat64.bind("add", "udp", f"{ours}:{port}", f"[{V6}]:{port}")
    nat64.ip(nat64.v4, "address", "add", f"{ours}/32", "dev", "lo")
    count = 20_000
    code = FLOOD_SOURCE.replace("range(20000, 20040)", "range(20000, 20002)").replace("n % 40", "n % 2")
    nat64.run(nat64.v4, "python3", "-c", code, ours, str(count))
    nat64.until(lambda: nat64.counters()["slow.drop.source_in_pool"] + sum(unsolicited(nat64)) >= count // 2)
    counters = nat64.counters()
    assert unsolicited(nat64) == (0, 0)
    assert counters["slow.drop.source_in_pool"] > count // 2
