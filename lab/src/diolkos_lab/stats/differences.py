# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What changed from one run to another, as a difference: for figures that may be zero, of which no ratio can be made.

Test, interval and correction are those of `comparison`. A value may be infinite, as a gap that did not end is: two of them do
not differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from diolkos_lab.stats import comparison, rank_test
from diolkos_lab.stats.comparison import FEWEST, SIGNIFICANT
from diolkos_lab.stats.median import Interval
from diolkos_lab.stats.rank_test import Strata


@dataclass(frozen=True)
class Difference:
    """By how much the second run's values are larger: the median of the differences of each from each; of several hosts the
    median of theirs."""

    value: float
    ci95: Interval
    p: float

    @property
    def significant(self) -> bool:
        return self.p < SIGNIFICANT


def difference(strata: Strata) -> Difference | None:
    """None where no host has enough values on each side. p is not corrected yet."""
    enough = [pair for pair in strata if min(map(len, pair)) >= FEWEST]
    if not enough:
        return None
    return Difference(*rank_test.difference(enough), rank_test.chance(enough))


def corrected(found: Sequence[Difference | None]) -> list[Difference | None]:
    """With p corrected for the number of differences."""
    p = iter(comparison.corrected([each.p for each in found if each]))
    return [replace(each, p=next(p)) if each else None for each in found]
