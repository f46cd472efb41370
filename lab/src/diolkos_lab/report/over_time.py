# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Readings over the time of a trial, the trials of a cell laid over each other.

The line is the mean of the trials, the band the 95 % interval of that mean (Student's t over the trials). Of one
trial there is a line and no band.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from diolkos_lab.metric import named
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import load_label, order, setting_label
from diolkos_lab.stats.quantiles import student

# So many steps at most: an iperf3 interval is a mean already, an echo is one packet and wants company.
MOST_STEPS = {"throughput": 40, "rtt": 20}


@dataclass(frozen=True)
class Line:
    cell: Cell
    t: np.ndarray  # s since the trial began
    mean: np.ndarray
    low: np.ndarray  # NaN where a single trial has no interval
    high: np.ndarray
    trials: int
    failed: int = 0  # of them; of a rate they are in the mean as nothing, of a time they are only marked

    @property
    def level(self) -> float:
        return float(np.nanmean(self.mean))


@dataclass(frozen=True)
class Panel:
    """Lines that belong on one scale: one load in one setting."""

    title: str
    lines: list[Line]
    worst_is_low: bool = True  # failed trials brought nothing; otherwise they took for ever

    @property
    def start(self) -> float:
        return min(float(line.t.min()) for line in self.lines)

    @property
    def end(self) -> float:
        """The end of the time axis; never at the start, not even with a single reading."""
        return max(self.start + 1e-3, *(float(line.t.max()) for line in self.lines))


def panels(results: Results, bases: list[str], quantity: str) -> list[Panel]:
    """A panel for each variant of the loads and each combination of factor levels that has a trial with a series."""
    found = []
    for setting in results.settings:
        for load in (load for base in bases for load in results.loads(base)):
            title = ", ".join(t for t in (load_label(load), setting_label(setting)) if t)
            if each := _lines(results, load, setting, quantity):
                known = named(quantity)
                found.append(Panel(title, each, known is None or known.better != "lower"))
    return found


def _lines(results: Results, load: str, setting: tuple[Any, ...], quantity: str) -> list[Line]:
    """One line for each cell, in the order of `systems.order`."""
    found = []
    for cell in sorted((c for c in results.cells if c.factors == setting), key=order):
        series = [t.series[quantity] for t in results.used(cell, load) if quantity in t.series]
        failed, known = results.failed(cell, load), named(quantity)
        if series and failed and known and known.better == "higher":
            series += [(series[0][0], np.zeros(len(series[0][0])))] * failed
        if series:
            line = _line(cell, series, MOST_STEPS.get(quantity, 40))
            counted = len(series) if known and known.better == "higher" else len(series) + failed
            found.append(replace(line, trials=counted, failed=failed))
    return found


def _line(cell: Cell, series: list[tuple[np.ndarray, np.ndarray]], most_steps: int) -> Line:
    step = _step(series, most_steps)
    last = min(max(int(t.max() / step + 1e-3) for t, _ in series), most_steps)
    grid = np.full((len(series), last + 1), np.nan)
    for trial, (t, y) in enumerate(series):
        # A reading on a step's border (iperf3 ends its intervals a little early or late) belongs to the nearer one.
        place = np.clip(np.floor(t / step + 1e-3).astype(int), 0, last)
        for p in np.unique(place):
            grid[trial, p] = np.median(y[place == p])
    kept = ~np.all(np.isnan(grid), axis=0)
    grid = grid[:, kept]
    n = np.sum(~np.isnan(grid), axis=0)
    mean = np.nanmean(grid, axis=0)
    half = np.full(mean.shape, np.nan)
    several = n > 1
    if several.any():
        sd = np.nanstd(grid[:, several], axis=0, ddof=1)
        half[several] = student(0.975, n[several] - 1) * sd / np.sqrt(n[several])
    times = np.arange(last + 1)[kept] * step
    return Line(cell, times, mean, mean - half, mean + half, len(series))


def _step(series: list[tuple[np.ndarray, np.ndarray]], most: int) -> float:
    """The distance of readings, or so much longer that the last of them falls into step number `most`."""
    gaps = [float(np.median(np.diff(t))) for t, _ in series if len(t) > 1]
    longest = max(float(t.max()) for t, _ in series)
    step = float(np.median(gaps)) if gaps else 1.0
    return max(step, longest / most * 1.001, 1e-6)
