# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Do two samples differ by more than chance, and by how much at least and at most?

The test is Mann-Whitney's, exact for few values and with any ties; of several strata van Elteren's, which joins their rank
sums. The interval has every change that, taken back, the test does not find (Hodges and Lehmann 1963, "Estimates of Location
Based on Rank Tests", Annals of Mathematical Statistics 34). So interval and p never contradict each other, which those of a
bootstrap of four values did in one null comparison of eighteen.
"""

import bisect
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from diolkos_lab.stats.median import CONFIDENCE, Interval
from diolkos_lab.stats.quantiles import normal_below

Values = npt.NDArray[np.float64]
Strata = Sequence[tuple[list[float], list[float]]]  # by host: the values of both runs
EXACT = 40  # values of both samples; of more the normal distribution is as good


def chance(strata: Strata) -> float:
    """Two-sided p. Several strata are weighted by 1/(n + m + 1), as normal deviate."""
    if len(strata) == 1:
        first, second = strata[0]
        ranks = _ranks([*first, *second])
        if len(ranks) <= EXACT:
            return _exact(ranks, len(first))
    beyond, variance = 0.0, 0.0
    for first, second in strata:
        n, m = len(first), len(second)
        ranks = _ranks([*first, *second])
        beyond += (ranks[:n].sum() - n * (n + m + 1) / 2) / (n + m + 1)
        variance += n * m / (n + m - 1) * ranks.var() / (n + m + 1) ** 2
    return float(2 * normal_below(-abs(beyond) / math.sqrt(variance))) if variance else 1.0


def ratio(strata: Strata) -> tuple[float, Interval]:
    """How many times as large the second sample is: the median of all pairs' ratios, of strata the median of theirs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of two failures: no change.
        each = [np.nan_to_num(np.divide.outer(_array(b), _array(a)).ravel(), nan=1.0, posinf=np.inf) for a, b in strata]
    return _with_interval(strata, each, lambda values, by: [value * by for value in values], logarithmic=True)


def difference(strata: Strata) -> tuple[float, Interval]:
    """By how much the second sample is larger, in the same way. Values may be infinite: two that are do not differ."""
    with np.errstate(invalid="ignore"):
        each = [
            np.nan_to_num(np.subtract.outer(_array(b), _array(a)).ravel(), nan=0.0, posinf=np.inf, neginf=-np.inf)
            for a, b in strata
        ]
    return _with_interval(strata, each, lambda values, by: [value + by for value in values], logarithmic=False)


def _with_interval(
    strata: Strata, each: Sequence[Values], moved: Callable[[list[float], float], list[float]], *, logarithmic: bool
) -> tuple[float, Interval]:
    """From the last change below all that the test accepts to the first above them; 0 or infinite where there is none.

    The test can only change its mind where a value of one sample passes one of the other, so it is asked between these."""
    with np.errstate(invalid="ignore"):
        middle = float(np.median([np.median(values) for values in each]))
    every = np.unique(np.concatenate(each))
    steps = every[np.isfinite(every) & ((every > 0) | (not logarithmic))]
    scale = np.log(steps) if logarithmic else steps
    between = np.concatenate((scale[:1] - 1, (scale[1:] + scale[:-1]) / 2, scale[-1:] + 1))
    between = np.exp(between) if logarithmic else between

    def accepts(place: int) -> bool:
        return chance([(moved(a, float(between[place])), b) for a, b in strata]) >= 1 - CONFIDENCE

    start = len(steps) // 2
    inside = start if len(steps) and accepts(start) else next((at for at in range(len(between)) if accepts(at)), None)
    if inside is None:  # all values of a sample are equal, or without end
        return middle, (middle, middle)
    first = bisect.bisect_left(range(inside), True, key=accepts)
    last = bisect.bisect_left(range(len(between)), True, lo=inside + 1, key=lambda at: not accepts(at)) - 1
    low = float(steps[first - 1]) if first else 0.0 if logarithmic else -math.inf
    return middle, (low, float(steps[last]) if last < len(steps) else math.inf)


def _exact(ranks: Values, first: int) -> float:
    """From the number of subsets of so many ranks by their sum; twice a rank is a whole number."""
    doubled = np.rint(2 * ranks).astype(int)
    ways = np.zeros((first + 1, int(doubled.sum()) + 1))
    ways[0, 0] = 1
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    all_sums, seen = ways[first] / ways[first].sum(), int(doubled[:first].sum())
    return float(min(1.0, 2 * min(all_sums[: seen + 1].sum(), all_sums[seen:].sum())))


def _ranks(values: Sequence[float]) -> Values:
    """From 1 on; of equal values the mean."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[place])


def _array(values: Sequence[float]) -> Values:
    return np.asarray(values, dtype=float)
