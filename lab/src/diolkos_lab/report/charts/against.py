# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A figure against a factor that is a number, both on logarithmic scales: a line for each of the other levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from diolkos_lab.report.charts import theme
from diolkos_lab.report.charts.theme import Spec
from diolkos_lab.report.quantities import Scale, with_interval
from diolkos_lab.report.read import Row
from diolkos_lab.report.systems import Look


@dataclass(frozen=True)
class Series:
    name: str
    look: Look
    points: Sequence[tuple[float, Row]]  # level of the factor, and what was measured there


def draw(found: Sequence[Series], across: str, axis: str, unit: Scale) -> Spec:
    systems = [(series.name, series.look) for series in found]
    records = [
        {
            "path": series.name, "x": x, "value": row.median * unit.factor, "text": with_interval(row.median, row.ci95, unit),
            "low": row.ci95 and row.ci95[0] * unit.factor, "high": row.ci95 and row.ci95[1] * unit.factor,
            "n": f"{row.valid_trials} of {row.trials}",
        }
        for series in found for x, row in series.points if row.median
    ]  # fmt: skip
    seen = sorted({x for series in found for x, _ in series.points})
    x = alt.X(
        "x:Q",
        scale=theme.given(type="log", padding=20, nice=False),
        axis=theme.given(title=across, format="~s", grid=True, values=seen),
    )
    scale = theme.given(type="log", padding=14, nice=False)
    up = theme.given(title=f"{axis}, {unit.unit} (log scale)", format=".4~g", grid=True, tickCount=6)
    colour = theme.colour(systems, legend=True)
    tips = theme.tooltip(path="rules", x=across, text=f"median, 95 % interval, {unit.unit}", n="trials that count")
    base = alt.Chart(theme.data(records)).transform_filter(theme.SHOWN)
    y = alt.Y("value:Q", scale=scale, axis=up)
    layers = [
        base.mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2)
        .encode(x=x, y=alt.Y("low:Q", scale=scale, axis=up), y2="high:Q", color=colour),
        base.mark_point(filled=True, size=55, opacity=1).encode(
            x=x, y=y, color=colour, shape=theme.shape(systems, legend=True), tooltip=tips
        ),
    ]
    return theme.themed(theme.layer(*layers, width=theme.WIDTH - 90, height=280), systems, beside=90)


def alt_text(found: Sequence[Series], across: str, axis: str, unit: Scale) -> str:
    parts = []
    for series in found:
        read = (f"{x:g}: {with_interval(row.median, row.ci95, unit)}" for x, row in series.points)
        parts.append(f"{series.name}: {', '.join(read)}")
    return f"{axis} in {unit.unit} by {across}. " + "; ".join(parts) + "."
