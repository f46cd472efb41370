# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Words of a fixed width that are either numbers or unknowns of the solver, so that one description serves both.

A number is a Python int below 2^WIDTH; an unknown is a z3 bit vector of WIDTH bits. No description here overflows WIDTH.
"""

from __future__ import annotations

import z3

WIDTH = 136  # an IPv6 address shifted by one octet
MASK = (1 << WIDTH) - 1

Term = int | z3.BitVecRef
Truth = bool | z3.BoolRef


def unknown(name: str, bits: int) -> z3.BitVecRef:
    """Any word below 2^bits."""
    return z3.ZeroExt(WIDTH - bits, z3.BitVec(name, bits))


def right(word: Term, bits: int) -> Term:
    """Logical shift to the right."""
    return word >> bits if isinstance(word, int) else z3.LShR(word, bits)


def left(word: Term, bits: int) -> Term:
    """Shift to the left."""
    return (word << bits) & MASK if isinstance(word, int) else word << bits


def choose(condition: Truth, yes: Term, no: Term) -> Term:
    """One of two words."""
    if isinstance(condition, bool):
        return yes if condition else no
    return z3.If(condition, *(z3.BitVecVal(t, WIDTH) if isinstance(t, int) else t for t in (yes, no)))


def below(a: Term, b: Term) -> Truth:
    """Unsigned a < b."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    return z3.ULT(*(z3.BitVecVal(t, WIDTH) if isinstance(t, int) else t for t in (a, b)))


def least(a: Term, b: Term) -> Term:
    """The smaller one."""
    return choose(below(a, b), a, b)


def most(a: Term, b: Term) -> Term:
    """The larger one."""
    return choose(below(a, b), b, a)


def either(*truths: Truth) -> Truth:
    """At least one of them."""
    return any(truths) if all(isinstance(t, bool) for t in truths) else z3.Or(*truths)
