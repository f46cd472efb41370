# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The interval of a median of blocks that share builds.

The blocks of one build of the lanes have the build's luck in common: where its threads came to run, how its hash tables fell
out. They are no independent witnesses, so an interval that takes them for such is too narrow: with builds and blocks that
vary alike, two blocks a build and ten blocks, a 95 % interval of the plain kind covers the truth 87 times in a hundred.

Where every build has one block, blocks are independent, and the interval of order statistics is exact. Otherwise it comes
from a bootstrap of all levels: builds are drawn, then blocks of each. Its percentiles are widened for the number of builds,
after Hesterberg (2015, "What Teachers Should Know About the Bootstrap", The American Statistician 69), as those of curves
are. Levels of repetition: Kalibera and Jones (2013, "Rigorous Benchmarking in Reasonable Time", ISMM).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.stats import median
from diolkos_lab.stats.bounds import Bounds
from diolkos_lab.stats.median import CONFIDENCE, Interval
from diolkos_lab.stats.quantiles import normal_below, student

DRAWS = 4000
SEED = 20130620
FEWEST_BUILDS = 3  # of two, nobody knows how builds differ


def interval(builds: Sequence[Sequence[Bounds]]) -> Interval | None:
    """95 % interval of the median over all blocks of all builds, or None where there are too few of either.

    The lower end is of the figures' lower ends, the upper of their upper ends.
    """
    blocks = [figure for build in builds for figure in build]
    if len(blocks) < median.FEWEST:
        return None
    lows, highs = ([[getattr(figure, end) for figure in build] for build in builds if build] for end in ("low", "high"))
    if all(len(build) == 1 for build in lows):
        low, high = (median.interval([value for build in values for value in build]) for values in (lows, highs))
        assert low and high
        return low[0], high[1]
    if len(lows) < FEWEST_BUILDS:
        return None
    share = tail(len(lows))
    least, most = (np.sort(draws(values, np.random.default_rng(SEED))) for values in (lows, highs))
    return quantile(least, share), quantile(most, 1 - share)


def tail(units: int, freedom: int | None = None) -> float:
    """The share of draws to leave out at each end, where so many units were drawn. `freedom` is units − 1 unless several
    groups of so many were."""
    return float(normal_below(-np.sqrt(units / (units - 1)) * student((1 + CONFIDENCE) / 2, freedom or units - 1)))


def draws(builds: Sequence[Sequence[float]], random: np.random.Generator) -> NDArray[np.float64]:
    """Medians that the same builds and blocks could have shown."""
    sizes = np.array([len(build) for build in builds])
    table = np.full((len(builds), sizes.max()), np.nan)
    for row, build in zip(table, builds, strict=True):
        row[: len(build)] = build
    chosen = random.integers(len(builds), size=(DRAWS, len(builds)))
    # A build gives as many blocks as it has; the rest of its row is left out of the median.
    at = (random.random((DRAWS, len(builds), table.shape[1])) * sizes[chosen][..., None]).astype(int)
    drawn = table[chosen[..., None], at]
    if sizes.min() == sizes.max():
        return np.asarray(np.median(drawn.reshape(DRAWS, -1), axis=1))
    drawn[np.arange(table.shape[1]) >= sizes[chosen][..., None]] = np.nan
    return np.asarray(np.nanmedian(drawn.reshape(DRAWS, -1), axis=1))


def quantile(ordered: NDArray[np.float64], share: float) -> float:
    """Of order, not of distance: some draws may have no end."""
    last = len(ordered) - 1
    return float(ordered[int(np.floor(share * last)) if share < 0.5 else int(np.ceil(share * last))])
