# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Median and interval of a figure that several hosts, or several runs of one host, have.

Each host has one voice, however many blocks it has: its value is the median of its runs, that of a run the median of its
blocks, and the figure is the median over the hosts. What comes with a host, its CPU, its kernel, is drawn with it, so a host is
a random effect: the interval is that of order statistics over the hosts. Of one host, the runs take their place.

From few hosts nobody learns how hosts differ: that all of five lie to one side of the median of all happens more often than
once in twenty. So with fewer than FEWEST hosts the interval covers how the builds of just these hosts vary, by a bootstrap of
the builds of each run, and says nothing of any other host; whoever shows it has to say so.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.stats import bounds, hierarchy, median
from diolkos_lab.stats.bounds import Bounds
from diolkos_lab.stats.median import CONFIDENCE, Interval
from diolkos_lab.stats.quantiles import normal_below, student

DRAWS = 4000
SEED = 20130620
FEWEST = 6  # so many lie to one side of their median once in 32 times, five once in 16

Run = Sequence[Sequence[Bounds]]  # builds of the lanes, and the blocks of each
Host = Sequence[Run]


def are_drawn(hosts: Sequence[Host]) -> bool:
    """Whether the interval is one for other hosts (of one host: other runs) too."""
    return len(_units(hosts)) >= FEWEST


def median_over_hosts(hosts: Sequence[Host]) -> Bounds:
    return bounds.median([value(host) for host in hosts])


def value(host: Host) -> Bounds:
    return bounds.median([hierarchy.middle(run) for run in host])


def interval(hosts: Sequence[Host], confidence: float = CONFIDENCE) -> Interval | None:
    """Interval of the middle, or None where a run has too few blocks or builds."""
    runs = [run for host in hosts for run in host]
    if any(len(run) < median.FEWEST for run in runs):
        return None
    if are_drawn(hosts):
        return hierarchy.interval([[value(unit)] for unit in _units(hosts)], confidence)
    share = _tail(min(map(len, runs)), sum(len(run) - 1 for run in runs), confidence)
    low = high = np.sort(_draws(hosts, "low"))
    if not all(block.exact for run in runs for build in run for block in build):
        high = np.sort(_draws(hosts, "high"))
    return _quantile(low, share), _quantile(high, 1 - share)


def _units(hosts: Sequence[Host]) -> Sequence[Host]:
    """What is drawn first: the hosts, or the runs of the only one."""
    return hosts if len(hosts) > 1 else [[run] for run in hosts[0]]


def _tail(builds: int, freedom: int, confidence: float) -> float:
    """The share of draws to leave out at each end, widened for the number of builds after Hesterberg (2015, "What Teachers
    Should Know About the Bootstrap", The American Statistician 69). `freedom`: builds less runs, over all runs."""
    return float(normal_below(-np.sqrt(builds / (builds - 1)) * student((1 + confidence) / 2, freedom)))


def _quantile(ordered: NDArray[np.float64], share: float) -> float:
    """Of order, not of distance: some draws may have no end."""
    last = len(ordered) - 1
    return float(ordered[int(np.floor(share * last)) if share < 0.5 else int(np.ceil(share * last))])


def _draws(hosts: Sequence[Host], end: str) -> NDArray[np.float64]:
    """Medians that the same hosts and runs could have shown."""
    random = np.random.default_rng(SEED)
    return _middle([_middle([_draws_of(run, end, random) for run in host]) for host in _units(hosts)])


def _draws_of(run: Run, end: str, random: np.random.Generator) -> NDArray[np.float64]:
    """Builds are drawn; what a build says is the median of its blocks."""
    values = np.array([getattr(bounds.median(build), end) for build in run])
    return np.asarray(np.median(values[random.integers(len(values), size=(DRAWS, len(values)))], axis=1))


def _middle(below: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.asarray(np.median(np.stack(below), axis=0))
