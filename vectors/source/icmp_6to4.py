# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Types, codes, pointers and MTUs of ICMPv6 in ICMPv4 (RFC 7915 section 5.2)."""

from typing import Any

from .network import Topic, config, in4, in6, out4, out6
from .wire import fragment_header, icmp4, icmp6, pattern, raw, udp, word

TOPIC = Topic("icmp-6to4", "ICMPv6 types, codes, pointers and MTUs in ICMPv4")
forward, drop = TOPIC.forward, TOPIC.drop

#: A packet of H4 that an error is about, as IPv6 saw it and as H4 sent it.
ABOUT6, ABOUT4 = out6(udp(), hop=5), in4(udp(), ttl=5)
INNER_ID = "The identification of the quoted packet, unknown, is 0."


def becomes(name: str, demand: str, old: tuple[int, int, bytes], new: tuple[int, int, bytes], **more: Any) -> None:
    """An ICMPv6 error of this type, code and bytes 4 to 7 becomes that ICMPv4 error."""
    rfc = more.pop("rfc", "RFC 7915 5.2")
    forward(name, demand, rfc, in6(icmp6(*old, ABOUT6)), out4(icmp4(*new, ABOUT4)), choice=INNER_ID, **more)


def refused(name: str, demand: str, old: tuple[int, int, bytes], reason: str, **more: Any) -> None:
    """An ICMPv6 error of this type, code and bytes 4 to 7 is silently dropped."""
    rfc = more.pop("rfc", "RFC 7915 5.2")
    drop(name, demand, rfc, in6(icmp6(*old, ABOUT6)), reason, **more)


NONE = word(0)

# --- Destination Unreachable -----------------------------------------------------------------------------------------

for code, what, new_code in (
    (0, "no route", 1),
    (1, "administratively prohibited", 10),
    (2, "beyond scope of source address", 1),
    (3, "address unreachable", 1),
    (4, "port unreachable", 3),
):
    becomes(
        f"icmpv6-1-{code}",
        f"Destination Unreachable, {what}, becomes type 3, code {new_code}.",
        (1, code, NONE),
        (3, new_code, NONE),
    )
for code, what in ((5, "source address failed policy"), (6, "reject route"), (255, "the last code")):
    refused(f"icmpv6-1-{code}", f"Destination Unreachable, {what}, is silently dropped.", (1, code, NONE), "icmp_type")

# --- Packet Too Big: the MTU -----------------------------------------------------------------------------------------

WIDE = config(mtu4=9000, mtu6=9000)
for name, demand, told, mtu, configuration in (
    ("less-20", "The MTU shrinks by 20, the difference of the headers.", 1400, 1380, config()),
    ("1280", "An MTU of 1280 becomes 1260.", 1280, 1260, config()),
    (
        "below-1280",
        "An MTU below 1280, which RFC 6145 answered with atomic fragments, shrinks by 20 like any.",
        1000,
        980,
        config(),
    ),
    ("next-hop-6", "It is not above the MTU of the IPv6 next hop less 20.", 9000, 1480, config(mtu4=9000)),
    ("next-hop-4", "It is not above the MTU of the IPv4 next hop.", 8000, 1400, config(mtu4=1400, mtu6=9000)),
    ("jumbo", "Jumbo frames: 8000 becomes 7980.", 8000, 7980, WIDE),
    ("zero", "An MTU of 0 does not underflow: it becomes 68, the smallest of IPv4.", 0, 68, config()),
    ("19", "Nor does an MTU of 19; it becomes 68.", 19, 68, config()),
    ("20", "An MTU of 20 leaves nothing; it becomes 68.", 20, 68, config()),
    ("88", "An MTU of 88 becomes 68.", 88, 68, config()),
    ("89", "An MTU of 89 becomes 69.", 89, 69, config()),
    ("above-16-bits", "An MTU of 65556, whose low 16 bits are 20, is limited, not cut off.", 65556, 8980, WIDE),
    ("largest", "The largest MTU, 32 bits of ones, is limited by the next hops and overflows nothing.", 0xFFFFFFFF, 8980, WIDE),
):
    becomes(
        f"packet-too-big-mtu-{name}",
        demand,
        (2, 0, word(told)),
        (3, 4, word(mtu)),
        config=configuration,
        rfc="RFC 7915 5.2, RFC 791 3.2" if mtu <= 69 else "RFC 7915 5.2",
        judges="Jool siit/7915/da" if told == 1280 else None,
    )
part4, part6 = {"mf": True, "ident": 7}, {"first": 44, "ext": fragment_header(50, 0, True, 7)}
for told, mtu in ((1280, 1252), (1400, 1372), (1500, 1472)):
    forward(
        f"packet-too-big-about-fragment-{told}",
        f"If the quoted packet has a Fragment header, which IPv4 has not, 28 bytes are taken off: {told} becomes {mtu}.",
        "RFC 7915 5.2",
        in6(icmp6(2, 0, word(told), out6(raw(pattern(64)), nh=50, **part6))),
        out4(icmp4(3, 4, word(mtu), in4(raw(pattern(64)), proto=50, ttl=63, **part4))),
    )
becomes(
    "packet-too-big-code-ignored",
    "The code of Packet Too Big is ignored by its receivers.",
    (2, 3, word(1400)),
    (3, 4, word(1380)),
    rfc="RFC 7915 5.2, RFC 4443 3.2",
)

# --- Time Exceeded ---------------------------------------------------------------------------------------------------

for code, what in ((0, "in transit"), (1, "in reassembly"), (7, "with a code that nobody knows")):
    becomes(
        f"icmpv6-3-{code}",
        f"Time Exceeded {what} becomes type 11; the code is unchanged.",
        (3, code, NONE),
        (11, code, NONE),
    )

# --- Parameter Problem -----------------------------------------------------------------------------------------------

POINTERS = {0: 0, 1: 1, 4: 2, 5: 2, 6: 9, 7: 8, **dict.fromkeys(range(8, 24), 12), **dict.fromkeys(range(24, 40), 16)}
for pointer in (*range(10), 15, 22, 23, 24, 25, 31, 38, 39, 40, 43, 255, 256 + 6, 6 << 24):
    old = (4, 0, word(pointer))
    if pointer in POINTERS:
        becomes(
            f"icmpv6-4-0-pointer-{pointer}",
            f"Parameter Problem at byte {pointer} becomes one at byte {POINTERS[pointer]}, as 8 bits.",
            old,
            (12, 0, bytes([POINTERS[pointer], 0, 0, 0])),
            rfc="RFC 7915 5.2 figure 6",
        )
    else:
        refused(
            f"icmpv6-4-0-pointer-{pointer}",
            f"Parameter Problem at byte {pointer}, which has no counterpart, is silently dropped.",
            old,
            "icmp_pointer",
            rfc="RFC 7915 5.2 figure 6",
        )
becomes(
    "icmpv6-4-1",
    "Unrecognised Next Header becomes protocol unreachable, type 3, code 2, whatever the pointer.",
    (4, 1, word(40)),
    (3, 2, NONE),
)
refused("icmpv6-4-2", "Unrecognised option: silently dropped.", (4, 2, word(42)), "icmp_type")
refused("icmpv6-4-3", "A code of Parameter Problem that RFC 7915 does not know is silently dropped.", (4, 3, NONE), "icmp_type")

# --- what has no counterpart -----------------------------------------------------------------------------------------

for kind, what, reason in (
    (0, "A reserved type", "icmp_type"),
    (5, "An unknown error", "icmp_type"),
    (100, "An error for experiments", "icmp_type"),
    (127, "The last error", "icmp_type"),
    (130, "Multicast Listener Query", "icmp_single_hop"),
    (131, "Multicast Listener Report", "icmp_single_hop"),
    (132, "Multicast Listener Done", "icmp_single_hop"),
    (133, "Router Solicitation", "icmp_single_hop"),
    (134, "Router Advertisement", "icmp_single_hop"),
    (135, "Neighbor Solicitation", "icmp_single_hop"),
    (136, "Neighbor Advertisement", "icmp_single_hop"),
    (137, "Redirect", "icmp_single_hop"),
    (138, "Router Renumbering", "icmp_type"),
    (139, "Node Information Query", "icmp_type"),
    (143, "Version 2 Multicast Listener Report", "icmp_single_hop"),
    (160, "Extended Echo Request", "icmp_type"),
    (255, "The last type", "icmp_type"),
):
    drop(
        f"icmpv6-type-{kind}",
        f"{what} ({kind}) is silently dropped.",
        "RFC 7915 5.2",
        in6(icmp6(kind, 0, NONE, ABOUT6)),
        reason,
    )
