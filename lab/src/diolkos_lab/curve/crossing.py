# SPDX-License-Identifier: Apache-2.0 OR MIT
"""PDR@x, the rate at which a share x of the packets is lost, and the two measured loads between which it lies.

It is interpolated linearly in the loss ratio between the last load that loses at most x and the first that loses more.
Outside the measured loads nothing is extrapolated: such a rate is not bracketed.
"""

from dataclasses import dataclass

import numpy as np

from diolkos_lab.curve.loss import Array

PDR = 0.005  # the allowed loss of PDR@0.5%
NDR = 0.0  # NDR is PDR@0
# Below this, trials of any reasonable length cannot tell one loss ratio from another (section IV.B of the paper). The
# published notebook counts smaller ratios as this much; so does the interpolation, to give the same rates.
RESOLUTION = 1e-6


@dataclass(frozen=True)
class Crossing:
    """Where the curve leaves the allowed loss."""

    allowed: float
    first_above: int | None  # index of the first load that loses more; None when none does
    rate: float | None  # packets/s, interpolated; None when not bracketed
    below: float | None  # the bracket: the last load that loses at most `allowed`, None when already the first loses more
    above: float | None  # and the first that loses more, None when none does
    returns: tuple[int, ...]  # loads after it that lose at most `allowed` again

    @property
    def bracketed(self) -> bool:
        return self.rate is not None


def crossing(rates: Array, plr: Array, allowed: float = PDR) -> Crossing:
    """The first crossing of `allowed` by a curve: rates in packets/s, ascending, and mean loss ratios."""
    over = plr > allowed
    if not over.any():
        return Crossing(allowed, None, None, float(rates[-1]), None, ())
    first = int(np.argmax(over))
    returns = tuple(int(i) for i in np.flatnonzero(~over[first:]) + first)
    if first == 0:
        return Crossing(allowed, 0, None, None, float(rates[0]), returns)
    rate = float(crossings(rates, plr[None, :], allowed)[0])
    return Crossing(allowed, first, rate, float(rates[first - 1]), float(rates[first]), returns)


def crossings(rates: Array, plr: Array, allowed: float = PDR) -> Array:
    """The rate of the first crossing of each row of `plr`; −∞ where the first load loses more already, ∞ where none does."""
    over = plr > allowed
    first = np.argmax(over, axis=1)
    found = over.any(axis=1)
    inside = found & (first > 0)
    rows, right = np.flatnonzero(inside), first[inside]
    low, high = (np.maximum(plr[rows, index], min(RESOLUTION, allowed)) for index in (right - 1, right))
    share = (allowed - low) / (high - low)
    rate = np.where(found, -np.inf, np.inf)
    rate[rows] = rates[right - 1] + share * (rates[right] - rates[right - 1])
    return rate
