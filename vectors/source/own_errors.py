# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ICMP errors of the translator itself: when, from whom, how long, how many (RFC 7915 sections 4.4 and 5.4).

Which error answers which packet is shown with the packets: hop limits with the headers, sizes with the sizes.
"""

from .network import CONFIG, H4, OWN4, OWN6, Topic, config, in4, in6, out4, out6, told4, told6
from .wire import echo4, echo6, fragment_header, icmp4, icmp6, over4, pattern, raw, tcp, udp, word

TOPIC = Topic("own-errors", "ICMP errors of the translator itself")
drop = TOPIC.drop

# --- what is quoted --------------------------------------------------------------------------------------------------

late = in4(udp(pattern(1300)), ttl=1, df=True)
drop(
    "own-icmpv4-error-of-576-bytes",
    "An ICMPv4 error quotes as much as fits into 576 bytes.",
    "RFC 1812 4.3.2.3, RFC 7915 4.4",
    late,
    "hop_limit",
    told4(11, 0, late),
)
late = in6(udp(pattern(1300)), hop=1)
drop(
    "own-icmpv6-error-of-1280-bytes",
    "An ICMPv6 error quotes as much as fits into 1280 bytes.",
    "RFC 4443 2.4(c), RFC 4443 3.3",
    late,
    "hop_limit",
    told6(3, 0, late),
)
late = in4(udp(b"x"), ttl=1, tos=0x28, ident=0x7777, df=True, options=bytes([7, 7, 4, 0, 0, 0, 0, 0]))
drop(
    "own-icmpv4-error-quotes-unchanged",
    "The packet is quoted as it was received: TTL, options, checksum and all.",
    "RFC 1812 4.3.2.3, RFC 792",
    late,
    "hop_limit",
    told4(11, 0, late),
)
late = in6(udp(b"x"), hop=1, tc=0x28, flow=0xABCDE, first=60, ext=bytes([17, 0, 1, 4, 0, 0, 0, 0]))
drop(
    "own-icmpv6-error-quotes-unchanged",
    "The packet is quoted as it was received: hop limit, flow label, extension headers and all.",
    "RFC 4443 2.4(c), RFC 4443 3.3",
    late,
    "hop_limit",
    told6(3, 0, late),
)
late = in4(udp(b"x"), ttl=1)
drop(
    "own-icmpv4-error-without-padding-of-the-link",
    "Padding of the link is no part of the packet, and not quoted.",
    "RFC 1812 4.3.2.3",
    late + raw(bytes(17), "17 bytes of padding of the link"),
    "hop_limit",
    told4(11, 0, late),
)

# --- what is not answered --------------------------------------------------------------------------------------------

for kind, code, name in (
    (3, 1, "unreachable"),
    (4, 0, "source-quench"),
    (5, 1, "redirect"),
    (11, 0, "time-exceeded"),
    (12, 0, "parameter-problem"),
):
    drop(
        f"no-error-about-icmpv4-{name}",
        f"No ICMPv4 error is sent about an ICMPv4 error, of type {kind}.",
        "RFC 1122 3.2.2, RFC 1812 4.3.2.7, RFC 7915 4.4",
        in4(icmp4(kind, code, body=out4(udp())), ttl=1),
        "hop_limit",
    )
for kind, code, name in (
    (1, 0, "unreachable"),
    (2, 0, "packet-too-big"),
    (3, 0, "time-exceeded"),
    (4, 0, "parameter-problem"),
    (100, 0, "unknown-error"),
    (137, 0, "redirect"),
):
    drop(
        f"no-error-about-icmpv6-{name}",
        f"No ICMPv6 error is sent about an ICMPv6 error or redirect, of type {kind}.",
        "RFC 4443 2.4(e), RFC 7915 5.4",
        in6(icmp6(kind, code, body=out6(udp())), hop=1),
        "hop_limit",
    )
for name, source, reason in (
    ("multicast", "224.0.0.1", "source_illegal"),
    ("broadcast", "255.255.255.255", "source_illegal"),
    ("unspecified", "0.0.0.0", "source_illegal"),
    ("loopback", "127.0.0.1", "source_illegal"),
):
    drop(
        f"no-error-to-{name}-4to6",
        f"No ICMPv4 error is sent to {source}, which is no single node.",
        "RFC 1122 3.2.2, RFC 1812 4.3.2.7",
        in4(udp(), src=source, ttl=1),
        reason,
    )
for name, source in (("multicast", "ff02::1"), ("unspecified", "::")):
    drop(
        f"no-error-to-{name}-6to4",
        f"No ICMPv6 error is sent to {source}, which is no single node.",
        "RFC 4443 2.4(e)",
        in6(udp(), src=source, hop=1),
        "source_illegal",
    )
drop(
    "no-error-about-multicast-4to6",
    "No ICMPv4 error is sent about a packet to a group, not even for its TTL.",
    "RFC 1122 3.2.2, RFC 1812 4.3.2.7",
    in4(udp(), dst="224.0.1.1", ttl=1),
    "multicast",
)
drop(
    "no-error-about-multicast-6to4",
    "No ICMPv6 error is sent about a packet to a group, not even for its hop limit.",
    "RFC 4443 2.4(e)",
    in6(udp(), dst="ff05::1", hop=1),
    "multicast",
)
drop(
    "no-error-about-later-fragment-4to6",
    "No ICMPv4 error is sent about a fragment other than the first.",
    "RFC 1122 3.2.2, RFC 1812 4.3.2.7",
    in4(raw(pattern(16)), proto=17, ident=1, offset=80, ttl=1),
    "hop_limit",
)
first = in4(over4(udp(pattern(100)), H4, "192.0.2.33")[:80], proto=17, ident=1, mf=True, ttl=1)
drop(
    "error-about-first-fragment-4to6",
    "A first fragment is answered.",
    "RFC 1122 3.2.2, RFC 1812 5.3.1",
    first,
    "hop_limit",
    told4(11, 0, first),
)
later = in6(raw(pattern(16)), first=44, ext=fragment_header(17, 80, False, 1), hop=1)
drop(
    "error-about-later-fragment-6to4",
    "ICMPv6 makes no difference between fragments: a later one is answered unless it may be part of an ICMPv6 error.",
    "RFC 4443 2.4(e), RFC 4443 3.3",
    later,
    "hop_limit",
    told6(3, 0, later),
)
for name, carried4, carried6 in (("echo-request", echo4(8), echo6(128)), ("echo-reply", echo4(0), echo6(129))):
    late = in4(carried4, ttl=1)
    drop(
        f"error-about-{name}-4to6",
        "ICMP that is no error is answered, or a traceroute by echo would end here.",
        "RFC 1122 3.2.2, RFC 792",
        late,
        "hop_limit",
        told4(11, 0, late),
    )
    late = in6(carried6, hop=1)
    drop(
        f"error-about-{name}-6to4",
        "ICMPv6 that is no error is answered, or a traceroute by echo would end here.",
        "RFC 4443 2.4(e), RFC 4443 3.3",
        late,
        "hop_limit",
        told6(3, 0, late),
    )
for kind in (13, 42, 200):
    drop(
        f"no-error-about-dropped-icmpv4-type-{kind}",
        "ICMPv4 that is to be dropped silently is dropped silently.",
        "RFC 7915 4.2",
        in4(icmp4(kind, 0, word(0), raw(pattern(12)))),
        "icmp_type",
    )

# --- from whom -------------------------------------------------------------------------------------------------------

NSP = {"pref64": CONFIG["pref64"]}
late4, late6 = in4(tcp(), ttl=1), in6(tcp(), hop=1)
drop(
    "own-icmpv4-source-default",
    "Without an address of its own, the translator sends ICMPv4 errors from 192.0.0.8.",
    "RFC 7600 4.8, RFC 7915 4.4",
    late4,
    "hop_limit",
    told4(11, 0, late4, src="192.0.0.8"),
    config=NSP,
    choice="Which address that is, no RFC says for a stateless translator.",
)
drop(
    "own-icmpv6-source-default",
    "Without one it sends ICMPv6 errors from that address in its prefix, which is routed to it.",
    "RFC 7915 5.4, RFC 4443 2.2",
    late6,
    "hop_limit",
    told6(3, 0, late6, src="2001:db8:1c0:0:8::"),
    config=NSP,
    choice="Which address that is, no RFC says for a stateless translator.",
)
drop(
    "own-icmpv6-source-embeds-address4",
    "With only an IPv4 address of its own, ICMPv6 errors come from this in the prefix.",
    "RFC 7915 5.4, RFC 4443 2.2, RFC 6052 2.3",
    late6,
    "hop_limit",
    told6(3, 0, late6, src="2001:db8:1c0:2:1::"),
    config={**NSP, "icmp": {"address4": "192.0.2.1"}},
    choice="Which address that is, no RFC says for a stateless translator.",
)
drop(
    "own-icmp-source-from-the-pool",
    "With only a pool, ICMPv4 errors come from its first address.",
    "RFC 6791 3.2, RFC 7915 4.4",
    late4,
    "hop_limit",
    told4(11, 0, late4, src="203.0.113.16"),
    config={**NSP, "icmp": {"source_pool4": ["203.0.113.16/28"]}},
    choice="Which address of the pool, no RFC says.",
)
drop(
    "own-icmpv6-source-not-in-the-well-known-prefix",
    "192.0.0.8 must not be put into the well-known prefix: with no other address, no ICMPv6 error is sent.",
    "RFC 6052 3.1, RFC 4443 2.2",
    in6(udp(), src="64:ff9b::101:101", dst="64:ff9b::808:808", hop=1),
    "hop_limit",
    config={"pref64": ["64:ff9b::/96"]},
    choice="Better configured: icmp.address6.",
)

# --- how many --------------------------------------------------------------------------------------------------------


def limited(rate: int, burst: int) -> dict:
    """So many errors a second, and at once."""
    return config(icmp={"address4": OWN4, "address6": OWN6, "rate": rate, "burst": burst})


for name, late in (("4to6", late4), ("6to4", late6)):
    drop(
        f"own-errors-not-sent-{name}",
        "Configured so, no errors are sent.",
        "RFC 7915 4.4" if name == "4to6" else "RFC 7915 5.4",
        late,
        "hop_limit",
        config=limited(0, 50),
    )
    drop(
        f"own-errors-rate-limited-{name}",
        "Errors are limited in rate: with one at once and one a second, a second one at the same time is not sent.",
        "RFC 7915 4.4, RFC 1812 4.3.2.8" if name == "4to6" else "RFC 7915 5.4, RFC 4443 2.4(f)",
        late,
        "hop_limit",
        config=limited(1, 1),
        earlier=[(0, late)],
    )
drop(
    "own-errors-after-a-while-4to6",
    "After a second without errors, one is sent again.",
    "RFC 7915 4.4, RFC 1812 4.3.2.8",
    late4,
    "hop_limit",
    told4(11, 0, late4),
    config=limited(1, 1),
    time_ms=1000,
    earlier=[(0, late4), (0, late4)],
)
drop(
    "own-errors-burst-6to4",
    "A burst of three errors is allowed, as a traceroute needs it: the third is sent.",
    "RFC 4443 2.4(f)",
    late6,
    "hop_limit",
    told6(3, 0, late6),
    config=limited(1, 3),
    earlier=[(0, late6), (0, late6)],
)
drop(
    "own-errors-of-one-family-do-not-limit-the-other",
    "Errors of IPv4 do not use up what IPv6 may send.",
    "RFC 4443 2.4(f), RFC 1812 4.3.2.8",
    late6,
    "hop_limit",
    told6(3, 0, late6),
    config=limited(1, 1),
    earlier=[(0, late4), (0, late4)],
    choice="How limits are shared is left to the implementation.",
)
drop(
    "dropped-silently-uses-up-nothing",
    "What is dropped silently uses up nothing.",
    "RFC 4443 2.4(f)",
    late6,
    "hop_limit",
    told6(3, 0, late6),
    config=limited(1, 1),
    earlier=[(0, in6(icmp6(3, 0, body=out6(udp())), hop=1)), (0, in6(udp(), src="::1"))],
)
prohibited = in4(udp(csum=0))
drop(
    "own-errors-prohibited-rate-limited",
    "The limit counts errors of every type together.",
    "RFC 1812 4.3.2.8, RFC 7915 4.4",
    prohibited,
    "udp_zero_checksum",
    config=limited(1, 1),
    earlier=[(0, late4)],
    choice="How limits are shared is left to the implementation.",
)
