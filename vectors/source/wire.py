# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets from field values written by hand: headers, checksums, and the words that describe them.

It knows how headers look (RFC 791, 768, 792, 3828, 4340, 4443, 4884, 8200, 9293) and how checksums are summed
(RFC 1071). It knows nothing about translation: what comes out of a translator is written down by hand as well.

address ─► payload (transport, extension headers, quotes) ─► IP header in front of it ─► Piece (bytes and words)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

ICMP4, TCP, UDP, DCCP, GRE, ESP, AH, ICMP6, SCTP, UDPLITE = 1, 6, 17, 33, 47, 50, 51, 58, 132, 136
HOPOPT, ROUTING, FRAGMENT, NO_NEXT, DSTOPTS = 0, 43, 44, 59, 60


@dataclass(frozen=True)
class Piece:
    """Some bytes of a packet and, for who reviews them, what their fields are."""

    data: bytes = b""
    fields: tuple[str, ...] = ()

    def __add__(self, other: Piece) -> Piece:
        return Piece(self.data + other.data, self.fields + other.fields)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, part: slice) -> Piece:
        """A part; the words keep to what stands at its beginning."""
        start, stop, _ = part.indices(len(self.data))
        if (start, stop) == (0, len(self.data)):
            return self
        if start == 0:
            return Piece(self.data[:stop], (*self.fields, f"cut to {stop} bytes"))
        return Piece(self.data[start:stop], (f"bytes {start} to {stop - 1} of the payload",))


def raw(data: bytes, words: str = "") -> Piece:
    """Bytes without a header that is known here."""
    return Piece(data, (words or f"{len(data)} bytes",) if data else ())


def pattern(length: int, start: int = 1) -> bytes:
    """Data whose bytes differ, so that a byte in a wrong place shows."""
    return bytes((start + at) % 251 for at in range(length))


def ones_sum(data: bytes) -> int:
    """The one's complement sum (RFC 1071 section 1)."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[at : at + 2]) for at in range(0, len(padded), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def checksum(data: bytes) -> int:
    """What goes into the checksum field, which is zero in ``data``."""
    return ~ones_sum(data) & 0xFFFF


# --- what is carried -------------------------------------------------------------------------------------------------

Pseudo = Callable[[int, int], bytes]  # (protocol, length of the payload) -> pseudo-header


@dataclass(frozen=True)
class Carried:
    """A payload whose checksum may need a pseudo-header. ``number``: its protocol or next header."""

    number: int
    build: Callable[[Pseudo], Piece] = field(repr=False)


def plain(number: int, data: bytes, words: str) -> Carried:
    """A payload that is the same in both families."""
    return Carried(number, lambda _: Piece(data, (words,)))


def summed(
    data: bytes, at: int, value: int | None, pseudo: bytes, covered: int | None = None, never_zero: bool = False
) -> bytes:
    """``data`` with ``value``, or else the right checksum, at byte ``at``."""
    if value is None:
        value = checksum(pseudo + data[:covered])
        if never_zero and value == 0:
            value = 0xFFFF
    return data[:at] + value.to_bytes(2) + data[at + 2 :]


def udp(
    data: bytes = b"diolkos", sport: int = 5000, dport: int = 5001, csum: int | None = None, length: int | None = None
) -> Carried:
    """RFC 768. ``csum``: instead of the right one; ``length``: a lie."""

    def build(pseudo: Pseudo) -> Piece:
        said = 8 + len(data) if length is None else length
        head = sport.to_bytes(2) + dport.to_bytes(2) + said.to_bytes(2) + b"\0\0"
        whole = summed(head + data, 6, csum, pseudo(UDP, min(said, 8 + len(data))), said, never_zero=True)
        words = f"UDP {sport} > {dport}, length {said}, checksum 0x{whole[6:8].hex()}, {len(data)} bytes"
        return Piece(whole, (words,))

    return Carried(UDP, build)


def udplite(data: bytes = b"diolkos", coverage: int = 0, csum: int | None = None) -> Carried:
    """RFC 3828. ``coverage``: bytes the checksum covers, 0 for all."""

    def build(pseudo: Pseudo) -> Piece:
        head = (5000).to_bytes(2) + (5001).to_bytes(2) + coverage.to_bytes(2) + b"\0\0"
        whole = summed(head + data, 6, csum, pseudo(UDPLITE, 8 + len(data)), coverage or None, never_zero=True)
        return Piece(whole, (f"UDP-Lite 5000 > 5001, coverage {coverage}, checksum 0x{whole[6:8].hex()}, {len(data)} bytes",))

    return Carried(UDPLITE, build)


def tcp(data: bytes = b"", flags: int = 0x18, options: bytes = b"", csum: int | None = None) -> Carried:
    """RFC 9293. Default: PSH and ACK."""

    def build(pseudo: Pseudo) -> Piece:
        offset = (20 + len(options)) // 4
        head = (5000).to_bytes(2) + (80).to_bytes(2) + (1).to_bytes(4) + (2).to_bytes(4)
        head += bytes([offset << 4, flags]) + (8192).to_bytes(2) + b"\0\0\0\0" + options
        whole = summed(head + data, 16, csum, pseudo(TCP, len(head) + len(data)))
        words = f"TCP 5000 > 80, flags 0x{flags:02x}, checksum 0x{whole[16:18].hex()}, {len(data)} bytes"
        return Piece(whole, (words,))

    return Carried(TCP, build)


def dccp(data: bytes = b"diolkos") -> Carried:
    """RFC 4340 section 5.1: a DCCP-Data packet with a short sequence number, checksum over all of it."""

    def build(pseudo: Pseudo) -> Piece:
        head = (5000).to_bytes(2) + (5001).to_bytes(2) + bytes([3, 0]) + b"\0\0" + bytes([2 << 1, 0, 0, 7])
        whole = summed(head + data, 6, None, pseudo(DCCP, len(head) + len(data)))
        return Piece(whole, (f"DCCP 5000 > 5001, checksum 0x{whole[6:8].hex()}, {len(data)} bytes",))

    return Carried(DCCP, build)


def icmp4(kind: int, code: int = 0, rest: bytes = b"\0\0\0\0", body: Piece | bytes = b"", csum: int | None = None) -> Carried:
    """RFC 792. ``rest``: bytes 4 to 7; ``body``: a quote, or data."""
    return icmp(ICMP4, "ICMPv4", kind, code, rest, body, csum)


def icmp6(kind: int, code: int = 0, rest: bytes = b"\0\0\0\0", body: Piece | bytes = b"", csum: int | None = None) -> Carried:
    """RFC 4443, the same."""
    return icmp(ICMP6, "ICMPv6", kind, code, rest, body, csum)


def icmp(number: int, name: str, kind: int, code: int, rest: bytes, body: Piece | bytes, csum: int | None) -> Carried:
    """Both kinds of ICMP; only the one of IPv6 sums a pseudo-header (RFC 4443 section 2.3)."""
    inside = raw(body) if isinstance(body, bytes) else body

    def build(pseudo: Pseudo) -> Piece:
        head = bytes([kind, code, 0, 0]) + rest
        over = pseudo(number, 8 + len(inside)) if number == ICMP6 else b""
        whole = summed(head + inside.data, 2, csum, over)
        words = f"{name} type {kind} code {code}, checksum 0x{whole[2:4].hex()}, bytes 4 to 7: {rest.hex()}"
        return Piece(whole, (words, *(f"  {line}" for line in inside.fields)))

    return Carried(number, build)


def echo4(kind: int = 8, data: bytes = b"diolkos!", csum: int | None = None) -> Carried:
    """ICMPv4 echo request (8) or reply (0)."""
    return icmp4(kind, 0, bytes.fromhex("12340001"), data, csum)


def echo6(kind: int = 128, data: bytes = b"diolkos!", csum: int | None = None) -> Carried:
    """ICMPv6 echo request (128) or reply (129)."""
    return icmp6(kind, 0, bytes.fromhex("12340001"), data, csum)


def word(value: int) -> bytes:
    """Bytes 4 to 7 of an ICMP message as one number: an MTU, or a pointer of ICMPv6."""
    return value.to_bytes(4)


def zeros(length: int) -> Piece:
    """Padding."""
    return Piece(bytes(length), (f"{length} bytes of padding",)) if length else Piece()


def extension(length: int = 12) -> Piece:
    """An ICMP extension structure with one MPLS object, or an opaque one of this length (RFC 4884 sections 7 and 8)."""
    body = (length - 4).to_bytes(2) + bytes([1, 1]) + pattern(length - 8, 0x10)
    whole = summed(b"\x20\x00\x00\x00" + body, 2, None, b"")
    return Piece(whole, (f"extension structure, {length} bytes",))


def interface(address: str, before: bytes = b"") -> Piece:
    """An extension structure with the IPv6 address of the interface on which a datagram arrived: class 2, role 0, address
    family 2 (RFC 5837 sections 4.1 and 4.2). ``before``: objects in front of it."""
    named = (24).to_bytes(2) + bytes([2, 0x04, 0, 2, 0, 0]) + ipaddress.IPv6Address(address).packed
    whole = summed(b"\x20\x00\x00\x00" + before + named, 2, None, b"")
    return Piece(whole, (f"extension structure, {len(whole)} bytes, the last 24: arrived at {address}",))


# --- headers in front of it ------------------------------------------------------------------------------------------


def extension_header(next_header: int, length: int = 8, body: bytes = b"") -> bytes:
    """Hop-by-hop or destination options: padding (PadN) unless ``body`` is given (RFC 8200 sections 4.2 to 4.6)."""
    body = body or bytes([1, length - 4]) + bytes(length - 4)
    return bytes([next_header, length // 8 - 1]) + body


def routing_header(next_header: int, segments_left: int, kind: int = 0) -> bytes:
    """A routing header with one address (RFC 8200 section 4.4)."""
    return bytes([next_header, 2, kind, segments_left]) + bytes(4) + ipaddress.IPv6Address("2001:db8::9").packed


def fragment_header(next_header: int, offset: int, more: bool, ident: int, reserved: int = 0) -> bytes:
    """RFC 8200 section 4.5. ``offset`` in bytes; ``reserved``: the reserved byte and, its low two bits, the others."""
    assert offset % 8 == 0
    return bytes([next_header, reserved]) + (offset | (reserved & 3) << 1 | more).to_bytes(2) + ident.to_bytes(4)


def ip4(
    carried: Carried | Piece,
    src: str,
    dst: str,
    *,
    proto: int | None = None,
    tos: int = 0,
    ident: int = 0,
    df: bool = False,
    mf: bool = False,
    evil: bool = False,
    offset: int = 0,
    ttl: int = 64,
    options: bytes = b"",
    total: int | None = None,
    words: int | None = None,
    version: int = 4,
    csum: int | None = None,
) -> Piece:
    """An IPv4 packet (RFC 791). ``offset`` in bytes. ``total``, ``words`` (header length), ``version``, ``csum``: lies."""
    assert offset % 8 == 0
    assert len(options) % 4 == 0
    source, destination = ipaddress.IPv4Address(src), ipaddress.IPv4Address(dst)
    payload = over4(carried, src, dst) if isinstance(carried, Carried) else carried
    number = proto if proto is not None else carried.number if isinstance(carried, Carried) else None
    assert number is not None
    words = 5 + len(options) // 4 if words is None else words
    total = 20 + len(options) + len(payload) if total is None else total
    flags = evil << 15 | df << 14 | mf << 13 | offset // 8
    head = bytes([version << 4 | words, tos]) + total.to_bytes(2) + ident.to_bytes(2) + flags.to_bytes(2)
    head += bytes([ttl, number, 0, 0]) + source.packed + destination.packed + options
    head = summed(head, 10, csum, b"")
    said = [f"IPv4 {src} > {dst}", f"tos 0x{tos:02x}", f"total {total}", f"id 0x{ident:04x}"]
    said += ["reserved flag"] * evil + ["DF"] * df + ["MF"] * mf + [f"offset {offset}"] * bool(offset)
    said += [f"ttl {ttl}", f"protocol {number}"] + [f"options {options.hex()}"] * bool(options)
    said += [f"version {version}"] * (version != 4) + [f"header length {words * 4}"] * (words != 5)
    said += [f"header checksum 0x{head[10:12].hex()}"]
    return Piece(head, (", ".join(said),)) + payload


def ip6(
    carried: Carried | Piece,
    src: str,
    dst: str,
    *,
    nh: int | None = None,
    tc: int = 0,
    flow: int = 0,
    hop: int = 64,
    ext: bytes = b"",
    first: int | None = None,
    length: int | None = None,
    version: int = 6,
) -> Piece:
    """An IPv6 packet (RFC 8200). ``ext``: extension headers, ``first`` of this kind; ``length``, ``version``: lies."""
    source, destination = ipaddress.IPv6Address(src), ipaddress.IPv6Address(dst)
    payload = over6(carried, src, dst) if isinstance(carried, Carried) else carried
    number = first if first is not None else nh if nh is not None else carried.number if isinstance(carried, Carried) else None
    assert number is not None
    length = len(ext) + len(payload) if length is None else length
    head = (version << 28 | tc << 20 | flow).to_bytes(4) + length.to_bytes(2) + bytes([number, hop])
    said = [f"IPv6 {source} > {destination}", f"class 0x{tc:02x}"] + [f"flow label 0x{flow:05x}"] * bool(flow)
    said += [f"payload {length}", f"next header {number}", f"hop limit {hop}"] + [f"version {version}"] * (version != 6)
    chain = (f"extension headers {ext.hex()}",) if ext else ()
    return Piece(head + source.packed + destination.packed + ext, (", ".join(said), *chain)) + payload


def over4(carried: Carried, src: str, dst: str) -> Piece:
    """The payload with the checksum it has between these addresses (RFC 768, RFC 9293)."""
    addresses = ipaddress.IPv4Address(src).packed + ipaddress.IPv4Address(dst).packed
    return carried.build(lambda number, length: addresses + bytes([0, number]) + length.to_bytes(2))


def over6(carried: Carried, src: str, dst: str) -> Piece:
    """The same in IPv6 (RFC 8200 section 8.1)."""
    addresses = ipaddress.IPv6Address(src).packed + ipaddress.IPv6Address(dst).packed
    return carried.build(lambda number, length: addresses + length.to_bytes(4) + bytes([0, 0, 0, number]))
