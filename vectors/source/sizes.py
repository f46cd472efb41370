# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets that do not fit the next hop, and who is told what (RFC 7915 sections 1.4, 4.1, 5)."""

from .network import H4, H4_IN_6, H6, H6_IN_4, Topic, config, in4, in6, out4, out6, told4, told6
from .wire import fragment_header, over4, over6, pattern, tcp, udp, word

TOPIC = Topic("sizes", "Packets that do not fit")
forward, drop = TOPIC.forward, TOPIC.drop

NARROW6 = config(mtu6=1280)
large = in4(tcp(pattern(1221)), df=True)
drop(
    "fragmentation-needed-1261",
    "With DF set and 1281 bytes of IPv6 for an MTU of 1280, Fragmentation Needed says 1260.",
    "RFC 7915 4.1, RFC 1191 4",
    large,
    "too_big",
    told4(3, 4, large, word(1260)),
    config=NARROW6,
    judges="Jool siit/7915/ca",
)
forward(
    "df-set-1260-fits-1280",
    "1260 bytes with DF set make 1280 of IPv6, and fit.",
    "RFC 7915 4.1",
    in4(tcp(pattern(1220)), df=True),
    out6(tcp(pattern(1220))),
    config=NARROW6,
    judges="Jool siit/7915/cb",
)
full = in4(tcp(pattern(1460)), df=True)
drop(
    "fragmentation-needed-1500",
    "A full-size packet does not fit an MTU of 1500 on the IPv6 side: Fragmentation Needed says 1480.",
    "RFC 7915 4.1, RFC 7915 1.4",
    full,
    "too_big",
    told4(3, 4, full, word(1480)),
)
part = in4(over4(udp(pattern(4000)), H4, H6_IN_4)[:1256], proto=17, ident=1234, df=True, mf=True)
drop(
    "fragmentation-needed-fragment",
    "A fragment gets a Fragment header: 28 bytes more, and Fragmentation Needed says 1252 for an MTU of 1280.",
    "RFC 7915 4.1, RFC 7915 1.4",
    part,
    "too_big",
    told4(3, 4, part, word(1252)),
    config=NARROW6,
    choice="Jool says 1260, to which the sender's next fragment would not fit.",
)
forward(
    "df-set-fragment-fits",
    "A fragment with DF set that makes 1280 bytes with its Fragment header fits.",
    "RFC 7915 4.1",
    in4(over4(udp(pattern(4000)), H4, H6_IN_4)[:1232], proto=17, ident=1234, df=True, mf=True),
    out6(over6(udp(pattern(4000)), H4_IN_6, H6)[:1232], first=44, ext=fragment_header(17, 0, True, 1234)),
    config=NARROW6,
)
jumbo = in4(udp(pattern(8972)), df=True)
drop(
    "fragmentation-needed-9000",
    "For an MTU of 9000 on the IPv6 side, Fragmentation Needed says 8980.",
    "RFC 7915 4.1",
    jumbo,
    "too_big",
    told4(3, 4, jumbo, word(8980)),
    config=config(mtu4=9000, mtu6=9000),
)
NARROW4 = config(mtu4=1400)
large = in6(tcp(pattern(1361)))
drop(
    "packet-too-big-1421",
    "1401 bytes of IPv4 for an MTU of 1400: Packet Too Big says 1420.",
    "RFC 7915 1.4, RFC 4443 3.2",
    large,
    "too_big",
    told6(2, 0, large, word(1420)),
    config=NARROW4,
    judges="Jool siit/7915/cg",
)
forward(
    "ipv6-1420-fits-1400",
    "1420 bytes of IPv6 make 1400 of IPv4, and fit.",
    "RFC 7915 5.1",
    in6(tcp(pattern(1360))),
    out4(tcp(pattern(1360)), df=True, ident=0),
    config=NARROW4,
    choice="With DF set the identification has no meaning and is 0 (RFC 6864 section 4.1).",
)
large = in6(tcp(pattern(1300)))
drop(
    "packet-too-big-never-below-1280",
    "For an MTU of 576 on the IPv4 side, Packet Too Big says 1280, below which no IPv6 node has to go.",
    "RFC 7915 5, RFC 8200 5, RFC 8201 4",
    large,
    "too_big",
    told6(2, 0, large, word(1280)),
    config=config(mtu4=576),
)
echo = in6(udp(pattern(1400)), first=0, ext=bytes([17, 0, 1, 4, 0, 0, 0, 0]))
drop(
    "packet-too-big-with-extension-headers",
    "What has to fit is the IPv4 packet, without the extension headers.",
    "RFC 7915 5.1, RFC 7915 1.4",
    echo,
    "too_big",
    told6(2, 0, echo, word(1420)),
    config=NARROW4,
)
forward(
    "extension-headers-not-counted",
    "1448 bytes of IPv6, of which 32 are extension headers, make 1396 bytes of IPv4, and fit 1400.",
    "RFC 7915 5.1",
    in6(udp(pattern(1368)), first=60, ext=bytes([17, 3, 1, 28]) + bytes(28)),
    out4(udp(pattern(1368)), df=True, ident=0),
    config=NARROW4,
    choice="With DF set the identification has no meaning and is 0 (RFC 6864 section 4.1).",
)
