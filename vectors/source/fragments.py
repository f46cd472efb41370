# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fragments: translated, created, atomic, broken (RFC 7915 sections 4, 4.1, 5.1.1; RFC 791; RFC 8200 section 4.5)."""

from .network import H4, H4_IN_6, H6, H6_IN_4, Topic, config, in4, in6, out4, out6, told4, told6
from .wire import Piece, echo4, echo6, fragment_header, over4, over6, pattern, raw, tcp, udp

TOPIC = Topic("fragments", "Fragments, translated and created")
forward, pieces, drop = TOPIC.forward, TOPIC.pieces, TOPIC.drop


def frag6(number: int, offset: int, more: bool, ident: int, reserved: int = 0) -> dict:
    """The header of an IPv6 fragment."""
    return {"first": 44, "ext": fragment_header(number, offset, more, ident, reserved)}


# One datagram of 1008 bytes behind the IP header, as it is summed on both sides, in both directions.
down4, down6 = over4(udp(pattern(1000)), H4, H6_IN_4), over6(udp(pattern(1000)), H4_IN_6, H6)
up6, up4 = over6(udp(pattern(1000)), H6, H4_IN_6), over4(udp(pattern(1000)), H6_IN_4, H4)

# --- IPv4 fragments --------------------------------------------------------------------------------------------------

forward(
    "first-fragment-4to6",
    "A first fragment gets a Fragment header with MF, offset 0 and the identification in the low 16 bits; its transport "
    "checksum is that of the whole datagram, brought to IPv6.",
    "RFC 7915 4.1, RFC 7915 4.5",
    in4(down4[:504], proto=17, ident=0xBEEF, mf=True),
    out6(down6[:504], **frag6(17, 0, True, 0xBEEF)),
    judges="Jool siit/7915/ce",
)
forward(
    "middle-fragment-4to6",
    "A fragment in the middle is translated alone; its bytes are not taken for a transport header.",
    "RFC 7915 4.1",
    in4(down4[504:752], proto=17, ident=0xBEEF, mf=True, offset=504),
    out6(down6[504:752], **frag6(17, 504, True, 0xBEEF)),
)
forward(
    "last-fragment-4to6",
    "A last fragment has an offset and no MF.",
    "RFC 7915 4.1",
    in4(down4[752:], proto=17, ident=0xBEEF, offset=752),
    out6(down6[752:], **frag6(17, 752, False, 0xBEEF)),
)
forward(
    "fragment-with-df-4to6",
    "A fragment with DF set is a fragment all the same.",
    "RFC 7915 4, RFC 7915 4.1",
    in4(down4[:504], proto=17, ident=0xBEEF, mf=True, df=True),
    out6(down6[:504], **frag6(17, 0, True, 0xBEEF)),
    judges="Jool siit/7915/ce",
)
forward(
    "fragment-largest-offset-4to6",
    "All 13 bits of the offset are carried over, and the flags do not leak into them.",
    "RFC 7915 4.1",
    in4(raw(pattern(8)), proto=17, ident=1, offset=65504),
    out6(raw(pattern(8)), **frag6(17, 65504, False, 1)),
)
forward(
    "tiny-first-tcp-fragment-checksum",
    "The smallest first fragment of TCP that holds the header is translated with its checksum.",
    "RFC 7915 4.5",
    in4(over4(tcp(pattern(100)), H4, H6_IN_4)[:24], proto=6, ident=2, mf=True),
    out6(over6(tcp(pattern(100)), H4_IN_6, H6)[:24], **frag6(6, 0, True, 2)),
)
drop(
    "first-tcp-fragment-without-checksum",
    "A first fragment that ends before the TCP checksum cannot be carried over: the checksum is in the next.",
    "RFC 7915 4.5, RFC 1858 3",
    in4(over4(tcp(pattern(100)), H4, H6_IN_4)[:8], proto=6, ident=2, mf=True),
    "transport_truncated",
)
drop(
    "fragment-not-a-multiple-of-8-4to6",
    "A fragment with MF whose length is no multiple of 8 leaves a gap that nothing can fill.",
    "RFC 791 3.2, RFC 8200 4.5",
    in4(down4[:507], proto=17, ident=3, mf=True),
    "fragment_malformed",
)
drop(
    "fragment-beyond-65535-4to6",
    "A fragment that reaches beyond the longest datagram is the ping of death.",
    "RFC 791 3.1, RFC 8200 4.5",
    in4(raw(pattern(100)), proto=17, ident=3, offset=65512),
    "fragment_malformed",
)

# --- IPv6 fragments --------------------------------------------------------------------------------------------------

forward(
    "first-fragment-6to4",
    "A Fragment header becomes MF, offset, the low 16 bits of the identification and DF clear; the length loses 8.",
    "RFC 7915 5.1.1",
    in6(up6[:504], **frag6(17, 0, True, 0xDEADBEEF)),
    out4(up4[:504], proto=17, ident=0xBEEF, mf=True),
    judges="Jool siit/7915/cj",
)
forward(
    "middle-fragment-6to4",
    "A fragment in the middle is translated alone.",
    "RFC 7915 5.1.1",
    in6(up6[504:752], **frag6(17, 504, True, 0xDEADBEEF)),
    out4(up4[504:752], proto=17, ident=0xBEEF, mf=True, offset=504),
)
forward(
    "last-fragment-6to4",
    "A last fragment has an offset and no MF.",
    "RFC 7915 5.1.1",
    in6(up6[752:], **frag6(17, 752, False, 0xDEADBEEF)),
    out4(up4[752:], proto=17, ident=0xBEEF, offset=752),
)
forward(
    "fragment-reserved-bits-ignored",
    "The reserved byte and bits of a Fragment header are ignored; they are not part of offset or MF.",
    "RFC 8200 4.5, RFC 7915 5.1.1",
    in6(up6[752:], **frag6(17, 752, False, 0x1234, reserved=0xFF)),
    out4(up4[752:], proto=17, ident=0x1234, offset=752),
)
forward(
    "atomic-fragment",
    "A fragment that is the whole datagram becomes a packet that may be fragmented, with the identification it brings.",
    "RFC 7915 5.1.1, RFC 6946 4",
    in6(udp(pattern(32)), nh=17, **frag6(17, 0, False, 0x00012345)),
    out4(udp(pattern(32)), ident=0x2345),
)
forward(
    "atomic-fragment-large",
    "An atomic fragment that makes more than 1260 bytes of IPv4 still has DF clear.",
    "RFC 7915 5.1.1",
    in6(udp(pattern(1400)), nh=17, **frag6(17, 0, False, 0x2345)),
    out4(udp(pattern(1400)), ident=0x2345),
)
forward(
    "atomic-fragment-of-echo",
    "An echo request in an atomic fragment is whole, and translated.",
    "RFC 7915 5.1.1, RFC 7915 5.2",
    in6(echo6(), **frag6(58, 0, False, 0x77)),
    out4(echo4(), ident=0x77),
)
forward(
    "identification-zero-6to4",
    "An identification of zero in a Fragment header is copied like any other.",
    "RFC 7915 5.1.1",
    in6(up6[752:], **frag6(17, 752, False, 0)),
    out4(up4[752:], proto=17, ident=0, offset=752),
)
forward(
    "fragment-large-6to4",
    "A fragment that makes more than 1260 bytes of IPv4 has DF clear, so that IPv4 routers may cut it further.",
    "RFC 7915 5.1.1",
    in6(over6(udp(pattern(4000)), H6, H4_IN_6)[:1432], **frag6(17, 0, True, 5)),
    out4(over4(udp(pattern(4000)), H6_IN_4, H4)[:1432], proto=17, ident=5, mf=True),
)
forward(
    "fragment-of-esp",
    "ESP behind a Fragment header is a payload, no extension header in this sense.",
    "RFC 7915 5.1.1",
    in6(raw(pattern(64)), **frag6(50, 0, True, 6)),
    out4(raw(pattern(64)), proto=50, ident=6, mf=True),
)
drop(
    "fragment-not-a-multiple-of-8-6to4",
    "A fragment with MF whose length is no multiple of 8 leaves a gap that nothing can fill.",
    "RFC 8200 4.5, RFC 791 3.2",
    in6(up6[:507], **frag6(17, 0, True, 7)),
    "fragment_malformed",
    choice="RFC 7915 does not ask for it; Jool forwards such a fragment, and its receiver discards it.",
)
drop(
    "fragment-beyond-65535-6to4",
    "A fragment that reaches beyond the longest payload is malformed.",
    "RFC 8200 4.5",
    in6(raw(pattern(100)), **frag6(17, 65512, False, 7)),
    "fragment_malformed",
)
drop(
    "fragment-beyond-the-longest-ipv4-datagram",
    "A fragment that IPv6 could reassemble but IPv4, whose length counts the header, could not, is refused.",
    "RFC 791 3.1, RFC 7915 5.1.1",
    in6(raw(pattern(24)), **frag6(17, 65504, False, 7)),
    "too_long",
)

# --- fragments that cannot be translated alone -----------------------------------------------------------------------

zero4 = in4(over4(udp(pattern(1000), csum=0), H4, H6_IN_4)[:504], proto=17, ident=8, mf=True)
for mode in ("drop", "compute"):
    drop(
        f"first-fragment-of-udp-without-checksum-{mode}",
        "The checksum of a fragmented datagram cannot be computed from its first fragment, whatever the configuration.",
        "RFC 7915 4.5, RFC 7915 1.2",
        zero4,
        "fragment_udp_zero_checksum",
        told4(3, 13, zero4),
        config=config(udp_zero_checksum=mode),
        judges="Jool siit/7915/ec",
    )
forward(
    "first-fragment-of-udp-without-checksum-from-a-port-of-a-tunnel",
    "A datagram that may stay without checksum may be fragmented.",
    "RFC 8200 8.1, RFC 7915 4.1",
    zero4,
    out6(over4(udp(pattern(1000), csum=0), H4, H6_IN_4)[:504], **frag6(17, 0, True, 8)),
    config=config(udp_zero_checksum_ports=[5000]),
    choice="whether a datagram without checksum passes as it is",
)
for mode in ("drop", "compute"):
    forward(
        f"later-fragment-of-udp-without-checksum-{mode}",
        "A later fragment does not show whether the datagram has a checksum; it is translated.",
        "RFC 7915 4.1, RFC 7915 4.5",
        in4(raw(bytes(16), "16 bytes of zeros"), proto=17, ident=8, offset=504),
        out6(raw(bytes(16), "16 bytes of zeros"), **frag6(17, 504, False, 8)),
        config=config(udp_zero_checksum=mode),
    )
icmp = over4(echo4(data=pattern(1000)), H4, H6_IN_4)
first = in4(icmp[:504], proto=1, ident=9, mf=True)
drop(
    "first-fragment-of-icmpv4",
    "A fragmented ICMP message is not translated: its checksum gets a pseudo-header that counts the whole length.",
    "RFC 7915 1.2, RFC 7915 4.4",
    first,
    "fragment_icmp",
    told4(3, 13, first),
)
drop(
    "last-fragment-of-icmpv4",
    "A later fragment of an ICMP message is dropped; no error is sent about a fragment other than the first.",
    "RFC 7915 1.2, RFC 1122 3.2.2, RFC 1812 4.3.2.7",
    in4(icmp[504:], proto=1, ident=9, offset=504),
    "fragment_icmp",
)
icmp = over6(echo6(data=pattern(1000)), H6, H4_IN_6)
first = in6(icmp[:504], **frag6(58, 0, True, 9))
drop(
    "first-fragment-of-icmpv6",
    "A fragmented ICMPv6 message is not translated.",
    "RFC 7915 1.2, RFC 7915 5.4",
    first,
    "fragment_icmp",
    told6(1, 1, first),
    choice="RFC 7915 section 5.4 does not demand an answer to an ICMPv6 message; RFC 4443 allows one to an echo request.",
)
drop(
    "last-fragment-of-icmpv6",
    "A later fragment of an ICMPv6 message is dropped; it may belong to an error, and is not answered.",
    "RFC 7915 1.2, RFC 4443 2.4(e)",
    in6(icmp[504:], **frag6(58, 504, False, 9)),
    "fragment_icmp",
)

# --- fragments that the translator makes -----------------------------------------------------------------------------


def cut6(
    whole: Piece, sizes: list[int], ident: int, start: int = 0, more: bool = False, number: int = 17, **fields
) -> list[Piece]:
    """``whole`` in IPv6 fragments of these sizes."""
    made, at = [], 0
    for size in sizes:
        last = at + size >= len(whole)
        made.append(out6(whole[at : at + size], **frag6(number, start + at, more or not last, ident), **fields))
        at += size
    assert at == len(whole)
    return made


def cut4(whole: Piece, sizes: list[int], start: int = 0, more: bool = False, number: int = 17, **fields) -> list[Piece]:
    """``whole`` in IPv4 fragments of these sizes."""
    made, at = [], 0
    for size in sizes:
        last = at + size >= len(whole)
        made.append(out4(whole[at : at + size], proto=number, offset=start + at, mf=more or not last, **fields))
        at += size
    assert at == len(whole)
    return made


big4, big6 = over4(udp(pattern(1233)), H4, H6_IN_4), over6(udp(pattern(1233)), H4_IN_6, H6)
forward(
    "df-clear-1260-not-fragmented",
    "With DF clear, 1260 bytes of IPv4 make 1280 of IPv6, which every path carries: no Fragment header.",
    "RFC 7915 4, RFC 7915 4.1",
    in4(udp(pattern(1232)), ident=0x4444),
    out6(udp(pattern(1232))),
    judges="Jool siit/7915/cd",
)
pieces(
    "df-clear-1261-fragmented",
    "With DF clear, one byte more is cut into fragments of at most 1280 bytes, 1232 of them payload.",
    "RFC 7915 4, RFC 7915 4.1",
    in4(udp(pattern(1233)), ident=0x4444),
    *cut6(big6, [1232, 9], 0x4444),
    judges="Jool siit/7915/cc, Jool siit/7915/jba",
)
pieces(
    "df-clear-1500-fragmented",
    "A full-size packet with DF clear becomes two fragments with its identification, hop limit and traffic class.",
    "RFC 7915 4.1",
    in4(tcp(pattern(1460)), ident=0xFFFF, tos=0x2E, ttl=33),
    *cut6(over6(tcp(pattern(1460)), H4_IN_6, H6), [1232, 248], 0xFFFF, number=6, tc=0x2E, hop=32),
)
forward(
    "lowest-ipv6-mtu-raised",
    "The threshold can be raised: with 1500, a packet of 1480 bytes with DF clear is not fragmented.",
    "RFC 7915 4, RFC 7915 4.1",
    in4(udp(pattern(1452)), ident=1),
    out6(udp(pattern(1452))),
    config=config(lowest_ipv6_mtu=1500),
)
pieces(
    "lowest-ipv6-mtu-1402",
    "Fragments fill the raised threshold as far as multiples of 8 allow: 1400 of 1402 bytes.",
    "RFC 7915 4.1, RFC 8200 4.5",
    in4(udp(pattern(1355)), ident=2),
    *cut6(over6(udp(pattern(1355)), H4_IN_6, H6), [1352, 11], 2),
    config=config(lowest_ipv6_mtu=1402),
    judges="Jool siit/7915/jca",
)
forward(
    "df-set-not-fragmented",
    "With DF set, the threshold means nothing: what the next hop carries is sent whole.",
    "RFC 7915 4, RFC 7915 4.1",
    in4(udp(pattern(1452)), df=True, ident=3),
    out6(udp(pattern(1452))),
    judges="Jool siit/7915/jbb",
)
pieces(
    "fragment-fragmented-again-4to6",
    "A fragment that is too large is cut further; offsets go on from its own, MF stays on the last piece.",
    "RFC 7915 4.1, RFC 791 2.3",
    in4(over4(udp(pattern(4000)), H4, H6_IN_4)[:1248], proto=17, ident=4321, mf=True),
    *cut6(over6(udp(pattern(4000)), H4_IN_6, H6)[:1248], [1232, 16], 4321, more=True),
    judges="Jool siit/7915/cf",
)
pieces(
    "later-fragment-fragmented-again-4to6",
    "A fragment in the middle of a datagram that is too large is cut further, counting from its own offset.",
    "RFC 7915 4.1, RFC 791 2.3",
    in4(raw(pattern(1480)), proto=17, ident=4321, mf=True, offset=1480),
    *cut6(raw(pattern(1480)), [1232, 248], 4321, start=1480, more=True),
)
pieces(
    "echo-fragmented-4to6",
    "An echo request that is too large is translated whole, and then cut: its checksum is that of the whole message.",
    "RFC 7915 4.1, RFC 7915 4.2",
    in4(echo4(data=pattern(1472)), ident=5),
    *cut6(over6(echo6(data=pattern(1472)), H4_IN_6, H6), [1232, 248], 5, number=58),
)
pieces(
    "64-kilobyte-datagram-fragmented-4to6",
    "The longest UDP datagram of IPv4 becomes 54 fragments.",
    "RFC 7915 4.1",
    in4(udp(pattern(65507)), ident=6),
    *cut6(over6(udp(pattern(65507)), H4_IN_6, H6), [1232] * 53 + [65515 - 53 * 1232], 6),
)
pieces(
    "options-fragmented-4to6",
    "The options are gone before the packet is cut; they are not counted.",
    "RFC 7915 4.1",
    in4(udp(pattern(1233)), ident=7, options=bytes([1, 1, 1, 0])),
    *cut6(big6, [1232, 9], 7),
)
forward(
    "options-not-counted",
    "1264 bytes of which 4 are options make 1280 bytes of IPv6: no fragmentation.",
    "RFC 7915 4.1",
    in4(udp(pattern(1232)), ident=7, options=bytes([1, 1, 1, 0])),
    out6(udp(pattern(1232))),
)
pieces(
    "udp-checksum-computed-then-fragmented",
    "A datagram without checksum that is too large gets one, over all of it, and is then cut.",
    "RFC 7915 4.5, RFC 7915 4.1",
    in4(udp(pattern(1233), csum=0), ident=8),
    *cut6(big6, [1232, 9], 8),
    config=config(udp_zero_checksum="compute"),
)
pieces(
    "small-ipv6-packet-fragmented-6to4",
    "A packet of at most 1280 bytes is cut if the next hop of IPv4 carries less: no IPv6 node has to send smaller ones.",
    "RFC 7915 5.1.1, RFC 7915 5",
    in6(udp(pattern(1232))),
    *cut4(over4(udp(pattern(1232)), H6_IN_4, H4), [976, 264]),
    config=config(mtu4=1000),
)
pieces(
    "small-ipv6-packet-fragmented-mtu-68",
    "With the smallest MTU of IPv4, 68, fragments carry 48 bytes.",
    "RFC 791 3.2, RFC 7915 5.1.1",
    in6(udp(pattern(100))),
    *cut4(over4(udp(pattern(100)), H6_IN_4, H4), [48, 48, 12]),
    config=config(mtu4=68),
)
pieces(
    "fragment-fragmented-again-6to4",
    "A fragment that is too large for the next hop is cut further, with its own identification.",
    "RFC 7915 5.1.1, RFC 791 2.3",
    in6(up6[504:1008], **frag6(17, 504, False, 0xABCD)),
    *cut4(up4[504:1008], [376, 128], start=504, ident=0xABCD),
    config=config(mtu4=400),
)
pieces(
    "fragment-with-mf-fragmented-again-6to4",
    "MF stays on every piece of a fragment that has it.",
    "RFC 7915 5.1.1, RFC 791 2.3",
    in6(up6[:504], **frag6(17, 0, True, 0xABCD)),
    *cut4(up4[:504], [376, 128], more=True, ident=0xABCD),
    config=config(mtu4=400),
)
