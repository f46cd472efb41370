# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CPU time that a gigabyte costs, all systems, with 95 % intervals."""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from diolkos_lab.report.pictures.glance import dot
from diolkos_lab.report.pictures.style import SHADE, Layout, figure, number_axis
from diolkos_lab.report.quantities import TO, digits
from diolkos_lab.report.read import Results, Row
from diolkos_lab.report.systems import INK, label, load_label, load_order, order

# Beyond this span a linear axis shows the dearest system and nothing else.
LOG_FROM = 10


def measured(results: Results) -> dict[str, list[Row]]:
    rows = [r for r in results.rows if r.metric == "cpu" and r.median is not None and r.median > 0]
    loads = sorted({r.load for r in rows}, key=load_order)
    return {load: [r for r in rows if r.load == load] for load in loads}


def draw(results: Results, layout: Layout) -> Figure:
    shown = measured(results)
    cells = sorted({r.cell for rows in shown.values() for r in rows}, key=order)
    medians = [r.median for rows in shown.values() for r in rows]
    log = max(medians) / min(medians) > LOG_FROM
    ends = [e for rows in shown.values() for r in rows for e in (r.median, *(r.ci95 or ()))]
    one = 0.2 * len(cells) + 0.62
    columns = min(len(shown), 2) if layout.wide else 1
    lines = math.ceil(len(shown) / columns)
    drawn, axes = figure(layout, one * lines + 0.1, lines, columns, sharey=layout.wide)
    for spare in axes[len(shown) :]:
        spare.set_visible(False)
    for ax, (load, rows) in zip(axes, shown.items(), strict=False):
        ax.set_title(load_label(load))
        ax.set_xlabel("CPU time, s per GB" + (" (log scale)" if log else ""))
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
            if row is None:
                continue
            dot(ax, y, row.median, row.ci95, cell)
            ax.annotate(
                _value(row),
                xy=(max(row.median, *(row.ci95 or (0,))), y),
                xytext=(6, 0),
                textcoords="offset points",
                va="center_baseline",
                fontsize=7.5,
                color=INK,
            )
        number_axis(ax.xaxis, log)
    return drawn


def _value(row: Row) -> str:
    text = digits(row.median)
    return text if row.ci95 is None else f"{text} [{digits(row.ci95[0])}{TO}{digits(row.ci95[1])}]"


def alt(results: Results) -> str:
    parts = []
    for load, rows in measured(results).items():
        values = "; ".join(f"{label(r.cell)} {_value(r)}" for r in sorted(rows, key=lambda r: order(r.cell)))
        parts.append(f"{load_label(load)}, CPU seconds per GB: {values}.")
    return " ".join(parts)
