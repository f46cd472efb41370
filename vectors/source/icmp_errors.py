# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ICMP errors around the packets that they quote: size, source, checksum (RFC 7915 sections 4.3 and 5.3, RFC 6791)."""

from .errors import INNER_ID, ONLY_EAM, error4, error6, named4, quoted4, quoted6, told4, told6
from .network import CONFIG, H4, H6_IN_4, OWN4, OWN6, ROUTER4, ROUTER4_IN_6, ROUTER6, Topic, config, in4, in6, out4, out6
from .wire import extension, extension_header, fragment_header, icmp4, icmp6, interface, over4, pattern, raw, udp, word

TOPIC = Topic("icmp-errors", "ICMP errors around the packets that they quote")
forward, drop = TOPIC.forward, TOPIC.drop

# --- sizes -----------------------------------------------------------------------------------------------------------

forward(
    "error-grows-by-20-4to6",
    "The outer length follows the quote's: 20 bytes more.",
    "RFC 7915 4.3",
    error4(out4(udp(pattern(344)))),
    told6(quoted6(udp(pattern(344)))),
    judges="Jool siit/7915/ba",
)
forward(
    "error-shrinks-by-20-6to4",
    "The outer length follows the quote's: 20 bytes less.",
    "RFC 7915 5.3",
    error6(out6(udp(pattern(304)))),
    told4(quoted4(udp(pattern(304)))),
    choice=INNER_ID,
    judges="Jool siit/7915/bd",
)
for name, length in (("1500", 1444), ("1280", 1224), ("1261", 1205)):
    forward(
        f"error-of-{name}-bytes-cut-to-1280-4to6",
        "An ICMPv6 error is not longer than 1280 bytes: the quote is cut, and length and checksum are those of what is sent.",
        "RFC 7915 4.3, RFC 4443 2.4(c)",
        error4(out4(udp(pattern(length)))),
        told6(quoted6(udp(pattern(length)))[:1232]),
        config=config(lowest_ipv6_mtu=1500) if name == "1261" else None,
        judges="Jool siit/7915/bb" if name == "1500" else "Jool siit/7915/bc" if name == "1280" else "Jool siit/7915/ja",
    )
forward(
    "error-of-1260-bytes-not-cut-4to6",
    "An ICMPv4 error of 1240 bytes makes one of 1280, which is not cut.",
    "RFC 7915 4.3, RFC 4443 2.4(c)",
    error4(out4(udp(pattern(1184)))),
    told6(quoted6(udp(pattern(1184)))),
)
forward(
    "error-fits-the-ipv4-next-hop-6to4",
    "An ICMPv4 error is cut to the MTU of the next hop rather than fragmented.",
    "RFC 7915 5.3, RFC 1812 4.3.2.3",
    error6(out6(udp(pattern(1180)))),
    told4(quoted4(udp(pattern(1180)))[:548]),
    config=config(mtu4=576),
    choice=INNER_ID,
)
forward(
    "error-df-clear-6to4",
    "An ICMPv4 error of 1240 bytes has DF clear and an identification, like any packet of its size.",
    "RFC 7915 5.1, RFC 7915 5.3",
    error6(out6(udp(pattern(1184)))),
    told4(quoted4(udp(pattern(1184)))),
    choice=INNER_ID + " Jool cuts ICMPv4 errors to 576 bytes, as if they were its own.",
)

# --- the outer header ------------------------------------------------------------------------------------------------

forward(
    "error-ttl-decremented-4to6",
    "The outer TTL is decremented like any.",
    "RFC 7915 4.1, RFC 7915 4.3",
    error4(out4(udp()), ttl=2),
    told6(quoted6(udp()), hop=1),
)
for kind, about, version in (("4to6", error4(out4(udp()), ttl=1), 4), ("6to4", error6(out6(udp()), hop=1), 6)):
    drop(
        f"error-ends-here-unanswered-{kind}",
        "An ICMP error whose TTL or hop limit ends here is dropped; no error is sent about an error.",
        "RFC 1122 3.2.2, RFC 1812 4.3.2.7" if version == 4 else "RFC 4443 2.4(e)",
        about,
        "hop_limit",
    )
forward(
    "error-in-atomic-fragment-6to4",
    "The identification of an ICMPv6 error in an atomic fragment is copied from its Fragment header.",
    "RFC 7915 5.1.1, RFC 7915 5.3",
    in6(icmp6(3, 0, body=out6(udp())), first=44, ext=fragment_header(58, 0, False, 0x00017777)),
    told4(quoted4(udp()), ident=0x7777),
    choice=INNER_ID,
)
forward(
    "error-behind-extension-headers-6to4",
    "An ICMPv6 error is found behind extension headers.",
    "RFC 7915 5.1, RFC 7915 5.3",
    in6(icmp6(3, 0, body=out6(udp())), first=60, ext=extension_header(58)),
    told4(quoted4(udp())),
    choice=INNER_ID,
)
forward(
    "error-with-options-4to6",
    "An ICMPv4 error is found behind options.",
    "RFC 7915 4.1, RFC 7915 4.3",
    error4(out4(udp()), options=bytes([148, 4, 0, 0])),
    told6(quoted6(udp())),
)
forward(
    "error-of-a-router-4to6",
    "An error of an IPv4 router comes from the IPv6 address that embeds its own, so that traceroute shows it.",
    "RFC 7915 4.2, RFC 6052 2.3",
    error4(out4(udp()), src=ROUTER4),
    told6(quoted6(udp()), src=ROUTER4_IN_6),
)
for source, source6, what in (
    ("127.0.0.1", "2001:db8:17f:0:1::", "loopback"),
    ("0.0.0.0", "2001:db8:100::", "unspecified"),
    ("169.254.1.1", "2001:db8:1a9:fe01:1::", "link-local"),
):
    forward(
        f"error-from-{what}-4to6",
        f"The source of an ICMPv4 error is translated even if it is illegal, like {source}, for trouble shooting.",
        "RFC 7915 4.1",
        error4(out4(udp()), src=source),
        told6(quoted6(udp()), src=source6),
        judges="Jool siit/7915/ha" if what != "link-local" else None,
    )
forward(
    "error-of-a-router-without-ipv4-address",
    "An error of an IPv6 router that has no IPv4 address comes from 192.0.0.8 if there is no pool, and names the router.",
    "RFC 7600 4.8, RFC 6791 3.1, RFC 6791 4, RFC 7915 6",
    error6(out6(udp()), src=ROUTER6),
    named4(quoted4(udp())),
    choice=INNER_ID,
)
for kind, code, new_kind, new_code, mtu4, rest6 in (
    (1, 0, 3, 1, 0, 0),
    (1, 1, 3, 10, 0, 0),
    (1, 4, 3, 3, 0, 0),
    (2, 0, 3, 4, 1380, 1400),
    (3, 1, 11, 1, 0, 0),
    (4, 1, 3, 2, 0, 6),
):
    forward(
        f"error-{kind}-{code}-of-a-router-without-ipv4-address",
        f"Errors of type {kind}, code {code} get a source like those of any type if their router has no IPv4 address.",
        "RFC 6791 3, RFC 6791 4, RFC 7600 4.8, RFC 7915 5.2",
        in6(icmp6(kind, code, word(rest6), out6(udp())), src=ROUTER6),
        named4(quoted4(udp()), new_kind, new_code, mtu4),
        choice=INNER_ID,
    )

# Who it was, in an extension: 24 bytes behind a structure header of 4 (RFC 6791 section 4, RFC 5837).

forward(
    "error-names-a-router-quote-cut-to-576-6to4",
    "With the router's name behind it, an error of 1280 bytes is cut to 576: 28, 520 of the quote and 28.",
    "RFC 6791 4, RFC 4884 7",
    error6(out6(udp(pattern(1184))), src=ROUTER6),
    named4(quoted4(udp(pattern(1184)))[:520]),
    choice=INNER_ID,
)
mpls = (8).to_bytes(2) + bytes([1, 1]) + pattern(4)
long6, long4 = out6(udp(pattern(104))), quoted4(udp(pattern(104)))
for name, demand, sent, expect in (
    (
        "behind-its-extensions",
        "The name stands behind the extensions that the router sent, under a checksum of both.",
        extension(12),
        interface(ROUTER6, extension(12).data[4:]),
    ),
    (
        "behind-extensions-without-checksum",
        "Extensions without checksum, which is 0, stay without.",
        raw(bytes.fromhex("20000000") + mpls, "extension structure without checksum"),
        raw(bytes.fromhex("20000000") + mpls + interface(ROUTER6).data[4:], "the same with the name"),
    ),
    (
        "behind-extensions-with-wrong-checksum",
        "A wrong checksum of extensions must not become right: it changes by what is added, 0x420b, and from 0x0bad to 0xc9a1.",
        raw(bytes.fromhex("20000bad") + mpls, "extension structure, checksum 0x0bad"),
        raw(bytes.fromhex("2000c9a1") + mpls + interface(ROUTER6).data[4:], "the same with the name, checksum 0xc9a1"),
    ),
):
    forward(
        f"error-names-a-router-{name}-6to4",
        demand,
        "RFC 6791 4, RFC 4884 7",
        in6(icmp6(3, 0, bytes([19, 0, 0, 0]), long6 + sent), src=ROUTER6),
        out4(icmp4(11, 0, bytes([0, 33, 0, 0]), long4 + expect), src="192.0.0.8"),
        choice=INNER_ID,
    )
for name, demand, sent in (
    (
        "that-did",
        "A router that names the interface itself is not named again: an object of each role may be there once.",
        interface("2001:db8:9::1"),
    ),
    (
        "behind-what-is-no-object",
        "Extensions that are no list of objects, here one of 255 bytes, stay as they are.",
        raw(bytes.fromhex("2000000000ff0101") + pattern(4), "extension structure with an object too long"),
    ),
    (
        "behind-another-version",
        "Extensions of a version that nobody knows stay as they are.",
        raw(bytes.fromhex("3000000000080101") + pattern(4), "extension structure of version 3"),
    ),
):
    forward(
        f"error-does-not-name-a-router-{name}-6to4",
        demand,
        "RFC 5837 4.5" if name == "that-did" else "RFC 4884 7, RFC 7915 5.2",
        in6(icmp6(3, 0, bytes([19, 0, 0, 0]), long6 + sent), src=ROUTER6),
        out4(icmp4(11, 0, bytes([0, 33, 0, 0]), long4 + sent), src="192.0.0.8"),
        choice=INNER_ID,
    )
forward(
    "error-names-a-router-mtu-184-6to4",
    "Into 184 bytes a quote of 128 and the name just fit.",
    "RFC 6791 4, RFC 4884 4",
    error6(long6, src=ROUTER6),
    named4(long4[:128]),
    config=config(mtu4=184),
    choice=INNER_ID,
)
forward(
    "error-does-not-name-a-router-mtu-183-6to4",
    "Into 183 bytes they do not, and the quote, to which nothing is due then, has all the room.",
    "RFC 6791 4, RFC 4884 4",
    error6(long6, src=ROUTER6),
    told4(long4, src="192.0.0.8"),
    config=config(mtu4=183),
    choice=INNER_ID,
)
forward(
    "error-does-not-name-a-router-if-not-wanted-6to4",
    "Addresses of routers may be nobody's business: the administrator may have them left out.",
    "RFC 6791 4, RFC 5837 6",
    error6(out6(udp()), src=ROUTER6),
    told4(quoted4(udp()), src="203.0.113.77"),
    config=config(icmp={**CONFIG["icmp"], "source_pool4": ["203.0.113.77/32"], "name_routers": False}),
    choice=INNER_ID,
    judges="Jool siit/manual/6791v64",
)

POOL4 = config(icmp={"address4": OWN4, "address6": OWN6, "source_pool4": ["203.0.113.77/32"]})
for router in (ROUTER6, "2001:db8:ffff::1", "fd00::1"):
    forward(
        f"error-source-from-the-pool-{router.replace(':', '-').strip('-')}",
        f"An error of {router}, which has no IPv4 address, comes from the pool; if that holds one address, from this.",
        "RFC 6791 3.2, RFC 6791 4, RFC 6791 5",
        error6(out6(udp()), src=router),
        named4(quoted4(udp()), router=router, src="203.0.113.77"),
        config=POOL4,
        choice=INNER_ID,
    )
forward(
    "error-source-mapped-not-from-the-pool",
    "An error whose source has an IPv4 address comes from this, pool or not.",
    "RFC 6791 3, RFC 7915 5.1",
    error6(out6(udp())),
    told4(quoted4(udp())),
    config=POOL4,
    choice=INNER_ID,
)
forward(
    "error-source-from-the-ipv6-pool",
    "An error of an IPv4 router that has no IPv6 address comes from the pool of IPv6 addresses.",
    "RFC 6791 3.2, RFC 7915 6",
    error4(out4(udp()), src=ROUTER4),
    told6(quoted6(udp()), src="2001:db8:6791::1"),
    config=ONLY_EAM,
    choice="RFC 6791 is about ICMPv6 messages; the same is needed the other way where there are only mappings.",
    judges="Jool siit/manual/6791v46",
)
drop(
    "error-from-link-local-6to4",
    "An ICMPv6 error from a link-local address never left its link.",
    "RFC 7915 5.1, RFC 4291 2.5",
    error6(out6(udp()), src="fe80::1"),
    "source_illegal",
)

# --- checksums -------------------------------------------------------------------------------------------------------

drop(
    "error-with-wrong-checksum-4to6",
    "The checksum of an ICMP error is made anew; a wrong one must not become right, so the error is dropped.",
    "RFC 792, RFC 1122 3.2.2, RFC 7915 4.2",
    in4(icmp4(11, 0, body=out4(udp()), csum=0x0BAD)),
    "icmp_checksum",
)
drop(
    "error-with-wrong-checksum-6to4",
    "A wrong checksum of an ICMPv6 error must not become right: it is evaluated before translation.",
    "RFC 7915 5, RFC 4443 2.3",
    in6(icmp6(3, 0, body=out6(udp()), csum=0x0BAD)),
    "icmp_checksum",
)
no_pseudo = int.from_bytes(over4(icmp4(3, 0, body=out6(udp())), H4, H6_IN_4).data[2:4])
drop(
    "error-with-checksum-without-pseudo-header-6to4",
    "A checksum of ICMPv6 that lacks the pseudo-header is wrong.",
    "RFC 4443 2.3, RFC 7915 5",
    in6(icmp6(3, 0, body=out6(udp()), csum=no_pseudo)),
    "icmp_checksum",
)
