# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The address plans. All lanes of a study have the same addresses, since each has namespaces of its own.

Networks come from the ranges set aside for benchmarks: 2001:2::/48 (RFC 5180) and 198.18.0.0/15 (RFC 2544). A study that
repeats another one has that one's addresses instead (`PLANS`).

    client ── A ── router ── S ── server                         1 hop
    client ── B ── translator ── A ── router ── S ── server      2 hops

A translator that makes IPv4 of the client's IPv6 again (a PLAT, RFC 6877) is on the router.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network

from diolkos_lab.experiment.definition import ShapeName

UPLINK = "up0"  # towards the server, in the client and the translator
DOWNLINK = "down0"  # towards the client, in the translator and the router
SERVER_LINK = "srv0"  # between router and server, at both ends

# Link A, link B and link S: (the end nearer to the client, the end nearer to the server).
A6 = IPv6Interface("2001:2:0:1::2/64"), IPv6Interface("2001:2:0:1::1/64")
A4 = IPv4Interface("198.18.1.2/24"), IPv4Interface("198.18.1.1/24")
B6 = IPv6Interface("2001:2:0:2::2/64"), IPv6Interface("2001:2:0:2::1/64")
B4 = IPv4Interface("198.18.2.2/24"), IPv4Interface("198.18.2.1/24")
S6 = IPv6Interface("2001:2:0:f::1/64"), IPv6Interface("2001:2:0:f::2/64")
S4 = IPv4Interface("198.19.0.1/24"), IPv4Interface("198.19.0.2/24")

# Clients behind the client: 256 of them, where one is not enough. All routed to link A.
MANY6 = IPv6Network("2001:2:0:2::/120")
MANY4 = IPv4Network("198.18.2.0/24")
# The same for a city: 16 384 of them.
CROWD6 = IPv6Network("2001:2:0:2::/114")
CROWD4 = IPv4Network("198.18.192.0/18")

# Neighbours of the router on link S, each with an Ethernet address of its own: destinations behind many next hops. Of their
# addresses these are the last bits.
NEIGHBOURS = 64

# 464XLAT customer side: RFC 6877 and RFC 7335 set 192.0.0.0/29 aside, the first address for the host.
CLAT4 = IPv4Interface("192.0.0.1/29")
CLAT4_PEER = IPv4Interface("192.0.0.2/29")
# A prefix of its own for the translator, routed to it (RFC 6877 §6.3), for those that do not answer neighbour discovery.
CLAT6_NETWORK = IPv6Network("2001:2:0:c::/64")
CLAT6 = IPv6Address("2001:2:0:c::1")
CLAT6_PEER = IPv6Address("2001:2:0:c::2")

# What a PLAT lends to its clients: one address, as a masquerading router has, or a network for those that lend each client
# an address of its own. The server's default route leads back to it.
POOL4 = IPv4Address("198.18.64.1")
POOL4_NETWORK = IPv4Network("198.18.64.0/24")
# For SIIT: addresses that stand for the neighbours on link S.
POOL4_NEIGHBOURS = IPv4Network("198.18.66.64/26")
# Another one, for those that are told to let go of the first.
POOL4_SPARE = IPv4Network("198.18.65.0/24")
# For those that want an IPv6 address of their own as well.
PLAT6 = IPv6Address("2001:2:0:d::1")

# The IPv4 address of the server that only a translator can reach (one of the two of ipv4only.arpa, RFC 7050). Behind a PLAT
# the server has it; without one it has the IPv6 address that stands for it.
LITERAL4 = IPv4Address("192.0.0.171")

# The port that static bindings lead to, and the identifier of echoes for them.
BOUND = 5201

SERVER6 = S6[1].ip
SERVER4 = S4[1].ip

Link6 = tuple[IPv6Interface, IPv6Interface]
Link4 = tuple[IPv4Interface, IPv4Interface]


@dataclass(frozen=True)
class Plan:
    """The addresses of a lane's links, each as (the end nearer to the client, the end nearer to the server)."""

    a6: Link6
    a4: Link4
    b6: Link6
    b4: Link4
    s6: Link6
    s4: Link4
    many6: IPv6Network  # clients behind the client
    many4: IPv4Network
    crowd6: IPv6Network  # many more of them
    crowd4: IPv4Network
    # Nobody has them: a rule that changes the destination makes the server's address of the first. Those behind it are for
    # rules that no packet meets, which lead to the decoy.
    alias6: IPv6Address
    alias4: IPv4Address
    decoy6: IPv6Address
    decoy4: IPv4Address

    def server(self, version: int) -> IPv4Address | IPv6Address:
        return self.s6[1].ip if version == 6 else self.s4[1].ip

    def neighbours(self, version: int) -> IPv4Network | IPv6Network:
        """As many as their number says, which is also that of the first in the network of link S."""
        if version == 6:
            return IPv6Network((self.s6[0].network[NEIGHBOURS], 122))
        return IPv4Network((self.s4[0].network[NEIGHBOURS], 26))

    def alias(self, version: int) -> IPv4Address | IPv6Address:
        return self.alias6 if version == 6 else self.alias4

    def decoy(self, version: int) -> IPv4Address | IPv6Address:
        return self.decoy6 if version == 6 else self.decoy4

    def resolver(self, version: int) -> IPv4Address | IPv6Address:
        """The router's own address on the access network."""
        return self.a6[1].ip if version == 6 else self.a4[1].ip


BENCHMARK = Plan(
    a6=A6,
    a4=A4,
    b6=B6,
    b4=B4,
    s6=S6,
    s4=S4,
    many6=MANY6,
    many4=MANY4,
    crowd6=CROWD6,
    crowd4=CROWD4,
    alias6=IPv6Address("2001:2:0:e::1"),
    alias4=IPv4Address("198.19.128.1"),
    decoy6=IPv6Address("2001:2:0:1::10"),
    decoy4=IPv4Address("198.18.1.10"),
)
# Server fd00::1 - router ("nursery") fd00::2, fc00::2 - client fc00::1; the client talks to fe00::1 (MatrixAI, Intrahost
# Experiment 2). The same in IPv4: 253 for fd, 252 for fc, 254 for fe.
NURSERY = Plan(
    a6=(IPv6Interface("fc00::1/64"), IPv6Interface("fc00::2/64")),
    a4=(IPv4Interface("10.252.0.1/24"), IPv4Interface("10.252.0.2/24")),
    b6=(IPv6Interface("fc00:0:0:2::2/64"), IPv6Interface("fc00:0:0:2::1/64")),
    b4=(IPv4Interface("10.252.2.2/24"), IPv4Interface("10.252.2.1/24")),
    s6=(IPv6Interface("fd00::2/64"), IPv6Interface("fd00::1/64")),
    s4=(IPv4Interface("10.253.0.2/24"), IPv4Interface("10.253.0.1/24")),
    many6=IPv6Network("fc00:0:0:2::/120"),
    many4=IPv4Network("10.252.2.0/24"),
    crowd6=IPv6Network("fc00:0:0:2::/114"),
    crowd4=IPv4Network("10.252.192.0/18"),
    alias6=IPv6Address("fe00::1"),
    alias4=IPv4Address("10.254.0.1"),
    decoy6=IPv6Address("fc00::10"),
    decoy4=IPv4Address("10.252.0.10"),
)
PLANS: dict[ShapeName, Plan] = {"benchmark": BENCHMARK, "nursery": NURSERY}


def synthesized(pref64: IPv6Network, v4: IPv4Address) -> IPv6Address:
    """The IPv4 address inside a /96 prefix (RFC 6052 §2.2)."""
    if pref64.prefixlen != 96:
        raise ValueError(f"{pref64}: the lab's own addresses are made for prefixes of length 96")
    return pref64[int(v4)]


def behind(pref64: IPv6Network, v4: IPv4Network | IPv6Network) -> IPv6Network:
    """The same of a whole network of IPv4."""
    assert isinstance(v4, IPv4Network)
    return IPv6Network((synthesized(pref64, v4.network_address), pref64.prefixlen + v4.prefixlen))
