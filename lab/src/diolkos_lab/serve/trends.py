# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One figure of all systems over the runs of a study: as a chart, and as a table with what a reader wants to look up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from diolkos_lab.metric import named
from diolkos_lab.report.charts import Picture, theme
from diolkos_lab.report.charts.theme import Record, Spec
from diolkos_lab.report.quantities import NONE, digits, scale
from diolkos_lab.report.systems import Look, look
from diolkos_lab.report.tables import Table
from diolkos_lab.serve import figures
from diolkos_lab.serve.figures import Figure, FigureName, Kind, Reading
from diolkos_lab.serve.run_details import Run

MOST_RUNS = 200  # of a trend, the newest; their chart takes some seconds
MOST_LINES = 400  # of the table on the page; the CSV has all
MOST_CHOICES = 50  # of a filter
HEIGHT = 260  # pixels
FILTERS = {"host": "Host", "kernel": "Kernel", "version": "Versions"}
Of = Callable[[Figure], Reading | None]


@dataclass(frozen=True)
class Point:
    """One system in one run."""

    run: Run
    name: FigureName
    figure: Figure


@dataclass(frozen=True)
class Trend:
    kind: Kind
    points: Sequence[Point]  # the oldest run first
    left_out: int  # older runs

    @property
    def varying(self) -> frozenset[str]:
        return figures.varying(point.name for point in self.points)


def kinds(all_figures: Iterable[Iterable[Figure]]) -> list[Kind]:
    """What there are trends of, in the order of a report."""
    return sorted({figure.name.kind for each in all_figures for figure in each}, key=lambda kind: kind.sort_key)


def trend(kind: Kind, runs: Sequence[Run], of: Callable[[Run], Sequence[Figure]]) -> Trend:
    """The points of the runs that have the figure and a date. `runs` come newest first."""
    dated = [run for run in runs if run.started]
    points = [
        Point(run, figure.name, figure)
        for run in reversed(dated[:MOST_RUNS])
        for figure in sorted(of(run), key=lambda each: each.name.sort_key)
        if figure.name.kind == kind and (figure.value or figure.ratio)
    ]
    return Trend(kind, points, max(0, len(dated) - MOST_RUNS))


def pictures(found: Trend) -> list[Picture]:
    """The ratio to native, where there is one, since hosts differ in speed; then the figure itself."""
    known = named(found.kind.metric)
    what = known.words if known else found.kind.metric
    shown = []
    if any(point.figure.ratio for point in found.points):
        shown.append(_picture(found, "ratio", f"{_capital(what)}, times native", "times native", lambda f: f.ratio))
    if any(point.figure.value for point in found.points):
        values = [reading.value for point in found.points if (reading := point.figure.value)]
        unit = scale(found.kind.metric, values, found.kind.unit)
        shown.append(_picture(found, "value", f"{_capital(what)}, {unit.unit}", unit.unit, lambda f: f.value, unit.factor))
    return shown


def _picture(found: Trend, name: str, title: str, axis: str, of: Of, factor: float = 1.0) -> Picture:
    records = [_record(point, reading, found, factor) for point in found.points if (reading := of(point.figure))]
    systems = list({point.name.who(found.varying): look(point.name.cell) for point in found.points}.items())
    last = {record[theme.PATH]: f"{record['text']} on {record['started'][:10]}" for record in records}
    return Picture(
        f"trend-{name}",
        title,
        "A point is the median of a run, its line the 95 % interval. A triangle is a limit: the figure lies beyond it.",
        f"{title}. Last: " + "; ".join(f"{who} {text}" for who, text in last.items()) + ".",
        lambda: _draw(records, axis, systems),
    )


def _record(point: Point, reading: Reading, found: Trend, factor: float) -> Record:
    low, high = (None if end is None else end * factor for end in (reading.low, reading.high))
    interval = NONE if low is None and high is None else f"{digits(low)} to {digits(high)}"
    return {
        theme.PATH: point.name.who(found.varying),
        "started": point.run.started,
        "value": reading.value * factor,
        "low": low,
        "high": high,
        "limit": reading.limit or "median",
        "text": f"{reading.limit} {digits(reading.value * factor)}".strip(),
        "interval": interval,
        "host": point.run.host,
        "kernel": point.run.kernel,
        "version": ", ".join(point.run.versions) or NONE,
        "run": point.run.place,
    }


def _draw(records: Sequence[Record], axis: str, systems: Sequence[tuple[str, Look]]) -> Spec:
    base = alt.Chart(theme.data(records)).transform_filter(theme.SHOWN)
    choices = _choices(records)
    for name in (choice["name"] for choice in choices):
        base = base.transform_filter(f"{name} == null || datum.{name} == {name}")
    days = {record["started"][:10] for record in records}
    dates = alt.X(
        "started:T",
        axis=theme.given(
            title="start of the run, UTC",
            tickCount=7,
            labelOverlap=True,
            format="%b %d, %H:%M" if len(days) < 5 else "%Y-%m-%d",
        ),
        scale=theme.given(type="utc", padding=16),
    )
    tips = theme.tooltip(
        path="system", text="median", interval="95 % interval", started="start", host="host", kernel="kernel",
        version="versions", run="folder",
    )  # fmt: skip
    scale = theme.given(zero=False, nice=True)
    y = alt.Y("value:Q", axis=theme.given(title=axis, tickCount=6, format="~g"), scale=scale)
    colour = theme.colour(systems)
    line = base.transform_filter("datum.limit == 'median'").mark_line(strokeWidth=0.8, opacity=0.5, clip=True)
    line = line.encode(x=dates, y=y, color=colour, detail="host:N")
    bars = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(
        strokeWidth=1.6, opacity=0.55, clip=True
    )
    bars = bars.encode(x=dates, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour, tooltip=tips)
    shapes = theme.given(domain=["median", "≥", "≤"], range=["circle", "triangle-up", "triangle-down"])
    points = base.mark_point(filled=True, size=42, opacity=1, clip=True)
    points = points.encode(x=dates, y=y, color=colour, shape=alt.Shape("limit:N", legend=None, scale=shapes), tooltip=tips)
    points = points.add_params(theme.zooming())
    spec = theme.themed(theme.layer(bars, line, points, width=theme.WIDTH - 60, height=HEIGHT), systems, zoom=True, beside=60)
    spec["params"] = [*spec["params"], *choices]
    return spec


def _choices(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A list to choose from below the chart for each property in which the runs differ."""
    found = []
    for name, title in FILTERS.items():
        values = sorted({record[name] for record in records})[:MOST_CHOICES]
        if len(values) > 1:
            bind = {"input": "select", "options": [None, *values], "labels": ["all", *values], "name": f"{title} "}
            found.append({"name": name, "value": None, "bind": bind})
    return found


def table(found: Trend) -> Table:
    """One line for each system in each run, the newest first."""
    unit = scale(
        found.kind.metric, [reading.value for point in found.points if (reading := point.figure.value)], found.kind.unit
    )
    lines, raw = [], []
    for point in reversed(found.points):
        who, run, figure = point.name.who(found.varying), point.run, point.figure
        texts = [_text(figure.value, unit.factor), _text(figure.ratio)]
        lines.append(
            [run.started[:16].replace("T", " "), who, *texts, run.host, run.kernel, ", ".join(run.versions), run.place]
        )
        ends = [each for reading in (figure.value, figure.ratio) for each in _raw(reading)]
        raw.append([run.started, who, *ends, run.host, run.kernel, ", ".join(run.versions), run.place])
    more = f": the newest {MOST_LINES} of {len(lines)} lines, the CSV has all" * (len(lines) > MOST_LINES)
    return Table(
        name="trend",
        caption=f"{_capital(found.kind.in_words)}{more}",
        heads=[
            "Start",
            "System",
            f"Median [95 % interval], {unit.unit}",
            "Times native",
            "Host",
            "Kernel",
            "Versions",
            "Folder",
        ],
        lines=lines[:MOST_LINES],
        raw_heads=["start", "system", *_HEADS, "host", "kernel", "versions", "folder"],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 4, 5, 6, 7}),
    )


_HEADS = [f"{name}{end}" for name in ("median", "ratio") for end in ("", "_limit", "_ci95_low", "_ci95_high")]


def _text(reading: Reading | None, factor: float = 1.0) -> str:
    if reading is None:
        return NONE
    text = f"{reading.limit} {digits(reading.value * factor)}".strip()
    if reading.low is None and reading.high is None:
        return text
    ends = ("∞" if end is None else digits(end * factor) for end in (reading.low, reading.high))
    return f"{text} [{'–'.join(ends)}]"


def _raw(reading: Reading | None) -> list[Any]:
    return [None] * 4 if reading is None else [reading.value, reading.limit, reading.low, reading.high]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
