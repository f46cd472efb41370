# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Names, addresses and numbers of the network of the study.

Networks come from the ranges set aside for benchmarks: 2001:2::/48 (RFC 5180) and 198.18.0.0/15 (RFC 2544); AS numbers from the
range for private use (RFC 6996).
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

PREF64 = IPv6Network("64:ff9b::/96")
SERVER4 = IPv4Address(
    "192.0.0.171"
)  # one of ipv4only.arpa (RFC 7050); 64:ff9b::/96 must not carry addresses of private networks
SERVER6 = IPv6Address(int(PREF64.network_address) | int(SERVER4))  # what clients call it (RFC 6052 §2.2)

LAN6 = IPv6Network("2001:2:0:10::/64")
LAN4 = IPv4Network("198.18.10.0/24")
LINK6 = IPv6Network("2001:2:0:f::/64")  # between gateways, where nobody else sends
MANAGEMENT4 = IPv4Network("198.18.20.0/24")  # between gateways and engine
SERVER_LINK4 = IPv4Network("198.19.0.0/24")
POOLS4 = IPv4Network("198.18.64.0/26")  # of all gateways
# A part for each. Together they are one network, so the route of a part is more specific than that of all parts.
PARTS4 = tuple(IPv4Network(part) for part in ("198.18.64.0/27", "198.18.64.32/28", "198.18.64.48/28"))
STATELESS4 = IPv4Network("198.18.128.0/17")  # what a stateless translator makes of the clients' addresses

INSIDE, OUTSIDE = "ri", "ro"
GATEWAYS = ("gw1", "gw2", "gw3")
ENGINES = ("engine1", "engine2", "engine3")
CLIENTS = ("client1", "client2")
SERVER, LAN, LINK, MANAGEMENT = "server", "lan", "link", "mgmt"
ROLES = (INSIDE, OUTSIDE, *GATEWAYS, *ENGINES, *CLIENTS, SERVER, LAN, LINK, MANAGEMENT)
ROUTERS = (INSIDE, OUTSIDE, *GATEWAYS)

LAN_DEVICE, LINK_DEVICE, MANAGEMENT_DEVICE = "lan0", "gw0", "mgmt0"
TUN_DEVICE = "diolkos0"
ENGINE_PORT, ENGINE_PEER_PORT, ENGINE_METRICS_PORT = 2379, 2380, 2381
AS_INSIDE, AS_OUTSIDE = 64512, 64513


@dataclass(frozen=True)
class Gateway:
    """One node of the cluster."""

    name: str
    number: int

    @property
    def link6(self) -> IPv6Address:
        """On the link between gateways: where the others connect and forward to."""
        return LINK6[self.number]

    @property
    def lan6(self) -> IPv6Address:
        return LAN6[0x10 + self.number]

    @property
    def lan4(self) -> IPv4Address:
        return LAN4[10 + self.number]

    @property
    def management4(self) -> IPv4Address:
        return MANAGEMENT4[10 + self.number]

    @property
    def as_number(self) -> int:
        return AS_OUTSIDE + self.number

    @property
    def pool4(self) -> IPv4Network:
        """The addresses that it alone gives away."""
        return PARTS4[self.number - 1]


NODES = tuple(Gateway(name, number) for number, name in enumerate(GATEWAYS, 1))
INSIDE6, OUTSIDE6, INSIDE4, OUTSIDE4 = LAN6[1], LAN6[2], LAN4[1], LAN4[2]
SERVER_GATEWAY4, SERVER_OWN4 = SERVER_LINK4[1], SERVER_LINK4[2]


def engine4(number: int) -> IPv4Address:
    """Of the engine server with this number, from 1."""
    return MANAGEMENT4[number]


def client_link6(number: int) -> tuple[IPv6Address, IPv6Address]:
    """The router's and the client's address on the link of the client with this number, from 1."""
    network = IPv6Network((int(IPv6Address("2001:2:0:100::")) + (number << 64), 64))
    return network[1], network[2]


def sources6(number: int) -> IPv6Network:
    """All addresses that the client with this number sends from."""
    return IPv6Network((int(IPv6Address("2001:2::")) + (number << 80), 48))


def source6(client: int, number: int) -> IPv6Address:
    """One of them. Each is in a /64 of its own, as hosts behind an access network are."""
    return IPv6Address(int(sources6(client).network_address) + (number << 64) + 1)


def stateless4(client: int, number: int) -> IPv4Address:
    """What a stateless translator makes of `source6(client, number)`."""
    return STATELESS4[((client - 1) << 13) + number]
