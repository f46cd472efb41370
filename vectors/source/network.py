# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The network of the vectors, which is that of RFC 7915 appendix A, and the list of vectors.

    H4 198.51.100.2 ── IPv4 ── translator, 2001:db8:100::/40 ── IPv6 ── H6 192.0.2.33, 2001:db8:1c0:2:21::

packets between the two ─► errors of the translator ─► Topic, which collects the vectors of one file
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .answers import ANSWERS
from .wire import Carried, Piece, icmp4, icmp6, ip4, ip6

H4, H4_IN_6 = "198.51.100.2", "2001:db8:1c6:3364:2::"
H6_IN_4, H6 = "192.0.2.33", "2001:db8:1c0:2:21::"
#: The translator's own addresses, as source of its ICMP errors.
OWN4, OWN6 = "192.0.2.1", "2001:db8:1c0:2:1::"
#: A router of the IPv6 network, without an IPv4 address.
ROUTER6 = "2001:db8::1234"
#: A router of the IPv4 network.
ROUTER4, ROUTER4_IN_6 = "203.0.113.9", "2001:db8:1cb:71:9::"

CONFIG: dict[str, Any] = {"pref64": ["2001:db8:100::/40"], "icmp": {"address4": OWN4, "address6": OWN6}}
#: What the generator of IPv4 identifications gives next.
IDENT = 0x4D2


def config(**changes: Any) -> dict[str, Any]:
    """The configuration of the network above, with keys added or replaced."""
    return {**CONFIG, **changes}


# A packet of H4 to H6 before and after translation, and one of H6 to H4. The TTL is one less after it.


def in4(carried: Carried | Piece, src: str = H4, dst: str = H6_IN_4, **fields: Any) -> Piece:
    """H4 to H6, as it reaches the translator."""
    return ip4(carried, src, dst, **fields)


def out6(carried: Carried | Piece, src: str = H4_IN_6, dst: str = H6, **fields: Any) -> Piece:
    """H4 to H6, as it leaves."""
    return ip6(carried, src, dst, **{"hop": 63, **fields})


def in6(carried: Carried | Piece, src: str = H6, dst: str = H4_IN_6, **fields: Any) -> Piece:
    """H6 to H4, as it reaches the translator."""
    return ip6(carried, src, dst, **fields)


def out4(carried: Carried | Piece, src: str = H6_IN_4, dst: str = H4, **fields: Any) -> Piece:
    """H6 to H4, as it leaves, with the first identification of the generator."""
    return ip4(carried, src, dst, **{"ttl": 63, "ident": IDENT, **fields})


# Errors of the translator itself: not longer than 576 bytes (RFC 1812 section 4.3.2.3) or 1280 (RFC 4443 section 2.4).


def told4(kind: int, code: int, about: Piece, rest: bytes = b"\0\0\0\0", src: str = OWN4, dst: str = H4) -> Piece:
    """An ICMPv4 error of precedence 6 (RFC 1812 section 4.3.2.5) that quotes what was received."""
    return ip4(icmp4(kind, code, rest, about[:548]), src, dst, tos=0xC0, ident=IDENT)


def told6(kind: int, code: int, about: Piece, rest: bytes = b"\0\0\0\0", src: str = OWN6, dst: str = H6) -> Piece:
    """An ICMPv6 error that quotes what was received."""
    return ip6(icmp6(kind, code, rest, about[:1232]), src, dst)


SECTION = re.compile(r"RFC \d+( [0-9A-Z][0-9.]*[0-9A-Z]?(\([a-z0-9.]+\))?)?( figure \d+)?")


@dataclass
class Topic:
    """The vectors of one file."""

    name: str
    title: str
    vectors: list[dict[str, Any]] = field(default_factory=list)

    def forward(self, name: str, demand: str, rfc: str, send: Piece, expect: Piece, **more: Any) -> None:
        """The packet is translated into one."""
        self._add(name, demand, rfc, send, "forward", [expect], **more)

    def pieces(self, name: str, demand: str, rfc: str, send: Piece, *expect: Piece, **more: Any) -> None:
        """The packet is translated into several."""
        self._add(name, demand, rfc, send, "emitted", list(expect), **more)

    def drop(self, name: str, demand: str, rfc: str, send: Piece, reason: str, *told: Piece, **more: Any) -> None:
        """The packet is refused for a named reason; ``told``: the ICMP error about it."""
        self._add(name, demand, rfc, send, "drop", list(told), reason=reason, **more)

    def _add(
        self,
        name: str,
        demand: str,
        rfc: str,
        send: Piece,
        verdict: str,
        output: list[Piece],
        *,
        reason: str | None = None,
        config: dict[str, Any] | None = None,
        time_ms: int = 0,
        earlier: list[tuple[int, Piece]] | None = None,
        choice: str | None = None,
        judges: str | None = None,
    ) -> None:
        sections = rfc.split(", ")
        assert all(SECTION.fullmatch(section) for section in sections), rfc
        assert demand.endswith("."), demand
        vector: dict[str, Any] = {"name": name, "demand": demand, "rfc": sections}
        vector |= {"choice": choice} if choice else {}
        vector |= {"judges": judges} if judges else {}
        answers = [bug for bug, vectors in ANSWERS.items() if name in vectors]
        vector |= {"answers": answers} if answers else {}
        vector["config"] = CONFIG if config is None else config
        vector["environment"] = {"ipv4_id": IDENT, "time_ms": time_ms}
        if earlier:
            vector["environment"]["earlier"] = [{"time_ms": at, **packet(piece)} for at, piece in earlier]
        vector["input"] = packet(send)
        vector["verdict"] = verdict
        vector |= {"reason": reason} if reason else {}
        vector["output"] = [packet(piece) for piece in output]
        self.vectors.append(vector)


def packet(piece: Piece) -> dict[str, Any]:
    """How a packet stands in the file."""
    return {"fields": list(piece.fields), "hex": piece.data.hex()}
