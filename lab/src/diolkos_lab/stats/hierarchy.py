# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The interval of a median of blocks that may share builds.

The blocks of one build of the lanes have the build's luck in common: where its threads came to run, how its hash tables fell
out. They are no independent witnesses, so an interval that takes them for such is too narrow. A build therefore has one voice,
the median of its blocks, and the interval is that of order statistics over the builds: exact, whatever builds and blocks vary
by. A bootstrap of builds and their blocks gives an interval from three builds on, but that covers the truth 81 times in a
hundred where builds differ much. Levels of repetition: Kalibera and Jones (2013, "Rigorous Benchmarking in Reasonable Time",
ISMM).
"""

from collections.abc import Sequence

from diolkos_lab.stats import bounds, median
from diolkos_lab.stats.bounds import Bounds
from diolkos_lab.stats.median import CONFIDENCE, Interval


def middle(builds: Sequence[Sequence[Bounds]]) -> Bounds:
    return bounds.median(_voices(builds))


def interval(builds: Sequence[Sequence[Bounds]], confidence: float = CONFIDENCE) -> Interval | None:
    """Interval of the median over all builds, or None where there are too few for the confidence.

    The lower end is of the figures' lower ends, the upper of their upper ends.
    """
    said = _voices(builds)
    low = median.interval([each.low for each in said], confidence)
    high = median.interval([each.high for each in said], confidence)
    return (low[0], high[1]) if low and high else None


def _voices(builds: Sequence[Sequence[Bounds]]) -> list[Bounds]:
    return [bounds.median(build) for build in builds if build]
