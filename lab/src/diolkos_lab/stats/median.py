# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A median and how sure it is.

The interval rests on order statistics, so it assumes no distribution and needs no random numbers: the median lies between
the k-th smallest and the k-th largest of n values with a probability that the binomial distribution gives. That probability
moves in steps, which for the 8 to 12 blocks of a quick run are coarse; Hettmansperger and Sheather (1986, Statistics &
Probability Letters 4) interpolate between two steps to reach the wanted level.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from diolkos_lab.stats.quantiles import binomial_at_most

CONFIDENCE = 0.95
FEWEST = 6  # with five values even the whole range covers the median with less than 95 %

Interval = tuple[float, float]


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Interval of the median at the confidence level, or None when there are too few values to have one."""
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    found = depth(n, confidence)
    if not found:
        return None
    d, weight = found
    return _between(ordered[d - 1], ordered[d], weight), _between(ordered[n - d], ordered[n - d - 1], weight)


@cache
def depth(n: int, confidence: float = CONFIDENCE) -> tuple[int, float] | None:
    """How deep in n ordered values the ends of the interval lie, counted from 1: so much of the way to the next depth."""
    if n == 0 or _coverage(n, 1) < confidence:
        return None
    d = 1
    while d + 1 <= n // 2 and _coverage(n, d + 1) >= confidence:
        d += 1
    # Between depth d (covers enough) and d + 1 (covers too little).
    enough, too_little = _coverage(n, d), _coverage(n, d + 1)
    share = (enough - confidence) / (enough - too_little)
    return d, (n - d) * share / (d + (n - 2 * d) * share)


def _between(first: float, second: float, weight: float) -> float:
    """So much of the second. Either may be infinite, as the time of what never ended is."""
    if first == second or weight == 0:
        return float(first)
    return float((1 - weight) * first + weight * second)


def _coverage(n: int, depth: int) -> float:
    """Probability that the median lies between the depth-th smallest and the depth-th largest of n values."""
    return float(1 - 2 * binomial_at_most(depth - 1, n, 0.5))
