# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What many cores would do, from what one and two have done.

    rounds (one core alone, two together) ─► nanoseconds a packet, and what another core adds ─► packets a second of n cores

The model is that of Amdahl's law, in time: each further core makes every packet of every core dearer by the same amount, as
where they wait for one line of memory. ns(n) = alone + (n - 1) · added, and n cores pass n / ns(n). Two cores tell these two
numbers and no third: whether cores disturb each other in pairs (the quadratic term of Gunther's universal scalability law)
shows with three at the least. Less than nothing is never added.

Intervals are of a bootstrap of whole rounds, so that what disturbed a round disturbs both of its figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.stats.median import CONFIDENCE

Numbers = NDArray[np.float64]
FEWEST = 6  # rounds, as for the interval of a median


@dataclass(frozen=True)
class Round:
    """Nanoseconds a packet of one core: while the other one rests, and while it does the same."""

    alone: float
    together: float


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Scaling:
    """Nanoseconds of a packet on one core, and what each further core adds; below zero where two were faster than one."""

    alone: Estimate
    added: Estimate
    # Packets a second, by the number of cores.
    rates: dict[int, Estimate]


def scaling(
    rounds: Sequence[Round], cores: Sequence[int], more_ns: Sequence[float] = (), draws: int = 4000, seed: int = 1
) -> Scaling:
    """`more_ns`: what a packet costs besides, measured as often as one likes, such as by a table that no cache holds."""
    if len(rounds) < FEWEST:
        raise ValueError(f"{len(rounds)} rounds; an interval needs {FEWEST} at least")
    random = np.random.default_rng(seed)
    alone = np.array([each.alone for each in rounds])
    added = np.array([each.together - each.alone for each in rounds])
    more = np.array(more_ns or [0.0])
    drawn = random.integers(len(rounds), size=(draws, len(rounds)))
    more_drawn = np.median(more[random.integers(len(more), size=(draws, len(more)))], axis=1)
    base, step = float(np.median(alone) + np.median(more)), float(np.median(added))
    bases, steps = np.median(alone[drawn], axis=1) + more_drawn, np.median(added[drawn], axis=1)
    added_each = _estimate(step, steps)
    one = _estimate(float(_rate(1, np.array(base), np.array(step))), _rate(1, bases, steps))
    rates = {}
    for n in cores:
        rate = _estimate(float(_rate(n, np.array(base), np.array(step))), _rate(n, bases, steps))
        # Where nothing may be added, n cores may do n times what one does.
        rates[n] = Estimate(rate.value, rate.low, max(rate.high, n * one.high)) if added_each.low <= 0 else rate
    return Scaling(_estimate(base, bases), added_each, rates)


def _rate(cores: int, base: Numbers, step: Numbers) -> Numbers:
    return np.asarray(1e9 * cores / (base + (cores - 1) * np.maximum(step, 0.0)))


def _estimate(value: float, draws: Numbers) -> Estimate:
    low, high = np.quantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(value, min(float(low), value), max(float(high), value))
