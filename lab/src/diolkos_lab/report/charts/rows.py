# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures of systems, one below the other: a point, its interval, and the same in words at the right; a panel each load.

An end that is infinite, or far beyond all values, is an arrow to the edge. A crossed mark says that trials failed, at the end
where these count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import altair as alt

from diolkos_lab.report.charts import theme
from diolkos_lab.report.charts.theme import Record, Spec
from diolkos_lab.report.systems import INK, Look
from diolkos_lab.report.values import Ends, Interval

REACH = 2.0  # of the greatest value: how far an axis goes for the end of an interval
LETTER = 6.1  # pixels, about, of a letter of a name or a word


@dataclass(frozen=True)
class Mark:
    """One line of a panel. Without a value and without ends there is only its text."""

    path: str
    look: Look
    value: float | None
    ends: Ends | None  # 95 % interval, or what the figure lies between; an end may be infinite
    text: str  # at the right
    tips: dict[str, str] = field(default_factory=dict)  # what a pointer shows, by its name
    trusted: bool = True
    failed: bool = False  # some trials did
    ranged: bool = False  # the ends are no interval: the figure itself is a range
    hollow: bool = False  # the point, though it has ends


@dataclass(frozen=True)
class Panel:
    title: str
    axis: str
    marks: Sequence[Mark]
    log: bool = False
    percent: bool = False
    reference: float | None = None  # a line
    band: Interval | None = None  # the noise floor
    worst_is_high: bool = False  # failed trials took for ever; otherwise they brought nothing


def draw(panels: Sequence[Panel], shared: bool = False) -> Spec:
    """`shared` gives all panels one axis."""
    systems = list({mark.path: mark.look for panel in panels for mark in panel.marks}.items())
    extent = min(max(len(name) for name, _ in systems) * LETTER + 8, 240)
    spans = [_span(panel) for panel in panels]
    if shared:
        known = [span for span, panel in zip(spans, panels, strict=True) if any(mark.value for mark in panel.marks)] or spans
        spans = [(min(low for low, _ in known), max(high for _, high in known))] * len(spans)
    words = max([24, *(len(mark.text) * LETTER + 24 for panel in panels for mark in panel.marks)])  # at the right
    width = theme.WIDTH - extent - words
    drawn = [_panel(*each, systems, extent, width, number) for number, each in enumerate(zip(panels, spans, strict=True))]
    return theme.themed(theme.grid(*drawn), systems, zoom=True, beside=extent + words)


def _span(panel: Panel) -> Interval:
    """The ends of the axis."""
    ends = [e for mark in panel.marks for e in (mark.value, *(mark.ends or ())) if e is not None and math.isfinite(e)]
    if panel.log:
        ends = [e for e in ends if e > 0] or [1.0]
        return min(ends) / 1.3, max([*ends, panel.reference or 0]) * 1.3
    values = [mark.value for mark in panel.marks if mark.value is not None and math.isfinite(mark.value)]
    most = REACH * max([*values, panel.reference or 0]) or math.inf  # one wide interval must not flatten all others
    return 0.0, 1.08 * min(max([*ends, panel.reference or 0]), most) or 1.0


def _panel(panel: Panel, span: Interval, systems: Sequence[tuple[str, Look]], extent: float, width: float, number: int) -> Spec:
    low, high = span
    names = list(dict.fromkeys(mark.path for mark in panel.marks))
    scale = theme.given(domain=list(span), type="log" if panel.log else "linear", nice=False, clamp=False)
    axis = theme.given(title=panel.axis, titleAnchor="start", tickCount=6, format="%" if panel.percent else ".5~g", grid=False)
    across = alt.X("value:Q", scale=scale, axis=axis)
    sort: list[str] = names
    beside = alt.Y(f"{theme.PATH}:N", sort=sort, axis=theme.given(title=None, minExtent=extent, grid=True))
    coloured = theme.colour(systems)
    tips = theme.tooltip(path="system", **{f"tip{i}": name for i, name in enumerate(_tip_names(panel))})
    base = alt.Chart(theme.data(_record(mark, panel, span) for mark in panel.marks)).transform_filter(theme.SHOWN)

    layers: list[alt.Chart] = []
    if panel.band:
        ends = {"from": max(panel.band[0], low), "to": min(panel.band[1], high)}
        shaded = alt.Chart(theme.data([ends])).mark_rect(color=theme.SHADE)
        layers.append(shaded.encode(x=alt.X("from:Q", scale=scale, axis=axis), x2="to:Q"))
    if panel.reference is not None:
        line = alt.Chart(theme.data([{"value": panel.reference}])).mark_rule(color=INK, strokeWidth=1.2)
        layers.append(line.encode(x=across))
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2.6, clip=True)
    layers.append(bars.encode(x=alt.X("low:Q", scale=scale, axis=axis), x2="high:Q", y=beside, color=coloured, tooltip=tips))
    points = base.transform_filter("isValid(datum.value)").mark_point(size=55, strokeWidth=1.5, opacity=1, clip=True)
    points = points.encode(
        x=across,
        y=beside,
        shape=theme.shape(systems),
        tooltip=tips,
        color=theme.colour(systems, unless=("!datum.trusted", theme.SOFT)),
        fill=alt.Fill(
            "path:N", scale=theme.palette(systems), legend=None, condition={"test": "!datum.solid", "value": theme.GROUND}
        ),
    )
    points = points.add_params(theme.zooming(f"zoom{number}", ["x"]))
    layers.append(points)
    arrows = base.transform_filter("datum.open").mark_point(shape="triangle-right", filled=True, size=80, opacity=1, clip=False)
    layers.append(arrows.encode(x=theme.across("width"), y=beside, color=coloured, tooltip=tips))
    crosses = base.transform_filter("datum.failed").mark_point(
        shape=theme.CROSS,
        size=40,
        strokeWidth=2,
        color=theme.BAD,
        opacity=1,
        clip=False,
        xOffset=9 if panel.worst_is_high else 5,
    )
    layers.append(crosses.encode(x=theme.across("width" if panel.worst_is_high else 0), y=beside, tooltip=tips))
    words = base.mark_text(align="left", clip=False, dx=18)
    layers.append(
        words.encode(
            x=theme.across("width"),
            y=beside,
            text="text:N",
            tooltip=tips,
            color=alt.ColorValue(INK, condition={"test": "!datum.trusted", "value": theme.SOFT}),
        )
    )
    return theme.layer(*layers, width=width, height={"step": theme.ROW}, title=panel.title)


def _tip_names(panel: Panel) -> list[str]:
    return list(dict.fromkeys(name for mark in panel.marks for name in mark.tips))


def _record(mark: Mark, panel: Panel, span: Interval) -> Record:
    low, high = span
    ends = mark.ends if mark.ends and math.isfinite(mark.ends[0]) else None
    open_end = mark.ends is not None and (not math.isfinite(mark.ends[0]) or mark.ends[1] > high)
    tips = {f"tip{i}": mark.tips.get(name, "–") for i, name in enumerate(_tip_names(panel))}
    return {
        "path": mark.path,
        "value": None if mark.value is None or not math.isfinite(mark.value) else mark.value,
        "low": max(ends[0], low) if ends else None,
        "high": min(ends[1], high) if ends else None,
        "open": open_end,
        "text": mark.text,
        "trusted": mark.trusted,
        "solid": mark.trusted and bool(mark.ends) and not mark.ranged and not mark.hollow,
        "failed": mark.failed,
        **tips,
    }
