# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checksums, for all inputs: RFC 1071, RFC 1624, RFC 768, and both paths alike.

Sums of more than 16 bits are reduced to 16 first: `fold` maps every sum to the one number from 1 to 0xFFFF that is
congruent to it modulo 0xFFFF, and 0 to 0 (the first four proofs). So only the folded sum of a part counts, and the
other proofs take folded parts. Where zero has two representations, they say so.
"""

from __future__ import annotations

import pytest
import z3
from arithmetic import (
    CSUM_ZERO,
    carry_over_c,
    carry_over_rust,
    carry_seed_c,
    carry_seed_rust,
    complement,
    delta_c,
    difference_rust,
    fold_c,
    fold_rust,
    halves,
    is_neutral,
    never_zero,
    swap16,
    swap32,
    update_rust,
    update_seed_rust,
)
from proof import prove
from terms import right, unknown

ONES = 0xFFFF

# What stays of a packet, what goes, what comes in its place, and a checksum field.
REST, OLD, NEW, FIELD = (unknown(name, 16) for name in ("rest", "old", "new", "field"))


# --- a fold is a residue


@pytest.mark.parametrize("bits", [16, 32])
def test_a_step_keeps_the_residue(bits: int):
    """Each step of a fold takes a multiple of 2^bits - 1 away, which is a multiple of 0xFFFF."""
    total = unknown("total", 64)
    step = (total & ((1 << bits) - 1)) + right(total, bits)
    assert ((1 << bits) - 1) % ONES == 0
    prove(total == step + ((1 << bits) - 1) * right(total, bits))


def test_both_paths_fold_alike():
    total = unknown("total", 64)
    prove(fold_c(total) == fold_rust(total))


def test_a_fold_has_16_bits_and_is_zero_for_zero_alone():
    total = unknown("total", 64)
    prove(z3.And(right(fold_rust(total), 16) == 0, (fold_rust(total) == 0) == (total == 0)))


def test_a_part_may_be_folded_first():
    """From the three proofs above, in whole numbers: the fold of a + b is the fold of fold(a) + b."""
    a, b, folded_a, first, second = z3.Ints("a b folded_a first second")
    factors = z3.Ints("k1 k2 k3")

    def is_fold(folded: z3.ArithRef, total: z3.ArithRef, factor: z3.ArithRef) -> list[z3.BoolRef]:
        return [folded >= 0, folded <= ONES, total == folded + ONES * factor, (folded == 0) == (total == 0)]

    solver = z3.Solver()
    solver.add(a >= 0, b >= 0, *is_fold(folded_a, a, factors[0]), *is_fold(first, a + b, factors[1]))
    solver.add(*is_fold(second, folded_a + b, factors[2]))
    assert solver.check() == z3.sat
    solver.add(first != second)
    assert solver.check() == z3.unsat


def test_32_bits_in_the_order_of_the_host_sum_up_like_two_words_in_that_of_the_network():
    """RFC 1071 section 2(B): the fast path adds longs as they lie in memory, the slow path words in network order."""
    long = unknown("long", 32)
    prove(fold_c(swap32(long)) == swap16(fold_rust(halves(long))))


def test_the_order_of_octets_does_not_matter_for_a_sum():
    prove(fold_c(swap16(OLD) + swap16(NEW)) == swap16(fold_rust(OLD + NEW)))


# --- by difference (RFC 1624)


def test_the_fast_path_takes_sums_away_without_folding_them():
    """What it takes away from is a multiple of 0xFFFF, and more than any sum of a packet's words below 2^48."""
    assert CSUM_ZERO % ONES == 0
    old = unknown("long_old", 48)
    prove(z3.And(z3.ULE(old, CSUM_ZERO), right(CSUM_ZERO - old, 48) == 0))


def test_both_paths_find_the_same_difference():
    """Up to the two representations of zero, neither of which changes a checksum."""
    ours, theirs = delta_c(OLD, NEW), difference_rust(OLD, NEW)
    prove(z3.Or(ours == theirs, z3.And(is_neutral(ours), is_neutral(theirs))))


def test_an_update_is_the_checksum_over_the_new_packet():
    """RFC 1624 section 3: unless the whole packet is zeros, which no packet with a header is."""
    before = complement(fold_rust(REST + OLD))
    prove(update_rust(before, OLD, NEW) == complement(fold_rust(REST + NEW)), z3.Or(REST != 0, NEW != 0))


def test_an_updated_checksum_verifies_whichever_zero_it_began_with():
    valid = fold_rust(REST + OLD + FIELD) == ONES
    after = update_rust(FIELD, OLD, NEW)
    prove(fold_rust(REST + NEW + after) == ONES, valid, z3.Or(REST != 0, NEW != 0))


def test_an_updated_seed_is_the_sum_of_the_new_pseudo_header():
    """Up to the two representations of zero, which a device adds to the rest alike."""
    after = update_seed_rust(fold_rust(REST + OLD), OLD, NEW)
    wanted = fold_rust(REST + NEW)
    prove(z3.Or(after == wanted, is_neutral(after) & is_neutral(wanted)))


# --- what the paths make of a field


@pytest.mark.parametrize("is_udp", [False, True], ids=["tcp", "udp"])
def test_both_paths_write_the_same_checksum(is_udp: bool):
    """A UDP checksum of 0 is none, and no input of this arithmetic: the fast path declines it."""
    given = [FIELD != 0] if is_udp else []
    prove(carry_over_c(FIELD, OLD, NEW, is_udp) == carry_over_rust(FIELD, OLD, NEW, is_udp), *given)


def test_both_paths_write_the_same_seed():
    prove(carry_seed_c(FIELD, OLD, NEW) == carry_seed_rust(FIELD, OLD, NEW))


def test_what_they_leave_alone_verifies():
    """They change nothing where old and new are neutral; all else is an update, of which it is proven above."""
    given = [fold_rust(REST + OLD + FIELD) == ONES, is_neutral(difference_rust(OLD, NEW))]
    prove(fold_rust(REST + NEW + FIELD) == ONES, *given, z3.Or(REST != 0, NEW != 0, FIELD != 0))


def test_an_update_says_nothing_of_the_rest():
    """What is wrong stays wrong by as much, for the receiver to see (RFC 7915 section 4.5): undone, an update is undone."""
    there = update_rust(FIELD, OLD, NEW)
    back = update_rust(there, NEW, OLD)
    prove(z3.Or(back == FIELD, z3.And(is_neutral(back), is_neutral(FIELD))))


def test_a_udp_checksum_never_becomes_zero():
    prove(carry_over_rust(FIELD, OLD, NEW, True) != 0, FIELD != 0)


def test_never_zero_changes_the_representation_alone():
    prove(z3.And(never_zero(FIELD) != 0, fold_rust(REST + never_zero(FIELD)) % ONES == fold_rust(REST + FIELD) % ONES))


def test_the_last_word_of_a_clat_makes_its_address_neutral():
    """RFC 6052 section 4.1: v4 - (prefixes and the rest of the address), added to these, changes no checksum."""
    last = difference_rust(REST, NEW)
    prove(is_neutral(difference_rust(NEW, fold_rust(REST + last))))
