# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Round-trip time: over the time of a trial, and how the single echoes are distributed."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from diolkos_lab.metric import METRICS, RowMetric
from diolkos_lab.report.over_time import Line, Panel, panels
from diolkos_lab.report.pictures.style import (
    SHADE,
    SOFT,
    Layout,
    dashes,
    figure,
    height_of,
    label_lines,
    linear_top,
    number_axis,
    settle,
)
from diolkos_lab.report.quantities import Scale, scale
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import INK, label, look, order, short_label
from diolkos_lab.report.tables import readings

LOAD = "ping"
QUANTITY: RowMetric = "rtt"
# Fewer echoes than this have no shape worth drawing.
FEWEST_FOR_SHAPE = 20


# ---- over time


def measured(results: Results) -> list[Panel]:
    return panels(results, [LOAD], QUANTITY)


def draw(results: Results, layout: Layout, log: bool) -> Figure:
    shown = measured(results)
    unit = _unit([line.level for panel in shown for line in panel.lines])
    drawn, axes = figure(layout, 3.2 * len(shown), len(shown), 1)
    for ax, panel in zip(axes, shown, strict=True):
        if len(shown) > 1:
            ax.set_title(panel.title)
        for line in panel.lines:
            _plot(ax, line, unit, log)
        ax.set_xlabel("time in the trial, s")
        ax.set_ylabel(f"{METRICS[QUANTITY].axis}, {unit.unit}" + (" (log scale)" if log else ""))
        ax.set_xlim(panel.start, panel.end)
        ax.grid(axis="y")
        if log:
            ax.set_yscale("log")
        else:
            ax.set_ylim(0, linear_top(line.mean for line in panel.lines) * unit.factor)
        number_axis(ax.yaxis, log)
        number_axis(ax.xaxis, log=False)
    settle(drawn)
    for ax, panel in zip(axes, shown, strict=True):
        ends = [(float(line.mean[-1]) * unit.factor, short_label(line.cell), line.cell) for line in panel.lines]
        label_lines(ax, [(height_of(ax, y), name, cell) for y, name, cell in ends])
    return drawn


def _plot(ax: Axes, line: Line, unit: Scale, log: bool) -> None:
    colour = look(line.cell).light
    mean, low, high = (values * unit.factor for values in (line.mean, line.low, line.high))
    if log:
        low = np.maximum(low, 0.2 * mean)  # an interval that reaches below zero has no end on this axis
    ax.fill_between(line.t, low, high, color=colour, alpha=0.18, linewidth=0, zorder=1)
    ax.plot(line.t, mean, color=colour, linestyle=dashes(line.cell), zorder=2)


def _unit(values: list[float]) -> Scale:
    """The unit of the middle value: one slow system does not decide how the others read."""
    return scale(QUANTITY, [float(np.median(values))])


# ---- distribution


def echoes(results: Results) -> list[tuple[Cell, np.ndarray]]:
    """All echoes of each cell, in s; the plainest variant of the load where there are several."""
    return singles(results, next(iter(results.loads(LOAD)), LOAD), QUANTITY)


def singles(results: Results, load: str, quantity: str) -> list[tuple[Cell, np.ndarray]]:
    """All single readings of each cell that has some: echoes, answers, fetches."""
    found = [(cell, readings(results, cell, load, quantity)[0]) for cell in sorted(results.cells, key=order)]
    return [(cell, values[values > 0]) for cell, values in found if (values > 0).any()]


def draw_distribution(found: list[tuple[Cell, np.ndarray]], layout: Layout, axis: str = METRICS[QUANTITY].axis) -> Figure:
    """One row for each system: the density of single readings, with median, 95th and 99th percentile and maximum."""
    unit = _unit([float(np.median(v)) for _, v in found])
    row = 0.34 if layout.wide else 0.42
    drawn, (ax,) = figure(layout, row * len(found) + 0.75)
    ax.set_xscale("log")
    lowest = min(float(v.min()) for _, v in found) * unit.factor
    highest = max(float(v.max()) for _, v in found) * unit.factor
    ax.set_xlim(lowest / 1.15, highest * (1.6 if layout.wide else 1.8))
    ax.set_ylim(len(found) - 0.6, -1.15)
    ax.set_yticks(range(len(found)), [label(cell) for cell, _ in found])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(f"{axis}, {unit.unit} (log scale)")
    ax.grid(axis="x")
    head: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right", "va": "bottom"}
    ax.annotate("median / P95 / P99", (1, -1), xytext=(0, 1.5), fontsize=7.2, color=SOFT, annotation_clip=False, **head)
    for y, (cell, values) in enumerate(found):
        _row(ax, y, cell, values * unit.factor, unit)
    number_axis(ax.xaxis, log=True)
    return drawn


def _row(ax: Axes, y: int, cell: Cell, values: np.ndarray, unit: Scale) -> None:
    seen = look(cell)
    ax.axhline(y, color=SHADE, linewidth=0.6, zorder=0)
    logs = np.log10(values)
    if len(values) >= FEWEST_FOR_SHAPE and np.ptp(logs) > 1e-6:
        at = np.linspace(logs.min(), logs.max(), 120)
        # ping prints three or four digits: a kernel narrower than that would draw the rounding, not the distribution.
        width = max(0.9 * min(np.std(logs), stats.iqr(logs) / 1.34) * len(logs) ** -0.2, 0.008)
        thinned = logs if len(logs) <= 20_000 else np.quantile(logs, np.linspace(0, 1, 20_000))
        density = np.exp(-0.5 * ((at[:, None] - thinned[None, :]) / width) ** 2).sum(axis=1)
        ax.fill_between(10**at, y, y - 0.72 * density / density.max(), color=seen.light, alpha=0.45, linewidth=0)
    median, p95, p99 = (float(np.percentile(values, share)) for share in (50, 95, 99))
    most = float(values.max())
    ax.plot((median, most), (y, y), color=seen.light, linewidth=0.8, zorder=2)
    ax.plot((median, p95), (y, y), color=seen.light, linewidth=2.4, solid_capstyle="butt", zorder=2)
    ax.plot(p99, y, "|", color=seen.light, markersize=7, markeredgewidth=1.4, zorder=3)
    ax.plot(most, y, ".", color=seen.light, markersize=4, zorder=3)
    ax.plot(median, y, "o", color=seen.light, markeredgecolor=seen.light, markeredgewidth=0, markersize=4.5, zorder=3)
    ax.annotate(
        f"{_short(median)} / {_short(p95)} / {_short(p99)}",
        xy=(1, y),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        xytext=(0, 1.5),
        textcoords="offset points",
        fontsize=7.2,
        color=INK if len(values) >= FEWEST_FOR_SHAPE else SOFT,
    )


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def alt(results: Results) -> str:
    return alt_of(echoes(results), "Round-trip time")


def alt_of(found: list[tuple[Cell, np.ndarray]], axis: str) -> str:
    unit = _unit([float(np.median(v)) for _, v in found])
    parts = []
    for cell, values in found:
        median, p95, p99 = (unit.text(float(v)) for v in np.percentile(values, [50, 95, 99]))
        parts.append(f"{label(cell)} median {median}, 95th percentile {p95}, 99th {p99}")
    return f"{axis} in {unit.unit}: " + "; ".join(parts) + "."
