# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What trials say of the share of all such trials in which something happens (Clopper and Pearson 1934, Biometrika 26)."""

import math

from scipy import special

from diolkos_lab.stats.median import CONFIDENCE, Interval


def interval(times: int, trials: int) -> Interval:
    """The exact interval of the share, where it happened so many times.

    It is one-sided where it happened never or always, as no share lies beyond; without a trial it is everything.
    """
    if not trials:
        return 0.0, 1.0
    beyond = 1 - CONFIDENCE if times in (0, trials) else (1 - CONFIDENCE) / 2
    low = float(special.betaincinv(times, trials - times + 1, beyond)) if times else 0.0
    high = float(special.betaincinv(times + 1, trials - times, 1 - beyond)) if times < trials else 1.0
    return low, high


def fewest(share: float) -> int:
    """How many trials in none of which it happens show that the share is at most this."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - share))
