# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Thousands of flows past the kernel's forwarding: each packet leaves where the kernel would have sent it.

The kernel is asked by packets that were translated already: the same addresses and ports come in by the same interface, and the
kernel forwards them. So nothing here knows how the kernel chooses a route: by rules, by a hash of several next hops, by ports.

    v6 a0 ── b6 translator b4  ── a0 v4          and the same with both families exchanged
                           x1  ── y1
                           x2  ── y2
"""

from __future__ import annotations

import contextlib
import itertools
import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from network import create_socket
from siit import CONFIG, PREF64, SiitNetwork

ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 263, 23, 33, 35
TRANSLATED, NATIVE = 1, 2
HOSTS, PORTS = 8, 64
FLOWS = HOSTS * HOSTS * PORTS
# Longer than a tick of any kernel's clock, even of a virtual machine that waits for its processor.
GRACE_NS = 150_000_000

MAPPED = '[[eam]]\nv4 = "192.0.2.128/28"\nv6 = "2001:db8:6::b0/124"\n\n[siit]'
PREFIX = socket.inet_pton(socket.AF_INET6, PREF64.split("/")[0])[:12]
# Marker, flow, time of sending.
STAMP = struct.Struct("!4sBHQ")
MAGIC = b"\xd1\x01\xc0\x57"


@dataclass
class Side:
    """Where packets come in, where they leave, and in which family."""

    family: int
    sender: str  # the namespace
    hearer: str
    comes: str
    exits: tuple[tuple[str, str, str], ...]  # the translator's link, the link at its other end, the next hop there
    prefix: str  # all destinations
    half: str  # half of them
    sources: str  # half of the sources
    macs: dict[str, str] = field(default_factory=dict)

    @property
    def option(self) -> str:
        """Of ip(8)."""
        return "-6" if self.family == socket.AF_INET6 else "-4"

    @property
    def name(self) -> str:
        """In names of sysctls."""
        return "ipv6" if self.family == socket.AF_INET6 else "ipv4"

    @property
    def no_dad(self) -> tuple[str, ...]:
        """An address is used at once."""
        return ("nodad",) if self.family == socket.AF_INET6 else ()

    def words(self) -> dict[str, str]:
        """What changes are made of."""
        words = {"prefix": self.prefix, "half": self.half, "sources": self.sources, "comes": self.comes}
        for number, (here, _, gateway) in enumerate(self.exits):
            words |= {f"exit{number}": here, f"gateway{number}": gateway, f"hop{number}": f"via {gateway} dev {here}"}
        return words | self.macs

    def ends(self, flow: int) -> tuple[int, int, int, int]:
        """Source and destination as numbers of hosts, and their ports: neighbours in the numbering differ in ports alone."""
        ports, hosts = flow % PORTS, flow // PORTS
        return hosts % HOSTS, hosts // HOSTS, 2000 + ports % 8, 3000 + ports // 8


def v4_of(number: int, is_node: bool) -> bytes:
    """An IPv6 node's mapped address, or an IPv4 host's."""
    return socket.inet_aton(f"192.0.2.{128 + number}" if is_node else f"10.9.0.{1 + number}")


def v6_of(number: int, is_node: bool) -> bytes:
    """The same in IPv6."""
    if is_node:
        return socket.inet_pton(socket.AF_INET6, f"2001:db8:6::{0xB0 + number:x}")
    return PREFIX + v4_of(number, False)


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(side: Side, flow: int, kind: int, size: int, sent: int) -> bytes:
    """To be translated, or as the kernel would get it after that. Nobody here looks at the checksum of UDP."""
    source, destination, source_port, port = side.ends(flow)
    to_v4 = side.family == socket.AF_INET
    udp = struct.pack("!HHHH", source_port, port, 8 + size, 0x1234) + STAMP.pack(MAGIC, kind, flow, sent).ljust(size, b"\0")
    if to_v4 == (kind == TRANSLATED):
        ends = v6_of(source, to_v4) + v6_of(destination, not to_v4)
        return struct.pack("!IHBB", 6 << 28, len(udp), socket.IPPROTO_UDP, 64) + ends + udp
    ends = v4_of(source, to_v4) + v4_of(destination, not to_v4)
    # RFC 7915 section 5.1: a packet that fits the lowest MTU of IPv6 may be fragmented.
    may_not_be_cut = 0x4000 if 20 + len(udp) > 1260 else 0
    start = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(udp), flow + 1, may_not_be_cut, 64, socket.IPPROTO_UDP)
    return start + struct.pack("!H", checksum(start + b"\0\0" + ends)) + ends + udp


class Arrival(NamedTuple):
    """A packet that has left the translator."""

    kind: int
    flow: int
    sent: int  # ns
    came: int
    where: tuple[str, bytes]  # exit, link-layer address


class Wire:
    """Sends frames into the translator, and hears those that leave it, by exit and link-layer address."""

    def __init__(self, net: SiitNetwork, side: Side) -> None:
        self.net, self.side = net, side

        def mac(name: str, link: str) -> bytes:
            return bytes.fromhex(net.ip_json(name, "link", "show", link)[0]["address"].replace(":", ""))

        def opened(name: str, link: str) -> socket.socket:
            made = create_socket(name, socket.AF_PACKET, socket.SOCK_RAW, 0)
            made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
            made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            made.bind((link, ETH_P_ALL))
            made.setblocking(False)
            return made

        self.header = mac(net.translator, side.comes) + mac(side.sender, "a0")
        self.sends = create_socket(side.sender, socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.sends.bind(("a0", 0))
        self.hears = {opened(side.hearer, there): here for here, there, _ in side.exits}

    def frame(self, flow: int, kind: int, size: int = 32, sent: int = 0) -> bytearray:
        made = packet(self.side, flow, kind, size, sent)
        return bytearray(self.header + (b"\x86\xdd" if made[0] >> 4 == 6 else b"\x08\x00") + made)

    def arrivals(self, quiet: float, most: int = 1 << 30) -> Iterator[Arrival]:
        """What has come, until nothing comes any more, or so many have."""
        while most > 0:
            ready, _, _ = select.select(list(self.hears), [], [], quiet)
            if not ready:
                return
            for heard in ready:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        frame, ancillary, _, _ = heard.recvmsg(2048, 64)
                        at = frame.find(MAGIC)
                        if at < 0:
                            continue
                        _, kind, flow, sent = STAMP.unpack_from(frame, at)
                        seconds, ns = struct.unpack("qq", ancillary[0][2])
                        most -= 1
                        yield Arrival(kind, flow, sent, seconds * 10**9 + ns, (self.hears[heard], frame[:6]))

    def close(self) -> None:
        for opened in (self.sends, *self.hears):
            opened.close()


@dataclass
class World:
    """A translator with three exits on one side."""

    net: SiitNetwork
    side: Side
    wire: Wire

    def change(self, *commands: str) -> None:
        """Run commands of ip(8) in the translator, or set a sysctl of the family: `key=value`."""
        for command in commands:
            key, is_sysctl, value = command.partition("=")
            if is_sysctl:
                self.net.sysctl(self.net.translator, f"net.{self.side.name}.{key}", value)
            else:
                # A group of next hops has no family.
                option = () if command.startswith("nexthop") else (self.side.option,)
                self.net.run(self.net.translator, "ip", *option, *command.format(**self.side.words()).split())

    def leave(self, kind: int, size: int = 32) -> dict[int, set[tuple[str, bytes]]]:
        """Where packets of every flow leave, which follow each other in any order. Three that do not arrive have no route."""
        seen: dict[int, set[tuple[str, bytes]]] = {}
        begun = time.time_ns()
        for _ in range(3):
            flows = [flow for flow in range(FLOWS) if flow not in seen]
            random.Random(kind).shuffle(flows)
            for at in range(0, len(flows), 1024):
                sent = flows[at : at + 1024]
                for flow in sent:
                    self.wire.sends.send(self.wire.frame(flow, kind, size, begun))
                for arrival in self.wire.arrivals(0.3, len(sent)):
                    # One that was sent before comes late.
                    if arrival.sent == begun:
                        seen.setdefault(arrival.flow, set()).add(arrival.where)
        return seen

    def settle(self) -> None:
        """Wait until a new tick has begun at every processor."""
        time.sleep(GRACE_NS / 1e9)

    def sent_directly(self) -> int:
        counters = self.net.counters()
        return counters["fast.sent_direct"] + counters["fast.sent_xdp"]


SIDES = {
    "to-ipv4": lambda net: Side(
        socket.AF_INET, net.v6, net.v4, "b6",
        (("b4", "a0", "198.51.100.2"), ("x1", "y1", "10.8.1.2"), ("x2", "y2", "10.8.2.2")),
        "10.9.0.0/24", "10.9.0.4/30", "192.0.2.132/30",
    ),
    "to-ipv6": lambda net: Side(
        socket.AF_INET6, net.v4, net.v6, "b4",
        (("b6", "a0", "2001:db8:6::2"), ("x1", "y1", "2001:db8:81::2"), ("x2", "y2", "2001:db8:82::2")),
        "2001:db8:6::b0/124", "2001:db8:6::b4/126", "2001:db8:64::a09:4/126",
    ),
}  # fmt: skip


@pytest.fixture(params=list(SIDES))
def world(siit: SiitNetwork, request: pytest.FixtureRequest) -> Iterator[World]:
    """A SIIT between its two hosts, with two more links to the host of one side; routes to that side lead out of the first."""
    side = SIDES[request.param](siit)
    for here, there, gateway in side.exits[1:]:
        ours = gateway[:-1] + "1"
        siit.host("ip", "link", "add", there, "netns", side.hearer, "type", "veth", "peer", here, "netns", siit.translator)
        for name, link, address in ((side.hearer, there, gateway), (siit.translator, here, ours)):
            siit.ip(name, "address", "add", address + ("/64" if ":" in ours else "/24"), "dev", link, *side.no_dad)
            siit.ip(name, "link", "set", link, "up")
        if siit.datapath == "xdp":
            siit.run(side.hearer, "ethtool", "-K", there, "gro", "on")
    siit.configure(CONFIG.replace("[siit]", MAPPED))
    siit.config.write_text(siit.config.read_text().replace('["b4", "b6"]', '["b4", "b6", "x1", "x2"]'))
    running = siit.siit()
    for key in ("ipv4", "ipv6"):
        siit.sysctl(siit.translator, f"net.{key}.conf.all.forwarding", "1")
    wire = Wire(siit, side)
    made = World(siit, side, wire)
    for number, (here, there, gateway) in enumerate(side.exits):
        lladdr = siit.ip_json(side.hearer, "link", "show", there)[0]["address"]
        side.macs[f"mac{number}"] = lladdr
        made.change(f"neigh replace {gateway} lladdr {lladdr} dev {here} nud permanent",
                    f"route add default via {gateway} dev {here} table {100 + number}")  # fmt: skip
    made.change("route add {prefix} {hop0}")
    yield made
    wire.close()
    assert running.stop() == 0


FIELDS = "several next hops, by destination ports"
SEVERAL = "route replace {prefix} nexthop {hop0} nexthop {hop1} nexthop {hop2}"
ONE = "route replace {prefix} {hop0}"
# By name: what is done, what is taken back, how many exits packets then leave by at least.
CHANGES = {
    "one route": ((), (), 1),
    "a longer route": (("route add {half} {hop1}",), ("route del {half}",), 2),
    "a rule about sources": (("rule add from {sources} table 101",), ("rule del from {sources} table 101",), 2),
    "a rule about a mark": (("rule add fwmark 5 table 101",), ("rule del fwmark 5 table 101",), 1),
    "a rule about the interface": (
        ("rule add iif {comes} to {prefix} table 102",), ("rule del iif {comes} to {prefix} table 102",), 1),
    "a rule about another interface": (("rule add iif x1 table 102",), ("rule del iif x1 table 102",), 1),
    "a rule about a port": (
        ("rule add ipproto udp dport 3004 table 101",), ("rule del ipproto udp dport 3004 table 101",), 2),
    "a rule about source ports": (("rule add sport 2000-2003 table 102",), ("rule del sport 2000-2003 table 102",), 2),
    "a rule about a protocol": (
        ("rule add ipproto udp to {prefix} table 101",), ("rule del ipproto udp to {prefix} table 101",), 1),
    "several next hops, by addresses": ((SEVERAL,), (ONE,), 3),
    "several next hops, by ports": (
        (SEVERAL, "fib_multipath_hash_policy=1"), (ONE, "fib_multipath_hash_policy=0"), 3),
    FIELDS: (
        (SEVERAL, "fib_multipath_hash_policy=3", "fib_multipath_hash_fields=32"),
        (ONE, "fib_multipath_hash_policy=0", "fib_multipath_hash_fields=7"), 2),
    "a group of next hops, by ports": (
        ("nexthop add id 1 {hop1}", "nexthop add id 2 {hop2}", "nexthop add id 9 group 1/2",
         "route replace {prefix} nhid 9", "fib_multipath_hash_policy=1"),
        (ONE, "nexthop del id 9", "nexthop del id 2", "nexthop del id 1", "fib_multipath_hash_policy=0"), 2),
    "another link-layer address": (
        ("neigh replace {gateway0} lladdr 02:00:00:00:00:77 dev {exit0} nud permanent",),
        ("neigh replace {gateway0} lladdr {mac0} dev {exit0} nud permanent",), 1),
    "a narrow route": (("route add {half} {hop1} mtu lock 1300",), ("route del {half}",), 1),
    "no route": (("route add blackhole {half}",), ("route del blackhole {half}",), 1),
}  # fmt: skip
PLACED = pytest.mark.parametrize("siit", ["direct", "xdp"], indirect=True)


@PLACED
def test_packets_leave_where_the_kernel_sends_them(world: World) -> None:
    """With every kind of route, rule and next hop, of flows that differ in nothing but ports, too."""
    wrong: dict[str, Counter] = {}
    for name, (done, undone, exits) in CHANGES.items():
        world.change(*done)
        world.settle()
        size = 1350 if name == "a narrow route" else 32
        before = world.sent_directly()
        expected, found = world.leave(NATIVE, size), world.leave(TRANSLATED, size)
        assert len({where for wheres in expected.values() for where in wheres}) >= exits, name
        if name == FIELDS:
            # With this policy, the kernel hashes a packet that it forwards otherwise than one that a program asks about.
            of_port = {world.side.ends(flow)[3]: found.get(flow) for flow in range(FLOWS)}
            expected = {flow: of_port[world.side.ends(flow)[3]] for flow in range(FLOWS)}
        differing = [flow for flow in range(FLOWS) if expected.get(flow) != found.get(flow)]
        if differing:
            wrong[name] = Counter((str(expected.get(flow)), str(found.get(flow))) for flow in differing)
        assert world.sent_directly() - before > FLOWS / 4, f"{name}: the kernel forwarded"
        world.change(*undone)
    assert not wrong


POLICY = (("fib_multipath_hash_policy=1",), ("fib_multipath_hash_policy=0",))


@PLACED
def test_a_change_counts_at_once(world: World) -> None:
    """While packets pass, each leaves where the kernel would have sent it when it came, or a tick before that."""
    for name in ("a longer route", "a rule about sources", "a rule about a port", "another link-layer address", "no route"):
        flip(world, *CHANGES[name][:2])
    world.change(SEVERAL)
    flip(world, *POLICY)
    # The kernel counts no change of its routes then.
    world.change(*CHANGES["a group of next hops, by ports"][0][:4])
    flip(world, ("nexthop replace id 1 {hop0}",), ("nexthop replace id 1 {hop1}",))


def flip(world: World, done: tuple[str, ...], undone: tuple[str, ...]) -> None:
    """Go there and back, under packets of all flows."""
    expected = []
    for commands in ((), done):
        world.change(*commands)
        world.settle()
        expected.append(world.leave(NATIVE))
    world.change(*undone)
    assert expected[0] != expected[1]

    # Each state, from the beginning of the change to it until the end of that from it.
    states = [[0, 1 << 63, 0]]
    with sending(world):
        for turn in (1, 0, 1, 0):
            world.settle()
            world.settle()
            begins = time.time_ns()
            world.change(*(done if turn else undone))
            states[-1][1] = time.time_ns()
            states.append([begins, 1 << 63, turn])
        world.settle()
        world.settle()

    judged = Counter()
    wrong = []
    for arrival in world.wire.arrivals(0.3):
        if arrival.kind != TRANSLATED:
            continue
        possible = {state for begins, ends, state in states if begins <= arrival.came and arrival.sent - GRACE_NS <= ends}
        if not any(arrival.where in expected[state].get(arrival.flow, ()) for state in possible):
            wrong.append((arrival, possible))
        judged[tuple(possible)] += 1
    assert not wrong, (done, len(wrong), wrong[:5], judged)
    # Not all were judged by both.
    assert judged[0,] > FLOWS / 2 and judged[1,] > FLOWS / 4, (done, judged)


@contextlib.contextmanager
def sending(world: World) -> Iterator[None]:
    """Packets of all flows in turn, each with its time, as fast as they can be sent."""
    enough = threading.Event()
    frames = [world.wire.frame(flow, TRANSLATED) for flow in random.sample(range(FLOWS), FLOWS)]
    at = frames[0].index(MAGIC) + STAMP.size - 8

    def send() -> None:
        for frame in itertools.cycle(frames):
            if enough.is_set():
                return
            frame[at : at + 8] = struct.pack("!Q", time.time_ns())
            with contextlib.suppress(OSError):
                world.wire.sends.send(frame)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        enough.set()
        sender.join()
