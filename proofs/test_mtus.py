# SPDX-License-Identifier: Apache-2.0 OR MIT
"""MTUs in ICMP errors, for all values that a packet can say and all MTUs of links (RFC 7915 sections 4.2 and 5.2)."""

from __future__ import annotations

import pytest
import z3
from arithmetic import DIFFERENCE, FRAGMENT, MIN_MTU_4, MIN_MTU_6, PLATEAUS, mtu_to_ipv4, mtu_to_ipv6, plateau
from proof import prove
from terms import unknown

TOLD4, LENGTH, TOLD6 = unknown("told4", 16), unknown("quoted_len", 16), unknown("told6", 32)
MTU4, MTU6 = unknown("mtu4", 32), unknown("mtu6", 32)
LINKS = (z3.UGE(MTU4, MIN_MTU_4), z3.UGE(MTU6, MIN_MTU_6))


def test_an_ipv6_node_is_never_told_less_than_1280_nor_more_than_passes():
    mtu = mtu_to_ipv6(TOLD4, LENGTH, MTU4, MTU6)
    fits = z3.And(z3.ULE(mtu, MTU6), z3.ULE(mtu, MTU4 + DIFFERENCE), z3.ULE(mtu, TOLD4 + DIFFERENCE))
    prove(z3.And(z3.UGE(mtu, MIN_MTU_6), z3.Or(mtu == MIN_MTU_6, fits)), *LINKS, TOLD4 != 0)


def test_an_ipv6_node_is_told_the_most_that_passes():
    """One more would be too much for one of the three, or it is 1280."""
    more = mtu_to_ipv6(TOLD4, LENGTH, MTU4, MTU6) + 1
    too_much = z3.Or(z3.UGT(more, MTU6), z3.UGT(more, MTU4 + DIFFERENCE), z3.UGT(more, TOLD4 + DIFFERENCE))
    prove(too_much, *LINKS, TOLD4 != 0)


def test_a_packet_that_obeys_fits_after_translation():
    """What is as long as the node was told, less the longer header, passes the IPv4 link that complained; below 1280, where
    an IPv6 node may send more, the translator fragments."""
    mtu = mtu_to_ipv6(TOLD4, LENGTH, MTU4, MTU6)
    prove(z3.ULE(mtu - DIFFERENCE, TOLD4), *LINKS, z3.UGE(TOLD4, MIN_MTU_6 - DIFFERENCE))


def test_a_router_that_tells_nothing_is_taken_to_have_the_next_plateau():
    """RFC 1191 section 7.1, "the greatest plateau value that is less than the returned Total Length"."""
    guess = plateau(LENGTH)
    is_plateau = z3.Or(guess == 0, *(guess == value for value in PLATEAUS))
    nothing_between = z3.And(*(z3.Not(z3.And(z3.UGT(value, guess), z3.ULT(value, LENGTH))) for value in PLATEAUS))
    prove(z3.And(is_plateau, nothing_between, z3.Or(guess == 0, z3.ULT(guess, LENGTH))))


def test_with_plateaus_each_error_tells_less():
    """So a sender that follows ends, at 1280 at the latest: no loop."""
    mtu = mtu_to_ipv6(0, LENGTH, MTU4, MTU6)
    prove(z3.Or(mtu == MIN_MTU_6, z3.ULT(mtu, LENGTH + DIFFERENCE)), *LINKS)


@pytest.mark.parametrize("is_fragment", [False, True])
def test_an_ipv4_node_is_told_the_most_that_passes(is_fragment: bool):
    grows = DIFFERENCE + (FRAGMENT if is_fragment else 0)
    mtu = mtu_to_ipv4(TOLD6, is_fragment, MTU4, MTU6)

    def passes(length: z3.BitVecRef) -> z3.BoolRef:
        return z3.And(z3.ULE(length + grows, TOLD6), z3.ULE(length + grows, MTU6), z3.ULE(length, MTU4))

    prove(z3.And(z3.UGE(mtu, MIN_MTU_4), z3.Or(mtu == MIN_MTU_4, passes(mtu)), z3.Not(passes(mtu + 1))), *LINKS)


@pytest.mark.parametrize("is_fragment", [False, True])
def test_what_an_ipv4_node_is_told_fits_the_field(is_fragment: bool):
    """16 bits, when a link of IPv4 has no more, as none has (RFC 791 section 3.1)."""
    mtu = mtu_to_ipv4(TOLD6, is_fragment, MTU4, MTU6)
    prove(z3.ULE(mtu, 0xFFFF), *LINKS, z3.ULE(MTU4, 0xFFFF))
