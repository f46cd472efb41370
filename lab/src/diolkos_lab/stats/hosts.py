# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Median and interval of a figure that several hosts, or several runs of one host, have.

Each host has one voice, however many blocks it has: its value is the median of its runs, that of a run the median of its
blocks, and the figure is the median over the hosts. What comes with a host, its CPU, its kernel, is drawn with it, so a host is
a random effect: the level above the builds of the lanes in the bootstrap of `hierarchy`. Of one host, the runs are that level.

From few hosts nobody learns how hosts differ: that all of five lie to one side of the median of all happens more often than
once in twenty. So with fewer than FEWEST hosts these are not drawn. The interval then covers how blocks and builds of just
these hosts vary, and says nothing of any other; whoever shows it has to say so.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.stats import bounds, hierarchy, median
from diolkos_lab.stats.bounds import Bounds
from diolkos_lab.stats.median import Interval

FEWEST = 6  # so many lie to one side of their median once in 32 times, five once in 16

Run = Sequence[Sequence[Bounds]]  # builds of the lanes, and the blocks of each
Host = Sequence[Run]


def are_drawn(hosts: Sequence[Host]) -> bool:
    """Whether the interval is one for other hosts (of one host: other runs) too."""
    return len(_units(hosts)) >= FEWEST


def median_over_hosts(hosts: Sequence[Host]) -> Bounds:
    return bounds.median([value(host) for host in hosts])


def value(host: Host) -> Bounds:
    return bounds.median([bounds.median([block for build in run for block in build]) for run in host])


def interval(hosts: Sequence[Host]) -> Interval | None:
    """95 % interval of the middle, or None where a run has too few blocks or builds."""
    runs = [run for host in hosts for run in host]
    if any(len(run) < hierarchy.FEWEST_BUILDS or sum(map(len, run)) < median.FEWEST for run in runs):
        return None
    if are_drawn(hosts):
        share = hierarchy.tail(len(_units(hosts)))
    else:
        share = hierarchy.tail(min(map(len, runs)), sum(len(run) - 1 for run in runs))
    low = high = np.sort(_draws(_units(hosts), "low"))
    if not all(block.exact for run in runs for build in run for block in build):
        high = np.sort(_draws(_units(hosts), "high"))
    return hierarchy.quantile(low, share), hierarchy.quantile(high, 1 - share)


def _units(hosts: Sequence[Host]) -> Sequence[Host]:
    """What is drawn first: the hosts, or the runs of the only one."""
    return hosts if len(hosts) > 1 else [[run] for run in hosts[0]]


def _draws(units: Sequence[Host], end: str) -> NDArray[np.float64]:
    random = np.random.default_rng(hierarchy.SEED)
    drawn = []
    for unit in units:
        runs = [hierarchy.draws([[getattr(block, end) for block in build] for build in run], random) for run in unit]
        drawn.append(_above(runs, random, again=len(runs) > 1))
    return _above(drawn, random, again=len(units) >= FEWEST)


def _above(below: Sequence[NDArray[np.float64]], random: np.random.Generator, *, again: bool) -> NDArray[np.float64]:
    """Medians of one level, from the draws of each of its units. `again`: units are drawn with replacement, and one that is
    drawn twice has a draw of its own each time."""
    table = np.stack(below)
    if not again:
        return np.asarray(np.median(table, axis=0))
    units, number = table.shape
    chosen = random.integers(units, size=(number, units))
    return np.asarray(np.median(table[chosen, random.integers(number, size=(number, units))], axis=1))
