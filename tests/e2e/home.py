# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A household: its router has one IPv4 address, which nodes share with the router and with IPv4 hosts of the LAN.

    v4 a0 ── b4 translator b6 ── a0 v6
                        l4 ── eth0 lan

The router masquerades the LAN by nftables, as home routers do. Its firewall lets in what somebody inside has asked for, and
what is for a node.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nat64 import TRANSLATOR, UNSHARED, Nat64Network
from network import UNLIKE, Running, create_socket

INSIDE = "192.168.64.1"
FIRST, LAST = 40000, 40999
LAN, LAN_ROUTER = "10.0.0.2", "10.0.0.1"
NFT = """
table ip home {
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        iifname { "l4", "diolkos0" } accept
        oifname "diolkos0" ct status dnat accept
    }
    chain post {
        type nat hook postrouting priority srcnat;
        oifname "b4" masquerade
    }
}
"""
ETH_P_IP = 0x0800


def shared(ports: str = f"{FIRST}-{LAST}", *more: str) -> str:
    """The configuration of a NAT64 that shares the address of b4."""
    keys = "\n".join(more)
    pool = f'address = "{INSIDE}"\ninterface = "b4"\nports = "{ports}"\n'
    return (
        f"{TRANSLATOR}[nat64]\n"
        + "\n".join(UNSHARED)
        + f"\n[[nat64.pool4]]\n{pool}{keys}\n"
    )


def is_of_nodes(port: int) -> bool:
    """Whether it is a port of the pool."""
    return FIRST <= port <= LAST


def answered(sock: socket.socket) -> bytes:
    """What arrives at a socket, or nothing within half a second."""
    sock.settimeout(0.5)
    try:
        return sock.recvfrom(9000)[0]
    except TimeoutError:
        return b""
    finally:
        sock.settimeout(5)


@dataclass
class Sniffer:
    """What arrives at the IPv4 host, IPv4 headers first."""

    sock: socket.socket
    packets: list[bytes] = field(default_factory=list)

    def read(self) -> list[bytes]:
        """All packets so far."""
        while True:
            try:
                self.packets.append(self.sock.recv(65535))
            except BlockingIOError:
                return self.packets

    def sources(self) -> set[str]:
        """The IPv4 addresses from which packets came."""
        return {socket.inet_ntoa(packet[12:16]) for packet in self.read()}


@dataclass
class HomeNetwork(Nat64Network):
    """The household, and an IPv4 host outside."""

    def build(self) -> None:
        """Make namespaces, links, addresses, routes and the rules of the router."""
        super().build()
        self.lan = f"{self.tag}-lan"
        self.add_namespace(self.lan)
        self.further.append(self.lan)
        far = f"l4 netns {self.translator} index {UNLIKE + 7}"
        self.batch(None, f"link add eth0 netns {self.lan} type veth peer {far}")
        self.set_up(self.lan, {"eth0": [f"{LAN}/24"]})
        self.set_up(self.translator, {"l4": [f"{LAN_ROUTER}/24"]})
        self.batch(self.lan, f"route add default via {LAN_ROUTER}")
        self.sysctl(self.translator, "net.ipv4.ip_forward", "1")
        self.run(self.translator, "nft", "-f", "-", input=NFT)

    def at(
        self, name: str, address: str, port: int = 0, kind: int = socket.SOCK_DGRAM
    ) -> socket.socket:
        """A socket of any box."""
        sock = create_socket(name, socket.AF_INET, kind)
        self.sockets.append(sock)
        sock.settimeout(5)
        sock.bind((address, port))
        return sock

    @contextmanager
    def sniffed(self) -> Iterator[Sniffer]:
        """Every IPv4 packet that arrives at the IPv4 host from now on."""
        with create_socket(
            self.v4, socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP)
        ) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
            sock.bind(("a0", ETH_P_IP))
            sock.setblocking(False)
            yield Sniffer(sock)

    def renumber(self, old: str | None, new: str | None) -> None:
        """The provider takes an address away, or gives another one."""
        lines = [f"address del {old}/24 dev b4"] if old else []
        lines += [f"address add {new}/24 dev b4"] if new else []
        self.batch(self.translator, *lines)

    def wrong(self) -> list[str]:
        """What `status` says is wrong."""
        shown = self.run(
            self.translator, str(self.program), "show", "status", "--json", check=False
        ).stdout
        return [found["text"] for found in json.loads(shown)["findings"]]

    def until_shared(self, running: Running, address: str, times: int = 1) -> None:
        """Wait until nodes use this address."""
        try:
            self.until(lambda: running.log().count(f"nodes share {address} ") >= times)
        except AssertionError as never:
            raise AssertionError(running.log()) from never
