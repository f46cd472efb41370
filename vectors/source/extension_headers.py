# SPDX-License-Identifier: Apache-2.0 OR MIT
"""IPv6 extension headers: skipped, refused, broken (RFC 7915 sections 5.1 and 5.1.1, RFC 8200 section 4)."""

from .network import Topic, in6, out4, told6
from .wire import echo4, echo6, extension_header, fragment_header, pattern, raw, routing_header, tcp, udp, word

TOPIC = Topic("extension-headers", "IPv6 extension headers")
forward, drop = TOPIC.forward, TOPIC.drop

for number, name in ((0, "hop-by-hop"), (60, "destination-options")):
    forward(
        f"{name}-skipped",
        f"A {name.replace('-', ' ')} header is ignored; total length and protocol skip it.",
        "RFC 7915 5.1",
        in6(udp(pattern(16)), first=number, ext=extension_header(17)),
        out4(udp(pattern(16))),
        judges="Jool siit/7915/ab",
    )
    forward(
        f"{name}-of-64-bytes-skipped",
        f"The length of a {name.replace('-', ' ')} header counts 8 bytes beyond its first 8.",
        "RFC 7915 5.1, RFC 8200 4.3",
        in6(udp(pattern(16)), first=number, ext=extension_header(17, 64)),
        out4(udp(pattern(16))),
    )
forward(
    "router-alert-skipped",
    "A hop-by-hop header with a router alert is ignored like any other.",
    "RFC 7915 5.1, RFC 2711 2.1",
    in6(udp(), first=0, ext=bytes([17, 0, 5, 2, 0, 0, 1, 0])),
    out4(udp()),
)
forward(
    "unknown-option-skipped",
    "An option that a destination would have to refuse is not the translator's to refuse.",
    "RFC 7915 5.1, RFC 8200 4.2",
    in6(udp(), first=60, ext=bytes([17, 0, 0xBE, 4, 1, 2, 3, 4])),
    out4(udp()),
)
forward(
    "routing-header-without-segments-left-skipped",
    "A routing header that is at its end is ignored.",
    "RFC 7915 5.1",
    in6(udp(), first=43, ext=routing_header(17, 0)),
    out4(udp()),
    judges="Jool siit/7915/ab",
)
for kind, name in ((0, "source-route"), (4, "segment-routing"), (253, "experimental")):
    routed = in6(udp(), first=43, ext=routing_header(17, 1, kind))
    drop(
        f"routing-header-{name}-with-segments-left",
        f"A routing header of type {kind} with a segment left forbids translation; the sender is told where that stands.",
        "RFC 7915 5.1, RFC 4443 3.4",
        routed,
        "routing_segments_left",
        told6(4, 0, routed, word(43)),
    )
behind = in6(udp(), first=0, ext=extension_header(43, 16) + routing_header(17, 2))
drop(
    "routing-header-behind-hop-by-hop",
    "The pointer counts what stands before the routing header.",
    "RFC 7915 5.1, RFC 4443 3.4",
    behind,
    "routing_segments_left",
    told6(4, 0, behind, word(40 + 16 + 3)),
)
drop(
    "routing-header-in-icmpv6-error-not-answered",
    "An ICMPv6 error with a segment left is not translated either, and not answered.",
    "RFC 7915 5.1, RFC 4443 2.4(e)",
    in6(raw(bytes([1, 0, 0, 0]) + bytes(48), "ICMPv6 type 1 code 0"), nh=58, first=43, ext=routing_header(58, 1)),
    "routing_segments_left",
)
chain = extension_header(60) + extension_header(43, 24) + routing_header(44, 0)
forward(
    "every-header-before-a-fragment-header",
    "Hop-by-hop, destination options, routing and Fragment header in one packet: the total length loses all of them.",
    "RFC 7915 5.1, RFC 7915 5.1.1",
    in6(udp(pattern(16)), nh=17, first=0, ext=chain + fragment_header(17, 0, False, 0x01020308)),
    out4(udp(pattern(16)), ident=0x0308),
    judges="Jool siit/7915/ab",
)
forward(
    "destination-options-twice",
    "Destination options may stand twice, before and after a routing header.",
    "RFC 8200 4.1, RFC 7915 5.1",
    in6(tcp(), first=60, ext=extension_header(43) + routing_header(60, 0) + extension_header(6)),
    out4(tcp()),
)
forward(
    "extension-headers-before-icmpv6",
    "ICMPv6 is found behind extension headers, and its checksum never counted them.",
    "RFC 7915 5.1, RFC 7915 5.2, RFC 8200 8.1",
    in6(echo6(), first=60, ext=extension_header(58)),
    out4(echo4()),
)

# --- behind a Fragment header ----------------------------------------------------------------------------------------

for number, name in (
    (0, "hop-by-hop"),
    (60, "destination-options"),
    (43, "routing"),
    (51, "authentication"),
    (135, "mobility"),
):
    inside = routing_header(17, 0) if number == 43 else extension_header(17)
    hidden = in6(
        raw(inside + pattern(16), f"header {number} and 16 bytes"),
        nh=17,
        first=44,
        ext=fragment_header(number, 0, True, 77),
    )
    drop(
        f"{name}-behind-fragment-header",
        f"A Fragment header that names an extension header ({number}) is dropped; its sender is told.",
        "RFC 7915 5.1.1, RFC 7915 5.4",
        hidden,
        "fragment_extension",
        told6(1, 1, hidden),
        judges="Jool siit/7915/ac" if number in (0, 60, 43) else None,
        choice="That it is answered follows from section 5.4.",
    )
later = in6(raw(pattern(16)), nh=60, first=44, ext=fragment_header(60, 8, False, 77))
drop(
    "destination-options-behind-later-fragment",
    "A later fragment is dropped too if its Fragment header names an extension header; nothing else shows it.",
    "RFC 7915 5.1.1, RFC 7915 5.4",
    later,
    "fragment_extension",
    told6(1, 1, later),
    choice="That it is answered follows from section 5.4; RFC 4443 does not except later fragments.",
)
twice = in6(udp(), nh=17, first=44, ext=fragment_header(44, 0, False, 1) + fragment_header(17, 0, False, 2))
drop(
    "fragment-header-twice",
    "A Fragment header behind a Fragment header is an extension header there.",
    "RFC 7915 5.1.1, RFC 8200 4.1",
    twice,
    "fragment_extension",
    told6(1, 1, twice),
)

# --- broken chains ---------------------------------------------------------------------------------------------------

for name, demand, ext, first in (
    ("cut-off-at-one-byte", "A hop-by-hop header of which one byte is there is cut off.", bytes([17]), 0),
    ("cut-off-behind-length", "A header that says 16 bytes and has 8 is cut off.", bytes([17, 1, 1, 4, 0, 0, 0, 0]), 60),
    ("length-255", "A header that says 2048 bytes and has 8 is cut off.", bytes([17, 255, 1, 4, 0, 0, 0, 0]), 0),
    ("fragment-header-cut-off", "A Fragment header of 7 bytes is cut off.", fragment_header(17, 0, True, 5)[:7], 44),
    ("routing-header-cut-off", "A routing header that ends before Segments Left is cut off.", bytes([17, 2, 0]), 43),
    ("announced-and-missing", "A hop-by-hop header that is announced, and missing, is cut off.", b"", 0),
):
    drop(
        f"chain-{name}",
        demand,
        "RFC 8200 4, RFC 8200 4.1",
        in6(raw(b""), nh=first, ext=ext),
        "extension_chain",
    )
many = b"".join(extension_header(60) for _ in range(99)) + extension_header(17)
drop(
    "chain-of-100-headers",
    "A chain that only keeps a translator busy is refused, with a limit well above the six headers that can make sense.",
    "RFC 8200 4.1, RFC 8504 5.3",
    in6(udp(), first=60, ext=many),
    "extension_chain",
    choice="The limit is the implementation's; 8 here.",
)
forward(
    "chain-of-7-headers",
    "Seven headers are followed.",
    "RFC 8200 4.1, RFC 7915 5.1",
    in6(udp(), first=0, ext=b"".join(extension_header(60) for _ in range(6)) + extension_header(17)),
    out4(udp()),
)
drop(
    "chain-ends-with-the-packet",
    "An extension header that announces UDP, and nothing behind it, leaves UDP cut off.",
    "RFC 8200 4, RFC 768",
    in6(raw(b""), nh=17, first=60, ext=extension_header(17)),
    "transport_truncated",
)

# --- headers that are a payload --------------------------------------------------------------------------------------

for number, name in ((51, "authentication-header"), (135, "mobility-header"), (139, "host-identity"), (140, "shim6")):
    forward(
        f"{name}-copied",
        f"Next header {number} is none of those that are skipped: it is copied to the protocol, with all that follows.",
        "RFC 7915 5.1",
        in6(raw(pattern(24)), nh=number),
        out4(raw(pattern(24)), proto=number),
    )
forward(
    "no-next-header",
    "No Next Header (59) is copied like a transport protocol.",
    "RFC 7915 5.1, RFC 8200 4.7",
    in6(raw(b""), nh=59),
    out4(raw(b""), proto=59),
    judges="Jool siit/7915/ad",
)
forward(
    "no-next-header-in-atomic-fragment",
    "No Next Header behind a Fragment header is copied like a transport protocol.",
    "RFC 7915 5.1.1, RFC 8200 4.7",
    in6(raw(b""), nh=59, first=44, ext=fragment_header(59, 0, False, 16909320)),
    out4(raw(b""), proto=59, ident=1032),
    judges="Jool siit/7915/ad",
)
