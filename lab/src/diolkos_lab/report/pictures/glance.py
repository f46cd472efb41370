# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All systems at a glance: the ratio to native with its 95 % interval, one panel for each load."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diolkos_lab.report.pictures.style import GROUND, SHADE, SOFT, Layout, figure
from diolkos_lab.report.quantities import NONE, percent, ratio_of
from diolkos_lab.report.read import Cell, Results, Row
from diolkos_lab.report.systems import HEADLINE, INK, label, load_label, look, order

MOST_COLUMNS = 3
# The share of a panel's width that a value with its interval takes.
ROOM_WIDE, ROOM_NARROW = 0.5, 0.4


def panels(results: Results) -> list[tuple[str, str]]:
    """(load, metric) of every panel that has a ratio to show."""
    every = [(load, metric) for base, metric in HEADLINE for load in results.loads(base)]
    return [p for p in every if any(r.ratio is not None for r in rows(results, *p))]


def rows(results: Results, load: str, metric: str) -> list[Row]:
    """The rows of a panel; what they lack is taken from distrusted trials."""
    cells = [r.cell for r in results.rows if (r.load, r.metric) == (load, metric)]
    return [row for cell in cells if (row := results.shown(cell, load, metric))]


def compared(results: Results) -> list[Cell]:
    """Cells that have a ratio somewhere, and translated ones that should have had one."""
    with_ratio = {r.cell for panel in panels(results) for r in rows(results, *panel) if r.ratio is not None}
    bases = {base for base, _ in HEADLINE}
    tried = {t.cell for t in results.trials if t.load.split(" ", maxsplit=1)[0] in bases} | {
        r.cell for r in results.rows if r.load.split(" ", maxsplit=1)[0] in bases
    }
    return sorted((c for c in tried if c in with_ratio or not c.native), key=order)


def draw(results: Results, layout: Layout) -> Figure:
    shown, cells = panels(results), compared(results)
    one = 0.2 * len(cells) + 0.62
    columns = min(len(shown), MOST_COLUMNS) if layout.wide else 1
    lines = math.ceil(len(shown) / columns)
    drawn, axes = figure(layout, one * lines + 0.1, lines, columns, sharey=layout.wide)
    for spare in axes[len(shown) :]:
        spare.set_visible(False)
    for ax, (load, metric) in zip(axes, shown, strict=False):
        ax.set_title(load_label(load)[:1].upper() + load_label(load)[1:])
        ax.set_xlabel("% of native, more is better" if ratio_of(metric) is percent else "times native, less is better")
        _panel(ax, cells, {r.cell: r for r in rows(results, load, metric)}, metric, layout)
        noise = max((f.deviation for f in results.noise_floor if (f.load, f.metric) == (load, metric)), default=0)
        ax.axvspan(1 - noise, 1 + noise, color=SHADE, linewidth=0, zorder=0)
    return drawn


def _panel(ax: Axes, cells: list[Cell], rows: dict[Cell, Row], metric: str, layout: Layout) -> None:
    right, room = _right_end(rows), ROOM_WIDE if layout.wide else ROOM_NARROW
    if any(min(e) / right < room and 1 - max(e) / right < room for e in map(_ends, rows.values()) if e):
        right = max(max(e) for e in map(_ends, rows.values()) if e) / (1 - room)
    ax.set_xlim(0, right)
    ax.set_ylim(len(cells) - 0.4, -0.6)
    ax.set_yticks(range(len(cells)), [label(c) for c in cells])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.axvline(1, color=INK, linewidth=0.9, zorder=1)
    for y, cell in enumerate(cells):
        ax.axhline(y, color=SHADE, linewidth=0.6, zorder=0)
        row = rows.get(cell)
        if row is None or row.ratio is None:
            said = "no usable figure" if row else "not measured"
            ax.text(0.02 * right, y, said, color=SOFT, fontsize=7.5, va="center", style="italic")
            continue
        trusted = "ratio" not in row.distrusted
        if trusted:
            dot(ax, y, row.ratio, drawn(row.ratio_ci95), cell)
        else:
            ax.plot(row.ratio, y, "o", color=SOFT, markersize=4, markerfacecolor="none", markeredgewidth=0.8, zorder=3)
        low, high = min(_ends(row)), max(_ends(row))
        at_left = low > right - high
        ax.annotate(
            text(row),
            xy=(low if at_left else high, y),
            xytext=(-6 if at_left else 6, 0),
            textcoords="offset points",
            ha="right" if at_left else "left",
            va="center_baseline",
            fontsize=7.5,
            color=INK if trusted else SOFT,
            bbox={"facecolor": GROUND, "edgecolor": "none", "pad": 0.6},
        )
    for tick in ax.get_yticklabels():
        tick.set_fontsize(8.5)
    steps = [s for s in (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100) if right / s < (5 if layout.wide else 7)]
    ticks = np.arange(0, right, steps[0] if steps else right)
    ax.set_xticks(ticks, [f"{100 * t:.0f}" if ratio_of(metric) is percent else f"{t:g}" for t in ticks])


def _ends(row: Row) -> list[float]:
    return [] if row.ratio is None else [row.ratio, *(drawn(row.ratio_ci95) or ())]


def _right_end(rows: dict[Cell, Row]) -> float:
    return 1.08 * max([1.0, *(e for row in rows.values() for e in _ends(row))])


def text(row: Row) -> str:
    """The ratio as its axis counts: per cent of a throughput, times of a time; in brackets when it is not trusted."""
    if row.ratio is None:
        return NONE
    said = ratio_of(row.metric)(row.ratio, row.ratio_ci95)
    return f"({said})" if "ratio" in row.distrusted else said


def drawn(ci: tuple[float, float] | None) -> tuple[float, float] | None:
    """An interval without an end has no place on an axis; the text beside the point has it."""
    return ci if ci and math.isfinite(ci[1]) else None


def dot(ax: Axes, y: float, value: float, ci: tuple[float, float] | None, cell: Cell) -> None:
    """A value with its interval; hollow where there is no interval."""
    seen = look(cell)
    if ci is not None:
        ax.plot(ci, (y, y), color=seen.light, linewidth=2.2, solid_capstyle="butt", zorder=2)
    ax.plot(
        value,
        y,
        seen.marker,
        color=seen.light,
        markersize=5,
        markerfacecolor=seen.light if ci is not None else "none",
        markeredgewidth=1,
        zorder=3,
    )


def alt(results: Results) -> str:
    parts = []
    for load, metric in panels(results):
        read_out = "; ".join(f"{label(r.cell)} {text(r)}" for r in rows(results, load, metric) if r.ratio is not None)
        parts.append(f"{load_label(load)}, ratio to native: {read_out}.")
    return " ".join(parts)
