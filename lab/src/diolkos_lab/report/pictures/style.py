# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How every picture looks: sizes, type, axes, and labels that stand beside their lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from diolkos_lab.report.read import Cell
from diolkos_lab.report.systems import INK, look

SOFT = "#62625e"  # second-rank text
RULE = "#d4d4cf"  # grid
SHADE = "#ebebe6"  # noise floor
GROUND = "#fefefe"  # behind a text that stands on a line; not quite white, which becomes transparent in the page
GAP = 9.5  # points between two labels beside lines
LEAD = 14  # points between the end of a line and its label


@dataclass(frozen=True)
class Layout:
    """A page's width: `wide` for desks and paper, narrow for phones."""

    wide: bool

    @property
    def width(self) -> float:
        """inches"""
        return 7.2 if self.wide else 3.75


WIDE, NARROW = Layout(True), Layout(False)
Draw = Callable[[Layout], Figure]


def _fonts() -> list[str]:
    """Sans-serif faces that are here, DejaVu (part of matplotlib) at the end, so that none is ever missing."""
    here = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in ("Helvetica Neue", "Arial", "Liberation Sans") if name in here] + ["DejaVu Sans"]


def rc() -> dict[Any, Any]:
    return {
        "font.family": _fonts(),
        "font.size": 8.5,
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 8.5,
        "axes.labelcolor": INK,
        "axes.edgecolor": SOFT,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.formatter.useoffset": False,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 3,
        "ytick.major.size": 3,
        "ytick.minor.size": 0,
        "xtick.minor.size": 0,
        "grid.color": RULE,
        "grid.linewidth": 0.5,
        "text.color": INK,
        "lines.linewidth": 1.5,
        "lines.solid_capstyle": "round",
        "figure.facecolor": "white",
        "axes.facecolor": "none",
        "savefig.facecolor": "white",
        "svg.fonttype": "none",
        "svg.hashsalt": "diolkos-lab",
        "text.parse_math": False,
    }


def figure(layout: Layout, height: float, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Figure, list[Axes]]:
    """An empty figure of `height` inches with its axes in reading order."""
    drawn = Figure(figsize=(layout.width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    axes = drawn.subplots(rows, columns, squeeze=False, **more)
    return drawn, list(axes.flat)


def dashes(cell: Cell) -> object:
    return "-" if cell.hops == 1 or cell.alike else (0, (4, 1.6))


def number_axis(axis: Axis, log: bool, dense: bool = True) -> None:
    """Plain numbers on an axis, on logarithmic ones too; `dense` has 1, 2, 5, otherwise 1, 3."""
    plain = FuncFormatter(lambda v, _: f"{v:,.10g}".replace(",", "\u202f"))
    axis.set_major_formatter(plain)
    if log:
        low, high = axis.get_view_interval()
        span = high / max(low, 1e-30)
        subs = (1, 1.5, 2, 3, 5, 7) if span < 6 else ((1, 2, 5) if dense else (1, 3)) if span < 400 else (1,)
        axis.set_major_locator(LogLocator(base=10, subs=subs))
        axis.set_minor_formatter(NullFormatter())


def linear_top(lines: Iterable[np.ndarray]) -> float:
    """The upper end of a linear axis: above the 95th percentile of every line, so that one spike does not flatten all."""
    return 1.25 * max(float(np.percentile(line, 95)) for line in lines)


def settle(drawn: Figure) -> None:
    """Let the layout find the places of the axes, so that heights can be asked for."""
    drawn.draw_without_rendering()


def label_lines(ax: Axes, ends: Iterable[tuple[float, str, Cell]], x: float = 1) -> None:
    """Names beside the right ends of lines, moved apart where they would touch, with a hair line to their own.

    `ends` holds (y as a fraction of the axes' height, name, cell); `x` is where the lines end, as a fraction of the
    width. The figure must be settled.
    """
    ends = sorted(ends, key=lambda e: e[0])
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    wanted = [min(max(y, 0), 1) * height for y, _, _ in ends]
    for y, place, (_, name, cell) in zip(wanted, spread(wanted, GAP, height), ends, strict=True):
        colour = look(cell).light
        at: dict[str, Any] = {"xy": (x, y / height), "xycoords": "axes fraction", "textcoords": "offset points"}
        ax.annotate(name, xytext=(LEAD + 2, place - y), color=colour, fontsize=8, va="center_baseline", **at)
        hair = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1}
        ax.annotate("", xytext=(LEAD, place - y), arrowprops=hair, annotation_clip=False, **at).set_in_layout(False)


def height_of(ax: Axes, y: float) -> float:
    """A data value as a fraction of the axes' height."""
    return float((ax.transData + ax.transAxes.inverted()).transform((0, y))[1])


def spread(wanted: list[float], gap: float, height: float) -> list[float]:
    """Places nearest to the `wanted` ones (ascending) that are at least `gap` apart, within 0…height if all fit.

    Pool adjacent violators on the places less their share of the gaps.
    """
    pools: list[list[float]] = []  # [sum, number]
    for i, place in enumerate(wanted):
        pools.append([place - i * gap, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, n = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += n
    top = max(height - (len(wanted) - 1) * gap, 0)
    flat = [min(max(total / n, 0), top) for total, n in pools for _ in range(int(n))]
    return [place + i * gap for i, place in enumerate(flat)]
