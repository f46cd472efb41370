# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Names and addresses of the network of a cluster; `cluster` has a picture."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

PREF64 = "64:ff9b::/96"
# 64:ff9b::/96 must not carry addresses that are not global (RFC 6052 section 3.1); this one is of RFC 7050.
SERVER4 = "192.0.0.171"
SERVER6 = str(IPv6Address(int(IPv6Network(PREF64)[0]) + int(IPv4Address(SERVER4))))
SERVER_PORT = 5000
CLUSTER = "lab"
ROUTER6, ROUTER4 = "r6", "r4"
CLIENTS = ("x", "y")
NODES = ("gw1", "gw2", "gw3")  # unless a test has more
MORE_NODES = ("gw4", "gw5")
MEMBERS = ("m0", "m1", "m2")
AS_ROUTER6, AS_ROUTER4 = 64512, 64513
# Devices of a gateway: towards the clients, the server, the other gateways, the engine.
TO_ROUTER6, TO_ROUTER4, TO_GATEWAYS, TO_ENGINE = "r6", "r4", "gw0", "mg0"


@dataclass(frozen=True)
class Gateway:
    """One node of the cluster, with a number from 1."""

    number: int

    @property
    def name(self) -> str:
        """As the configuration and its certificate call it."""
        return f"gw{self.number}"

    @property
    def link6(self) -> tuple[str, str]:
        """Of the link to the router of the clients: the router's address, the gateway's; /64."""
        return f"2001:db8:6:{self.number}::1", f"2001:db8:6:{self.number}::2"

    @property
    def link4(self) -> tuple[str, str]:
        """Of the link to the router of the server: the router's address, the gateway's; /24."""
        return f"198.18.{self.number}.1", f"198.18.{self.number}.2"

    @property
    def address(self) -> str:
        """On the link between gateways; /64."""
        return f"fd00:6a::{self.number}"

    @property
    def management(self) -> str:
        """Where it speaks to the engine from; /64."""
        return f"fd00:e::10{self.number}"

    @property
    def pool4(self) -> str:
        """The addresses that it gives away."""
        return ("192.0.2.0/29", "192.0.2.8/29", "192.0.2.16/28", "192.0.2.32/28", "192.0.2.48/28")[self.number - 1]

    @property
    def as_number(self) -> int:
        """Its own, for private use (RFC 6996)."""
        return AS_ROUTER4 + self.number


GATEWAYS = {gateway.name: gateway for gateway in map(Gateway, range(1, 6))}
# All addresses of three gateways, and of five: each has a route for all of them, and one for its own.
POOLS4 = "192.0.2.0/27"
MORE_POOLS4 = "192.0.2.0/26"


def member_address(member: str) -> str:
    """Of a member of etcd; /64."""
    return f"fd00:e::{MEMBERS.index(member) + 1}"


def client_link6(client: str) -> tuple[str, str]:
    """The router's and the client's address on the link between them; /64."""
    number = CLIENTS.index(client) + 1
    return f"2001:db8:1:{number}::1", f"2001:db8:1:{number}::2"


def subscribers(client: str) -> list[int]:
    """Which subscribers send from a client's namespace."""
    number = CLIENTS.index(client)
    return [2 * number, 2 * number + 1]


def prefix(subscriber: int) -> str:
    """The /64 that is a subscriber."""
    return f"2001:db8:a{subscriber}::"


def halves(network: str) -> tuple[str, str]:
    """Of the addresses of a network."""
    first, second = IPv4Network(network).subnets()
    return str(first), str(second)


def owner(address: str) -> str:
    """The gateway to which an external address belongs."""
    return next(name for name, gateway in GATEWAYS.items() if IPv4Address(address) in IPv4Network(gateway.pool4))
