# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What changed from one run to another, as a difference: for figures that may be zero, of which no ratio can be made.

Test, bootstrap and correction are those of `comparison`; the figures here have more ties. A value may be infinite, as a gap
that did not end is: two of them do not differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from diolkos_lab.stats import comparison
from diolkos_lab.stats.comparison import FEWEST, RESAMPLES, SEED, SIGNIFICANT, Strata
from diolkos_lab.stats.median import CONFIDENCE, Interval

Values = npt.NDArray[np.float64]
PERMUTATIONS = 9999  # at most; of up to 8 against 6 values these are all


@dataclass(frozen=True)
class Difference:
    """The second run's median minus the first's; of several hosts the median of the hosts' differences."""

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
    generator = np.random.default_rng(SEED)
    values, drawn = [], []
    for pair in enough:
        before, after = (np.asarray(each, dtype=float) for each in pair)
        values.append(_minus(_median(after), _median(before)))
        resampled = [_median(generator.choice(each, (RESAMPLES, len(each)))) for each in (before, after)]
        drawn.append(_minus(resampled[1], resampled[0]))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.sort(_median(np.array(drawn).T)), [tail, 1 - tail], method="nearest")
    return Difference(float(_median(np.array(values))), (float(low), float(high)), _chance(enough))


def corrected(found: Sequence[Difference | None]) -> list[Difference | None]:
    """With p corrected for the number of differences."""
    p = iter(comparison.corrected([each.p for each in found if each]))
    return [replace(each, p=next(p)) if each else None for each in found]


def _chance(strata: Strata) -> float:
    """Few values with many ties, such as shares that are all 1, follow no normal distribution: then all orders are tried."""
    if len(strata) > 1 or len({*strata[0][0], *strata[0][1]}) == sum(map(len, strata[0])):
        return float(comparison.chance(strata))
    from scipy import stats as scipy_stats  # noqa: PLC0415

    orders = scipy_stats.PermutationMethod(n_resamples=PERMUTATIONS, random_state=np.random.default_rng(SEED))
    return float(scipy_stats.mannwhitneyu(*strata[0], method=orders).pvalue)


def _minus(after: Values, before: Values) -> Values:
    """Of two that never end: no difference."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(after - before, nan=0.0, posinf=np.inf, neginf=-np.inf))


def _median(values: Values) -> Values:
    """Along the last axis. Between a number and one that is infinite lies an infinite one."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.median(values, axis=-1))
