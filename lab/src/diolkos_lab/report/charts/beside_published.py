# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Published ratios to native beside this run's: a panel for each system, a line for each environment and factor level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from diolkos_lab.report.charts import rows, theme
from diolkos_lab.report.charts.rows import Mark, Panel
from diolkos_lab.report.charts.theme import Spec
from diolkos_lab.report.systems import Look
from diolkos_lab.report.values import Ends

# What is not of this run: one look for all, since a line's name is its environment, whatever the system.
PUBLISHED = Look("soft", theme.SOFT, theme.SOFT, "circle")


@dataclass(frozen=True)
class Point:
    """One line of the picture. Without a ratio there is only its text."""

    panel: str
    name: str
    look: Look | None  # None for what is published
    ratio: float | None
    ends: Ends | None  # the 95 % interval of ours; of a published one the two values it may have
    text: str
    ours: bool
    why: str = ""  # there is no ratio
    trusted: bool = True
    ranged: bool = False  # the ends are no interval: the figure itself is a range


def draw(points: Sequence[Point], axis: str) -> Spec:
    """Points in the order given, under the name of their system."""
    groups = [(title, list(each)) for title, each in groupby(points, key=lambda point: point.panel)]
    panels = [
        Panel(title, axis if number == len(groups) - 1 else "", [_mark(point) for point in each], log=True, reference=1)
        for number, (title, each) in enumerate(groups)
    ]
    return rows.draw(panels, shared=True)


def _mark(point: Point) -> Mark:
    tips = {"ratio": point.why or point.text, "source": "this run" if point.ours else "published"}
    told = (point.name, point.look or PUBLISHED, point.ratio, point.ends, point.text, tips, point.trusted)
    return Mark(*told, ranged=point.ranged, hollow=not point.ours)


def alt(points: Sequence[Point]) -> str:
    """The points read out."""
    return (
        "Ratio to native. " + "; ".join(f"{p.panel}, {p.name}: {p.text}{f' ({p.why})' if p.why else ''}" for p in points) + "."
    )
