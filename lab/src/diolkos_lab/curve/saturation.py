# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Saturation and the three rules of the verdict (section V of the paper).

The potential saturation point is the load after the first that loses more than 0.5 %. From there on, a load at which the
throughput increase ratio (TIR) is small enough enters saturation, and one at which it is not clears it. GOOD means that
saturation sets in at the potential point and holds to the last load.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.curve.loss import Array

ETA = 0.1  # η of the paper: less than a tenth of the added load gets through


@dataclass(frozen=True)
class Rule:
    """TIR must be below `enter` to enter saturation and below `stay` to remain in it."""

    name: str
    enter: float
    stay: float
    words: str


RULES = {
    rule.name: rule
    for rule in (
        Rule("paper", ETA, ETA, "TIR < 0.1 at every load"),
        Rule("hysteresis", 3 * ETA, ETA, "TIR < 0.3 to enter saturation, < 0.1 to stay"),
        # What the notebook published with the paper computes: through a slip of operator precedence, entering is not
        # tested at all. Kept, since the published verdicts come from it.
        Rule("notebook", np.inf, ETA, "entering saturation is not tested, TIR < 0.1 to stay"),
    )
}


def potential(first_above: int | None, loads: int) -> int | None:
    """Index of the potential saturation point, or None when no load follows the first one above 0.5 %."""
    return None if first_above is None or first_above + 1 >= loads else first_above + 1


def saturation(tir: Array, start: int | None, rule: Rule) -> int | None:
    """Index of the load from which on the curve is saturated to its end, or None when it is not."""
    if start is None:
        return None
    since = None
    for index in range(start, len(tir)):
        if tir[index] >= (rule.enter if since is None else rule.stay):
            since = None
        elif since is None:
            since = index
    return since


def good(plr: Array, tir: Array, allowed: float, rule: Rule) -> NDArray[np.bool_]:
    """Is the verdict GOOD? For many curves at once: one per row of `plr` and `tir`."""
    loads = plr.shape[1]
    over = plr > allowed
    start = np.where(over.any(axis=1), np.argmax(over, axis=1) + 1, loads)
    position = np.arange(loads)
    enters = (position != start[:, None]) | (tir < rule.enter)
    stays = (position <= start[:, None]) | (tir < rule.stay)
    verdicts: NDArray[np.bool_] = (start < loads) & enters.all(axis=1) & stays.all(axis=1)
    return verdicts
