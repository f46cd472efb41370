# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Box plots beside each other, as a reader of iperf's logs draws them: a box for each cell, of its trials or single echoes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np

from diolkos_lab.report.charts import theme
from diolkos_lab.report.charts.theme import Record, Spec
from diolkos_lab.report.quantities import Scale
from diolkos_lab.report.tables import percentiles

FEW = 60  # values, of which each that lies outside is drawn
REACH = 1.5  # of the box, which the whiskers may be long


@dataclass(frozen=True)
class BoxPlot:
    name: str  # lines of a label, with | between them
    colour: str
    values: np.ndarray  # an infinite one is of a trial that failed
    failed: int = 0  # trials


def draw(boxes: Sequence[BoxPlot], axis: str, unit: Scale) -> Spec:
    records = [_record(box, unit) for box in boxes]
    points = [
        {"name": box.name, "value": value * unit.factor, "colour": box.colour}
        for box, record in zip(boxes, records, strict=True)
        if len(box.values) <= FEW
        for value in box.values
        if not record["low"] <= value * unit.factor <= record["high"]
    ]
    fails = [
        {"name": box.name, "value": record["high"] if np.isinf(box.values).any() else record["worst"], "n": box.failed}
        for box, record in zip(boxes, records, strict=True)
        if box.failed
    ]
    names = [box.name for box in boxes]
    labels = theme.given(title=None, labelExpr="split(datum.label, '|')", labelAngle=0, grid=False)
    x = alt.X("name:N", sort=names, axis=labels)
    colour = alt.Color("colour:N", scale=None)
    scale = theme.given(zero=False, nice=True)
    up = theme.given(title=f"{axis}, {unit.unit}", grid=True, format=".5~g")

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=up)

    tips = theme.tooltip(label="path", text="median [quartiles]", reach="whiskers", n="values")
    base = alt.Chart(theme.data(records))
    layers = [
        base.mark_rule(strokeWidth=1.4).encode(x=x, y=y("low"), y2="high:Q", color=colour, tooltip=tips),
        base.mark_bar(size=34, fillOpacity=0.25, strokeWidth=1.4).encode(
            x=x, y=y("q1"), y2="q3:Q", color=colour, stroke=alt.Stroke("colour:N", scale=None), tooltip=tips
        ),
        base.mark_tick(size=34, thickness=2.6, opacity=1).encode(x=x, y=y("median"), color=colour, tooltip=tips),
    ]
    if points:
        outside = alt.Chart(theme.data(points)).mark_point(size=18, opacity=0.9)
        layers.append(outside.encode(x=x, y=y("value"), color=colour))
    if fails:
        crosses = alt.Chart(theme.data(fails)).mark_point(shape=theme.CROSS, size=60, strokeWidth=2, opacity=1)
        layers.append(
            crosses.encode(x=x, y=y("value"), color=alt.value(theme.BAD), tooltip=theme.tooltip(n="trials that failed"))
        )
    return theme.themed(theme.layer(*layers, width=theme.WIDTH - 90, height=220), beside=90)


def _record(box: BoxPlot, unit: Scale) -> Record:
    known = box.values[np.isfinite(box.values)] * unit.factor
    edge = 1.1 * float(known.max()) if len(known) else 1.0  # stands for the end of what has none
    values = np.where(np.isfinite(box.values), box.values * unit.factor, edge)
    q1, median, q3 = (float(v) for v in np.percentile(values, [25, 50, 75]))
    inside = values[(values >= q1 - REACH * (q3 - q1)) & (values <= q3 + REACH * (q3 - q1))]
    low, high = float(inside.min()), float(inside.max())
    return {
        "name": box.name, "label": box.name.replace("|", ", "), "colour": box.colour,
        "q1": q1, "median": median, "q3": q3, "low": low, "high": high, "n": len(values), "worst": float(values.min()),
        "text": f"{median:.4g} [{q1:.4g}\u2013{q3:.4g}] {unit.unit}", "reach": f"{low:.4g} to {high:.4g} {unit.unit}",
    }  # fmt: skip


def alt_text(boxes: Sequence[BoxPlot], axis: str, unit: Scale) -> str:
    parts = []
    for box in boxes:
        q1, median, q3 = (unit.text(float(v)) for v in percentiles(box.values, [25, 50, 75]))
        parts.append(f"{box.name.replace('|', ', ')}: median {median}, quartiles {q1} and {q3}")
    return f"{axis} in {unit.unit}. " + "; ".join(parts) + "."
