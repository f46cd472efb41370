# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Published ratios to native beside this run's: a panel for each tool, a line for each environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from diolkos_lab.report.charts import rows
from diolkos_lab.report.charts.rows import Mark, Panel
from diolkos_lab.report.charts.theme import Spec
from diolkos_lab.report.quantities import percent, ratio_of
from diolkos_lab.report.read import Cell, Interval
from diolkos_lab.report.systems import label, look, title


@dataclass(frozen=True)
class Point:
    """One ratio. `spread` is the 95 % interval of ours; of a published one the two values it may have."""

    cell: Cell
    where: str
    ratio: float
    spread: Interval | None
    ours: bool
    metric: str  # "throughput" or "rtt"


def draw(points: Sequence[Point], axis: str) -> Spec:
    """Points in the order given, under the name of their tool."""
    groups = [(system, list(each)) for system, each in groupby(points, key=lambda point: point.cell.system)]
    panels = [
        Panel(title(system), axis if number == len(groups) - 1 else "", [_mark(point) for point in each], log=True, reference=1)
        for number, (system, each) in enumerate(groups)
    ]
    return rows.draw(panels, shared=True)


def _mark(point: Point) -> Mark:
    name = f"{label(point.cell)}, this run" if point.ours else point.where
    tips = {"ratio": text(point), "source": "this run" if point.ours else "published: one run, no interval"}
    return Mark(name, look(point.cell), point.ratio, point.spread, text(point), tips, hollow=not point.ours)


def text(point: Point) -> str:
    """Ours with its interval; a published one bare, or as "3.6 or 5.6 %" where it has two values."""
    if point.ours:
        return ratio_of(point.metric)(point.ratio, point.spread)
    if point.spread is not None and point.spread[0] != point.spread[1]:
        return f"{100 * point.spread[0]:.1f} or {percent(point.spread[1])}"
    return ratio_of(point.metric)(point.ratio)


def alt(points: Sequence[Point]) -> str:
    """The points read out."""
    parts = [f"{label(p.cell)}, {'this run' if p.ours else p.where}: {text(p)}" for p in points]
    return "Ratio to native. " + "; ".join(parts) + "."
