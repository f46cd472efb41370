# SPDX-License-Identifier: Apache-2.0 OR MIT
"""IPv4 addresses embedded in IPv6 addresses (RFC 6052, RFC 8215)."""

from typing import Any

from .network import CONFIG, H4, H6_IN_4, OWN4, Topic, in4, in6, out4, out6, told4, told6
from .wire import Piece, udp

TOPIC = Topic("addresses", "IPv4-embedded IPv6 addresses")
forward, drop = TOPIC.forward, TOPIC.drop


def prefixes(*pref64: str, **more: Any) -> dict[str, Any]:
    """These prefixes, and a source for ICMPv6 errors that does not depend on them."""
    return {"pref64": list(pref64), "icmp": {"address4": OWN4, "address6": "2001:db8::1"}, **more}


# RFC 6052 table 1: the text form of 192.0.2.33, and by the same rules of 198.51.100.2 (c6.33.64.02).
TABLE = (
    ("2001:db8::/32", "2001:db8:c000:221::", "2001:db8:c633:6402::"),
    ("2001:db8:100::/40", "2001:db8:1c0:2:21::", "2001:db8:1c6:3364:2::"),
    ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::", "2001:db8:122:c633:64:200::"),
    ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::", "2001:db8:122:3c6:33:6402::"),
    ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::", "2001:db8:122:344:c6:3364:200:0"),
    ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33", "2001:db8:122:344::198.51.100.2"),
)
for prefix, node, peer in TABLE:
    bits = prefix.rpartition("/")[2]
    forward(
        f"prefix-{bits}-4to6",
        f"Both addresses are embedded behind a prefix of {bits} bits, around the u octet, with a suffix of zeros.",
        "RFC 6052 2.2, RFC 6052 2.3, RFC 6052 2.4",
        in4(udp()),
        out6(udp(), src=peer, dst=node),
        config=prefixes(prefix),
    )
    forward(
        f"prefix-{bits}-6to4",
        f"Both addresses are extracted from behind a prefix of {bits} bits.",
        "RFC 6052 2.2, RFC 6052 2.3, RFC 6052 2.4",
        in6(udp(), src=node, dst=peer),
        out4(udp()),
        config=prefixes(prefix),
    )

# The same addresses with the u octet (bits 64 to 71) and the suffix set.
DIRTY = (
    ("2001:db8::/32", "2001:db8:c000:221:ff11:2233:4455:6677", "2001:db8:c633:6402:0:0:0:1"),
    ("2001:db8:100::/40", "2001:db8:1c0:2:ff21:2233:4455:6677", "2001:db8:1c6:3364:2:0:0:1"),
    ("2001:db8:122::/48", "2001:db8:122:c000:ff02:2133:4455:6677", "2001:db8:122:c633:64:200:0:1"),
    ("2001:db8:122:300::/56", "2001:db8:122:3c0:ff00:221:4455:6677", "2001:db8:122:3c6:33:6402:0:1"),
    ("2001:db8:122:344::/64", "2001:db8:122:344:ffc0:2:2155:6677", "2001:db8:122:344:c6:3364:200:1"),
)
for prefix, node, peer in DIRTY:
    bits = prefix.rpartition("/")[2]
    forward(
        f"u-octet-and-suffix-{bits}-ignored",
        f"Behind a prefix of {bits} bits, the u octet and the suffix are ignored as if they were zero.",
        "RFC 6052 2.2, RFC 6052 2.3",
        in6(udp(), src=node, dst=peer),
        out4(udp()),
        config=prefixes(prefix),
    )

drop(
    "prefix-96-other-bits-64-to-71",
    "A prefix of 96 bits covers the u octet: an address with other bits there has another prefix.",
    "RFC 6052 2.2, RFC 6052 2.3",
    in6(udp(), src="2001:db8:122:344:100::c000:221", dst="2001:db8:122:344::c633:6402"),
    "source_unmapped",
    told6(
        1,
        1,
        in6(udp(), src="2001:db8:122:344:100::c000:221", dst="2001:db8:122:344::c633:6402"),
        src="2001:db8::1",
        dst="2001:db8:122:344:100::c000:221",
    ),
    config=prefixes("2001:db8:122:344::/96"),
)

# --- the well-known prefix -------------------------------------------------------------------------------------------

WKP = "64:ff9b::/96"
GLOBAL, GLOBAL_IN_6 = "8.8.8.8", "64:ff9b::808:808"
SERVER, SERVER_IN_6 = "1.1.1.1", "64:ff9b::101:101"

forward(
    "well-known-prefix-4to6",
    "The well-known prefix carries global addresses.",
    "RFC 6052 2.1, RFC 6052 3.1",
    in4(udp(), src=GLOBAL, dst=SERVER),
    out6(udp(), src=GLOBAL_IN_6, dst=SERVER_IN_6),
    config=prefixes(WKP),
)
forward(
    "well-known-prefix-6to4",
    "Global addresses are extracted from the well-known prefix.",
    "RFC 6052 2.1, RFC 6052 3.1",
    in6(udp(), src=SERVER_IN_6, dst=GLOBAL_IN_6),
    out4(udp(), src=SERVER, dst=GLOBAL),
    config=prefixes(WKP),
)
PRIVATE = (
    ("10.1.2.3", "64:ff9b::a01:203", "rfc1918-10"),
    ("172.16.0.1", "64:ff9b::ac10:1", "rfc1918-172-16"),
    ("172.31.255.254", "64:ff9b::ac1f:fffe", "rfc1918-172-31"),
    ("192.168.1.1", "64:ff9b::c0a8:101", "rfc1918-192-168"),
    ("100.64.0.1", "64:ff9b::6440:1", "shared"),
    ("192.0.0.1", "64:ff9b::c000:1", "protocol-assignments"),
    ("192.0.2.1", "64:ff9b::c000:201", "documentation"),
    ("198.18.0.1", "64:ff9b::c612:1", "benchmarking"),
    ("240.0.0.1", "64:ff9b::f000:1", "reserved"),
)
for v4, v6, what in PRIVATE:
    there = in6(udp(), src=SERVER_IN_6, dst=v6)
    drop(
        f"well-known-prefix-{what}-6to4",
        f"The well-known prefix must not carry {v4}, which is not global; the packet is dropped.",
        "RFC 6052 3.1, RFC 5735 3",
        there,
        "not_global_with_wkp",
        told6(1, 1, there, src="2001:db8::1", dst=SERVER_IN_6),
        config=prefixes(WKP),
        choice="That it is answered follows from RFC 7915 section 5.4.",
    )
private = in4(udp(), src="10.1.2.3", dst=SERVER)
drop(
    "well-known-prefix-source-private-4to6",
    "A private source must not be put into the well-known prefix.",
    "RFC 6052 3.1",
    private,
    "not_global_with_wkp",
    told4(3, 13, private, dst="10.1.2.3"),
    config=prefixes(WKP),
    choice="That it is answered follows from RFC 7915 section 4.4.",
)
forward(
    "well-known-prefix-private-allowed",
    "Configured so, the well-known prefix carries private addresses too.",
    "RFC 6052 3.1",
    in4(udp(), src="10.1.2.3", dst="192.168.1.1"),
    out6(udp(), src="64:ff9b::a01:203", dst="64:ff9b::c0a8:101"),
    config=prefixes(WKP, allow_private_with_wkp=True),
    choice="The RFC knows no such switch; without it operators use patched translators.",
)
for v4, v6, what in (
    ("172.32.0.1", "64:ff9b::ac20:1", "after-172-31"),
    ("100.128.0.1", "64:ff9b::6480:1", "after-100-127"),
    ("198.20.0.1", "64:ff9b::c614:1", "after-198-19"),
    ("11.0.0.1", "64:ff9b::b00:1", "after-10"),
):
    forward(
        f"well-known-prefix-{what}",
        f"{v4} is global, next to a range that is not.",
        "RFC 6052 3.1, RFC 6890 2.2",
        in6(udp(), src=SERVER_IN_6, dst=v6),
        out4(udp(), src=SERVER, dst=v4),
        config=prefixes(WKP),
    )
forward(
    "well-known-prefix-ipv4only-arpa",
    "192.0.0.170, which DNS64 puts behind the well-known prefix for hosts to find it, passes.",
    "RFC 7050 2.2, RFC 6052 3.1",
    in6(udp(), src=SERVER_IN_6, dst="64:ff9b::c000:aa"),
    out4(udp(), src=SERVER, dst="192.0.0.170"),
    config=prefixes(WKP),
    choice="By IANA's registry it is not global; to drop it is as right, for nothing answers there.",
)

# --- the local-use prefix --------------------------------------------------------------------------------------------

for prefix, node, peer in (
    ("64:ff9b:1::/48", "64:ff9b:1:a01:2:300::", "64:ff9b:1:c0a8:1:100::"),
    ("64:ff9b:1:fffe::/96", "64:ff9b:1:fffe::a01:203", "64:ff9b:1:fffe::c0a8:101"),
):
    bits = prefix.rpartition("/")[2]
    forward(
        f"local-use-prefix-{bits}-private-4to6",
        f"64:ff9b:1::/48 has no restriction on what it carries: private addresses pass, with a prefix of {bits} bits in it.",
        "RFC 8215 5, RFC 8215 3",
        in4(udp(), src="192.168.1.1", dst="10.1.2.3"),
        out6(udp(), src=peer, dst=node),
        config=prefixes(prefix),
    )
    forward(
        f"local-use-prefix-{bits}-private-6to4",
        f"Private addresses are extracted from 64:ff9b:1::/48, too, with a prefix of {bits} bits in it.",
        "RFC 8215 5, RFC 8215 3",
        in6(udp(), src=node, dst=peer),
        out4(udp(), src="10.1.2.3", dst="192.168.1.1"),
        config=prefixes(prefix),
    )

# --- several prefixes ------------------------------------------------------------------------------------------------

MANY = prefixes("2001:db8:344::/96", "2001:db8:100::/40", "64:ff9b::/96")
forward(
    "several-prefixes-each-recognised",
    "Addresses in any of several prefixes are recognised, each with its own length, and may be mixed.",
    "RFC 6052 2.2, RFC 6052 3.3",
    in6(udp(), src="2001:db8:1c0:2:21::", dst="2001:db8:344::c633:6402"),
    out4(udp()),
    config=MANY,
)
forward(
    "several-prefixes-first-used",
    "IPv4 addresses are embedded in the first of several prefixes.",
    "RFC 6052 2.3, RFC 6052 3.3",
    in4(udp()),
    out6(udp(), src="2001:db8:344::c633:6402", dst="2001:db8:344::c000:221"),
    config=MANY,
    choice="Which of several prefixes is used is the configuration's to say; here the first.",
)
among = in6(udp(), src="2001:db8:1c0:2:21::", dst="64:ff9b::a01:203")
drop(
    "several-prefixes-well-known-rule-for-its-own",
    "The rule of the well-known prefix holds for what lies in it, whatever other prefixes there are.",
    "RFC 6052 3.1",
    among,
    "not_global_with_wkp",
    told6(1, 1, among, src="2001:db8::1"),
    config=MANY,
    choice="That it is answered follows from RFC 7915 section 5.4.",
)

# --- addresses without a counterpart ---------------------------------------------------------------------------------


def unmapped(name: str, demand: str, send: Piece, reason: str, told: Piece, config: dict[str, Any] | None = None) -> None:
    """A packet that makes sense and cannot be translated: the sender is told that it is prohibited."""
    drop(name, demand, "RFC 7915 4.4" if told.data[0] >> 4 == 4 else "RFC 7915 5.4", send, reason, told, config=config)


stranger = in6(udp(), src="2001:db8:ffff::1")
unmapped(
    "source-outside-of-every-prefix",
    "An IPv6 source that is in no prefix and no mapping has no IPv4 address; the sender is told type 1, code 1.",
    stranger,
    "source_unmapped",
    told6(1, 1, stranger, dst="2001:db8:ffff::1"),
)
nowhere = in6(udp(), dst="2001:db8:ffff::1")
unmapped(
    "destination-outside-of-every-prefix",
    "An IPv6 destination that is in no prefix and no mapping has no IPv4 address; the sender is told type 1, code 1.",
    nowhere,
    "destination_unmapped",
    told6(1, 1, nowhere),
)
ONLY_EAM = {"eam": [{"v4": "192.0.2.32/29", "v6": "2001:db8:4::/125"}], "icmp": CONFIG["icmp"]}
unknown = in4(udp(), src=H4, dst=H6_IN_4)
unmapped(
    "source-outside-of-the-mappings-without-prefix",
    "Without a prefix, an IPv4 source outside of the mappings has no IPv6 address; the sender is told type 3, code 13.",
    unknown,
    "source_unmapped",
    told4(3, 13, unknown),
    config=ONLY_EAM,
)
away = in4(udp(), src="192.0.2.34", dst=H4)
unmapped(
    "destination-outside-of-the-mappings-without-prefix",
    "Without a prefix, an IPv4 destination outside of the mappings has no IPv6 address; the sender is told type 3, code 13.",
    away,
    "destination_unmapped",
    told4(3, 13, away, dst="192.0.2.34"),
    config=ONLY_EAM,
)
