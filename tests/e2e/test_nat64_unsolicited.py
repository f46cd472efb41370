# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What comes from outside to ports that no node has, in floods: programs drop it, and nothing else."""

from __future__ import annotations

import signal
import subprocess

import pytest
from nat64 import V4_OTHER, Nat64Network, ask, refusal, with_keys
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
        ask(node, (V4_IN_IPV6, 7), server)
        node.close()
        flows += 1
    by_program, by_daemon = unsolicited(nat64)
    # Ports that nodes have got meanwhile are theirs; a flood of what they ask for passes.
    assert by_program + by_daemon <= FLOOD
    assert by_program > FLOOD // 2, (by_program, by_daemon)
    # Some of them were heard, so that they could be answered.
    assert by_daemon > 0


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
def test_a_port_that_is_bound_hears_everybody(nat64: Nat64Network) -> None:
    """What the operator binds, and what a reload gives a node, is open at once; what ends is closed."""
    static = f'[[nat64.static]]\nprotocol = "udp"\nv4 = "{BOUND}"\nv6 = "{HOST}"\n'
    nat64.nat64()
    host, peer = nat64.socket(V6, 4000), nat64.socket(V4)
    to = (BOUND.split(":", maxsplit=1)[0], 4000)

    def hears() -> bool:
        """Whether what the peer sends arrives. In a flood: what is left to the slow path would hear it by chance."""
        flood(nat64, 4000).wait()
        peer.sendto(b"hello", to)
        host.settimeout(0.5)
        try:
            return host.recvfrom(100)[0] == b"hello"
        except TimeoutError:
            return False

    assert not hears()
    for _ in range(2):
        nat64.bind("add", "udp", BOUND, HOST)
        assert hears()
        nat64.bind("del", "udp", BOUND)
        assert not hears()
    text = with_keys()
    assert nat64.reload(text + static) == (0, "")
    assert hears()
    assert nat64.reload(text) == (0, "")
    assert not hears()


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
def test_who_asks_slowly_is_answered(nat64: Nat64Network) -> None:
    """Without a flood, each is told that nobody is there (RFC 6146 section 3.5.1), as without programs."""
    nat64.nat64()
    peer = nat64.socket(V4)
    for port in range(5000, 5010):
        assert refusal(peer, ("192.0.2.2", port)) == "EHOSTUNREACH"
    assert unsolicited(nat64) == (0, 10)


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
def test_after_a_kill(nat64: Nat64Network) -> None:
    """The next run knows the ports of the flows that go on."""
    running = start(nat64)
    server, node = nat64.socket(V4, 7), nat64.socket(V6)
    seen_as = ask(node, (V4_IN_IPV6, 7), server)
    end(running, signal.SIGKILL)
    server.sendto(b"while nobody is there", seen_as)
    assert node.recv(100) == b"while nobody is there"
    running = start(nat64)
    flood(nat64).wait()
    assert unsolicited(nat64)[0] > FLOOD // 2
    other = nat64.socket(V4_OTHER)
    for peer in (server, other):
        peer.sendto(b"later", seen_as)
        assert node.recv(100) == b"later"
    stop_for_good(nat64)
    assert running.wait() == 0
