# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The PDR of each block of a curve, and the interval of their median.

What slows a machine for a while slows all loads of that block. The mean loss of all blocks is then that of the slow ones: where
capacity drifts by 10 % its PDR lies 10 % below that of the median block, and further the steadier the router is. A block's own
curve knows no drift. So a block has one PDR, the figure is the median over the blocks, and its interval rests on order
statistics, as that of every other figure does. `docs/accuracy.md` has how often it covers the truth.
"""

import numpy as np

from diolkos_lab.curve.crossing import PDR, Crossing, crossing
from diolkos_lab.curve.loss import Curve
from diolkos_lab.curve.resampling import Plan
from diolkos_lab.stats import bounds, hierarchy
from diolkos_lab.stats.bounds import Bounds
from diolkos_lab.stats.median import Interval

# A straight line between two loads is a little off, by 0.05 % in the usual curve: no interval is made narrower than that.
INTERPOLATED = 0.0005


def rates(curve: Curve, allowed: float = PDR) -> dict[int, Bounds]:
    """Block to its PDR in packets/s, of those that have a trial at half of the loads: a range where the loads that it lacks,
    since guards object to its trials there, leave a gap that is wider than any of the curve."""
    assert curve.blocks is not None
    widest = float(np.max(curve.rates[1:] / curve.rates[:-1], initial=1.0))
    found = {}
    for block in np.unique(curve.blocks[curve.blocks >= 0]).tolist():
        mine = curve.blocks == block
        seen = mine.any(axis=1)
        if 2 * seen.sum() >= len(seen):
            plr = np.nanmean(np.where(mine, curve.trials, np.nan)[seen], axis=1)
            found[block] = _bounds(crossing(curve.rates[seen], plr, allowed), widest)
    return found


def median(curve: Curve, found: dict[int, Bounds], pooled: Crossing, plan: Plan) -> tuple[Crossing, Interval | None]:
    """The crossing `pooled` with the rate of the median block, and the loads between which that lies; and its interval."""
    if not found:
        return pooled, None
    builds = [[found[block] for block in build if block in found] for build in plan.builds]
    middle, ends = hierarchy.middle(builds), hierarchy.interval(builds)
    below, above = curve.rates[curve.rates <= middle.low], curve.rates[curve.rates >= middle.high]
    told = Crossing(
        pooled.allowed,
        pooled.first_above,
        middle.number,
        float(below[-1]) if below.size else None,
        float(above[0]) if above.size else None,
        pooled.returns,
    )
    return told, ends and (ends[0] * (1 - INTERPOLATED), ends[1] * (1 + INTERPOLATED))


def _bounds(found: Crossing, widest: float) -> Bounds:
    """A PDR below the lowest load or above the highest is a range, and so is one in a gap."""
    if found.rate is not None and found.below and found.above:
        return bounds.exactly(found.rate) if found.above <= found.below * widest else Bounds(found.below, found.above)
    return bounds.at_least(found.below) if found.below is not None else bounds.at_most(found.above or 0.0)
