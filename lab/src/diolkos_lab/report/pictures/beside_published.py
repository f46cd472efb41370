# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Published ratios to native beside this run's, one row for each tool and environment."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from diolkos_lab.report.pictures.glance import dot
from diolkos_lab.report.pictures.style import SHADE, SOFT, Layout, figure, number_axis
from diolkos_lab.report.quantities import percent
from diolkos_lab.report.read import Cell, Interval
from diolkos_lab.report.systems import INK, label, look


@dataclass(frozen=True)
class Point:
    """One ratio. `spread` is the 95 % interval of ours; of a published one the two values it may have."""

    cell: Cell
    where: str
    ratio: float
    spread: Interval | None
    ours: bool


def draw(points: list[Point], layout: Layout, axis: str) -> Figure:
    """Points in the order given; a gap where the tool changes."""
    places, y = [], 0.0
    for before, point in zip([None, *points], points, strict=False):
        y += 0 if before is None else 1 if before.cell.system == point.cell.system else 1.7
        places.append(y)
    drawn, (ax,) = figure(layout, 0.165 * (places[-1] + 1) + 0.65)
    ax.set_xscale("log")
    ends = [e for p in points for e in (p.ratio, *(p.spread or ())) if e > 0]
    ax.set_xlim(min(ends) / 1.25, max(1.0, *ends) * (1.6 if layout.wide else 2.6))
    ax.set_ylim(places[-1] + 0.7, -0.7)
    ax.set_yticks(places, [f"{label(p.cell)}: {p.where}" for p in points])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.axvline(1, color=INK, linewidth=0.9, zorder=1)
    ax.set_xlabel(axis)
    for y, tick, point in zip(places, ax.get_yticklabels(), points, strict=True):
        ax.axhline(y, color=SHADE, linewidth=0.6, zorder=0)
        tick.set_fontsize(8)
        tick.set_color(INK if point.ours else SOFT)
        tick.set_fontweight("bold" if point.ours else "normal")
        if point.ours:
            dot(ax, y, point.ratio, point.spread, point.cell)
        else:
            colour = look(point.cell).light
            if point.spread is not None and point.spread[0] != point.spread[1]:
                ax.plot(point.spread, (y, y), color=colour, linewidth=0.9, linestyle=(0, (1, 1)), zorder=2)
            ax.plot(point.ratio, y, "o", color=colour, markerfacecolor="none", markersize=4.5, zorder=3)
        right = max(point.ratio, *(point.spread or (0,)))
        ax.annotate(
            text(point),
            xy=(right, y),
            xytext=(6, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=7.5,
            color=INK if point.ours else SOFT,
        )
    number_axis(ax.xaxis, log=True)
    return drawn


def text(point: Point) -> str:
    """Ours with its interval; a published one bare, or as "3.6 or 5.6 %" where it has two values."""
    if point.ours:
        return percent(point.ratio, point.spread)
    if point.spread is not None and point.spread[0] != point.spread[1]:
        return f"{100 * point.spread[0]:.1f} or {percent(point.spread[1])}"
    return percent(point.ratio)


def alt(points: list[Point]) -> str:
    return "; ".join(f"{label(p.cell)}, {p.where}: {text(p)} of native" for p in points) + "."
