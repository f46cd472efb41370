# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Throughput and round-trip time over the time of a trial: all systems on one scale, linear or logarithmic, or on two."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from diolkos_lab.metric import METRICS, RowMetric
from diolkos_lab.report.charts import theme
from diolkos_lab.report.charts.theme import Record, Spec
from diolkos_lab.report.over_time import Line, Panel, panels
from diolkos_lab.report.quantities import NONE, Scale, scale
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import label, order, short_label

LOADS: dict[RowMetric, list[str]] = {"throughput": ["tcp-upload", "tcp-download"], "rtt": ["ping"]}
# A system this close to native shares its axis; only those far below need one of their own.
NEAR_NATIVE = 0.5
HEIGHT = 190  # pixels
MARKS = 6  # on each line, so that it is known by more than its colour


def measured(results: Results, quantity: RowMetric) -> list[Panel]:
    return panels(results, LOADS[quantity], quantity)


def draw(shown: Sequence[Panel], quantity: RowMetric, log: bool) -> Spec:
    """All systems on one scale."""
    unit = _unit(shown, quantity)
    axis = f"{METRICS[quantity].axis}, {unit.unit}" + (" (log scale)" if log else "")
    cells = _cells(shown)
    each = [_panel(panel, panel.lines, cells, unit, axis, log, number, _width(shown)) for number, panel in enumerate(shown)]
    return _together(each, shown)


def split(each: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Native and what comes near it; what stays far below. Without native nothing is near."""
    natives = [line.level for line in each if line.cell.native]
    near = NEAR_NATIVE * max(natives) if natives else float("inf")
    left = [line for line in each if line.cell.native or line.level >= near]
    return left, [line for line in each if line not in left]


def two_scales(shown: Sequence[Panel]) -> list[Panel]:
    """The panels that have something for either axis."""
    return [panel for panel in shown if all(split(panel.lines))]


def draw_two_scales(shown: Sequence[Panel], log: bool) -> Spec:
    """Baseline and its like on the left axis, the slow translators on the right one."""
    unit = _unit(shown, "throughput")
    each = []
    for number, panel in enumerate(shown):
        sides = []
        for group, side in zip(split(panel.lines), ("left", "right"), strict=True):
            axis = f"{side} scale, {unit.unit}" + (" (log)" if log else "")
            drawn = _panel(panel, group, _cells(shown), unit, axis, log, number, _width(shown) - 50, side)
            sides.append(drawn)
        shared = {key: sides[0].pop(key) for key in ("title", "width", "height")}
        sides[1] = {"layer": sides[1]["layer"]}
        each.append(theme.layer(*sides, resolve=theme.independent("y"), **shared))
    return _together(each, shown)


def _together(each: Sequence[Spec], shown: Sequence[Panel]) -> Spec:
    systems = theme.looks(_cells(shown))
    columns = 2 if len(each) > 1 else 1
    shared = {"scale": dict.fromkeys(("color", "strokeDash", "shape"), "shared")}
    return theme.themed(theme.grid(*each, columns=columns, resolve=shared), systems, zoom=True)


def _panel(
    panel: Panel, each: Sequence[Line], cells: Sequence[Cell], unit: Scale, title: str, log: bool, number: int, width: int,
    side: str = "",
) -> Spec:  # fmt: skip
    """`cells` are those of all panels, so that a system has one colour in all."""
    systems, domain = theme.looks(cells), _domain(each, unit, log)
    base = alt.Chart(theme.data(record for n, line in enumerate(each) for record in _records(line, unit, domain[0], n)))
    base = base.transform_filter(theme.SHOWN)
    times = theme.given(domain=[panel.start, panel.end], nice=False)
    x = alt.X("t:Q", scale=times, axis=theme.given(title="time in the trial, s", tickCount=6, format=".5~g"))
    up = theme.given(type="log" if log else "linear", domain=list(domain), nice=False)
    orient = "right" if side == "right" else "left"
    axis = theme.given(title=title, orient=orient, grid=side != "right", tickCount=6, format=".5~g")
    y = alt.Y("mean:Q", scale=up, axis=axis)
    band = base.mark_area(fillOpacity=0.18, clip=True).encode(
        x=x, y=alt.Y("low:Q", scale=up, axis=axis), y2="high:Q", color=theme.colour(systems, legend=True)
    )
    tips = theme.tooltip(path="system", at="time", text="mean", interval="95 % interval", trials="trials")
    line = base.mark_line(clip=True, interpolate="linear").encode(
        x=x, y=y, color=theme.colour(systems, legend=True), strokeDash=theme.dash(systems, theme.dashed(cells)), tooltip=tips
    )
    marked = (
        base.transform_filter("datum.marked")
        .mark_point(size=32, filled=True, clip=True, opacity=1)
        .encode(x=x, y=y, color=theme.colour(systems, legend=True), shape=theme.shape(systems, legend=True))
    )
    hover = base.mark_point(size=90, fillOpacity=0, filled=True, clip=True).encode(x=x, y=y, tooltip=tips)
    hover = hover.add_params(theme.zooming(f"zoom{number}{side}"))
    crosses = [alt.Chart(theme.data(fails)).transform_filter(theme.SHOWN).mark_point(
        shape=theme.CROSS, size=40, strokeWidth=2, opacity=1, clip=False
    ).encode(
        x=x, y=theme.down(HEIGHT - 5 if panel.worst_is_low else 5), color=theme.colour(systems, legend=True),
        tooltip=theme.tooltip(path="system", trials="trials that failed"),
    )] if (fails := _fails(each, panel)) else []  # fmt: skip
    return theme.layer(band, line, marked, *crosses, hover, title=panel.title, width=width, height=HEIGHT)


def _fails(each: Sequence[Line], panel: Panel) -> list[Record]:
    """A cross for each line with trials that failed, side by side."""
    failing = [line for line in each if line.failed]
    step = (panel.end - panel.start) / (len(failing) + 1)
    return [
        {"path": label(line.cell), "t": panel.start + number * step, "trials": f"{line.failed} of {line.trials}"}
        for number, line in enumerate(failing, start=1)
    ]


def _cells(shown: Sequence[Panel]) -> list[Cell]:
    return sorted({line.cell for panel in shown for line in panel.lines}, key=order)


def _width(shown: Sequence[Panel]) -> int:
    return 620 if len(shown) == 1 else 290


def _records(line: Line, unit: Scale, least: float, shift: int) -> list[Record]:
    found = []
    apart = max(len(line.t) // MARKS, 1)
    values = zip(line.t, *(v * unit.factor for v in (line.mean, line.low, line.high)), strict=True)
    for place, (t, mean, low, high) in enumerate(values):
        known = np.isfinite(low)
        found.append(
            {
                "path": label(line.cell), "t": t, "mean": mean, "marked": (place + shift) % apart == 0,
                # An interval that reaches below zero has no end on a logarithmic axis.
                "low": max(low, least) if known else None, "high": high if known else None,
                "at": f"{t:.3g} s", "text": f"{mean:.4g} {unit.unit}",
                "interval": f"{low:.4g} to {high:.4g}" if known else NONE, "trials": line.trials,
            }
        )  # fmt: skip
    return found


def _domain(each: Sequence[Line], unit: Scale, log: bool) -> tuple[float, float]:
    """A linear axis ends above the 95th percentile of every line, so that one spike does not flatten all."""
    if log:
        values = np.concatenate([line.mean for line in each]) * unit.factor
        return float(values[values > 0].min()) / 1.4, float(values.max()) * 1.4
    return 0.0, 1.25 * max(float(np.percentile(line.mean, 95)) for line in each) * unit.factor


def _unit(shown: Sequence[Panel], quantity: RowMetric) -> Scale:
    levels = [line.level for panel in shown for line in panel.lines]
    # Of times that of the middle value: one slow system does not decide how the others read.
    return scale(quantity, [float(np.median(levels))] if quantity == "rtt" else levels)


def alt_text(shown: Sequence[Panel], quantity: RowMetric) -> str:
    parts = []
    unit = _unit(shown, quantity)
    for panel in shown:
        means = "; ".join(f"{short_label(line.cell)} {unit.text(line.level)}" for line in panel.lines)
        parts.append(f"{panel.title}, mean over time in {unit.unit}: {means}.")
    return " ".join(parts)
