# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Many UDP sources at once, on all CPUs, and a check of where their datagrams arrive.

    send (one for each CPU) ─► NAT64 ─► echo (one for each CPU) ─► NAT64 ─► hear

Each datagram says whose it is: the node's address and port. No port of a node is used for two flows. So `echo` sees an
external port that serves two nodes: it is one's, then the other's, then the first one's again. And `hear` sees a datagram
that reaches another node than that to which it belongs.

A reload may take a port from a flow and give it to another one, while the first one's datagrams wait in a queue of `echo`:
then these reach the other one, rightly. So a port that a reload may take away is judged by the times at which datagrams have
come to the host of `echo`: the last one of the first flow before the first one of the other. All other ports are never
anybody else's.

Run as a script in a namespace, it is one of the three; `Crowd` runs all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from pathlib import Path

PEER_PORTS = range(4000, 4004)
NODES = 12
NODES_NET = "2001:db8:8::/48"
FIRST_PORT, LAST_PORT = 2000, 65000
DATAGRAMS = 6  # of one flow
AT_A_TIME = 40  # flows that one CPU has open
ETH_P_IPV6 = 0x86DD
SO_TIMESTAMPNS = 35  # asm-generic/socket.h
WHOSE = struct.Struct("!16sH")


def node(number: int) -> bytes:
    """Its address. Each is a source of its own."""
    return (IPv6Address("2001:db8:8::1") + (number << 64)).packed


def datagram(source: bytes, to: bytes, from_port: int, to_port: int, whose: bytes = b"") -> bytes:
    """A packet that says whose it is."""
    payload = whose or WHOSE.pack(source, from_port)
    length = 8 + len(payload)
    words = source + to + struct.pack("!IIHHHH", length, socket.IPPROTO_UDP, from_port, to_port, length, 0) + payload
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    head = struct.pack("!IHBB", 6 << 28, length, socket.IPPROTO_UDP, 64) + source + to
    return head + struct.pack("!HHHH", from_port, to_port, length, ~total & 0xFFFF or 0xFFFF) + payload


class Ended(Exception):
    """Asked to end."""


def on_end(*_: object) -> None:
    """Ends what waits."""
    raise Ended


def send(to: str, cpu: int, cpus: int, flows: int, seed: int) -> dict:
    """So many flows from this CPU, several at a time. Each second one is also another CPU's, at about the same time."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[cpu]})
    sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
    chance, target = random.Random(seed * cpus + cpu), IPv6Address(to).packed
    opened, sent = [], 0
    for number in range(flows):
        mine = number * (cpus + 1) + (cpu if number % 2 else cpus)
        # Further than one apart: what stands beside RTP is the controller's.
        port = FIRST_PORT + mine // NODES * 4 + mine % 2
        assert port < LAST_PORT, "a port would be used for two flows"
        opened.append([node(mine % NODES), port, DATAGRAMS])
        while len(opened) >= AT_A_TIME or (number == flows - 1 and opened):
            flow = chance.choice(opened)
            with contextlib.suppress(BlockingIOError):
                sock.sendto(datagram(flow[0], target, flow[1], chance.choice(PEER_PORTS)), (to, 0))
                sent += 1
            flow[2] -= 1
            if not flow[2]:
                opened.remove(flow)
    return {"sent": sent}


def lie(to: str) -> dict:
    """One flow that says that it is two in turn: what a fault would look like."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
    target = IPv6Address(to).packed
    for number in (0, 1, 0):
        whose = WHOSE.pack(node(number), FIRST_PORT)
        sock.sendto(datagram(node(0), target, FIRST_PORT, PEER_PORTS[0], whose), (to, 0))
    return {"sent": 3}


def echo(address: str) -> dict:
    """Sends back what comes, until it is ended. Says which external ports went back to a flow that had lost them, and when."""
    sockets = []
    for port in PEER_PORTS:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.bind((address, port))
        sock.setblocking(False)
        sockets.append(sock)
    owners: dict[tuple[str, int], dict[bytes, list[float]]] = {}  # with the times of each one's first and last datagram
    last: dict[tuple[str, int], bytes] = {}
    returns, echoed, moved = [], 0, 0
    print("ready", flush=True)
    with contextlib.suppress(Ended):
        while True:
            for sock in select.select(sockets, [], [])[0]:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        whose, stamps, _, external = sock.recvmsg(100, 64)
                        now = arrival(stamps)
                        seen = owners.setdefault(external, {})
                        if last.get(external, whose) != whose:
                            moved += 1
                            if whose in seen:
                                returns.append([*external, whose.hex(), seen[whose][1], now])
                        seen.setdefault(whose, [now, now])[1] = now
                        last[external] = whose
                        sock.sendto(whose, external)
                        echoed += 1
    shared = [[*external, {whose.hex(): times for whose, times in seen.items()}] for external, seen in owners.items()]
    return {"echoed": echoed, "ports": len(owners), "moved": moved, "returns": returns, "owners": shared}


def hear(interface: str) -> dict:
    """Looks at what reaches nodes, until it is ended."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IPV6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    sock.bind((interface, ETH_P_IPV6))
    heard, strays = 0, []

    def look(packet: bytes, kind: int) -> None:
        nonlocal heard
        if kind == socket.PACKET_OUTGOING or packet[6] != socket.IPPROTO_UDP or len(packet) != 48 + WHOSE.size:
            return
        heard += 1
        reached = packet[24:40] + packet[42:44]
        if packet[48:] != reached:
            strays.append([packet[48:].hex(), reached.hex()])

    print("ready", flush=True)
    with contextlib.suppress(Ended):
        while True:
            packet, (_, _, kind, *_) = sock.recvfrom(200)
            look(packet, kind)
    # What has come by then.
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            packet, (_, _, kind, *_) = sock.recvfrom(200)
            look(packet, kind)
    return {"heard": heard, "strays": strays}


@dataclass
class Crowd:
    """All of them, in the network of a NAT64."""

    net: object
    v4: str
    v4_in_ipv6: str
    reloads: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cpus = len(os.sched_getaffinity(0))
        self.net.ip(self.net.translator, "route", "add", NODES_NET, "via", "2001:db8:6::2")
        self.keep_neighbours()
        self.listen()

    def keep_neighbours(self) -> None:
        """Write down the neighbours of all links. The kernel has one table for all namespaces: while others fill it, a
        neighbour that has to be found again cannot be, and sending fails with EINVAL."""
        net = self.net
        for one, its, other, others in ((net.v4, "a0", net.translator, "b4"), (net.v6, "a0", net.translator, "b6")):
            for here, link, there, end in ((one, its, other, others), (other, others, one, its)):
                described = net.ip_json(there, "address", "show", "dev", end)[0]
                for address in (known["local"] for known in described["addr_info"]):
                    known = (address, "lladdr", described["address"], "dev", link, "nud", "permanent")
                    net.run(here, "ip", "neigh", "replace", *known)

    def listen(self) -> None:
        """From now on what arrives is looked at."""
        self.hearing = self.start(self.net.v6, "hear", "a0")
        self.echoing = [self.start(self.net.v4, "echo", self.v4) for _ in range(self.cpus)]
        for process in [self.hearing, *self.echoing]:
            assert process.stdout.readline() == "ready\n"

    def start(self, where: str, *arguments: object) -> subprocess.Popen:
        """This file as a script."""
        command = [sys.executable, str(Path(__file__).resolve()), *map(str, arguments)]
        return self.net.start(where, *command, stdout=subprocess.PIPE, text=True)

    def run(self, flows: int, seed: int, meanwhile=lambda: False, moves=lambda *_: False) -> dict:
        """So many flows from each CPU; `meanwhile` is called again and again, and is true after a reload. Returns what was
        seen. `moves` says of an external address and port whether these reloads take it away."""
        senders = [self.start(self.net.v6, "send", self.v4_in_ipv6, cpu, self.cpus, flows, seed) for cpu in range(self.cpus)]
        return self.judge(senders, meanwhile, moves)

    def judge(self, senders: list[subprocess.Popen], meanwhile=lambda: False, moves=lambda *_: False) -> dict:
        """What is seen of these senders until they end."""
        while any(sender.poll() is None for sender in senders):
            begin = time.time()
            if meanwhile():
                self.reloads.append((begin, time.time()))
        seen = {"sent": sum(ended(sender)["sent"] for sender in senders)}
        for process in [*self.echoing, self.hearing]:
            process.send_signal(signal.SIGTERM)
        echoes = [ended(process) for process in self.echoing]
        for name in ("echoed", "ports", "moved"):
            seen[name] = sum(one[name] for one in echoes)
        heard = ended(self.hearing)
        excused = lambda address, port, _, last, again: moves(address, port) and self.may_return(last, again)  # noqa: E731
        seen["returns"] = [one for echo in echoes for one in echo["returns"] if not excused(*one)]
        had = owners(echoes)
        moved = [flows for external, flows in had.items() if moves(*external)]
        seen["strays"] = [stray for stray in heard["strays"] if not any(handed_on(*stray, flows) for flows in moved)]
        return {**seen, "heard": heard["heard"], "in_flight": len(heard["strays"]) - len(seen["strays"])}

    def may_return(self, last: float, again: float) -> bool:
        """Whether a flow may have lost its port after one time, and got it again, from another one, by another.

        One reload takes the port from it, the next gives it back to the pool, and these two happen to the other flow as well.
        The first may have begun before, and the last has not ended."""
        return sum(begin <= again and end >= last for begin, end in self.reloads) >= 4


def arrival(stamps: list) -> float:
    """The time at which the kernel has received a datagram, by time.time()."""
    seconds, nanoseconds = struct.unpack("@ll", stamps[0][2])
    return seconds + nanoseconds / 1e9


Times = dict[str, list[float]]  # of flows: the first and the last datagram


def owners(echoes: list[dict]) -> dict[tuple[str, int], Times]:
    """The flows that each external address and port has had, as all who echo have seen them."""
    had: dict[tuple[str, int], Times] = {}
    for echo in echoes:
        for address, port, flows in echo["owners"]:
            its = had.setdefault((address, port), {})
            for flow, (first, last) in flows.items():
                known = its.setdefault(flow, [first, last])
                its[flow] = [min(known[0], first), max(known[1], last)]
    return had


def handed_on(whose: str, reached: str, flows: Times) -> bool:
    """Whether a port with these flows was that of one, and then of another, which may get what was on its way to the first."""
    return whose in flows and reached in flows and flows[whose][1] < flows[reached][0]


def ended(process: subprocess.Popen) -> dict:
    """What a script says in the end."""
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return json.loads(said)


def main() -> None:
    """One of the scripts."""
    signal.signal(signal.SIGTERM, on_end)
    what, *arguments = sys.argv[1:]
    scripts = {
        "send": lambda to, *numbers: send(to, *map(int, numbers)),
        "lie": lie,
        "echo": echo,
        "hear": hear,
    }
    print(json.dumps(scripts[what](*arguments)))


if __name__ == "__main__":
    main()
