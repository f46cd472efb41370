# SPDX-License-Identifier: Apache-2.0 OR MIT
"""IPv6 headers into IPv4 headers: every field (RFC 7915 section 5.1), and what no router forwards."""

from .network import Topic, config, in6, out4, told6
from .wire import pattern, raw, tcp, udp

TOPIC = Topic("header-6to4", "IPv6 headers into IPv4 headers")
forward, drop = TOPIC.forward, TOPIC.drop

forward(
    "udp-6to4",
    "Version 4, header length 5, total length 20 more than the payload, an identification, hop limit one less, offset 0.",
    "RFC 7915 5.1, RFC 7915 A.1",
    in6(udp(pattern(32))),
    out4(udp(pattern(32))),
)
forward(
    "tcp-6to4",
    "A TCP segment is carried over with its checksum brought to the IPv4 pseudo-header.",
    "RFC 7915 5.1, RFC 7915 5.5",
    in6(tcp(pattern(33))),
    out4(tcp(pattern(33))),
)
forward(
    "flow-label-lost",
    "IPv4 has no flow label.",
    "RFC 7915 5.1",
    in6(udp(), flow=0xABCDE, tc=0x5A),
    out4(udp(), tos=0x5A),
)
for bit in range(8):
    forward(
        f"traffic-class-bit-{bit}-6to4",
        f"The traffic class is copied to the type of service, bit {bit} of it too.",
        "RFC 7915 5.1",
        in6(udp(), tc=1 << bit),
        out4(udp(), tos=1 << bit),
    )
forward(
    "bpf-examples-traffic-class-top-bit",
    "Expedited forwarding, 0xb8, stays 0xb8; with its top bit lost it would be 0x38.",
    "RFC 7915 5.1",
    in6(udp(), tc=0xB8),
    out4(udp(), tos=0xB8),
)
forward(
    "firezone-traffic-class-72",
    "A traffic class of 72 is no more out of range than any: DSCP has 6 bits of it, and ECN 2.",
    "RFC 7915 5.1",
    in6(udp(), tc=72),
    out4(udp(), tos=72),
)
forward(
    "traffic-class-all-ones-6to4",
    "All 8 bits of the traffic class are copied, and none of the flow label's.",
    "RFC 7915 5.1",
    in6(udp(), tc=0xFF, flow=0),
    out4(udp(), tos=0xFF),
)
forward(
    "traffic-class-ignored-6to4",
    "Configured so, the type of service is zero whatever the traffic class.",
    "RFC 7915 5.1",
    in6(udp(), tc=0xFF),
    out4(udp(), tos=0),
    config=config(traffic_class="zero"),
)
forward(
    "padding-of-the-link-cut-6to4",
    "Bytes behind the payload length belong to the link and are not carried over.",
    "RFC 7915 5.1, RFC 8200 3",
    in6(udp(b"x")) + raw(bytes(5), "5 bytes of padding of the link"),
    out4(udp(b"x")),
)
forward(
    "hop-limit-255-6to4",
    "A hop limit of 255 becomes a TTL of 254.",
    "RFC 7915 5.1",
    in6(udp(), hop=255),
    out4(udp(), ttl=254),
)
forward(
    "hop-limit-2-6to4",
    "A hop limit of 2 survives as a TTL of 1.",
    "RFC 7915 5.1",
    in6(udp(), hop=2),
    out4(udp(), ttl=1),
)
for hop in (1, 0):
    late = in6(udp(), hop=hop)
    drop(
        f"hop-limit-{hop}-6to4",
        f"A hop limit of {hop} ends here, and the sender is told with ICMPv6 Time Exceeded, code 0.",
        "RFC 7915 5.1, RFC 4443 3.3",
        late,
        "hop_limit",
        told6(3, 0, late),
    )

# --- DF and identification -------------------------------------------------------------------------------------------

forward(
    "df-clear-at-1260",
    "A packet that makes 1260 bytes of IPv4 is sent with DF clear and an identification.",
    "RFC 7915 5, RFC 7915 5.1",
    in6(udp(pattern(1232))),
    out4(udp(pattern(1232))),
    judges="Jool siit/7915/ci",
)
forward(
    "tayga-df-set-at-1261",
    "A packet that makes 1261 bytes of IPv4 is sent with DF set; Tayga drew the line at 1300.",
    "RFC 7915 5, RFC 7915 5.1",
    in6(udp(pattern(1233))),
    out4(udp(pattern(1233)), df=True, ident=0),
    choice="With DF set the identification has no meaning and is 0 (RFC 6864 section 4.1).",
    judges="Jool siit/7915/ch",
)
forward(
    "df-set-at-1300",
    "A packet that makes 1300 bytes of IPv4 is sent with DF set.",
    "RFC 7915 5.1",
    in6(udp(pattern(1272))),
    out4(udp(pattern(1272)), df=True, ident=0),
    choice="With DF set the identification has no meaning and is 0 (RFC 6864 section 4.1).",
)
forward(
    "android-clat-df-clear-when-small",
    "A small packet may be fragmented later on: DF is clear. Android's and NetworkManager's CLAT always set it.",
    "RFC 7915 5, RFC 7915 5.1",
    in6(tcp(b"x")),
    out4(tcp(b"x")),
)
forward(
    "cilium-vpp-df-set-when-large",
    "A packet of the full size must not be fragmented later on: DF is set. Cilium and VPP never set it.",
    "RFC 7915 5, RFC 7915 5.1",
    in6(tcp(pattern(1440))),
    out4(tcp(pattern(1440)), df=True, ident=0),
    choice="With DF set the identification has no meaning and is 0 (RFC 6864 section 4.1).",
)
forward(
    "df-depends-on-the-ipv4-size",
    "Extension headers do not count: 1304 bytes of IPv6 that make 1240 of IPv4 are sent with DF clear.",
    "RFC 7915 5.1",
    in6(udp(pattern(1212)), first=60, ext=bytes([17, 5, 1, 44]) + bytes(44)),
    out4(udp(pattern(1212))),
)

# --- addresses that no router forwards -------------------------------------------------------------------------------

for source, what in (
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("fe80::1", "link-local"),
    ("ff02::1", "multicast"),
    ("::ffff:192.0.2.33", "ipv4-mapped"),
):
    drop(
        f"source-{what}-6to4",
        f"A packet from {source} is silently dropped.",
        "RFC 7915 5.1, RFC 4291 2.5" if what != "multicast" else "RFC 7915 5.1, RFC 4291 2.7",
        in6(udp(), src=source),
        "source_illegal",
    )
for destination, what in (("::1", "loopback"), ("fe80::1", "link-local")):
    drop(
        f"destination-{what}-6to4",
        f"A packet to {destination} is not forwarded, and nobody is told.",
        "RFC 4291 2.5",
        in6(udp(), dst=destination),
        "destination_illegal",
    )
drop(
    "multicast-6to4",
    "A packet to a group is not translated by the unicast mapping, and never answered.",
    "RFC 7915 1.2, RFC 4443 2.4(e)",
    in6(udp(), dst="ff0e::1234"),
    "multicast",
)
for embedded, what, reason in (
    ("7f00:1", "loopback", "source_illegal"),
    ("0", "unspecified", "source_illegal"),
    ("e000:5", "multicast", "source_illegal"),
    ("ffff:ffff", "broadcast", "source_illegal"),
):
    drop(
        f"source-embeds-{what}",
        f"An IPv6 source that embeds a {what} IPv4 address is illegal like that address.",
        "RFC 7915 5.1, RFC 7915 8, RFC 1812 5.3.7",
        in6(udp(), src=f"2001:db8:64::{embedded}", dst="2001:db8:64::c633:6402"),
        reason,
        config=config(pref64=["2001:db8:64::/96"]),
    )
for embedded, what, reason in (
    ("7f00:1", "loopback", "destination_illegal"),
    ("e000:5", "multicast", "multicast"),
    ("ffff:ffff", "broadcast", "destination_illegal"),
    ("0", "unspecified", "destination_illegal"),
):
    drop(
        f"destination-embeds-{what}",
        f"An IPv6 destination that embeds a {what} IPv4 address is not sent into the IPv4 network.",
        "RFC 7915 8, RFC 1812 5.3.7",
        in6(udp(), src="2001:db8:64::c000:221", dst=f"2001:db8:64::{embedded}"),
        reason,
        config=config(pref64=["2001:db8:64::/96"]),
    )

# --- headers that are none -------------------------------------------------------------------------------------------

whole = in6(udp(pattern(16)))
drop("ipv6-one-byte", "The version alone is no header.", "RFC 8200 3", whole[:1], "truncated")
drop("ipv6-header-cut-at-39-bytes", "A header of 39 bytes is cut off.", "RFC 8200 3", whole[:39], "truncated")
drop(
    "ipv6-payload-length-beyond-packet",
    "A payload length of one byte more than there is means that something is missing.",
    "RFC 8200 3",
    in6(udp(b"x" * 12), length=21),
    "truncated",
)
drop(
    "ipv6-payload-length-zero",
    "A payload length of zero leaves no room for the UDP header that is announced, whatever follows.",
    "RFC 8200 3",
    in6(udp(), length=0),
    "transport_truncated",
)
drop(
    "ipv6-jumbogram",
    "A payload length of zero with a jumbo payload option is a jumbogram, for which IPv4 has no length.",
    "RFC 2675 3, RFC 8200 3",
    in6(udp(), first=0, ext=bytes([17, 0, 0xC2, 4]) + (65800).to_bytes(4), length=0),
    "extension_chain",
)
forward(
    "total-length-65535",
    "The longest payload that fits IPv4, 65515 bytes, is carried over.",
    "RFC 7915 5.1, RFC 791 3.1",
    in6(udp(pattern(65507))),
    out4(udp(pattern(65507)), df=True, ident=0),
    config=config(mtu4=65535, mtu6=65535),
    choice="With DF set the identification has no meaning and is 0 (RFC 6864 section 4.1).",
)
