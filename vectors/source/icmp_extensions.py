# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ICMP errors with extensions (RFC 4884) on their way through (RFC 7915 sections 4.2 and 5.2)."""

from .network import Topic, config, in4, in6, out4, out6
from .wire import Piece, extension, extension_header, icmp4, icmp6, pattern, raw, udp, word, zeros

TOPIC = Topic("icmp-extensions", "ICMP errors with extensions")
forward, drop = TOPIC.forward, TOPIC.drop
INNER_ID = "The identification of the quoted packet, unknown, is 0."


def quotes_4to6(data: int) -> tuple[Piece, Piece]:
    """A packet of H6 with so much UDP data, as H4 quotes it (28 bytes more), and as H6 sent it (48 bytes more)."""
    return out4(udp(pattern(data))), in6(udp(pattern(data)), hop=63)


def quotes_6to4(data: int) -> tuple[Piece, Piece]:
    """A packet of H4 with so much UDP data, as H6 quotes it (48 bytes more), and as H4 sent it (28 bytes more)."""
    return out6(udp(pattern(data))), in4(udp(pattern(data)), ttl=63)


def error4(words: int, body: Piece, kind: int = 11, code: int = 0) -> Piece:
    """An ICMPv4 error whose length field, at byte 5, counts words of 32 bits."""
    return in4(icmp4(kind, code, bytes([0, words, 0, 0]), body))


def told6(words: int, body: Piece, kind: int = 3, code: int = 0) -> Piece:
    """An ICMPv6 error whose length field, at byte 4, counts words of 64 bits."""
    return out6(icmp6(kind, code, bytes([words, 0, 0, 0]), body))


def error6(words: int, body: Piece, kind: int = 3, code: int = 0) -> Piece:
    """The same from H6."""
    return in6(icmp6(kind, code, bytes([words, 0, 0, 0]), body))


def told4(words: int, body: Piece, kind: int = 11, code: int = 0) -> Piece:
    """The same from H6 as H4 sees it."""
    return out4(icmp4(kind, code, bytes([0, words, 0, 0]), body))


# --- from IPv4 -------------------------------------------------------------------------------------------------------


def forward46(name: str, demand: str, data: int, ext: int, cut: int | None, padding: int, words: int, **more) -> None:
    """Quote of 28 + ``data`` bytes; of the 48 + ``data`` that it becomes, ``cut`` are left, and padding behind them."""
    quote4, quote6 = quotes_4to6(data)
    assert len(quote4) % 4 == 0
    kept = quote6[:cut] if cut is not None else quote6
    expect = told6(words, kept + zeros(padding) + extension(ext)) if words else told6(0, kept)
    forward(name, demand, "RFC 7915 4.2, RFC 4884 4", error4(len(quote4) // 4, quote4 + extension(ext)), expect, **more)


forward46(
    "mpls-extension-4to6",
    "Length 33 of 4 bytes becomes 19 of 8: the quote grows by 20, from 132 to 152 bytes; the extensions are passed on.",
    104,
    12,
    None,
    0,
    19,
)
forward46(
    "extension-small-4to6",
    "A quote of 132 bytes with 40 of extensions.",
    104,
    40,
    None,
    0,
    19,
    judges="Jool siit/7915/ida",
)
forward46(
    "extension-padded-to-8-bytes-4to6",
    "A quote of 128 bytes becomes one of 148, which is padded with 4 zeros to a multiple of 8.",
    100,
    20,
    None,
    4,
    19,
    choice="Jool cuts the quote to 144 bytes instead.",
)
forward46(
    "extension-fills-1280-bytes-4to6",
    "A message that comes out at 1280 bytes is not cut.",
    544,
    640,
    None,
    0,
    74,
    judges="Jool siit/7915/idb",
)
forward46(
    "extension-largest-quote-4to6",
    "The longest quote that IPv4's length field can tell, 1020 bytes, grows by 20 like any.",
    992,
    192,
    None,
    0,
    130,
    judges="Jool siit/7915/idc",
)
forward46(
    "extension-large-4to6",
    "Extensions of 1080 bytes are kept if the message stays within 1280.",
    104,
    1080,
    None,
    0,
    19,
    judges="Jool siit/7915/idd",
)
forward46(
    "extension-quote-cut-4to6",
    "For the extensions to fit, the quote is cut, to a multiple of 8.",
    552,
    640,
    592,
    0,
    74,
    judges="Jool siit/7915/ide",
)
forward46(
    "extension-quote-cut-by-8-4to6",
    "No more of the quote is cut than has to be.",
    992,
    200,
    1032,
    0,
    129,
    judges="Jool siit/7915/idf",
)
forward46(
    "extension-quote-cut-to-128-4to6",
    "The quote may be cut to 128 bytes for the extensions, and no further.",
    992,
    1104,
    128,
    0,
    16,
    judges="Jool siit/7915/idg",
)
forward46(
    "extension-without-room-4to6",
    "Extensions that leave less than 128 bytes to the quote are dropped whole, and the length with them.",
    100,
    1108,
    None,
    0,
    0,
    judges="Jool siit/7915/idh",
)
forward46(
    "extension-without-room-large-quote-4to6",
    "Without the extensions the quote has all the room.",
    992,
    1108,
    None,
    0,
    0,
    judges="Jool siit/7915/idi",
)
forward46(
    "extension-legacy-length-4to6",
    "A length of 7 words, 28 bytes, is less than the RFC allows and in use: it is believed, and the quote padded to 128.",
    0,
    40,
    None,
    80,
    16,
    judges="Jool siit/7915/idk, NICMx/Jool#396",
)
quote4, quote6 = quotes_4to6(0)
forward(
    "extension-padded-quote-4to6",
    "A quote of 28 bytes, padded to 128 as it has to be, is padded to 152, a multiple of 8 with the 20 that it grows.",
    "RFC 7915 4.2, RFC 4884 4",
    error4(32, quote4 + zeros(100) + extension(12)),
    told6(19, quote6 + zeros(104) + extension(12)),
    choice="Taking the padding off first, 128 would do.",
)
quote4, quote6 = quotes_4to6(104)
for kind, code, new_kind, new_code, name in (
    (3, 3, 1, 4, "port-unreachable"),
    (3, 13, 1, 1, "prohibited"),
    (11, 1, 3, 1, "reassembly"),
):
    forward(
        f"extension-{name}-4to6",
        f"Extensions pass with ICMPv4 type {kind}, code {code}, too.",
        "RFC 7915 4.2, RFC 4884 4.6",
        error4(33, quote4 + extension(20), kind, code),
        told6(19, quote6 + extension(20), new_kind, new_code),
        judges="Jool siit/7915/ia" if code == 3 else None,
    )
for kind, code, rest, new_kind, new_code, new_rest, name in (
    (3, 4, bytes([0, 33]) + (1400).to_bytes(2), 2, 0, word(1420), "packet-too-big"),
    (3, 2, bytes([0, 33, 0, 0]), 4, 1, word(6), "unrecognised-next-header"),
    (12, 0, bytes([8, 33, 0, 0]), 4, 0, word(7), "parameter-problem"),
):
    forward(
        f"extension-dropped-{name}-4to6",
        f"ICMPv6 type {new_kind} has no length field: the extensions, which nobody could find, are dropped.",
        "RFC 4884 4.6, RFC 7915 4.2",
        in4(icmp4(kind, code, rest, quote4 + extension(20))),
        out6(icmp6(new_kind, new_code, new_rest, quote6)),
    )
forward(
    "extension-legacy-without-length-4to6",
    "Without a length there are no extensions: those of old routers, behind 128 bytes, pass as a part of the quote.",
    "RFC 4884 5.5, RFC 4884 5.4",
    error4(0, quotes_4to6(100)[0] + extension(12)),
    told6(0, quotes_4to6(100)[1] + extension(12)),
)
forward(
    "extension-of-unknown-class-4to6",
    "Objects of a class that nobody knows are opaque.",
    "RFC 7915 4.2, RFC 4884 7",
    error4(33, quote4 + raw(bytes.fromhex("20000000000cfafa") + pattern(8), "extension structure of class 250")),
    told6(19, quote6 + raw(bytes.fromhex("20000000000cfafa") + pattern(8), "extension structure of class 250")),
)
forward(
    "extension-address-literals-not-translated-4to6",
    "An IPv4 address inside an extension object (RFC 5837) is not translated.",
    "RFC 7915 4.2, RFC 5837 4.2",
    error4(33, quote4 + raw(bytes.fromhex("20000000000c0204") + bytes([0, 1, 0, 0, 192, 0, 2, 33]), "an interface address")),
    told6(19, quote6 + raw(bytes.fromhex("20000000000c0204") + bytes([0, 1, 0, 0, 192, 0, 2, 33]), "an interface address")),
)
forward(
    "extension-length-without-extension-4to6",
    "A length that covers the whole message leaves no extensions; the message has none on the other side.",
    "RFC 4884 4, RFC 7915 4.2",
    error4(33, quote4),
    told6(0, quote6),
    choice="The length field may be 0 where there are no extensions.",
)
drop(
    "tayga-extension-length-beyond-message-4to6",
    "A length beyond the message is a lie; extensions would be read from where nothing is.",
    "RFC 4884 4",
    error4(34, quote4),
    "icmp_extension",
    judges="Tayga",
)
drop(
    "extension-length-255-4to6",
    "The largest length, 1020 bytes, is beyond this message too.",
    "RFC 4884 4",
    error4(255, quote4 + extension(20)),
    "icmp_extension",
)
drop(
    "extension-length-cuts-the-inner-header-4to6",
    "A length of 4 words leaves 16 bytes of the quote, in which there is no header.",
    "RFC 4884 4, RFC 7915 4.3",
    error4(4, quote4 + extension(20)),
    "icmp_inner_truncated",
)

# --- from IPv6 -------------------------------------------------------------------------------------------------------


def forward64(name: str, demand: str, data: int, ext: int, cut: int | None, padding: int, words: int, **more) -> None:
    """Quote of 48 + ``data`` bytes; of the 28 + ``data`` that it becomes, ``cut`` are left, and padding behind them."""
    quote6, quote4 = quotes_6to4(data)
    assert len(quote6) % 8 == 0
    kept = quote4[:cut] if cut is not None else quote4
    expect = told4(words, kept + zeros(padding) + extension(ext)) if words else told4(0, kept)
    rfc = more.pop("rfc", "RFC 7915 5.2, RFC 4884 4")
    choice = f"{INNER_ID} {more.pop('choice', '')}".strip()
    forward(name, demand, rfc, error6(len(quote6) // 8, quote6 + extension(ext)), expect, choice=choice, **more)


forward64(
    "mpls-extension-6to4",
    "Length 19 of 8 bytes becomes 33 of 4: the quote shrinks by 20, from 152 to 132 bytes; the extensions are passed on.",
    104,
    12,
    None,
    0,
    33,
    judges="Jool siit/7915/ia",
)
forward64(
    "extension-padded-to-128-6to4",
    "A quote of 128 bytes becomes one of 108, and is padded to 128 again.",
    80,
    20,
    None,
    20,
    32,
    judges="Jool siit/7915/ib",
)
forward64(
    "extension-fills-576-bytes-6to4",
    "With extensions, an ICMPv4 message may be as long as what every IPv4 node can reassemble: 576 bytes.",
    480,
    40,
    None,
    0,
    127,
    rfc="RFC 4884 7, RFC 4884 5.3",
    judges="Jool siit/7915/ic",
)
forward64(
    "extension-quote-cut-to-576-bytes-6to4",
    "With extensions, an ICMPv4 message must not be longer than 576 bytes: the quote is cut.",
    488,
    40,
    508,
    0,
    127,
    rfc="RFC 4884 7, RFC 4884 5.3",
    judges="Jool siit/7915/ic",
)
forward64(
    "extension-quote-cut-far-6to4",
    "A quote of 1192 bytes is cut to 508 for 40 bytes of extensions.",
    1144,
    40,
    508,
    0,
    127,
    rfc="RFC 4884 7, RFC 4884 5.3",
    judges="Jool siit/7915/ic",
)
forward64(
    "extension-largest-6to4",
    "Extensions of 420 bytes leave 128 bytes to the quote, and are kept.",
    80,
    420,
    None,
    20,
    32,
    rfc="RFC 4884 7, RFC 4884 4",
    judges="Jool siit/7915/ic",
)
forward64(
    "extension-without-room-6to4",
    "Extensions that leave less than 128 bytes of 576 to the quote are dropped whole, and the length with them.",
    80,
    424,
    None,
    0,
    0,
    rfc="RFC 4884 7, RFC 4884 4",
    judges="Jool siit/7915/ic",
)
forward64(
    "extension-legacy-length-6to4",
    "A length of 6 words, 48 bytes, is less than the RFC allows and in use: it is believed, and the quote padded to 128.",
    0,
    40,
    None,
    100,
    32,
    judges="Jool siit/7915/ic, NICMx/Jool#396",
)
quote6, quote4 = quotes_6to4(104)
for code, new_code, name in ((4, 3, "port-unreachable"), (1, 10, "prohibited")):
    forward(
        f"extension-{name}-6to4",
        f"Extensions pass with ICMPv6 type 1, code {code}, too.",
        "RFC 7915 5.2, RFC 4884 4.6",
        error6(19, quote6 + extension(20), 1, code),
        told4(33, quote4 + extension(20), 3, new_code),
        choice=INNER_ID,
        judges="Jool siit/7915/ia" if code == 4 else None,
    )
forward(
    "extension-mtu-is-no-length-6to4",
    "Bytes 4 to 7 of Packet Too Big are an MTU, in none of which there is a length.",
    "RFC 4884 4.6, RFC 7915 5.2",
    in6(icmp6(2, 0, word(0x02000000), quote6)),
    out4(icmp4(3, 4, word(1480), quote4)),
    choice=INNER_ID,
)
forward(
    "extension-legacy-without-length-6to4",
    "Without a length there are no extensions: what stands behind 128 bytes passes as a part of the quote.",
    "RFC 4884 5.5, RFC 4884 5.4",
    error6(0, quotes_6to4(80)[0] + extension(12)),
    told4(0, quotes_6to4(80)[1] + extension(12)),
    choice=INNER_ID,
)
headers = extension_header(60) + extension_header(17)
forward(
    "extension-behind-quoted-extension-headers-6to4",
    "A quote that loses its extension headers as well, from 152 to 116 bytes, is padded to 128.",
    "RFC 7915 5.2, RFC 7915 5.3, RFC 4884 4",
    error6(19, out6(udp(pattern(88)), first=0, ext=headers) + extension(12)),
    told4(32, in4(udp(pattern(88)), ttl=63) + zeros(12) + extension(12)),
    choice=INNER_ID,
)
drop(
    "extension-length-beyond-message-6to4",
    "A length beyond the message is a lie; extensions would be read from where nothing is.",
    "RFC 4884 4",
    error6(20, quote6),
    "icmp_extension",
)
drop(
    "extension-length-cuts-the-inner-header-6to4",
    "A length of 4 words leaves 32 bytes of the quote, in which there is no header.",
    "RFC 4884 4, RFC 7915 5.3",
    error6(4, quote6 + extension(20)),
    "icmp_inner_truncated",
)
forward(
    "extension-limited-by-the-next-hop-6to4",
    "An ICMPv4 message with extensions is cut to the MTU of the next hop: 28, 232 of 268 and 40 bytes.",
    "RFC 7915 5.2, RFC 4884 4",
    error6(36, quotes_6to4(240)[0] + extension(40)),
    told4(58, quotes_6to4(240)[1][:232] + extension(40)),
    config=config(mtu4=300),
    choice=INNER_ID,
)
