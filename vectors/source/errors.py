# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ICMP errors on their way through, as they arrive and as they leave, and the packets that they quote."""

from typing import Any

from .network import H4_IN_6, H6, OWN4, OWN6, ROUTER6, in4, in6, out4, out6
from .wire import Carried, Piece, icmp4, icmp6, interface, zeros

#: Both nodes by mappings, and no prefix: other addresses have no counterpart.
ONLY_EAM = {
    "eam": [{"v4": "192.0.2.33/32", "v6": f"{H6}/128"}, {"v4": "198.51.100.2/32", "v6": f"{H4_IN_6}/128"}],
    "icmp": {"address4": OWN4, "address6": OWN6, "source_pool6": ["2001:db8:6791::1/128"]},
}
INNER_ID = "The identification of the quoted packet, unknown, is 0."


def quoted6(carried: Carried | Piece, **fields: Any) -> Piece:
    """A packet of H6 to H4 as H6 sent it, with the hop limit of the ``out4`` that is quoted."""
    return in6(carried, **{"hop": 63, **fields})


def quoted4(carried: Carried | Piece, **fields: Any) -> Piece:
    """A packet of H4 to H6 as H4 sent it, with the TTL of the ``out6`` that is quoted."""
    return in4(carried, **{"ttl": 63, **fields})


def error4(about: Piece, kind: int = 11, code: int = 0, **fields) -> Piece:
    """Time Exceeded, from H4 to H6, as it arrives."""
    return in4(icmp4(kind, code, body=about), **fields)


def told6(about: Piece, kind: int = 3, code: int = 0, **fields) -> Piece:
    """The same as it leaves."""
    return out6(icmp6(kind, code, body=about), **fields)


def error6(about: Piece, kind: int = 3, code: int = 0, **fields) -> Piece:
    """Time Exceeded, from H6 to H4, as it arrives."""
    return in6(icmp6(kind, code, body=about), **fields)


def told4(about: Piece, kind: int = 11, code: int = 0, **fields) -> Piece:
    """The same as it leaves."""
    return out4(icmp4(kind, code, body=about), **fields)


def named4(
    about: Piece, kind: int = 11, code: int = 0, mtu: int = 0, router: str = ROUTER6, src: str = "192.0.0.8", **fields: Any
) -> Piece:
    """The same of a router without IPv4 address: its name stands behind a quote of at least 128 bytes, 32 words."""
    quote = about + zeros(128 - len(about)) if len(about) < 128 else about
    rest = bytes([0, len(quote) // 4]) + mtu.to_bytes(2)
    return out4(icmp4(kind, code, rest, quote + interface(router)), src=src, **fields)
