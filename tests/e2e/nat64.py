# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The network of the stateless translator with a stateful one in the middle: the IPv6 host is behind it.

    v4 a0 ── b4 translator b6 ── a0 v6

The pool is 192.0.2.0/29, which the IPv4 host reaches through the translator. Each host has a second address on its
link, and the IPv6 host one of another /64, which is another source.
"""

from __future__ import annotations

import errno
import json
import socket
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from network import Running, create_socket
from siit import PREF64, V4, V6, SiitNetwork

# linux/in.h, linux/in6.h
IP_RECVERR, IPV6_RECVERR = 11, 25

POOL = "192.0.2.0/29"
# In the pool, for bindings of the operator.
BOUND = "192.0.2.1"
# What the IPv6 host is called by its own programs that know IPv4 only, if it runs a CLAT (RFC 7335).
CLAT4 = "192.0.0.1"
V4_OTHER = "198.51.100.3"
V6_OTHER = "2001:db8:6::3"
V6_ELSEWHERE = "2001:db8:7::2"

TRANSLATOR = f"""
[translator]
mode = "nat64"
pref64 = ["{PREF64}"]
"""
CONFIG = f"""{TRANSLATOR}
[[nat64.pool4]]
address = "{POOL}"
"""


# A few nodes may take everything: what a test is about is something else.
UNSHARED = ("host_share = 100", "source_share = 100", "site_share = 100", "outside_share = 100")


def with_keys(*lines: str) -> str:
    """The configuration with keys of [nat64]."""
    return CONFIG.replace("[[nat64", "\n".join(["[nat64]", *lines, "[[nat64"]))


def in_ipv6(v4: str, prefix: str = PREF64) -> str:
    """As which address the IPv6 side knows an IPv4 address (RFC 6052, /96)."""
    return str(IPv6Address(int(IPv6Network(prefix)[0]) + int(IPv4Address(v4))))


@dataclass
class Nat64Network(SiitNetwork):
    """An IPv4 host, a translator's router, and an IPv6 host."""

    sockets: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.configure(CONFIG)

    def build(self) -> None:
        """Make namespaces, links, addresses and routes."""
        super().build()
        self.batch(self.v4, f"address add {V4_OTHER}/24 dev a0")
        self.batch(self.v6, f"address add {V6_OTHER}/64 dev a0 nodad", f"address add {V6_ELSEWHERE}/128 dev lo")
        self.ip(self.translator, "route", "add", f"{V6_ELSEWHERE}/128", "via", V6)
        for other in (V6_OTHER, V4_OTHER):
            self.until(lambda to=other: self.run(self.translator, "ping", "-c1", "-W0.2", to, check=False).returncode == 0)

    def remove(self) -> None:
        """End what runs and remove the namespaces."""
        for sock in self.sockets:
            sock.close()
        super().remove()

    def nat64(self, text: str = "", *options: str) -> Running:
        """Start the translator, with another configuration if one is given."""
        if text:
            self.configure(text)
        return self.siit(*options, command="nat64")

    def clat_behind(self) -> None:
        """Give programs of the IPv6 host IPv4: a CLAT, which makes it a whole 464XLAT (RFC 6877)."""
        with (self.scratch / "log-clat").open("w") as log:
            clat = (str(self.program), "clat", "--uplink", "a0", "--pref64", PREF64)
            self.start(self.v6, *clat, stdout=log, stderr=log)
        self.until(lambda: self.run(self.v6, "ping", "-c1", "-W0.2", V4, check=False).returncode == 0)

    def shown(self, what: str) -> list[dict]:
        """Sessions or bindings."""
        text = self.run(self.translator, str(self.program), "show", what, "--json").stdout
        return json.loads(text)["entries"]

    def states(self, protocol: str) -> list[str]:
        """The states of a protocol's sessions."""
        return [session["state"] for session in self.shown("sessions") if session["protocol"] == protocol]

    def bind(self, *arguments: str) -> None:
        """Have a binding made, or ended."""
        assert self.diolkos("bind", *arguments) == (0, "")

    def drops(self, *expected: str) -> dict[str, int]:
        """What was dropped or lost, apart from what is expected to be."""
        counters = self.counters().items()
        bad = {name: n for name, n in counters if n and (".drop." in name or name.endswith("failed"))}
        return {name: n for name, n in bad.items() if name.removeprefix("slow.drop.") not in expected}

    # --- sockets of the two hosts

    def socket(self, address: str, port: int = 0, kind: int = socket.SOCK_DGRAM, protocol: int = 0) -> socket.socket:
        """A socket on an address of one of the hosts; it waits for 5 seconds at most."""
        name, family = (self.v6, socket.AF_INET6) if ":" in address else (self.v4, socket.AF_INET)
        sock = create_socket(name, family, kind, protocol)
        self.sockets.append(sock)
        sock.settimeout(5)
        if port:
            # After a connection of an earlier socket. Where the kernel chooses, it could give one port to two sockets.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        return sock

    def listener(self, address: str, port: int) -> socket.socket:
        """A TCP socket that listens."""
        sock = self.socket(address, port, socket.SOCK_STREAM)
        sock.listen(64)
        return sock

    def connect(self, source: str, to: tuple[str, int], port: int = 0) -> socket.socket:
        """A TCP connection."""
        sock = self.socket(source, port, socket.SOCK_STREAM)
        sock.connect(to)
        return sock


def ask(source: socket.socket, to: tuple[str, int], answerer: socket.socket) -> tuple[str, int]:
    """Send a datagram and have it answered; where it came from, as the answerer saw it."""
    source.sendto(b"question", to)
    question, peer = answerer.recvfrom(100)
    answerer.sendto(b"answer", peer)
    answer, answered_by = source.recvfrom(100)
    assert (question, answer, answered_by[:2]) == (b"question", b"answer", to)
    return peer[:2]


def refusal(sock: socket.socket, to: tuple[str, int]) -> str:
    """Send a datagram and wait for the ICMP error about it; its name in errno(3)."""
    level, option = (socket.IPPROTO_IPV6, IPV6_RECVERR) if ":" in to[0] else (socket.IPPROTO_IP, IP_RECVERR)
    sock.setsockopt(level, option, 1)
    sock.connect(to)
    sock.send(b"refuse me")
    try:
        sock.recv(100)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return errno.errorcode[error.errno]
    return "an answer"


def is_pooled(address: str) -> bool:
    """Whether it is one of the pool."""
    return IPv4Address(address) in IPv4Network(POOL)
