# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Throughput over time: all systems on one scale (linear or logarithmic), and on two scales."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diolkos_lab.metric import METRICS, RowMetric
from diolkos_lab.report.over_time import Line, Panel, panels
from diolkos_lab.report.pictures.style import Layout, dashes, figure, height_of, label_lines, linear_top, number_axis, settle
from diolkos_lab.report.quantities import Scale, scale
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import look, short_label

LOADS = ["tcp-upload", "tcp-download"]
QUANTITY: RowMetric = "throughput"
# A system this close to native shares its axis; only those far below need one of their own.
NEAR_NATIVE = 0.5


def measured(results: Results) -> list[Panel]:
    return panels(results, LOADS, QUANTITY)


def draw(results: Results, layout: Layout, log: bool) -> Figure:
    """All systems on one scale."""
    shown = measured(results)
    unit = scale(QUANTITY, [line.level for panel in shown for line in panel.lines])
    drawn, axes = _figure(layout, len(shown))
    for ax, panel in zip(axes, shown, strict=False):
        _frame(ax, panel)
        for line in panel.lines:
            _plot(ax, line, unit)
        if log:
            ax.set_yscale("log")
        else:
            ax.set_ylim(0, linear_top(line.mean for line in panel.lines) * unit.factor)
        ax.set_ylabel(f"{METRICS[QUANTITY].axis}, {unit.unit}" + (" (log scale)" if log else ""))
        number_axis(ax.yaxis, log)
    settle(drawn)
    for ax, panel in zip(axes, shown, strict=False):
        label_lines(ax, _ends(ax, panel.lines, unit))
    return drawn


def split(each: list[Line]) -> tuple[list[Line], list[Line]]:
    """(left, right) axis: native and what comes near it; what stays far below. Without native nothing is near."""
    natives = [line.level for line in each if line.cell.native]
    near = NEAR_NATIVE * max(natives) if natives else float("inf")
    left = [line for line in each if line.cell.native or line.level >= near]
    return left, [line for line in each if line not in left]


def two_scales(results: Results) -> list[Panel]:
    """The panels that have something for either axis."""
    return [panel for panel in measured(results) if all(split(panel.lines))]


def draw_two_scales(results: Results, layout: Layout) -> Figure:
    """Baseline and its like on the left axis, the slow translators on the right one."""
    shown = two_scales(results)
    drawn, axes = figure(layout, 2.7 * len(shown) + 0.1, len(shown), 1)
    twins = []
    for ax, panel in zip(axes, shown, strict=True):
        left, right = split(panel.lines)
        unit = scale(QUANTITY, [line.level for line in panel.lines])
        _frame(ax, panel)
        twin = ax.twinx()
        twin.spines["right"].set_visible(True)
        for axis, group, side in ((ax, left, "left"), (twin, right, "right")):
            for line in group:
                _plot(axis, line, unit)
            axis.set_ylim(0, linear_top(line.mean for line in group) * unit.factor)
            axis.set_ylabel(f"{side} scale, {unit.unit}")
            number_axis(axis.yaxis, log=False)
        # The names stand inside the frame, between the ends of the lines and the right scale.
        start, end = ax.get_xlim()
        ax.set_xlim(start, end + (end - start) * (0.36 if layout.wide else 1.15))
        twins.append((ax, twin, left, right, unit, (end - start) / (ax.get_xlim()[1] - start)))
    settle(drawn)
    for ax, twin, left, right, unit, x in twins:
        ends = [(y, f"{name} (left)", cell) for y, name, cell in _ends(ax, left, unit)]
        ends += [(y, f"{name} (right)", cell) for y, name, cell in _ends(twin, right, unit)]
        label_lines(ax, ends, x=x)
    return drawn


# ---- parts


def _figure(layout: Layout, panels: int) -> tuple[Figure, list[Axes]]:
    columns = min(panels, 2) if layout.wide else 1
    lines = math.ceil(panels / columns)
    drawn, axes = figure(layout, (3.0 if layout.wide else 2.6) * lines, lines, columns)
    for spare in axes[panels:]:
        spare.set_visible(False)
    return drawn, axes


def _frame(ax: Axes, panel: Panel) -> None:
    ax.set_title(panel.title)
    ax.set_xlabel("time in the trial, s")
    ax.set_xlim(panel.start, panel.end)
    ax.grid(axis="y")
    number_axis(ax.xaxis, log=False)


def _plot(ax: Axes, line: Line, unit: Scale) -> None:
    colour = look(line.cell).light
    ax.fill_between(line.t, line.low * unit.factor, line.high * unit.factor, color=colour, alpha=0.18, linewidth=0, zorder=1)
    ax.plot(line.t, line.mean * unit.factor, color=colour, linestyle=dashes(line.cell), zorder=2)


def _ends(ax: Axes, each: list[Line], unit: Scale) -> list[Any]:
    return [(height_of(ax, float(line.mean[-1]) * unit.factor), short_label(line.cell), line.cell) for line in each]


def alt(results: Results) -> str:
    parts = []
    for panel in measured(results):
        unit = scale(QUANTITY, [line.level for line in panel.lines])
        means = "; ".join(f"{short_label(line.cell)} {unit.text(line.level)}" for line in panel.lines)
        parts.append(f"{panel.title}, mean over time in {unit.unit}: {means}.")
    return " ".join(parts)
