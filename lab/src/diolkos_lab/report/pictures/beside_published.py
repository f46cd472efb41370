# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Published ratios to native beside this run's, one row for each tool and environment."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diolkos_lab.report.pictures.glance import dot
from diolkos_lab.report.pictures.glance import drawn as drawn_part
from diolkos_lab.report.pictures.style import SHADE, SOFT, Layout, figure, number_axis
from diolkos_lab.report.quantities import percent, ratio_of
from diolkos_lab.report.read import Cell, Interval
from diolkos_lab.report.systems import INK, label, look, title

# Values between this and native stand at the left of their point, where the native line does not cross them.
LEFT_FROM = 0.3


@dataclass(frozen=True)
class Point:
    """One ratio. `spread` is the 95 % interval of ours; of a published one the two values it may have."""

    cell: Cell
    where: str
    ratio: float
    spread: Interval | None
    ours: bool
    metric: str  # "throughput" or "rtt"


def draw(points: list[Point], layout: Layout, axis: str) -> Figure:
    """Points in the order given, under the name of their tool."""
    names, places, heads = [], [], []
    y = -0.4
    for before, point in zip([None, *points], points, strict=False):
        if before is None or before.cell.system != point.cell.system:
            y += 0.4
            heads.append((y, point.cell))
            y += 1
        places.append(y)
        names.append(f"{label(point.cell)}, this run" if point.ours else point.where)
        y += 1
    drawn, (ax,) = figure(layout, 0.165 * y + 0.65)
    ax.set_xscale("log")
    ends = [e for p in points for e in (p.ratio, *(drawn_part(p.spread) or ())) if e > 0]
    ax.set_xlim(min(ends) / 1.25, max(1.0, *ends) * (1.6 if layout.wide else 2.2))
    ax.set_ylim(y - 0.3, -0.7)
    ax.set_yticks(places, names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.axvline(1, color=INK, linewidth=0.9, zorder=1)
    ax.set_xlabel(axis)
    for place, cell in heads:
        ax.annotate(
            title(cell.system),
            xy=(0, place),
            xycoords=("axes fraction", "data"),
            xytext=(-3.5, 0),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            fontweight="bold",
            color=look(cell).light,
        )
    for place, tick, point in zip(places, ax.get_yticklabels(), points, strict=True):
        ax.axhline(place, color=SHADE, linewidth=0.6, zorder=0)
        tick.set_fontsize(8)
        tick.set_color(INK if point.ours else SOFT)
        _point(ax, place, point)
    number_axis(ax.xaxis, log=True, dense=layout.wide)
    return drawn


def _point(ax: Axes, y: float, point: Point) -> None:
    """Ours filled, published ones hollow; the value beside it, on the side away from the native line."""
    low, high = drawn_part(point.spread) or (point.ratio, point.ratio)
    if point.ours:
        dot(ax, y, point.ratio, drawn_part(point.spread), point.cell)
    else:
        colour = look(point.cell).light
        if low != high:
            ax.plot((low, high), (y, y), color=colour, linewidth=0.9, linestyle=(0, (1, 1)), zorder=2)
        ax.plot(point.ratio, y, "o", color=colour, markerfacecolor="none", markersize=4.5, zorder=3)
    at_left = LEFT_FROM < point.ratio < 1
    ax.annotate(
        text(point),
        xy=(low if at_left else high, y),
        xytext=(-6 if at_left else 6, 0),
        textcoords="offset points",
        ha="right" if at_left else "left",
        va="center_baseline",
        fontsize=7.5,
        color=INK if point.ours else SOFT,
    )


def text(point: Point) -> str:
    """Ours with its interval; a published one bare, or as "3.6 or 5.6 %" where it has two values."""
    if point.ours:
        return ratio_of(point.metric)(point.ratio, point.spread)
    if point.spread is not None and point.spread[0] != point.spread[1]:
        return f"{100 * point.spread[0]:.1f} or {percent(point.spread[1])}"
    return ratio_of(point.metric)(point.ratio)


def alt(points: list[Point]) -> str:
    """The points read out."""
    parts = [f"{label(p.cell)}, {'this run' if p.ours else p.where}: {text(p)}" for p in points]
    return "Ratio to native. " + "; ".join(parts) + "."
