# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Medians of one metric, all systems, with 95 % intervals; a panel for each load."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diolkos_lab.metric import RowMetric
from diolkos_lab.report.charts import rows as lines
from diolkos_lab.report.charts.rows import Mark, Panel
from diolkos_lab.report.charts.theme import Spec
from diolkos_lab.report.quantities import Scale, limits, scale, with_interval
from diolkos_lab.report.read import Results, Row
from diolkos_lab.report.systems import label, load_label, load_order, look, order
from diolkos_lab.report.values import Ends

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
    rows = [r for r in results.rows if r.metric == shown.metric and ((r.median or 0) > 0 or _endless(r))]
    rows = [r for r in rows if not shown.bases or r.load.split(" ", maxsplit=1)[0] in shown.bases]
    loads = sorted({r.load for r in rows}, key=load_order)
    return {load: [r for r in rows if r.load == load] for load in loads}


def _endless(row: Row) -> bool:
    """The median is no number but a range without an upper end: "≥", or "∞"."""
    return row.median is None and row.median_bounds is not None and math.isinf(row.median_bounds[1])


def draw(results: Results, what: Shown) -> Spec:
    shown, unit = measured(results, what), _unit(results, what)
    medians = [value for rows in shown.values() for r in rows if (value := _least(r))] or [1.0]
    log = max(medians) / min(medians) > LOG_FROM
    axis = f"{what.axis}, {what.unit or unit.unit}" + (" (log scale)" if log else "")
    return lines.draw(
        [
            Panel(load_label(load), axis, [_mark(r, unit) for r in sorted(rows, key=lambda r: order(r.cell))], log)
            for load, rows in shown.items()
        ],
        shared=True,
    )


def _mark(row: Row, unit: Scale) -> Mark:
    between = row.median_bounds if _endless(row) else row.ci95
    ends: Ends | None = between and (between[0] * unit.factor, between[1] * unit.factor)
    said = text(row, unit)
    value = None if row.median is None else row.median * unit.factor
    tips = {"median, interval": f"{said} {unit.unit}", "trials": f"{row.valid_trials} of {row.trials} count"}
    return Mark(label(row.cell), look(row.cell), value, ends, said, tips, ranged=_endless(row))


def _unit(results: Results, what: Shown) -> Scale:
    rows = [row for rows in measured(results, what).values() for row in rows]
    return scale(what.metric, [_least(row) for row in rows], rows[0].unit)


def _least(row: Row) -> float | None:
    """The median, or the lower end of what it lies in."""
    low = row.median if row.median is not None else row.median_bounds[0] if row.median_bounds else None
    return low if low is not None and math.isfinite(low) else None


def text(row: Row, unit: Scale) -> str:
    if row.median_bounds is not None and _endless(row):
        return limits(row.median_bounds, unit.text)
    return with_interval(row.median, row.ci95, unit)


def alt(results: Results, what: Shown) -> str:
    unit, parts = _unit(results, what), []
    for load, rows in measured(results, what).items():
        read = (f"{label(r.cell)} {text(r, unit)}" for r in sorted(rows, key=lambda r: order(r.cell)))
        parts.append(f"{load_label(load)}, {what.axis}, {what.unit or unit.unit}: {'; '.join(read)}.")
    return " ".join(parts)
