# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A median and how sure it is.

The interval rests on order statistics, so it assumes no distribution and needs no random numbers: the median lies between
the k-th smallest and the k-th largest of n values with a probability that the binomial distribution gives. That probability
moves in steps, which for the 8 to 12 blocks of a quick run are coarse; Hettmansperger and Sheather (1986, Statistics &
Probability Letters 4) interpolate between two steps to reach the wanted level.
"""

from collections.abc import Sequence

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
    if n == 0 or _coverage(n, 1) < confidence:
        return None
    depth = 1
    while depth + 1 <= n // 2 and _coverage(n, depth + 1) >= confidence:
        depth += 1
    # Between depth d (covers enough) and d + 1 (covers too little).
    enough, too_little = _coverage(n, depth), _coverage(n, depth + 1)
    share = (enough - confidence) / (enough - too_little)
    weight = (n - depth) * share / (depth + (n - 2 * depth) * share)
    return _between(ordered[depth - 1], ordered[depth], weight), _between(ordered[n - depth], ordered[n - depth - 1], weight)


def _between(first: float, second: float, weight: float) -> float:
    """So much of the second. Either may be infinite, as the time of what never ended is."""
    if first == second or weight == 0:
        return float(first)
    return float((1 - weight) * first + weight * second)


def _coverage(n: int, depth: int) -> float:
    """Probability that the median lies between the depth-th smallest and the depth-th largest of n values."""
    return float(1 - 2 * binomial_at_most(depth - 1, n, 0.5))
