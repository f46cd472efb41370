# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Transport protocols and their checksums (RFC 7915 sections 4.5 and 5.5), echo among them."""

from .network import H4, H4_IN_6, H6, H6_IN_4, Topic, config, in4, in6, out4, out6, told4
from .wire import (
    dccp,
    echo4,
    echo6,
    icmp4,
    icmp6,
    over4,
    over6,
    pattern,
    plain,
    raw,
    tcp,
    udp,
    udplite,
)

TOPIC = Topic("transport", "Transport protocols and checksums")
forward, drop = TOPIC.forward, TOPIC.drop


def zero_sum(build, over, src: str, dst: str) -> bytes:
    """Two bytes of data with which the checksum of ``build(data)`` comes out as zero: those that it had without them."""
    carried = over(build(b"\0\0"), src, dst)
    return carried.data[6:8]


# --- the checksum that comes out as zero -----------------------------------------------------------------------------

for name, build, judges in (
    ("udp", udp, "RFC 768 text; Linux, FreeBSD"),
    ("udplite", udplite, None),
):
    data = zero_sum(build, over6, H4_IN_6, H6)
    assert over6(build(data), H4_IN_6, H6).data[6:8] == b"\xff\xff"
    forward(
        f"jool-{name}-checksum-zero-sent-as-ffff-4to6" if name == "udp" else f"{name}-checksum-zero-sent-as-ffff-4to6",
        "A checksum that comes out as 0 in IPv6 is sent as 0xffff, for 0 means none.",
        "RFC 768, RFC 8200 8.1" if name == "udp" else "RFC 3828 3.1",
        in4(build(data)),
        out6(build(data)),
        judges=judges,
    )
    data = zero_sum(build, over4, H6_IN_4, H4)
    assert over4(build(data), H6_IN_4, H4).data[6:8] == b"\xff\xff"
    forward(
        f"tayga-{name}-checksum-zero-sent-as-ffff-6to4" if name == "udp" else f"{name}-checksum-zero-sent-as-ffff-6to4",
        "A checksum that comes out as 0 in IPv4 is sent as 0xffff, for 0 means none.",
        "RFC 768" if name == "udp" else "RFC 3828 3.1",
        in6(build(data)),
        out4(build(data)),
        judges=judges,
    )
forward(
    "udp-checksum-ffff-4to6",
    "A checksum of 0xffff is a right one of a datagram that sums to zero, and is carried over as such.",
    "RFC 768, RFC 7915 4.5",
    in4(udp(zero_sum(udp, over4, H4, H6_IN_4))),
    out6(udp(zero_sum(udp, over4, H4, H6_IN_4))),
)
forward(
    "udp-checksum-ffff-6to4",
    "A checksum of 0xffff that comes from IPv6 is carried over like any.",
    "RFC 768, RFC 7915 5.5",
    in6(udp(zero_sum(udp, over6, H6, H4_IN_6))),
    out4(udp(zero_sum(udp, over6, H6, H4_IN_6))),
)
forward(
    "vpp-udp-checksum-kept-6to4",
    "A UDP checksum is carried over from IPv6, not given up; VPP always writes 0.",
    "RFC 7915 5.5",
    in6(udp(b"vpp")),
    out4(udp(b"vpp")),
)

# A TCP checksum has no such rule: zero is sent as zero.
for at in range(65536):
    tcp_data = at.to_bytes(2)
    if over6(tcp(tcp_data), H4_IN_6, H6).data[16:18] == b"\0\0":
        break
forward(
    "tcp-checksum-zero-stays-zero",
    "A TCP checksum that comes out as 0 is sent as 0, which is no exception there.",
    "RFC 9293 3.1, RFC 7915 4.5",
    in4(tcp(tcp_data)),
    out6(tcp(tcp_data)),
)

# --- UDP without checksum --------------------------------------------------------------------------------------------

without = in4(udp(b"none", csum=0))
drop(
    "udp-without-checksum-dropped",
    "A UDP datagram without checksum is dropped unless configured otherwise, and its sender is told.",
    "RFC 7915 4.5, RFC 7915 4.4",
    without,
    "udp_zero_checksum",
    told4(3, 13, without),
    judges="Jool siit/7915/ea",
)
forward(
    "udp-without-checksum-computed",
    "Configured so, a UDP datagram without checksum gets one.",
    "RFC 7915 4.5",
    in4(udp(b"none", csum=0)),
    out6(udp(b"none")),
    config=config(udp_zero_checksum="compute"),
    judges="Jool siit/7915/eb",
)
forward(
    "udp-without-checksum-odd-length-computed",
    "An odd number of bytes is summed with a zero behind them, which is not sent.",
    "RFC 7915 4.5, RFC 768, RFC 1071 1",
    in4(udp(pattern(33), csum=0)),
    out6(udp(pattern(33))),
    config=config(udp_zero_checksum="compute"),
)
forward(
    "udp-computed-checksum-zero-sent-as-ffff",
    "A computed checksum of 0 is sent as 0xffff.",
    "RFC 7915 4.5, RFC 8200 8.1",
    in4(udp(zero_sum(udp, over6, H4_IN_6, H6), csum=0)),
    out6(udp(zero_sum(udp, over6, H4_IN_6, H6))),
    config=config(udp_zero_checksum="compute"),
)
forward(
    "udp-without-checksum-from-a-port-of-a-tunnel",
    "Datagrams of tunnels, which the configuration names by their port, stay without checksum: here by their source.",
    "RFC 8200 8.1, RFC 6936 4",
    in4(udp(b"tunnel", csum=0)),
    out6(udp(b"tunnel", csum=0)),
    config=config(udp_zero_checksum_ports=[4789, 5000]),
    choice="whether a datagram without checksum passes as it is",
)
forward(
    "udp-without-checksum-to-a-port-of-a-tunnel",
    "The same by their destination, even if others get a checksum.",
    "RFC 8200 8.1, RFC 6936 4",
    in4(udp(b"tunnel", csum=0)),
    out6(udp(b"tunnel", csum=0)),
    config=config(udp_zero_checksum="compute", udp_zero_checksum_ports=[5001]),
    choice="whether a datagram without checksum passes as it is",
)
trailing = udp(b"data", csum=0).build(lambda number, length: b"") + raw(b"behind", "6 bytes behind the datagram")
forward(
    "udp-without-checksum-shorter-than-the-packet",
    "The computed checksum covers what the UDP length says, and what is behind it is carried along.",
    "RFC 7915 4.5, RFC 768",
    in4(trailing, proto=17),
    out6(over6(udp(b"data"), H4_IN_6, H6) + raw(b"behind", "6 bytes behind the datagram"), nh=17),
    config=config(udp_zero_checksum="compute"),
)
forward(
    "udp-without-checksum-6to4",
    "A UDP datagram that comes from IPv6 without checksum, as tunnels send it, stays without.",
    "RFC 6935 5, RFC 7915 5.1",
    in6(udp(b"tunnel", csum=0)),
    out4(udp(b"tunnel", csum=0)),
    choice="RFC 7915 does not say it; IPv4 allows it, and the receiver judges.",
)

# --- wrong checksums stay wrong --------------------------------------------------------------------------------------

for name, build, at in (("udp", udp, 6), ("tcp", tcp, 16)):
    right4, right6 = over4(build(b"bad"), H4, H6_IN_4), over6(build(b"bad"), H4_IN_6, H6)
    wrong4 = int.from_bytes(right4.data[at : at + 2]) - 0x0101
    wrong6 = int.from_bytes(right6.data[at : at + 2]) - 0x0101
    assert min(wrong4, wrong6) > 0
    forward(
        f"{name}-wrong-checksum-stays-wrong",
        "A wrong checksum is not made right by translation: it stays wrong by the same difference.",
        "RFC 7915 4.5, RFC 1624 3",
        in4(build(b"bad", csum=wrong4)),
        out6(build(b"bad", csum=wrong6)),
        judges="Jool siit/pktgen/csumfail",
    )

# --- echo ------------------------------------------------------------------------------------------------------------

for kind4, kind6, name in ((8, 128, "request"), (0, 129, "reply")):
    forward(
        f"echo-{name}-4to6",
        f"Echo {name}: type {kind4} becomes {kind6}, and the checksum gets a pseudo-header.",
        "RFC 7915 4.2",
        in4(echo4(kind4)),
        out6(echo6(kind6)),
    )
    forward(
        f"echo-{name}-6to4",
        f"Echo {name}: type {kind6} becomes {kind4}, and the checksum loses its pseudo-header.",
        "RFC 7915 5.2",
        in6(echo6(kind6)),
        out4(echo4(kind4)),
    )
forward(
    "echo-odd-length-4to6",
    "The pseudo-header counts the true length of an odd message.",
    "RFC 7915 4.2, RFC 8200 8.1",
    in4(echo4(data=pattern(33))),
    out6(echo6(data=pattern(33))),
)
forward(
    "echo-reply-of-zeros-6to4",
    "An echo reply of nothing but zeros has the checksum 0xffff: by difference it could come out as 0.",
    "RFC 7915 5.2, RFC 1624 3",
    in6(icmp6(129, 0, bytes(4), bytes(8))),
    out4(icmp4(0, 0, bytes(4), bytes(8))),
)
wrong4 = int.from_bytes(over4(echo4(), H4, H6_IN_4).data[2:4]) - 0x0101
wrong6 = int.from_bytes(over6(echo6(), H4_IN_6, H6).data[2:4]) - 0x0101
forward(
    "echo-wrong-checksum-stays-wrong-4to6",
    "A wrong checksum of an echo message stays wrong.",
    "RFC 7915 4.2, RFC 1624 3",
    in4(echo4(csum=wrong4)),
    out6(echo6(csum=wrong6)),
    judges="Jool siit/pktgen/csumfail",
)

# --- the others ------------------------------------------------------------------------------------------------------

forward(
    "udplite-partial-coverage-4to6",
    "The checksum of UDP-Lite covers the header and a part of the data; the pseudo-header counts all of it.",
    "RFC 3828 3.1, RFC 3828 3.2, RFC 7915 4.5",
    in4(udplite(pattern(40), coverage=20)),
    out6(udplite(pattern(40), coverage=20)),
    choice="Support of UDP-Lite is optional.",
)
forward(
    "udplite-partial-coverage-6to4",
    "From IPv6, the smallest coverage of UDP-Lite, its header, is carried over.",
    "RFC 3828 3.1, RFC 3828 3.2, RFC 7915 5.5",
    in6(udplite(pattern(40), coverage=8)),
    out4(udplite(pattern(40), coverage=8)),
    choice="Support of UDP-Lite is optional.",
)
forward(
    "dccp-4to6",
    "The checksum of DCCP has the pseudo-header of TCP, and follows it.",
    "RFC 4340 9.1, RFC 7915 4.5",
    in4(dccp()),
    out6(dccp()),
    choice="Support of DCCP is optional; Jool carries it over unchanged.",
)
forward(
    "dccp-6to4",
    "From IPv6, the checksum of DCCP follows the addresses as that of TCP does.",
    "RFC 4340 9.1, RFC 7915 5.5",
    in6(dccp()),
    out4(dccp()),
    choice="Support of DCCP is optional; Jool carries it over unchanged.",
)
for number, name, words in (
    (132, "sctp", "SCTP, whose CRC covers no addresses, is"),
    (47, "gre", "GRE is"),
    (50, "esp", "ESP is"),
    (51, "ah", "AH, which will fail at its receiver, is"),
    (4, "ipv4-in-ip", "A tunnelled IPv4 packet is"),
    (41, "ipv6-in-ip", "A tunnelled IPv6 packet is"),
    (112, "vrrp", "VRRP is"),
    (253, "experimental", "A protocol for experiments is"),
    (255, "reserved", "The reserved protocol number is"),
    (61, "unknown", "A protocol that nobody knows is"),
):
    forward(
        f"{name}-copied-4to6",
        f"{words} carried over unchanged under its number, {number}.",
        "RFC 7915 4.1, RFC 7915 4.5",
        in4(plain(number, pattern(29), f"29 bytes of protocol {number}")),
        out6(plain(number, pattern(29), f"29 bytes of protocol {number}")),
        judges="Jool siit/7915/fa",
    )
for number, name in ((132, "sctp"), (47, "gre"), (50, "esp"), (253, "experimental")):
    forward(
        f"{name}-copied-6to4",
        f"Protocol {number} is carried over unchanged from IPv6 too.",
        "RFC 7915 5.1, RFC 7915 5.5",
        in6(plain(number, pattern(29), f"29 bytes of protocol {number}")),
        out4(plain(number, pattern(29), f"29 bytes of protocol {number}")),
        judges="Jool siit/7915/fa",
    )
drop(
    "igmp-dropped",
    "IGMP has meaning on one link only, and is silently dropped.",
    "RFC 7915 4.2",
    in4(plain(2, bytes.fromhex("1600e9fde0000102"), "IGMPv2 report")),
    "igmp",
)
for number, name in ((58, "icmpv6"), (0, "hop-by-hop"), (43, "routing"), (44, "fragment"), (60, "destination-options")):
    drop(
        f"ipv4-protocol-{name}-refused",
        f"IPv4 protocol {number} would be read as an IPv6 header that nobody has checked; it is refused.",
        "RFC 7915 4.1, RFC 8200 4",
        in4(plain(number, bytes([17, 0, 1, 4]) + bytes(20), f"24 bytes of protocol {number}")),
        "protocol",
        choice="The RFC would have the number copied; what results would be another packet than the one that was sent.",
    )
drop(
    "ipv6-next-header-icmpv4-refused",
    "Next header 1 behind IPv6 would be read as ICMPv4 that nobody has checked; it is refused.",
    "RFC 7915 5.1, RFC 792",
    in6(plain(1, bytes([8, 0]) + bytes(10), "12 bytes of protocol 1")),
    "protocol",
    choice="The RFC would have the number copied; what results would be another packet than the one that was sent.",
)

# --- lies and truncations --------------------------------------------------------------------------------------------

for name, there, carried in (
    ("udp-header-of-7-bytes", 7, udp(b"")),
    ("tcp-header-of-19-bytes", 19, tcp()),
    ("icmp-header-of-7-bytes", 7, echo4(data=b"")),
    ("udplite-header-of-7-bytes", 7, udplite(b"")),
    ("dccp-header-of-11-bytes", 11, dccp(b"")),
    ("no-transport-header", 0, tcp()),
):
    drop(
        f"{name}-4to6",
        f"A transport header of which {there} bytes are there is cut off.",
        "RFC 7915 4.5, RFC 791 3.1",
        in4(over4(carried, H4, H6_IN_4)[:there], proto=carried.number),
        "transport_truncated",
    )
for name, there, carried in (
    ("udp-header-of-7-bytes", 7, udp(b"")),
    ("tcp-header-of-19-bytes", 19, tcp()),
    ("icmp-header-of-7-bytes", 7, echo6(data=b"")),
):
    drop(
        f"{name}-6to4",
        f"A transport header of which {there} bytes are there is cut off.",
        "RFC 7915 5.5, RFC 8200 3",
        in6(over6(carried, H6, H4_IN_6)[:there], nh=carried.number),
        "transport_truncated",
    )
for length in (0, 7):
    drop(
        f"udp-length-{length}-4to6",
        f"A UDP length of {length} is below that of the header.",
        "RFC 768",
        in4(udp(b"", length=length, csum=0x1234)),
        "udp_length",
    )
drop(
    "udp-length-beyond-packet-4to6",
    "A UDP length beyond the packet's is a lie; a checksum would be summed over bytes that are not there.",
    "RFC 768, RFC 7915 4.5",
    in4(udp(b"four", length=13, csum=0x1234)),
    "udp_length",
)
drop(
    "udp-length-beyond-packet-6to4",
    "A UDP length beyond the IPv6 payload is a lie.",
    "RFC 768, RFC 7915 5.5",
    in6(udp(b"four", length=13, csum=0x1234)),
    "udp_length",
)
forward(
    "udp-options-behind-the-datagram",
    "Bytes between the UDP length and the end of the packet are carried over; the checksum does not count them.",
    "RFC 768, RFC 7915 4.5",
    in4(over4(udp(b"data"), H4, H6_IN_4) + raw(b"\x01\x01\x00", "UDP options"), proto=17),
    out6(over6(udp(b"data"), H4_IN_6, H6) + raw(b"\x01\x01\x00", "UDP options"), nh=17),
)
forward(
    "tcp-options-carried-over",
    "TCP options, MSS among them, are data to a translator.",
    "RFC 7915 4, RFC 7915 4.5",
    in4(tcp(flags=0x02, options=bytes([2, 4, 5, 0xB4, 1, 1, 4, 2])), df=True),
    out6(tcp(flags=0x02, options=bytes([2, 4, 5, 0xB4, 1, 1, 4, 2]))),
)
