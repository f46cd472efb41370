# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a stateful translator lives through: other clocks, a stop, its end in the midst of work, and packets that are none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import malformed
import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import UNSHARED, Nat64Network, ask, with_keys
from network import PATIENCE, create_socket
from siit import V4, V4_IN_IPV6, V6
from test_siit_traffic import own_kib

all_datapaths = pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)

DAY_S = 24 * 3600

# Every datagram is of a flow that nobody knows.
NEW_FLOWS = """
import itertools, socket, sys, time
print("begun", flush=True)
sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], 0))
for port in itertools.cycle(range(10000, 60000)):
    try:
        sock.sendto(b"load", (sys.argv[2], port))
    except OSError:
        pass  # an ICMP error about an earlier one
    time.sleep(0.0005)
"""


@pytest.mark.parametrize("ahead_s", [-60, 30 * DAY_S])
def test_another_clock_than_the_kernels(nat64: Nat64Network, ahead_s: int) -> None:
    """In a time namespace (a container that was moved) the program's clock is not that by which the fast path stamps."""
    log = nat64.scratch / "log"
    clock = ("unshare", "--time", "--monotonic", str(ahead_s), "--kill-child")
    with log.open("w") as sink:
        program = (str(nat64.program), "nat64", "--config", str(nat64.config))
        running = nat64.start(nat64.translator, *clock, *program, stderr=sink)
    nat64.until(lambda: " ready: " in log.read_text())

    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    for _ in range(2):
        ask(inside, (V4_IN_IPV6, 4000), outside)

    def left() -> int:
        return nat64.shown("sessions")[0]["expires_in_s"]

    # Time passes for the session, and a packet of the fast path begins it anew.
    nat64.until(lambda: left() < 298)
    asked = time.monotonic()
    ask(inside, (V4_IN_IPV6, 4000), outside)
    now = left()
    assert now >= 298 - (time.monotonic() - asked)
    assert nat64.counters()["fast.translated_4to6"] >= 2
    # unshare(1) itself ignores this signal, and ends as its child does.
    (child,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    assert running.wait(PATIENCE) == 0
    assert nat64.leftovers() == []


# --- not being there


@all_datapaths
def test_stopped_for_a_while(nat64: Nat64Network) -> None:
    """Known flows go on without the program; what it has to see waits for it, and time has passed for both alike."""
    running = nat64.nat64()
    connection, peer = connected(nat64)
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    running.process.send_signal(signal.SIGSTOP)
    if nat64.datapath != "tun":
        for _ in range(100):
            assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
            assert ask(outside, mapped, inside) == (V4_IN_IPV6, 4000)
            connection.sendall(b"all the same")
            assert peer.recv(100) == b"all the same"
    new = nat64.socket(V6)
    new.sendto(b"patience", (V4_IN_IPV6, 4000))
    connection.shutdown(socket.SHUT_WR)
    running.process.send_signal(signal.SIGCONT)
    assert outside.recv(100) == b"patience"
    assert peer.recv(1) == b""
    assert nat64.states("tcp") == ["v6-fin-rcv"]
    assert nat64.drops() == {}


@all_datapaths
def test_killed_under_load(nat64: Nat64Network) -> None:
    """Again and again: each start finds nothing in its way, serves at once, and what it does not know it says by name."""
    before = nat64.forwarding()
    load = nat64.start(nat64.v6, sys.executable, "-c", NEW_FLOWS, V6, V4_IN_IPV6, stdout=subprocess.PIPE, text=True)
    assert load.stdout.readline() == "begun\n"
    for _ in range(3):
        running = nat64.nat64()
        connection, _ = connected(nat64)
        nat64.until(lambda: nat64.counters()["state.sessions"] > 300)
        assert running.stop(signal.SIGKILL) == -signal.SIGKILL
        assert nat64.leftovers() == []
    running = nat64.nat64()
    # A connection of the one that was killed: its node is not answered, since a RST of ours could be forged by anybody.
    connection.sendall(b"anybody?")
    nat64.until(lambda: "slow.drop.no_connection" in nat64.drops())
    assert nat64.drops("no_connection", "no_binding") == {}
    assert own_kib(running.process.pid) < 36 * 1024
    load.kill()
    assert running.stop() == 0
    assert nat64.forwarding() == before


# --- what is sent by nobody who means well


@pytest.mark.parametrize("nat64", ["tc", "tun", "inline"], indirect=True)
def test_malformed_packets_beside_a_session(nat64: Nat64Network) -> None:
    """Each kind is dropped under its name; after a storm of them sessions go on, limits hold, and nothing has grown."""
    running = nat64.nat64(with_keys("max_sessions = 500", "max_sessions_per_source = 100", *UNSHARED))
    connection, peer = connected(nat64)
    session = malformed.Session(5000, *ask(nat64.socket(V6, 5000), (V4_IN_IPV6, 4000), nat64.socket(V4, 4000)), 4000)
    # What a storm leaves whole arrives at that session's sockets; it is another one that has to go on.
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4002)
    mapped = ask(inside, (V4_IN_IPV6, 4002), outside)
    kinds = {"v4": malformed.of_ipv4(session), "v6": malformed.of_ipv6(session)}

    expected = Counter(f"slow.drop.{reason}" for packets in kinds.values() for _, reason in packets)
    frames = {side: Frames(nat64, side) for side in kinds}
    for side, packets in kinds.items():
        for packet, _ in packets:
            frames[side].send(bytes(packet))
    nat64.until(lambda: sum(nat64.drops().values()) >= expected.total())
    assert nat64.drops() == expected

    def storm(seed: int) -> None:
        for packet in malformed.storm([p for all in kinds.values() for p, _ in all] + malformed.good(session), seed, 4000):
            frames["v6" if packet[0] >> 4 == 6 else "v4"].send(packet)

    storm(1)
    before_kib = own_kib(running.process.pid)
    for seed in range(2, 5):
        storm(seed)
        assert ask(inside, (V4_IN_IPV6, 4002), outside) == mapped
        connection.sendall(b"still here")
        assert peer.recv(100) == b"still here"
    counters = nat64.counters()
    assert sum(nat64.drops().values()) > 4000
    assert counters["slow.write_failed"] == 0
    assert counters.get("fast.failed", 0) == 0
    assert counters["state.sessions"] <= 500
    assert running.process.poll() is None
    assert "panicked" not in running.log()
    assert own_kib(running.process.pid) < before_kib + 2048


@dataclass
class Frames:
    """Packets as they are, which no kernel has looked at, on one side's link to the translator."""

    nat64: Nat64Network
    side: str

    def __post_init__(self) -> None:
        name = {"v4": self.nat64.v4, "v6": self.nat64.v6}[self.side]
        (link,) = self.nat64.ip_json(self.nat64.translator, "link", "show", "dev", f"b{self.side[1]}")
        kind = {"v4": "0800", "v6": "86dd"}[self.side]
        self.head = bytes.fromhex(link["address"].replace(":", "") + "020000000001" + kind)
        self.socket = create_socket(name, socket.AF_PACKET, socket.SOCK_RAW)
        self.nat64.sockets.append(self.socket)
        self.socket.bind(("a0", 0))

    def send(self, packet: bytes) -> None:
        self.socket.send(self.head + packet)


def connected(nat64: Nat64Network) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection that has been used."""
    listener = nat64.listener(V4, 4001)
    inside = nat64.connect(V6, (V4_IN_IPV6, 4001))
    outside = listener.accept()[0]
    nat64.sockets.append(outside)
    listener.close()
    for one, other in ((inside, outside), (outside, inside)):
        one.sendall(b"hello")
        assert other.recv(100) == b"hello"
    return inside, outside
