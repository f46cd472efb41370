# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packets that ICMP errors quote (RFC 7915 sections 4.3 and 5.3)."""

from .errors import INNER_ID, ONLY_EAM, error4, error6, quoted4, quoted6, told4, told6
from .network import H4, H4_IN_6, H6, H6_IN_4, ROUTER4, Topic, in4, in6, out4, out6
from .wire import (
    echo4,
    echo6,
    extension_header,
    fragment_header,
    icmp4,
    icmp6,
    over4,
    over6,
    pattern,
    plain,
    raw,
    routing_header,
    tcp,
    udp,
)

TOPIC = Topic("icmp-quotes", "The packets that ICMP errors quote")
forward, drop = TOPIC.forward, TOPIC.drop

# --- the inner header ------------------------------------------------------------------------------------------------

for ttl in (1, 0, 255):
    forward(
        f"inner-ttl-{ttl}-kept-4to6",
        f"The TTL of the quoted packet, {ttl}, is not decremented, nor does it end here.",
        "RFC 7915 4.3",
        error4(out4(udp(), ttl=ttl)),
        told6(quoted6(udp(), hop=ttl)),
        judges="Jool siit/7915/ba",
    )
    forward(
        f"inner-hop-limit-{ttl}-kept-6to4",
        f"The hop limit of the quoted packet, {ttl}, is not decremented, nor does it end here.",
        "RFC 7915 5.3",
        error6(out6(udp(), hop=ttl)),
        told4(quoted4(udp(), ttl=ttl)),
        choice=INNER_ID,
        judges="Jool siit/7915/bd",
    )
forward(
    "inner-tos-4to6",
    "The type of service of the quoted packet is copied like that of any, apart from the outer one.",
    "RFC 7915 4.3, RFC 7915 4.1",
    error4(out4(udp(), tos=0xB9), tos=0xC0),
    told6(quoted6(udp(), tc=0xB9), tc=0xC0),
)
forward(
    "inner-traffic-class-6to4",
    "The traffic class of the quoted packet is copied like that of any, apart from the outer one.",
    "RFC 7915 5.3, RFC 7915 5.1",
    error6(out6(udp(), tc=0xB9), tc=0xC0),
    told4(quoted4(udp(), tos=0xB9), tos=0xC0),
    choice=INNER_ID,
)
forward(
    "inner-df-and-identification-lost-4to6",
    "DF and identification of a quoted packet that is no fragment have no place in IPv6.",
    "RFC 7915 4.3, RFC 7915 4.1",
    error4(out4(udp(), df=True, ident=0xFFFF)),
    told6(quoted6(udp())),
)
forward(
    "inner-total-length-kept-when-cut-4to6",
    "The length of the quoted packet is that of the whole packet, though only its beginning is there.",
    "RFC 7915 4.3, RFC 792",
    error4(out4(udp(pattern(1000)))[:28]),
    told6(quoted6(udp(pattern(1000)))[:48]),
)
forward(
    "inner-payload-length-kept-when-cut-6to4",
    "The length of the quoted packet is that of the whole packet, though only its beginning is there.",
    "RFC 7915 5.3",
    error6(out6(udp(pattern(1000)))[:48]),
    told4(quoted4(udp(pattern(1000)))[:28]),
    choice=INNER_ID,
)
forward(
    "inner-df-set-when-large-6to4",
    "A quoted packet that makes more than 1260 bytes of IPv4 had DF set, and is quoted with it.",
    "RFC 7915 5.3, RFC 7915 5.1",
    error6(out6(udp(pattern(1300)))[:100]),
    told4(quoted4(udp(pattern(1300)), df=True)[:80]),
    choice=INNER_ID,
)
forward(
    "inner-options-removed-4to6",
    "The options of a quoted packet are not translated.",
    "RFC 7915 4.3, RFC 7915 4.1",
    error4(out4(udp(), options=bytes([7, 7, 4, 0, 0, 0, 0, 0]))),
    told6(quoted6(udp())),
)
forward(
    "inner-source-route-not-refused-4to6",
    "A quoted packet with an unexpired source route is quoted without it; the error is not about us.",
    "RFC 7915 4.3",
    error4(out4(udp(), options=bytes([131, 7, 4, 198, 51, 100, 9, 0]))),
    told6(quoted6(udp())),
    choice="Translated like a normal packet it would be refused; that would hide an error from its receiver.",
)
forward(
    "inner-header-checksum-wrong-4to6",
    "The header checksum of a quoted packet may be wrong: routers change headers before they quote them.",
    "RFC 7915 4.3, RFC 1812 4.3.2.3",
    error4(out4(udp(), csum=0x0BAD)),
    told6(quoted6(udp())),
)
forward(
    "inner-extension-headers-skipped-6to4",
    "The extension headers of a quoted packet are skipped as in any.",
    "RFC 7915 5.3, RFC 7915 5.1",
    error6(out6(udp(), first=0, ext=extension_header(60) + extension_header(17))),
    told4(quoted4(udp())),
    choice=INNER_ID,
)
forward(
    "inner-fragment-4to6",
    "A quoted fragment gets a Fragment header; M mirrors MF, and the identification is carried over.",
    "RFC 7915 4.3, RFC 7915 4.1",
    error4(out4(over4(udp(pattern(1000)), H6_IN_4, H4)[:504], proto=17, ident=0xBEEF, mf=True)),
    told6(
        quoted6(
            over6(udp(pattern(1000)), H6, H4_IN_6)[:504],
            first=44,
            ext=fragment_header(17, 0, True, 0xBEEF),
        )
    ),
)
forward(
    "inner-last-fragment-4to6",
    "A quoted later fragment keeps its offset, and its bytes are not taken for a transport header.",
    "RFC 7915 4.3, RFC 7915 4.1",
    error4(out4(raw(pattern(40)), proto=6, ident=0xBEEF, offset=1480)),
    told6(quoted6(raw(pattern(40)), first=44, ext=fragment_header(6, 1480, False, 0xBEEF))),
)
forward(
    "inner-fragment-6to4",
    "A quoted Fragment header becomes MF, offset and identification.",
    "RFC 7915 5.3, RFC 7915 5.1.1",
    error6(out6(raw(pattern(40)), first=44, ext=fragment_header(6, 1480, True, 0x0001BEEF))),
    told4(quoted4(raw(pattern(40)), proto=6, ident=0xBEEF, offset=1480, mf=True)),
)

# --- the inner transport ---------------------------------------------------------------------------------------------

for name, carried in (("tcp", tcp(b"quoted")), ("udp", udp(b"quoted"))):
    forward(
        f"inner-{name}-checksum-4to6",
        f"The {name.upper()} checksum of a quoted packet follows its addresses.",
        "RFC 7915 4.3, RFC 7915 4.5",
        error4(out4(carried)),
        told6(quoted6(carried)),
    )
    forward(
        f"inner-{name}-checksum-6to4",
        f"The {name.upper()} checksum of a quoted packet follows its addresses.",
        "RFC 7915 5.3, RFC 7915 5.5",
        error6(out6(carried)),
        told4(quoted4(carried)),
        choice=INNER_ID,
    )
forward(
    "inner-tcp-cut-at-8-bytes-4to6",
    "A quote of 8 transport bytes, which is all that RFC 792 asks for, has no TCP checksum to carry over.",
    "RFC 7915 4.3, RFC 792",
    error4(out4(tcp())[:28]),
    told6(quoted6(tcp())[:48]),
)
forward(
    "inner-tcp-cut-inside-the-checksum-4to6",
    "Of a TCP checksum of which one byte is there, that byte is left as it is.",
    "RFC 7915 4.3",
    error4(out4(raw(over4(tcp(), H6_IN_4, H4).data[:17], "17 bytes of TCP"), proto=6, total=40)),
    told6(quoted6(raw(over4(tcp(), H6_IN_4, H4).data[:17], "17 bytes of TCP"), nh=6, length=20)),
)
forward(
    "inner-udp-cut-at-6-bytes-6to4",
    "Of a UDP header that ends before the checksum, ports and length are left as they are.",
    "RFC 7915 5.3",
    error6(out6(udp())[:46]),
    told4(quoted4(udp())[:26]),
    choice=INNER_ID,
)
forward(
    "inner-nothing-behind-the-header-4to6",
    "A quote may end with its IP header.",
    "RFC 7915 4.3",
    error4(out4(udp())[:20]),
    told6(quoted6(udp())[:40]),
)
forward(
    "inner-nothing-behind-the-header-6to4",
    "A quote may end with its IPv6 header.",
    "RFC 7915 5.3",
    error6(out6(udp())[:40]),
    told4(quoted4(udp())[:20]),
    choice=INNER_ID,
)
forward(
    "inner-udp-without-checksum-4to6",
    "A quoted UDP datagram without checksum is no reason to drop the error; the quote stays without.",
    "RFC 7915 4.3",
    error4(out4(udp(csum=0))),
    told6(quoted6(udp(csum=0))),
)
forward(
    "inner-udp-without-checksum-6to4",
    "The quote stays without a checksum from IPv6, too.",
    "RFC 7915 5.3",
    error6(out6(udp(csum=0))),
    told4(quoted4(udp(csum=0))),
    choice=INNER_ID,
)
wrong4 = int.from_bytes(over4(udp(b"bad"), H6_IN_4, H4).data[6:8]) - 0x0101
wrong6 = int.from_bytes(over6(udp(b"bad"), H6, H4_IN_6).data[6:8]) - 0x0101
assert min(wrong4, wrong6) > 0
forward(
    "inner-udp-wrong-checksum-4to6",
    "A wrong checksum in the quote is no reason to drop the error, and stays as wrong as it was.",
    "RFC 7915 4.3, RFC 1624 3",
    error4(out4(udp(b"bad", csum=wrong4))),
    told6(quoted6(udp(b"bad", csum=wrong6))),
)
zero = over4(udp(b"\0\0"), H6_IN_4, H4).data[6:8]
assert over4(udp(zero), H6_IN_4, H4).data[6:8] == b"\xff\xff"
right6 = over6(udp(zero), H6, H4_IN_6)
forward(
    "inner-udp-checksum-ffff-4to6",
    "A quoted UDP checksum of 0xffff is one, and is carried over.",
    "RFC 7915 4.3, RFC 768",
    error4(out4(udp(zero))),
    told6(quoted6(right6, nh=17)),
)
zero = over6(udp(b"\0\0"), H6, H4_IN_6).data[6:8]
forward(
    "inner-udp-checksum-zero-quoted-as-ffff-4to6",
    "A quoted UDP checksum that comes out as 0 is quoted as 0xffff, as the packet was sent.",
    "RFC 7915 4.3, RFC 768",
    error4(out4(udp(zero))),
    told6(quoted6(udp(zero))),
)
for kind4, kind6, name in ((8, 128, "request"), (0, 129, "reply")):
    forward(
        f"inner-echo-{name}-4to6",
        f"An error about an echo {name} is what an ICMP traceroute lives on: type and checksum of the quote are translated.",
        "RFC 7915 4.3, RFC 7915 4.2",
        error4(out4(echo4(kind4))),
        told6(quoted6(echo6(kind6))),
    )
    forward(
        f"inner-echo-{name}-6to4",
        f"An error about an echo {name}: type and checksum of the quote are translated.",
        "RFC 7915 5.3, RFC 7915 5.2",
        error6(out6(echo6(kind6))),
        told4(quoted4(echo4(kind4))),
        choice=INNER_ID,
    )
forward(
    "inner-echo-cut-at-8-bytes-4to6",
    "The pseudo-header of a quoted echo message that is cut off counts the length that the whole message has.",
    "RFC 7915 4.3, RFC 7915 4.2",
    error4(out4(echo4(data=pattern(100)))[:28]),
    told6(quoted6(echo6(data=pattern(100)))[:48]),
)
forward(
    "inner-echo-cut-at-8-bytes-6to4",
    "The pseudo-header that is taken off a quoted echo message counts the length that the whole message has.",
    "RFC 7915 5.3, RFC 7915 5.2",
    error6(out6(echo6(data=pattern(100)))[:48]),
    told4(quoted4(echo4(data=pattern(100)))[:28]),
    choice=INNER_ID,
)
forward(
    "inner-unknown-transport-4to6",
    "A quoted packet of a protocol that nobody knows is quoted unchanged behind its header.",
    "RFC 7915 4.3, RFC 7915 4.5",
    error4(out4(plain(253, pattern(20), "20 bytes of protocol 253"))),
    told6(quoted6(plain(253, pattern(20), "20 bytes of protocol 253"))),
)

# --- quotes that cannot be translated --------------------------------------------------------------------------------

for name, about, reason, demand in (
    ("empty", raw(b""), "icmp_inner_truncated", "An error that quotes nothing is about nothing."),
    (
        "cut-in-the-header",
        out4(udp())[:19],
        "icmp_inner_truncated",
        "A quote that is cut off within its header has no addresses.",
    ),
    (
        "cut-in-the-options",
        out4(udp(), options=bytes([1] * 8))[:24],
        "icmp_inner_truncated",
        "Options of which 4 of 8 bytes are there are cut off.",
    ),
    ("of-version-6", in6(udp()), "icmp_inner_truncated", "An ICMPv4 error that quotes IPv6 quotes no packet of its own."),
    ("of-header-length-0", out4(udp(), words=0), "icmp_inner_truncated", "A quoted header length of 0 is a lie."),
    (
        "total-length-below-header",
        out4(udp(), total=19),
        "icmp_inner_truncated",
        "A quoted total length below the header's is a lie.",
    ),
    (
        "of-an-error",
        out4(icmp4(3, 0, body=in4(udp()))),
        "icmp_inner_nested",
        "An error about an error is dropped, for there is a third header in it.",
    ),
    (
        "of-icmp-that-is-dropped",
        out4(icmp4(13, 0, body=raw(pattern(12)))),
        "icmp_type",
        "A quoted ICMP message without counterpart never came from us.",
    ),
    (
        "of-icmp-fragment",
        out4(raw(pattern(40)), proto=1, mf=True),
        "fragment_icmp",
        "A quoted fragment of an ICMP message never came from us.",
    ),
):
    drop(
        f"quote-{name}-4to6",
        demand,
        "RFC 7915 4.3" if "version" not in name else "RFC 7915 4.3, RFC 792",
        error4(about),
        reason,
    )
for name, about, reason, demand in (
    ("empty", raw(b""), "icmp_inner_truncated", "An error that quotes nothing is about nothing."),
    (
        "cut-in-the-header",
        out6(udp())[:39],
        "icmp_inner_truncated",
        "A quote that is cut off within its header has no addresses.",
    ),
    (
        "cut-in-the-extension-headers",
        out6(udp(), first=60, ext=extension_header(17, 16))[:48],
        "icmp_inner_truncated",
        "A quote that is cut off within an extension header does not show what it carries.",
    ),
    ("of-version-4", in4(udp()), "icmp_inner_truncated", "An ICMPv6 error that quotes IPv4 quotes no packet of its own."),
    (
        "extension-headers-beyond-its-length",
        out6(udp(), first=60, ext=extension_header(17, 16), length=8),
        "icmp_inner_truncated",
        "A quoted payload length that ends within the extension headers is a lie.",
    ),
    (
        "of-an-error",
        out6(icmp6(1, 0, body=in6(udp()))),
        "icmp_inner_nested",
        "An error about an error is dropped, for there is a third header in it.",
    ),
    (
        "of-neighbour-discovery",
        out6(icmp6(135, 0, body=raw(bytes(16)))),
        "icmp_single_hop",
        "A quoted neighbour solicitation never passed us.",
    ),
    (
        "with-segments-left",
        out6(udp(), first=43, ext=routing_header(17, 1)),
        "routing_segments_left",
        "A quoted packet with segments left never passed us.",
    ),
    (
        "of-icmp-fragment",
        out6(raw(pattern(40)), first=44, ext=fragment_header(58, 0, True, 1)),
        "fragment_icmp",
        "A quoted fragment of an ICMPv6 message never passed us.",
    ),
    (
        "with-header-behind-fragment-header",
        out6(raw(pattern(40)), first=44, ext=fragment_header(60, 0, True, 1)),
        "fragment_extension",
        "A quoted Fragment header that names an extension header never passed us.",
    ),
):
    drop(f"quote-{name}-6to4", demand, "RFC 7915 5.3", error6(about), reason)
drop(
    "quote-source-unmapped-6to4",
    "A quoted source that has no IPv4 address: the packet was not sent by an IPv4 node.",
    "RFC 7915 5.3, RFC 7915 6",
    error6(out6(udp(), src="2001:db8:ffff::1")),
    "icmp_inner_unmapped",
)
drop(
    "quote-destination-unmapped-6to4",
    "A quoted destination that has no IPv4 address was none of an IPv4 node's packets.",
    "RFC 7915 5.3, RFC 7915 6",
    error6(out6(udp(), dst="2001:db8:ffff::1")),
    "icmp_inner_unmapped",
)
drop(
    "quote-unmapped-4to6",
    "Without a prefix, a quoted address outside of the mappings has no IPv6 address.",
    "RFC 7915 4.3, RFC 7915 6",
    error4(out4(udp(), dst=ROUTER4)),
    "icmp_inner_unmapped",
    config=ONLY_EAM,
)
drop(
    "error-to-unmapped-destination-not-answered",
    "An ICMPv6 error to an address without counterpart is dropped, and not answered.",
    "RFC 7915 5.4, RFC 4443 2.4(e)",
    error6(out6(udp()), dst="2001:db8:ffff::1"),
    "destination_unmapped",
)
