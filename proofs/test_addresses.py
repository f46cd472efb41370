# SPDX-License-Identifier: Apache-2.0 OR MIT
"""IPv4 addresses in IPv6 addresses, for every prefix, address and suffix of each length (RFC 6052 section 2.2)."""

from __future__ import annotations

import pytest
import z3
from arithmetic import (
    LENGTHS,
    U_OCTET,
    embed_c,
    embed_rust,
    extract_c,
    extract_rust,
    is_inside_c,
    is_inside_rust,
    mask,
)
from proof import prove
from terms import MASK, left, right, unknown

V4, ADDRESS = unknown("v4", 32), unknown("address", 128)
lengths = pytest.mark.parametrize("length", LENGTHS)


def prefix(length: int) -> z3.BitVecRef:
    """Any prefix of a length. Bits 64 to 71 are part of the longest one, and may be set there by operators that do so."""
    return unknown("prefix", 128) & mask(length) & MASK


@lengths
def test_both_paths_embed_alike(length: int):
    prove(embed_c(prefix(length), length, V4) == embed_rust(prefix(length), length, V4))


@lengths
def test_both_paths_extract_alike(length: int):
    prove(extract_c(length, ADDRESS) == extract_rust(length, ADDRESS))


@lengths
def test_both_paths_know_what_lies_inside(length: int):
    prove(is_inside_c(prefix(length), length, ADDRESS) == is_inside_rust(prefix(length), length, ADDRESS))


@lengths
def test_what_is_embedded_comes_out(length: int):
    embedded = embed_rust(prefix(length), length, V4)
    prove(z3.And(is_inside_rust(prefix(length), length, embedded), extract_rust(length, embedded) == V4))


@lengths
def test_the_bits_stand_where_the_table_of_the_rfc_has_them(length: int):
    """Figure 1, bit by bit: prefix, IPv4 address around the u octet, zeros."""
    embedded = embed_rust(prefix(length), length, V4)
    before = 32 if length == 96 else max(64 - length, 0)
    start = length if length != 64 else 72
    high = right(V4, 32 - before) if before else 0
    expected = prefix(length)
    if before:
        expected = expected | left(high, 128 - start - before)
    if before < 32:
        rest = V4 & ((1 << (32 - before)) - 1)
        expected = expected | left(rest, 128 - 72 - (32 - before))
    prove(embedded == expected)


@pytest.mark.parametrize("length", [n for n in LENGTHS if n < 96])
def test_the_u_octet_is_zero_and_ignored(length: int):
    embedded = embed_rust(prefix(length), length, V4)
    other = ADDRESS ^ (unknown("noise", 128) & U_OCTET)
    prove(z3.And(embedded & U_OCTET == 0, extract_rust(length, other) == extract_rust(length, ADDRESS)))


@lengths
def test_the_suffix_is_ignored(length: int):
    used = length + 32 + (8 if length < 96 else 0)
    noise = unknown("noise", 128) & ((1 << (128 - used)) - 1)
    prove(extract_rust(length, ADDRESS ^ noise) == extract_rust(length, ADDRESS))
