# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How single readings (echoes, answers, fetches) are distributed: a strip for each system, darker where more of them lie."""

from __future__ import annotations

import altair as alt
import numpy as np

from diolkos_lab.metric import METRICS, RowMetric
from diolkos_lab.report.charts import theme
from diolkos_lab.report.charts.theme import Record, Spec
from diolkos_lab.report.quantities import ENDLESS, Scale, scale
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import label, order
from diolkos_lab.report.tables import percentiles, readings

LOAD = "ping"
QUANTITY: RowMetric = "rtt"
AXIS = METRICS[QUANTITY].axis
BINS = 60  # of the whole axis, as wide as each other on its logarithmic scale
ROW = 26  # pixels
TEXT_WIDTH = 130

Singles = list[tuple[Cell, np.ndarray]]


def echoes(results: Results) -> Singles:
    """All echoes of each cell, in s; the plainest variant of the load where there are several."""
    return singles(results, next(iter(results.loads(LOAD)), LOAD), QUANTITY)


def singles(results: Results, load: str, quantity: str) -> Singles:
    """All single readings of each cell that has some."""
    found = [(cell, readings(results, cell, load, quantity)[0]) for cell in sorted(results.cells, key=order)]
    return [(cell, values[values > 0]) for cell, values in found if (np.isfinite(values) & (values > 0)).any()]


def draw(found: Singles, axis: str = AXIS) -> Spec:
    systems = theme.looks(cell for cell, _ in found)
    unit = _unit(found)
    finite = np.concatenate([v[np.isfinite(v)] for _, v in found])
    low, high = float(finite.min()) * unit.factor / 1.1, float(finite.max()) * unit.factor * 1.1
    extent = min(max(len(name) for name, _ in systems) * 6.1 + 8, 240)
    width = theme.WIDTH - extent - TEXT_WIDTH
    edges = np.geomspace(low, high, BINS + 1)
    strips = [record for cell, v in found for record in _strip(cell, v * unit.factor, edges, unit)]
    across = theme.given(type="log", domain=[low, high], nice=False)
    axes = theme.given(title=f"{axis}, {unit.unit} (log scale)", tickCount=8, format=".5~g", grid=True)
    y = alt.Y("path:N", sort=[name for name, _ in systems], axis=theme.given(title=None, grid=False))
    colour = theme.colour(systems)

    tips = theme.tooltip(path="system", between="between", share="of all readings")
    strip = alt.Chart(theme.data(strips)).transform_filter(theme.SHOWN)
    layers = [
        strip.mark_rect(clip=True, height={"band": 0.82}).encode(
            x=alt.X("from:Q", scale=across, axis=axes), x2="to:Q", y=y, color=colour, tooltip=tips,
            fillOpacity=alt.FillOpacity("depth:Q", scale=None),
        )
    ]  # fmt: skip
    base = alt.Chart(theme.data(_percentiles(cell, v, unit) for cell, v in found)).transform_filter(theme.SHOWN)
    tips = theme.tooltip(path="system", tip="median, P95, P99", most_text="longest", n="readings")

    def at(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=across, axis=axes)

    tick = base.mark_tick(thickness=2, size=ROW * 0.8, clip=True, opacity=1)
    median = base.mark_point(size=70, filled=True, opacity=1, clip=True, stroke=theme.GROUND, strokeWidth=1)
    layers += [
        tick.encode(x=at("p95"), y=y, color=colour, tooltip=tips),
        tick.encode(x=at("p99"), y=y, color=colour, tooltip=tips),
        base.mark_point(size=16, filled=True, opacity=1, clip=True).encode(x=at("most"), y=y, color=colour, tooltip=tips),
        median.encode(x=at("median"), y=y, color=colour, shape=theme.shape(systems), tooltip=tips)
        .add_params(theme.zooming(encodings=["x"])),
        base.mark_text(align="left", clip=False, dx=8).encode(x=theme.across("width"), y=y, text="text:N"),
    ]  # fmt: skip
    crosses = base.transform_filter("datum.failed").mark_point(shape=theme.CROSS, size=40, strokeWidth=2, opacity=1, clip=False)
    layers.append(crosses.encode(x=theme.across("width"), y=y, color=alt.value(theme.BAD), tooltip=tips))
    title = {
        "text": "median / P95 / P99",
        "anchor": "end",
        "fontWeight": "normal",
        "fontSize": 11,
        "color": theme.SOFT,
        "dx": 84,
    }
    drawn = theme.layer(*layers, width=width, height={"step": ROW}, title=title)
    return theme.themed(drawn, systems, zoom=True, beside=extent + TEXT_WIDTH)


def _strip(cell: Cell, values: np.ndarray, edges: np.ndarray, unit: Scale) -> list[Record]:
    counts, _ = np.histogram(values[np.isfinite(values)], edges)
    peak = counts.max()
    return [
        {
            "path": label(cell), "from": edges[i], "to": edges[i + 1], "depth": 0.08 + 0.72 * n / peak,
            "between": f"{edges[i]:.3g} and {edges[i + 1]:.3g} {unit.unit}", "share": f"{100 * n / len(values):.2g} %",
        }
        for i, n in enumerate(counts) if n
    ]  # fmt: skip


def _percentiles(cell: Cell, values: np.ndarray, unit: Scale) -> Record:
    median, p95, p99 = (each * unit.factor for each in percentiles(values, (50, 95, 99)))
    most = float(values.max()) * unit.factor
    text = " / ".join(map(_short, (median, p95, p99)))
    found = {"path": label(cell), "median": median, "p95": p95, "p99": p99, "most": most, "text": text}
    return found | {
        "tip": f"{text} {unit.unit}",
        "most_text": f"{_short(most)} {unit.unit}",
        "n": len(values),
        "failed": not np.isfinite(most),
    }


def _short(value: float) -> str:
    return ENDLESS if np.isinf(value) else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _unit(found: Singles) -> Scale:
    """The unit of the middle value: one slow system does not decide how the others read."""
    return scale(QUANTITY, [float(np.median([np.median(v[np.isfinite(v)]) for _, v in found]))])


def alt_text(found: Singles, axis: str = "Round-trip time") -> str:
    unit = _unit(found)
    parts = []
    for cell, values in found:
        median, p95, p99 = (unit.text(float(v)) for v in percentiles(values, [50, 95, 99]))
        parts.append(f"{label(cell)} median {median}, 95th percentile {p95}, 99th {p99}")
    return f"{axis} in {unit.unit}: " + "; ".join(parts) + "."
