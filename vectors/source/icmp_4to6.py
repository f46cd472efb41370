# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Types, codes, pointers and MTUs of ICMPv4 in ICMPv6 (RFC 7915 section 4.2)."""

from typing import Any

from .network import Topic, config, in4, in6, out4, out6
from .wire import icmp4, icmp6, pattern, raw, udp, word

TOPIC = Topic("icmp-4to6", "ICMPv4 types, codes, pointers and MTUs in ICMPv6")
forward, drop = TOPIC.forward, TOPIC.drop

#: A packet of H6 that an error is about, as IPv4 saw it and as H6 sent it.
ABOUT4, ABOUT6 = out4(udp(), ttl=5), in6(udp(), hop=5)


def becomes(name: str, demand: str, old: tuple[int, int, bytes], new: tuple[int, int, bytes], **more: Any) -> None:
    """An ICMPv4 error of this type, code and bytes 4 to 7 becomes that ICMPv6 error."""
    rfc = more.pop("rfc", "RFC 7915 4.2")
    forward(name, demand, rfc, in4(icmp4(*old, ABOUT4)), out6(icmp6(*new, ABOUT6)), **more)


def refused(name: str, demand: str, old: tuple[int, int, bytes], reason: str, **more: Any) -> None:
    """An ICMPv4 error of this type, code and bytes 4 to 7 is silently dropped."""
    rfc = more.pop("rfc", "RFC 7915 4.2")
    drop(name, demand, rfc, in4(icmp4(*old, ABOUT4)), reason, **more)


NONE = word(0)

# --- Destination Unreachable -----------------------------------------------------------------------------------------

for code, what, new_code in (
    (0, "net unreachable", 0),
    (1, "host unreachable", 0),
    (3, "port unreachable", 4),
    (5, "source route failed", 0),
    (6, "destination network unknown", 0),
    (7, "destination host unknown", 0),
    (8, "source host isolated", 0),
    (9, "network administratively prohibited", 1),
    (10, "host administratively prohibited", 1),
    (11, "network unreachable for this type of service", 0),
    (12, "host unreachable for this type of service", 0),
    (13, "communication administratively prohibited", 1),
    (15, "precedence cutoff in effect", 1),
):
    becomes(
        f"icmpv4-3-{code}",
        f"Destination Unreachable, {what}, becomes type 1, code {new_code}.",
        (3, code, NONE),
        (1, new_code, NONE),
    )
becomes(
    "icmpv4-3-2",
    "Protocol unreachable becomes Parameter Problem, type 4, code 1, at the Next Header field.",
    (3, 2, NONE),
    (4, 1, word(6)),
)
for code, what in ((14, "host precedence violation"), (16, "the first code that is not assigned"), (255, "the last code")):
    refused(
        f"icmpv4-3-{code}",
        f"Destination Unreachable, {what}, is silently dropped.",
        (3, code, NONE),
        "icmp_type",
    )

# --- Fragmentation Needed: the MTU -----------------------------------------------------------------------------------

WIDE = config(mtu4=9000, mtu6=9000)
for name, demand, told, mtu, configuration in (
    ("plus-20", "The MTU grows by 20, the difference of the headers.", 1400, 1420, config()),
    ("1260", "An MTU of 1260 becomes 1280.", 1260, 1280, config()),
    ("1261", "An MTU of 1261 becomes 1281.", 1261, 1281, config()),
    ("1259", "An MTU of 1259 becomes 1280, below which no IPv6 node has to go.", 1259, 1280, config()),
    ("576", "An MTU of 576 becomes 1280.", 576, 1280, config()),
    ("68", "The smallest MTU of IPv4 becomes 1280.", 68, 1280, config()),
    ("1", "A nonsensical MTU of 1 becomes 1280.", 1, 1280, config()),
    ("next-hop-6", "It is not above the MTU of the IPv6 next hop.", 1500, 1500, config()),
    ("next-hop-4", "It is not above the MTU of the IPv4 next hop plus 20.", 4000, 1520, config(mtu6=9000)),
    ("largest", "The largest MTU, 65535, is limited by the next hops and overflows nothing.", 65535, 9000, WIDE),
    ("jumbo", "Jumbo frames: 8000 becomes 8020.", 8000, 8020, WIDE),
    ("next-hop-6-of-1280", "For an IPv6 next hop of 1280, every MTU becomes 1280.", 1400, 1280, config(mtu6=1280)),
    ("next-hop-4-of-576", "An IPv4 next hop of 576 leaves 1280.", 1400, 1280, config(mtu4=576)),
):
    becomes(
        f"fragmentation-needed-mtu-{name}",
        demand,
        (3, 4, word(told)),
        (2, 0, word(mtu)),
        config=configuration,
        judges="Jool siit/7915/db" if told in (1259, 1260, 1261) else None,
    )
becomes(
    "fragmentation-needed-unused-bytes-ignored",
    "Only the low 16 bits of bytes 4 to 7 are the MTU; the high ones are unused, or a length.",
    (3, 4, bytes.fromhex("ff000578")),
    (2, 0, word(1420)),
    rfc="RFC 7915 4.2, RFC 1191 4",
)
for length, plateau, mtu in (
    (9000, 8166, 8186),
    (8166, 4352, 4372),
    (4352, 2002, 2022),
    (2002, 1492, 1512),
    (1493, 1492, 1512),
    (1492, 1006, 1280),
    (1006, 508, 1280),
    (28, 0, 1280),
):
    shown = f"the plateau {plateau} plus 20" if mtu > 1280 else "1280, for no plateau from there on is as large"
    forward(
        f"fragmentation-needed-mtu-0-length-{length}",
        f"A router that tells no MTU is helped out by the length of its packet: {length} gives {shown}.",
        "RFC 7915 4.2, RFC 1191 7.1",
        in4(icmp4(3, 4, NONE, out4(udp(pattern(length - 28)), ttl=5)[: min(length, 548)])),
        out6(icmp6(2, 0, word(mtu), in6(udp(pattern(length - 28)), hop=5)[: min(length, 548) + 20])),
        config=WIDE,
    )
forward(
    "fragmentation-needed-mtu-0-next-hop",
    "A plateau is limited by the next hop like any MTU.",
    "RFC 7915 4.2, RFC 1191 7.1",
    in4(icmp4(3, 4, NONE, out4(udp(pattern(3972)), ttl=5)[:28])),
    out6(icmp6(2, 0, word(1500), in6(udp(pattern(3972)), hop=5)[:48])),
)

# --- Time Exceeded ---------------------------------------------------------------------------------------------------

for code, what in ((0, "in transit"), (1, "in reassembly"), (7, "with a code that nobody knows")):
    becomes(
        f"icmpv4-11-{code}",
        f"Time Exceeded {what} becomes type 3; the code is unchanged.",
        (11, code, NONE),
        (3, code, NONE),
    )

# --- Parameter Problem -----------------------------------------------------------------------------------------------

POINTERS = {0: 0, 1: 1, 2: 4, 3: 4, 8: 7, 9: 6, **dict.fromkeys(range(12, 16), 8), **dict.fromkeys(range(16, 20), 24)}
for pointer in (*range(21), 40, 255):
    old = (12, 0, bytes([pointer, 0, 0, 0]))
    if pointer in POINTERS:
        becomes(
            f"icmpv4-12-0-pointer-{pointer}",
            f"Parameter Problem at byte {pointer} becomes one at byte {POINTERS[pointer]}, as 32 bits.",
            old,
            (4, 0, word(POINTERS[pointer])),
            rfc="RFC 7915 4.2 figure 3",
        )
    else:
        refused(
            f"icmpv4-12-0-pointer-{pointer}",
            f"Parameter Problem at byte {pointer}, which has no counterpart, is silently dropped.",
            old,
            "icmp_pointer",
            rfc="RFC 7915 4.2 figure 3",
        )
becomes(
    "icmpv4-12-0-unused-bytes-ignored",
    "The pointer is one byte; the two last ones are unused.",
    (12, 0, bytes([9, 0, 0xFF, 0xFF])),
    (4, 0, word(6)),
    rfc="RFC 7915 4.2 figure 3, RFC 792",
)
refused("icmpv4-12-1", "Missing a required option: silently dropped.", (12, 1, NONE), "icmp_type")
becomes(
    "icmpv4-12-2",
    "Bad length becomes code 0, its pointer as with code 0.",
    (12, 2, bytes([2, 0, 0, 0])),
    (4, 0, word(4)),
)
refused(
    "icmpv4-12-2-without-counterpart",
    "Bad length at a field without counterpart is silently dropped.",
    (12, 2, bytes([20, 0, 0, 0])),
    "icmp_pointer",
)
refused("icmpv4-12-3", "A code of Parameter Problem that is not assigned is silently dropped.", (12, 3, NONE), "icmp_type")

# --- what has no counterpart -----------------------------------------------------------------------------------------

for kind, what, reason in (
    (4, "Source Quench", "icmp_type"),
    (5, "Redirect", "icmp_single_hop"),
    (6, "Alternative Host Address", "icmp_type"),
    (9, "Router Advertisement", "icmp_single_hop"),
    (10, "Router Solicitation", "icmp_single_hop"),
    (13, "Timestamp", "icmp_type"),
    (14, "Timestamp Reply", "icmp_type"),
    (15, "Information Request", "icmp_type"),
    (16, "Information Reply", "icmp_type"),
    (17, "Address Mask Request", "icmp_type"),
    (18, "Address Mask Reply", "icmp_type"),
    (1, "An unassigned type", "icmp_type"),
    (7, "An unassigned type", "icmp_type"),
    (42, "Extended Echo Request", "icmp_type"),
    (128, "A type that would be an echo request in IPv6", "icmp_type"),
    (255, "The last type", "icmp_type"),
):
    drop(
        f"icmpv4-type-{kind}",
        f"{what} ({kind}) is silently dropped.",
        "RFC 7915 4.2",
        in4(icmp4(kind, 0, NONE, raw(pattern(28)) if kind not in (4, 5) else ABOUT4)),
        reason,
    )
