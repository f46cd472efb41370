# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a block says of a figure: a number, or the range that hides it.

A trial in which the system failed and a search that met its limit say something too. To leave them out would select by
outcome: a system that fails every third time would look like one that never does. So a failure counts as the worst that the
figure can be (a rate of 0, a time without end), and a search that met a limit as all that lies beyond it. Both survive a
median and a ratio: what is computed of ranges is the range of all that the numbers in them could have given.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Direction = Literal["higher", "lower"]  # which is better


@dataclass(frozen=True)
class Bounds:
    """A figure that is not negative: at least `low`, at most `high` (infinite where nothing bounds it)."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:  # NaN fails too
            raise ValueError(f"no figure lies between {self.low} and {self.high}")

    @property
    def exact(self) -> bool:
        return self.low == self.high

    @property
    def finite(self) -> bool:
        return math.isfinite(self.high)

    @property
    def number(self) -> float | None:
        """Where it is one."""
        return self.low if self.exact and math.isfinite(self.low) else None

    @property
    def as_json(self) -> list[float | None]:
        """Both ends; JSON has no infinity, so null stands for an end that is none."""
        return ends_as_json((self.low, self.high))

    def ratio_to(self, other: "Bounds") -> "Bounds | None":
        """The ratio, or None where both are 0 or both without end: nothing can be said of two failures.

        A baseline of 0, or without end, is one that failed. By how much something else is better than that, nobody knows:
        the ratio may be anything.
        """
        if self.exact and other.exact and (self.low, other.low) in ((0.0, 0.0), (math.inf, math.inf)):
            return None
        if other.exact and other.low in (0.0, math.inf):
            return UNKNOWN
        return Bounds(_divide(self.low, other.high, default=0.0), _divide(self.high, other.low, default=math.inf))


def exactly(value: float) -> Bounds:
    return Bounds(value, value)


def failed(better: Direction) -> Bounds:
    """The worst that a figure can be."""
    return exactly(0.0 if better == "higher" else math.inf)


def at_least(value: float) -> Bounds:
    return Bounds(value, math.inf)


def at_most(value: float) -> Bounds:
    return Bounds(0.0, value)


def median(figures: Sequence[Bounds]) -> Bounds:
    """Between the median of all lower ends and that of all upper ends."""
    return Bounds(float(np.median([each.low for each in figures])), float(np.median([each.high for each in figures])))


UNKNOWN = Bounds(0.0, math.inf)


def ends_as_json(ends: tuple[float, float]) -> list[float | None]:
    return [end if math.isfinite(end) else None for end in ends]


def _divide(upper: float, lower: float, *, default: float) -> float:
    """`default` where the quotient is not defined: the widest that a range can be there."""
    if math.isinf(upper) and math.isinf(lower):
        return default
    if lower == 0:
        return math.inf if upper else default
    return upper / lower
