# SPDX-License-Identifier: Apache-2.0 OR MIT
"""IPv4 headers into IPv6 headers: every field (RFC 7915 section 4.1), and what no router forwards."""

from .network import Topic, config, in4, out6, told4
from .wire import pattern, raw, tcp, udp

TOPIC = Topic("header-4to6", "IPv4 headers into IPv6 headers")
forward, drop = TOPIC.forward, TOPIC.drop

forward(
    "udp-4to6",
    "Version 6, flow label 0, payload length without the IPv4 header, next header copied, TTL one less, addresses mapped.",
    "RFC 7915 4.1, RFC 7915 A.1",
    in4(udp(pattern(32)), ident=0x1234, df=True),
    out6(udp(pattern(32))),
)
forward(
    "tcp-4to6",
    "A TCP segment is carried over with its checksum brought to the IPv6 pseudo-header.",
    "RFC 7915 4.1, RFC 7915 4.5",
    in4(tcp(pattern(33)), df=True),
    out6(tcp(pattern(33))),
)
forward(
    "udp-without-data-4to6",
    "The smallest UDP datagram is 8 bytes of payload.",
    "RFC 7915 4.1",
    in4(udp(b"")),
    out6(udp(b"")),
)

for bit in range(8):
    forward(
        f"tos-bit-{bit}-4to6",
        f"The type of service is copied to the traffic class, bit {bit} of it too.",
        "RFC 7915 4.1",
        in4(udp(), tos=1 << bit),
        out6(udp(), tc=1 << bit),
    )
forward(
    "networkmanager-clat-tos-top-bit",
    "Expedited forwarding, 0xb8, stays 0xb8; with its top bit lost it would be 0x38.",
    "RFC 7915 4.1",
    in4(udp(), tos=0xB8),
    out6(udp(), tc=0xB8),
)
forward(
    "tos-all-ones-4to6",
    "All 8 bits of the type of service are copied, ECN's two among them, and none reaches the flow label.",
    "RFC 7915 4.1",
    in4(udp(), tos=0xFF),
    out6(udp(), tc=0xFF),
)
forward(
    "tos-ignored-4to6",
    "Configured so, the traffic class is zero whatever the type of service.",
    "RFC 7915 4.1",
    in4(udp(), tos=0xFF),
    out6(udp(), tc=0),
    config=config(traffic_class="zero"),
)
forward(
    "identification-without-fragment-4to6",
    "An identification without fragmentation has no place in IPv6: no Fragment header is made for it.",
    "RFC 7915 4, RFC 7915 4.1",
    in4(udp(), ident=0xFFFF),
    out6(udp()),
)
forward(
    "df-clear-no-fragment-header",
    "A packet with DF clear that is no fragment and fits gets no Fragment header.",
    "RFC 7915 4",
    in4(udp(pattern(100)), ident=77, df=False),
    out6(udp(pattern(100))),
    judges="Jool siit/7915/cd, Tayga",
)
forward(
    "reserved-flag-ignored",
    "The reserved bit of the flags means nothing.",
    "RFC 791 3.1, RFC 7915 4.1",
    in4(udp(), evil=True),
    out6(udp()),
)
forward(
    "padding-of-the-link-cut-4to6",
    "Bytes behind the total length belong to the link and are not carried over.",
    "RFC 7915 4.1, RFC 894",
    in4(udp(b"x")) + raw(bytes(17), "17 bytes of padding of the link"),
    out6(udp(b"x")),
)

forward(
    "ttl-255-4to6",
    "A TTL of 255 becomes a hop limit of 254.",
    "RFC 7915 4.1",
    in4(udp(), ttl=255),
    out6(udp(), hop=254),
)
forward(
    "ttl-2-4to6",
    "A TTL of 2 survives as a hop limit of 1.",
    "RFC 7915 4.1",
    in4(udp(), ttl=2),
    out6(udp(), hop=1),
)
for ttl in (1, 0):
    late = in4(udp(), ttl=ttl)
    drop(
        f"ttl-{ttl}-4to6",
        f"A TTL of {ttl} ends here, and the sender is told with ICMPv4 Time Exceeded, code 0.",
        "RFC 7915 4.1, RFC 792, RFC 1812 5.3.1",
        late,
        "hop_limit",
        told4(11, 0, late),
    )

# --- addresses that no router forwards -------------------------------------------------------------------------------

for source, what in (
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "this-network"),
    ("127.0.0.1", "loopback"),
    ("169.254.7.7", "link-local"),
    ("224.0.0.5", "multicast"),
    ("255.255.255.255", "broadcast"),
):
    drop(
        f"source-{what}-4to6",
        f"A packet from {source} is silently discarded.",
        "RFC 7915 4.1, RFC 1812 5.3.7" if what != "link-local" else "RFC 7915 4.1, RFC 3927 7",
        in4(udp(), src=source),
        "source_illegal",
    )
for destination, what in (
    ("0.0.0.0", "unspecified"),
    ("127.0.0.1", "loopback"),
    ("169.254.7.7", "link-local"),
    ("255.255.255.255", "broadcast"),
):
    drop(
        f"destination-{what}-4to6",
        f"A packet to {destination} is not forwarded, and nobody is told.",
        "RFC 1812 5.3.7" if what != "link-local" else "RFC 3927 7",
        in4(udp(), dst=destination),
        "destination_illegal",
    )
drop(
    "multicast-4to6",
    "A packet to a group is not translated by the unicast mapping, and never answered.",
    "RFC 7915 1.2, RFC 1812 4.3.2.7",
    in4(udp(), dst="239.1.2.3"),
    "multicast",
)

for source, destination, what in (("240.0.0.1", "192.0.2.33", "source"), ("198.51.100.2", "240.0.0.1", "destination")):
    forward(
        f"class-e-{what}-4to6",
        f"A {what} of class E, which hosts use today, is translated like any.",
        "RFC 1812 5.3.7, RFC 7915 4.1",
        in4(udp(), src=source, dst=destination),
        out6(
            udp(),
            src="2001:db8:1f0:0:1::" if what == "source" else "2001:db8:1c6:3364:2::",
            dst="2001:db8:1f0:0:1::" if what == "destination" else "2001:db8:1c0:2:21::",
        ),
        choice="RFC 1812 would not forward it; hosts and routers of today do.",
    )

# --- headers that are none -------------------------------------------------------------------------------------------

whole = in4(udp(pattern(16)))
drop("empty-packet", "No bytes are no packet.", "RFC 791 3.1", raw(b""), "truncated")
drop(
    "version-5",
    "A version that is neither 4 nor 6 is nothing that can be translated.",
    "RFC 791 3.1, RFC 8200 3",
    in4(udp(), version=5),
    "not_ip",
)
drop("ipv4-one-byte", "The version alone is no header.", "RFC 791 3.1, RFC 1812 5.2.2", whole[:1], "truncated")
drop("ipv4-header-cut-at-19-bytes", "A header of 19 bytes is cut off.", "RFC 791 3.1, RFC 1812 5.2.2", whole[:19], "truncated")
drop(
    "ipv4-header-length-16",
    "A header length below 20 bytes is a lie.",
    "RFC 791 3.1, RFC 1812 5.2.2",
    in4(udp(), words=4),
    "ipv4_header_length",
)
drop(
    "ipv4-header-length-beyond-total-length",
    "A header longer than the whole packet is a lie.",
    "RFC 791 3.1, RFC 1812 5.2.2",
    in4(raw(b""), proto=17, words=6),
    "ipv4_header_length",
)
drop(
    "ipv4-total-length-below-header",
    "A total length below the header's is a lie.",
    "RFC 791 3.1, RFC 1812 5.2.2",
    in4(udp(), total=19),
    "ipv4_header_length",
)
drop(
    "ipv4-total-length-zero",
    "A total length of zero, as left by an offload, is no length.",
    "RFC 791 3.1, RFC 1812 5.2.2",
    in4(udp(), total=0),
    "ipv4_header_length",
)
drop(
    "ipv4-total-length-beyond-packet",
    "A total length of one byte more than there is means that something is missing.",
    "RFC 791 3.1, RFC 1812 5.2.2",
    in4(udp(b"x" * 12), total=41),
    "truncated",
)
drop(
    "ipv4-options-cut-off",
    "A header length of 24 bytes of which 20 are there is cut off.",
    "RFC 791 3.1, RFC 1812 5.2.2",
    in4(raw(b""), proto=17, words=6, total=24),
    "truncated",
)
drop(
    "ipv4-header-checksum-wrong",
    "A header with a wrong checksum is silently discarded, lest a broken address be translated.",
    "RFC 1812 5.2.2, RFC 791 3.1",
    in4(udp(), csum=0x0BAD),
    "ipv4_header_checksum",
)
drop(
    "ipv4-header-checksum-zero",
    "A header checksum of zero is not a missing one; it is compared like any other.",
    "RFC 1812 5.2.2, RFC 791 3.1",
    in4(udp(), csum=0),
    "ipv4_header_checksum",
)

# --- options ---------------------------------------------------------------------------------------------------------

ROUTED = bytes([198, 51, 100, 9])
for name, what, options in (
    ("no-operation", "No operation, four times, is", bytes([1, 1, 1, 1])),
    ("end-of-list", "An end of the list, with junk behind it that nobody reads, is", bytes([0, 131, 1, 0])),
    ("record-route", "A record route that still has room is", bytes([7, 7, 4, 0, 0, 0, 0, 0])),
    ("timestamp", "A timestamp is", bytes([68, 12, 5, 0]) + bytes(8)),
    ("router-alert", "A router alert is", bytes([148, 4, 0, 0])),
    ("stream-identifier", "A stream identifier is", bytes([136, 4, 1, 2])),
    ("security", "The security option is", bytes([130, 11]) + bytes(9) + bytes([0])),
    ("unknown", "An option that nobody knows is", bytes([0x9E, 6, 1, 2, 3, 4, 1, 0])),
    ("forty-bytes", "As many options as fit, 40 bytes, are", bytes([1] * 39 + [0])),
):
    forward(
        f"option-{name}-ignored",
        f"{what} ignored and the packet translated as if there were none.",
        "RFC 7915 4.1, RFC 791 3.1",
        in4(udp(pattern(16)), options=options),
        out6(udp(pattern(16))),
        judges="Jool siit/7915/aa",
    )
for kind, name in ((131, "loose"), (137, "strict")):
    expired = in4(udp(), options=bytes([1, kind, 7, 8]) + ROUTED)
    forward(
        f"{name}-source-route-expired",
        f"A {name} source route whose pointer is beyond its length has been followed to its end, and is ignored.",
        "RFC 7915 4.1, RFC 791 3.1",
        expired,
        out6(udp()),
        judges="Jool siit/7915/aa",
    )
    unexpired = in4(udp(), options=bytes([1, kind, 7, 4]) + ROUTED)
    drop(
        f"{name}-source-route-unexpired",
        f"A {name} source route with a node left forbids translation; the sender is told with type 3, code 5.",
        "RFC 7915 4.1, RFC 791 3.1",
        unexpired,
        "source_route",
        told4(3, 5, unexpired),
    )
behind = in4(udp(), options=bytes([7, 7, 4, 0, 0, 0, 0, 131, 7, 4]) + ROUTED + bytes([1, 0]))
drop(
    "source-route-behind-another-option",
    "An unexpired source route is found behind other options.",
    "RFC 7915 4.1, RFC 791 3.1",
    behind,
    "source_route",
    told4(3, 5, behind),
)
forward(
    "source-route-empty",
    "A source route of three bytes names no node, and its pointer, 4, is beyond its length.",
    "RFC 791 3.1, RFC 7915 4.1",
    in4(udp(), options=bytes([131, 3, 4, 0])),
    out6(udp()),
)
for name, what, options in (
    ("length-zero", "An option of length 0 would be read for ever", bytes([7, 0, 4, 0])),
    ("length-one", "An option of length 1 is shorter than its own type and length", bytes([7, 1, 4, 0])),
    ("length-beyond-header", "An option that reaches beyond the header reads the payload", bytes([7, 9, 4, 0])),
    ("without-length", "An option whose length byte is missing is cut off", bytes([1, 1, 1, 7])),
    ("source-route-without-pointer", "A source route of two bytes has no pointer", bytes([131, 2, 1, 1])),
):
    drop(
        f"option-junk-{name}",
        f"{what}; the packet is dropped.",
        "RFC 791 3.1, RFC 1812 4.3.3.5",
        in4(udp(), options=options),
        "ipv4_option",
        choice="RFC 1812 has it answered, Parameter Problem; a router's IP layer has done that before it hands packets on.",
    )
forward(
    "destination-broadcast-of-a-subnet",
    "A translator knows no subnets of IPv4: an address that ends in 255 is one like any other.",
    "RFC 7915 4.1, RFC 6052 2.3",
    in4(udp(), dst="192.0.2.255"),
    out6(udp(), dst="2001:db8:1c0:2:ff::"),
)
