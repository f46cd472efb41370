# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Explicit address mappings and hairpinning (RFC 7757), and the CLAT that is made of one (RFC 6877)."""

from typing import Any

from .errors import named4
from .network import CONFIG, OWN4, Topic, in4, in6, out4, out6, told4, told6
from .wire import echo4, echo6, fragment_header, icmp4, icmp6, ip4, ip6, over6, pattern, tcp, udp, word

TOPIC = Topic("mappings", "Explicit address mappings, hairpinning, CLAT")
forward, drop = TOPIC.forward, TOPIC.drop

# RFC 7757 figure 1, with the well-known prefix, which there carries documentation addresses.
EAMT: dict[str, Any] = {
    "pref64": ["64:ff9b::/96"],
    "eam": [
        {"v4": "192.0.2.1/32", "v6": "2001:db8:aaaa::/128"},
        {"v4": "192.0.2.2/32", "v6": "2001:db8:bbbb::b/128"},
        {"v4": "192.0.2.16/28", "v6": "2001:db8:cccc::/124"},
        {"v4": "192.0.2.128/26", "v6": "2001:db8:dddd::/64"},
        {"v4": "192.0.2.192/29", "v6": "2001:db8:eeee:8::/62"},
        {"v4": "192.0.2.224/31", "v6": "64:ff9b::/127"},
    ],
    "allow_private_with_wkp": True,
    "icmp": {"address4": OWN4, "address6": "2001:db8::1", "source_pool4": ["198.51.100.1/32"]},
}
PEER, PEER_IN_6 = "203.0.113.5", "64:ff9b::cb00:7105"

# RFC 7757 figure 7. An address behind 64:ff9b::/96 that is no mapping's is found by the prefix.
for at, (v4, v6) in enumerate(
    (
        ("192.0.2.1", "2001:db8:aaaa::"),
        ("192.0.2.2", "2001:db8:bbbb::b"),
        ("192.0.2.16", "2001:db8:cccc::"),
        ("192.0.2.24", "2001:db8:cccc::8"),
        ("192.0.2.31", "2001:db8:cccc::f"),
        ("192.0.2.128", "2001:db8:dddd::"),
        ("192.0.2.152", "2001:db8:dddd:0:6000::"),
        ("192.0.2.183", "2001:db8:dddd:0:dc00::"),
        ("192.0.2.191", "2001:db8:dddd:0:fc00::"),
        ("192.0.2.195", "2001:db8:eeee:9:8000::"),
        ("192.0.2.225", "64:ff9b::1"),
        ("192.0.2.248", "64:ff9b::c000:2f8"),
    ),
    1,
):
    forward(
        f"eam-example-{at}-4to6",
        f"{v4} becomes {v6}, as in the example.",
        "RFC 7757 3.3.1, RFC 7757 B",
        in4(udp(), src=PEER, dst=v4),
        out6(udp(), src=PEER_IN_6, dst=v6),
        config=EAMT,
    )
    forward(
        f"eam-example-{at}-6to4",
        f"{v6} becomes {v4}, as in the example.",
        "RFC 7757 3.3.2, RFC 7757 B",
        in6(udp(), src=v6, dst=PEER_IN_6),
        out4(udp(), src=v4, dst=PEER),
        config=EAMT,
    )
forward(
    "eam-trailing-bits-discarded",
    "The bits of an IPv6 suffix for which IPv4 has no room are discarded.",
    "RFC 7757 3.3.2",
    in6(udp(), src="2001:db8:dddd:0:6000::1234", dst=PEER_IN_6),
    out4(udp(), src="192.0.2.152", dst=PEER),
    config=EAMT,
)

NESTED = {
    **CONFIG,
    "eam": [
        {"v4": "192.0.2.0/24", "v6": "2001:db8:4::/120"},
        {"v4": "192.0.2.40/29", "v6": "2001:db8:4::28/125"},
        {"v4": "192.0.2.42/32", "v6": "2001:db8:4::2a/128"},
    ],
}
SHIFTED = {
    **CONFIG,
    "eam": [
        {"v4": "192.0.2.0/24", "v6": "2001:db8:4::/64"},
        {"v4": "192.0.2.40/29", "v6": "2001:db8:4::/80"},
    ],
}
for name, configuration, v4, v6, which in (
    ("host-in-network", NESTED, "192.0.2.42", "2001:db8:4::2a", "the host's"),
    ("network-in-network", NESTED, "192.0.2.45", "2001:db8:4::2d", "the inner network's"),
    ("beside-the-inner-one", NESTED, "192.0.2.48", "2001:db8:4::30", "the outer network's"),
    ("suffixes-of-different-lengths", SHIFTED, "192.0.2.41", "2001:db8:4:0:0:2000::", "the inner network's"),
    ("suffixes-of-different-lengths-outer", SHIFTED, "192.0.2.33", "2001:db8:4:0:2100::", "the outer network's"),
):
    forward(
        f"eam-longest-{name}-4to6",
        f"Of nested mappings the longest match decides: for {v4} it is {which}.",
        "RFC 7757 3.3.1, RFC 7757 5",
        in4(udp(), dst=v4),
        out6(udp(), dst=v6),
        config=configuration,
    )
    forward(
        f"eam-longest-{name}-6to4",
        f"Of nested mappings the longest match decides: for {v6} it is {which}.",
        "RFC 7757 3.3.2, RFC 7757 5",
        in6(udp(), src=v6),
        out4(udp(), src=v4),
        config=configuration,
    )
forward(
    "eam-whole-internet",
    "A mapping of 0.0.0.0/0 takes the place of a prefix.",
    "RFC 7757 A.2, RFC 7757 3.3.1",
    in4(udp(), src="198.51.100.2", dst="192.0.2.33"),
    out6(udp(), src="2001:db8:ff00::c633:6402", dst="2001:db8:ff00::c000:221"),
    config={"eam": [{"v4": "0.0.0.0/0", "v6": "2001:db8:ff00::/96"}]},
)
forward(
    "eam-before-prefix",
    "An address that a mapping covers is not embedded in the prefix.",
    "RFC 7757 3.3.1, RFC 7915 6",
    in4(tcp(), src="192.0.2.2", dst="192.0.2.1"),
    out6(tcp(), src="2001:db8:bbbb::b", dst="2001:db8:aaaa::"),
    config=EAMT,
)
forward(
    "eam-checksum-not-neutral",
    "Mapped addresses sum up differently from their counterparts; the transport checksum follows.",
    "RFC 7757 6, RFC 7915 5.5",
    in6(tcp(pattern(9)), src="2001:db8:bbbb::b", dst=PEER_IN_6),
    out4(tcp(pattern(9)), src="192.0.2.2", dst=PEER),
    config=EAMT,
)
forward(
    "eam-inside-icmp-error",
    "Mappings hold for the packet inside an ICMP error, too.",
    "RFC 7757 3.2, RFC 7915 4.3",
    in4(icmp4(3, 3, body=ip4(udp(), "192.0.2.2", PEER, ttl=9)), src=PEER, dst="192.0.2.2"),
    out6(icmp6(1, 4, body=ip6(udp(), "2001:db8:bbbb::b", PEER_IN_6, hop=9)), src=PEER_IN_6, dst="2001:db8:bbbb::b"),
    config=EAMT,
)

# --- hairpinning (RFC 7757 section 4, examples of appendix B.1) ------------------------------------------------------

A, A_IN_6, A_IN_4 = "2001:db8:aaaa::", "64:ff9b::c000:201", "192.0.2.1"
B, B_IN_6 = "2001:db8:bbbb::b", "64:ff9b::c000:202"

forward(
    "hairpin-normal-packet",
    "A packet to the IPv4-converted address of a mapped node comes back, from the IPv4-converted address of its sender.",
    "RFC 7757 4.2.2, RFC 7757 4.2.1, RFC 7757 B.1",
    ip6(udp(), A, B_IN_6),
    ip6(udp(), A_IN_6, B, hop=63),
    config=EAMT,
    judges="Jool siit/7915/ga",
)
forward(
    "hairpin-response",
    "The response takes the same way, so that the addresses match those of the request.",
    "RFC 7757 4.2.2, RFC 7757 B.1",
    ip6(udp(), B, A_IN_6),
    ip6(udp(), B_IN_6, A, hop=63),
    config=EAMT,
)
forward(
    "hairpin-echo",
    "An echo request that is hairpinned stays one of ICMPv6.",
    "RFC 7757 4.2.2",
    ip6(echo6(), A, B_IN_6),
    ip6(echo6(), A_IN_6, B, hop=63),
    config=EAMT,
)
forward(
    "hairpin-udp-without-checksum",
    "A UDP datagram of IPv6 without checksum, as tunnels send it, reaches an IPv6 node as it was sent.",
    "RFC 7757 4.2.2, RFC 6935 5",
    ip6(udp(csum=0), A, B_IN_6),
    ip6(udp(csum=0), A_IN_6, B, hop=63),
    config=EAMT,
    choice="By the letter the second pass would drop it (RFC 7915 section 4.5), though neither node is one of IPv4.",
)
late = ip6(udp(), A, B_IN_6, hop=1)
drop(
    "hairpin-hop-limit",
    "The translator is one hop for a hairpinned packet; one that ends here is answered.",
    "RFC 7757 4.2.2, RFC 4443 3.3",
    late,
    "hop_limit",
    told6(3, 0, late, src="2001:db8::1", dst=A),
    config=EAMT,
)
forward(
    "hairpin-hop-limit-once",
    "The second pass does not take from the hop limit.",
    "RFC 7757 4.2.2",
    ip6(udp(), A, B_IN_6, hop=2),
    ip6(udp(), A_IN_6, B, hop=1),
    config=EAMT,
)
whole_in, whole_out = over6(udp(pattern(200)), A, B_IN_6), over6(udp(pattern(200)), A_IN_6, B)
forward(
    "hairpin-first-fragment",
    "A fragment comes back as one, with the 16 bits of its identification that IPv4 carries.",
    "RFC 7757 4.2.2, RFC 7915 5.1.1, RFC 7915 4.1",
    ip6(whole_in[:104], A, B_IN_6, first=44, ext=fragment_header(17, 0, True, 0xABCD1234)),
    ip6(whole_out[:104], A_IN_6, B, hop=63, first=44, ext=fragment_header(17, 0, True, 0x1234)),
    config=EAMT,
)
original = ip6(udp(), A_IN_6, B, hop=7)
forward(
    "hairpin-error-of-a-router",
    "An error about a hairpinned packet is hairpinned, inner packet included; its router gets a source from the pool.",
    "RFC 7757 4.2.2, RFC 7757 B.1, RFC 6791 3.1",
    ip6(icmp6(3, 0, body=original), "2001:db8::1234", A_IN_6),
    ip6(icmp6(3, 0, body=ip6(udp(), A, B_IN_6, hop=7)), "64:ff9b::198.51.100.1", A, hop=63),
    config=EAMT,
)
forward(
    "hairpin-error-of-the-host",
    "An error by the packet's own destination comes from the address to which the packet was sent.",
    "RFC 7757 4.2.1, RFC 7757 4.2.2, RFC 7757 B.1",
    ip6(icmp6(1, 4, body=original), B, A_IN_6),
    ip6(icmp6(1, 4, body=ip6(udp(), A, B_IN_6, hop=7)), B_IN_6, A, hop=63),
    config=EAMT,
)
forward(
    "hairpin-packet-too-big",
    "The MTU of a hairpinned Packet Too Big loses 20 on the way to IPv4 and gets them back.",
    "RFC 7757 4.2.2, RFC 7915 5.2, RFC 7915 4.2",
    ip6(icmp6(2, 0, word(1400), original), "2001:db8::1234", A_IN_6),
    ip6(icmp6(2, 0, word(1400), ip6(udp(), A, B_IN_6, hop=7)), "64:ff9b::198.51.100.1", A, hop=63),
    config=EAMT,
)

# --- a CLAT: one mapping, and a prefix that is the IPv4 Internet (RFC 6877) -----------------------------------------

CLAT = {
    "pref64": ["2001:db8:64::/96"],
    "eam": [{"v4": "192.0.0.1/32", "v6": "2001:db8:1::464/128"}],
    "clat": True,
    "icmp": {"address4": "192.0.0.2", "address6": "2001:db8:1::464"},
}
CLAT4, CLAT6, SERVER4, SERVER6 = "192.0.0.1", "2001:db8:1::464", "203.0.113.80", "2001:db8:64::cb00:7150"
forward(
    "clat-upstream",
    "A CLAT translates its one IPv4 address to its one IPv6 address, and the server's into the prefix of the PLAT.",
    "RFC 6877 6.2, RFC 7757 A.1",
    ip4(tcp(), CLAT4, SERVER4, df=True),
    ip6(tcp(), CLAT6, SERVER6, hop=63),
    config=CLAT,
)
forward(
    "clat-downstream",
    "An answer from the prefix of the PLAT becomes one from the server's IPv4 address.",
    "RFC 6877 6.2, RFC 7757 A.1",
    ip6(tcp(), SERVER6, CLAT6),
    out4(tcp(), src=SERVER4, dst=CLAT4),
    config=CLAT,
)
forward(
    "clat-echo",
    "Echo passes a CLAT with its identifier.",
    "RFC 6877 6.2, RFC 7915 4.2",
    ip4(echo4(), CLAT4, SERVER4),
    ip6(echo6(), CLAT6, SERVER6, hop=63),
    config=CLAT,
)
foreign4 = ip4(udp(), "192.168.1.7", SERVER4)
drop(
    "clat-foreign-source",
    "A CLAT's prefix is the IPv4 Internet behind the PLAT: an IPv4 source on our side that is no mapping's is refused.",
    "RFC 6877 6.3, RFC 7915 4.4",
    foreign4,
    "source_unmapped",
    told4(3, 13, foreign4, src="192.0.0.2", dst="192.168.1.7"),
    config=CLAT,
    choice="The RFC leaves to the CLAT which addresses it serves; answering with one that comes back elsewhere would not do.",
)
foreign6 = ip6(udp(), SERVER6, "2001:db8:64::c0a8:107")
drop(
    "clat-foreign-destination",
    "A packet from IPv6 to an address in the prefix is not sent into the IPv4 network behind a CLAT.",
    "RFC 6877 6.3, RFC 7915 5.4",
    foreign6,
    "destination_unmapped",
    told6(1, 1, foreign6, src=CLAT6, dst=SERVER6),
    config=CLAT,
    choice="The RFC leaves to the CLAT which addresses it serves.",
)
forward(
    "clat-with-well-known-prefix",
    "A CLAT's own address is mapped, not embedded: behind the well-known prefix it may be 192.0.0.1.",
    "RFC 6877 6.3, RFC 7757 3.3.1, RFC 6052 3.1",
    ip4(udp(), CLAT4, "8.8.8.8"),
    ip6(udp(), CLAT6, "64:ff9b::808:808", hop=63),
    config={**CLAT, "pref64": ["64:ff9b::/96"]},
)
forward(
    "clat-router-on-the-path",
    "An error of an IPv6 router between CLAT and PLAT comes from 192.0.0.8, for the router has no IPv4 address.",
    "RFC 7600 4.8, RFC 6791 3, RFC 6791 4, RFC 6877 6.2",
    ip6(icmp6(3, 0, body=ip6(udp(), CLAT6, SERVER6, hop=1)), "2001:db8:9::1", CLAT6),
    named4(ip4(udp(), CLAT4, SERVER4, ttl=1), router="2001:db8:9::1", dst=CLAT4),
    config=CLAT,
    choice="The identification of the quoted packet, unknown, is 0.",
)
forward(
    "clat-packet-too-big",
    "Path MTU discovery passes a CLAT: 1400 in IPv6 leave 1380 in IPv4.",
    "RFC 6877 6.2, RFC 7915 5.2, RFC 6791 4",
    ip6(icmp6(2, 0, word(1400), ip6(udp(pattern(1400)), CLAT6, SERVER6)[:1232]), "2001:db8:9::1", CLAT6),
    named4(ip4(udp(pattern(1400)), CLAT4, SERVER4, df=True)[:520], 3, 4, 1380, router="2001:db8:9::1", dst=CLAT4),
    config=CLAT,
    choice="The identification of the quoted packet, unknown, is 0.",
)
