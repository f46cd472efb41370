# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Medians of one metric, all systems, with 95 % intervals; a panel for each load."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matplotlib.figure import Figure

from diolkos_lab.metric import RowMetric
from diolkos_lab.report.pictures.glance import dot
from diolkos_lab.report.pictures.glance import drawn as drawn_part
from diolkos_lab.report.pictures.style import SHADE, Layout, figure, number_axis
from diolkos_lab.report.quantities import Scale, scale, with_interval
from diolkos_lab.report.read import Results, Row
from diolkos_lab.report.systems import INK, label, load_label, load_order, order

# Beyond this span a linear axis shows the highest value and nothing else.
LOG_FROM = 10


@dataclass(frozen=True)
class Shown:
    """What is drawn: the metric, the loads it is taken from (all where none are named), and the axis."""

    metric: RowMetric
    axis: str  # "CPU time", "time of a fetch"
    bases: tuple[str, ...] = ()
    unit: str = ""  # where the usual one would not do


def measured(results: Results, shown: Shown) -> dict[str, list[Row]]:
    rows = [r for r in results.rows if r.metric == shown.metric and r.median is not None and r.median > 0]
    rows = [r for r in rows if not shown.bases or r.load.split(" ", maxsplit=1)[0] in shown.bases]
    loads = sorted({r.load for r in rows}, key=load_order)
    return {load: [r for r in rows if r.load == load] for load in loads}


def draw(results: Results, layout: Layout, what: Shown) -> Figure:
    shown = measured(results, what)
    cells = sorted({r.cell for rows in shown.values() for r in rows}, key=order)
    medians = [r.median for rows in shown.values() for r in rows if r.median is not None]
    unit = _unit(results, what)
    log = max(medians) / min(medians) > LOG_FROM
    ends = [
        unit.factor * e
        for rows in shown.values()
        for r in rows
        for e in (r.median, *(drawn_part(r.ci95) or ()))
        if e is not None
    ]
    one = 0.2 * len(cells) + 0.62
    columns = min(len(shown), 2) if layout.wide else 1
    lines = math.ceil(len(shown) / columns)
    drawn, axes = figure(layout, one * lines + 0.1, lines, columns, sharey=layout.wide)
    for spare in axes[len(shown) :]:
        spare.set_visible(False)
    for ax, (load, rows) in zip(axes, shown.items(), strict=False):
        ax.set_title(load_label(load))
        ax.set_xlabel(f"{what.axis}, {what.unit or unit.unit}" + (" (log scale)" if log else ""))
        if log:
            ax.set_xscale("log")
            ax.set_xlim(min(e for e in ends if e > 0) / 1.3, max(ends) * 4.5)
        else:
            ax.set_xlim(0, max(ends) * 1.45)
        ax.set_ylim(len(cells) - 0.4, -0.6)
        ax.set_yticks(range(len(cells)), [label(c) for c in cells])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        for y, cell in enumerate(cells):
            ax.axhline(y, color=SHADE, linewidth=0.6, zorder=0)
            row = next((r for r in rows if r.cell == cell), None)
            if row is None or row.median is None:
                continue
            median = row.median * unit.factor
            ci = (row.ci95[0] * unit.factor, row.ci95[1] * unit.factor) if drawn_part(row.ci95) and row.ci95 else None
            dot(ax, y, median, ci, cell)
            ax.annotate(
                with_interval(row.median, row.ci95, unit),
                xy=(max(median, *(ci or (0,))), y),
                xytext=(6, 0),
                textcoords="offset points",
                va="center_baseline",
                fontsize=7.5,
                color=INK,
            )
        number_axis(ax.xaxis, log)
    return drawn


def _unit(results: Results, what: Shown) -> Scale:
    rows = [row for rows in measured(results, what).values() for row in rows]
    return scale(what.metric, [row.median for row in rows], rows[0].unit)


def alt(results: Results, what: Shown) -> str:
    unit, parts = _unit(results, what), []
    for load, rows in measured(results, what).items():
        read = (f"{label(r.cell)} {with_interval(r.median, r.ci95, unit)}" for r in sorted(rows, key=lambda r: order(r.cell)))
        parts.append(f"{load_label(load)}, {what.axis}, {what.unit or unit.unit}: {'; '.join(read)}.")
    return " ".join(parts)
