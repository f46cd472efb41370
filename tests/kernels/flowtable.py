# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A NAT64 at its device whose flows a flowtable of nftables takes past the chains, as docs/placements.md has it.

One network for all: each check begins with a flow that the flowtable has, and changes something under it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CLONE / "tests/e2e"))

from conftest import program, standing  # noqa: E402
from nat64 import CONFIG, Nat64Network, refusal  # noqa: E402
from network import Running  # noqa: E402
from siit import TRANSLATOR4, V4, V4_IN_IPV6, V6  # noqa: E402

PAGE = CLONE / "docs/placements.md"
INTERFACES = {"lan0": "b6", "wan0": "b4"}  # of the page, and of the network
PORT = 4000
HOPS = 61  # of 64, after the three of `device`
ROUNDS = 40
IP_RECVTTL = 12  # linux/in.h
# After the firewall and the flowtable: what it counts, no flowtable has taken.
WATCH = """
table inet watch {
    counter seen { }
    counter dropped { }
    chain forward {
        type filter hook forward priority filter + 20
        meta l4proto { tcp, udp } counter name seen
    }
    chain later {
        type filter hook forward priority filter - 10
    }
}
"""
DEVICE = CONFIG.replace("[translator]\n", '[translator]\nplacement = "device"\n')


@dataclass
class Flow:
    """A flow of UDP through the translator."""

    net: Nat64Network
    source: socket.socket = field(init=False)
    answerer: socket.socket = field(init=False)
    peer: tuple[str, int] = ("", 0)
    """The source as the answerer sees it."""

    def __post_init__(self) -> None:
        self.source, self.answerer = self.net.socket(V6), self.net.socket(V4, PORT)
        self.source.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        self.answerer.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        # A datagram waits for its answer: an emulated machine is slow.
        self.source.settimeout(20)
        self.answerer.settimeout(20)

    def asks(self, *sizes: int) -> None:
        """A datagram of each size arrives unchanged, and so does its answer, both after the same hops."""
        for size in sizes:
            sent = os.urandom(size)
            self.source.sendto(sent, (V4_IN_IPV6, PORT))
            got, said, _, self.peer = self.answerer.recvmsg(1 << 16, 64)
            assert (got, hops(said)) == (sent, HOPS), f"{size} bytes: {len(got)} arrived after {hops(said)}"
            self.answerer.sendto(sent[::-1], self.peer)
            got, said, _, _ = self.source.recvmsg(1 << 16, 64)
            assert (got, hops(said)) == (sent[::-1], HOPS), f"{size} bytes back: {len(got)} arrived after {hops(said)}"

    def is_taken(self, *sizes: int) -> None:
        """After some packets, the flowtable has the flow: no chain sees the others, and the program translates them."""
        self.asks(*[100] * 4)
        before, fast = seen(self.net), self.net.counters()["fast.translated_6to4"]
        self.asks(*sizes)
        assert seen(self.net) == before, f"{seen(self.net) - before} of {2 * len(sizes)} packets passed the chain"
        assert self.net.counters()["fast.translated_6to4"] == fast + len(sizes)
        assert taken(self.net) >= {"ipv4", "ipv6"}, taken(self.net)


def hops(said: list) -> int:
    """What is left of a packet's hop limit."""
    return int.from_bytes(said[0][2][:4], sys.byteorder)


def seen(net: Nat64Network, counter: str = "seen") -> int:
    """Packets that passed the chain."""
    shown = json.loads(net.run(net.translator, "nft", "-j", "list", "counter", "inet", "watch", counter).stdout)
    return next(entry["counter"]["packets"] for entry in shown["nftables"] if "counter" in entry)


def taken(net: Nat64Network) -> set[str]:
    """Families of flows that the flowtable has."""
    lines = net.run(net.translator, "cat", "/proc/net/nf_conntrack").stdout.splitlines()
    return {line.split()[0] for line in lines if "[OFFLOAD]" in line and f"dport={PORT}" in line}


def devices(net: Nat64Network) -> set[str]:
    """Of the flowtable."""
    shown = net.run(net.translator, "nft", "list", "flowtables").stdout
    found = re.search(r"devices = \{ (.*) \}", shown)
    return set(found[1].replace('"', "").split(", ")) if found else set()


def as_documented() -> str:
    """The file of the page."""
    text = PAGE.read_text().split("### `device` with a flowtable\n")[1]
    found = next(block for block in re.findall(r"```\n(.*?)```", text, re.DOTALL) if "flowtable translated" in block)
    for name, ours in INTERFACES.items():
        assert name in found
        found = found.replace(name, ours)
    return found


def load(net: Nat64Network, rules: str) -> None:
    """Have nft read rules."""
    net.run(net.translator, "nft", "-f", "-", input=rules)


def start(net: Nat64Network) -> Running:
    """Start diolkos, and then load the file, as the unit does."""
    running = net.nat64(DEVICE)
    load(net, as_documented())
    assert devices(net) == {"b4", "b6", "diolkos0"}, devices(net)
    return running


def takes(net: Nat64Network) -> None:
    """Packets of any size that needs no fragments, with checksums that the hosts leave to devices, and with whole ones."""
    flow = Flow(net)
    for whole in ("on", "off"):
        for host in (net.v4, net.v6):
            net.run(host, "ethtool", "-K", "a0", "tx", whole)
        flow.is_taken(*[0, 1, 1400, 8000] * (ROUNDS // 4))
    before = seen(net)
    flow.asks(20000)
    assert seen(net) > before, "fragments passed no chain"


def connection(net: Nat64Network) -> None:
    """A TCP connection: chains see its first packets and its last, and no others."""
    listener = net.listener(V4, PORT)
    client = net.connect(V6, (V4_IN_IPV6, PORT))
    server, _ = listener.accept()
    server.settimeout(20)
    client.settimeout(20)

    def talk(rounds: int) -> None:
        for size in range(rounds):
            for one, other in ((client, server), (server, client)):
                sent = os.urandom(1 + 37 * size)
                one.sendall(sent)
                got = b""
                while len(got) < len(sent):
                    got += other.recv(1 << 16)
                assert got == sent

    talk(4)
    before = seen(net)
    talk(ROUNDS)
    assert seen(net) == before, f"{seen(net) - before} packets passed the chain"
    client.close()
    assert server.recv(1) == b""
    assert seen(net) > before, "FIN passed no chain"


def too_big(net: Nat64Network) -> None:
    """Routes get narrow in both families: the senders are told, and what fits goes on past the chains."""
    flow = Flow(net)
    flow.is_taken(8000)
    net.narrow(1500)
    try:
        for host, sock, to, learned in (
            (net.v6, flow.source, (V4_IN_IPV6, PORT), "mtu 1520"),
            (net.v4, flow.answerer, flow.peer, "mtu 1480"),
        ):
            sock.sendto(b"x" * 8000, to)
            net.until(lambda at=host, to=to[0], said=learned: said in net.run(at, "ip", "route", "get", to).stdout)
        flow.is_taken(*[1400] * 5)
        flow.asks(8000)
    finally:
        net.run(net.translator, "ip", "route", "replace", "198.51.100.0/24", "dev", "b4", "src", TRANSLATOR4)
        net.run(net.translator, "ip", "-6", "route", "del", f"{V6}/128", "dev", "b6", check=False)


def unreachable(net: Nat64Network) -> None:
    """A route that changes applies to the next packet of a flow, in both families."""
    flow = Flow(net)
    flow.is_taken(*[100] * 5)
    for route, sock, to, said in (
        (f"{V4}/32", flow.source, (V4_IN_IPV6, PORT), "ENETUNREACH"),
        (f"{V6}/128", flow.answerer, flow.peer, "EHOSTUNREACH"),
    ):
        net.ip(net.translator, "route", "add", "unreachable", route)
        try:
            assert (error := refusal(sock, to)) == said, error
        finally:
            net.ip(net.translator, "route", "del", "unreachable", route)
    # These sockets are connected now.
    flow.source.close()
    flow.answerer.close()
    Flow(net).is_taken(*[100] * 5)


def later_rule(net: Nat64Network) -> None:
    """A rule that comes later stops a flow when the file is loaded again, and not before."""
    flow = Flow(net)
    flow.is_taken(*[100] * 5)
    net.run(net.translator, "nft", "add", "rule", "inet", "watch", "later", "udp", "dport", str(PORT), "counter", "name",
            "dropped", "drop")  # fmt: skip
    flow.asks(*[100] * 5)
    load(net, as_documented())
    flow.source.sendto(b"stopped", (V4_IN_IPV6, PORT))
    net.until(lambda: seen(net, "dropped") == 1)
    net.run(net.translator, "nft", "flush", "chain", "inet", "watch", "later")
    flow.is_taken(*[100] * 5)


def reload(net: Nat64Network) -> None:
    """Diolkos gets another pool: the next packet of a flow has an address of it."""
    flow = Flow(net)
    flow.is_taken(*[100] * 5)
    assert net.reload(DEVICE.replace("192.0.2.0/29", "192.0.2.8/29")) == (0, "")
    flow.is_taken(*[100] * 5)
    assert flow.peer[0] in {f"192.0.2.{last}" for last in range(8, 16)}, flow.peer


def restart(net: Nat64Network) -> None:
    """Without diolkos, its device is none of the flowtable's; the next start brings it back."""
    flow = Flow(net)
    flow.is_taken(*[100] * 5)
    running = Running(net.running[0], net.scratch / "log-0")
    assert running.stop() == 0, running.log()
    assert devices(net) == {"b4", "b6"}, devices(net)
    start(net)
    flow.is_taken(*[100] * 5)


CHECKS: tuple[tuple[str, Callable[[Nat64Network], None]], ...] = (
    ("a flowtable takes flows of UDP, and each packet arrives as without", takes),
    ("a flowtable takes a TCP connection between its first and its last packets", connection),
    ("a packet too big for its route is refused, flowtable or not", too_big),
    ("a route that changes applies to flows of a flowtable", unreachable),
    ("a rule that comes later applies when the file is loaded again", later_rule),
    ("a reload applies to flows of a flowtable", reload),
    ("a restart brings flows back into the flowtable", restart),
)


def main() -> int:
    """Each check, one line."""
    failed = 0
    with standing(lambda: Nat64Network(program())) as net:
        load(net, WATCH)
        start(net)
        for name, check in CHECKS:
            try:
                check(net)
                print("ok", name, flush=True)
            except Exception:
                failed += 1
                print("FAIL", name, flush=True)
                print(f"--- {name}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            for sock in net.sockets:
                sock.close()
            net.sockets.clear()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
