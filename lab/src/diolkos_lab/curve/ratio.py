# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How many times the PDR of another path a PDR is, with its interval.

Both curves are drawn by the same blocks, so that what a block did to both cancels. A draw in which a PDR lies beyond the
measured loads says only that it does: the quotient then is a range, and the interval holds all of it.
"""

import numpy as np

from diolkos_lab.curve import resampling
from diolkos_lab.curve.crossing import PDR, crossings
from diolkos_lab.curve.loss import CONFIDENCE, Array, Curve
from diolkos_lab.curve.resampling import Plan
from diolkos_lab.stats.quantiles import student


def interval(
    upper: Curve, lower: Curve, plan: Plan, allowed: float = PDR, seed: int = resampling.SEED
) -> tuple[float, float] | None:
    """95 % interval of PDR(upper)/PDR(lower); `plan` has the blocks of both. None with too few builds or trials."""
    independent = min(len(plan.builds), int(upper.runs.min()), int(lower.runs.min()))
    if independent < resampling.FEWEST:
        return None
    over, under = (_ends(curve.rates, crossings(curve.rates, resampling.draws(curve, seed, plan=plan), allowed))
                   for curve in (upper, lower))  # fmt: skip
    least = np.divide(over[0], under[1], out=np.zeros_like(over[0]), where=np.isfinite(under[1]))
    most = np.divide(over[1], under[0], out=np.full_like(over[1], np.inf), where=under[0] > 0)
    low, high = (resampling.interval(each[:, None], independent) for each in (least, most))
    spread = _by_spread(least, independent)
    if not np.array_equal(least, most) or spread is None:
        return float(low[0][0]), float(high[1][0])
    return min(float(low[0][0]), spread[0]), max(float(high[1][0]), spread[1])


def _by_spread(drawn: Array, independent: int) -> tuple[float, float] | None:
    """Student's interval of the logarithm, with the spread of the draws. Percentiles cannot lie beyond the most extreme of
    few blocks, and an interval of 95 % has to: with five, at 1.24 standard deviations from the mean."""
    if not (drawn > 0).all():
        return None
    logs = np.log(drawn)
    half = student((1 + CONFIDENCE) / 2, independent - 1) * logs.std() * np.sqrt(independent / (independent - 1))
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))


def _ends(rates: Array, drawn: Array) -> tuple[Array, Array]:
    """The least and the most that each PDR may be: below the lowest load it is not negative, above the highest it is open."""
    below, above = np.isneginf(drawn), np.isposinf(drawn)
    return (
        np.where(below, 0.0, np.where(above, rates[-1], drawn)),
        np.where(below, rates[0], drawn),
    )
