# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Several load–loss curves on one sheet: what each loses, what each delivers, and its PDR and verdict below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import altair as alt
import numpy as np

from diolkos_lab.curve.crossing import PDR
from diolkos_lab.curve.judge import Judgement, rate_text
from diolkos_lab.report.charts import theme
from diolkos_lab.report.charts.load_loss import TIPS, along_the_loads, loads_axis, loss_scale, points, verdict_colour
from diolkos_lab.report.charts.theme import SOFT, Record, Spec
from diolkos_lab.report.systems import INK, Look

FAR = 5.0  # times the lowest load that the highest is, from which on loads are drawn on a logarithmic axis
PANEL, TALL = 300, 250  # pixels
TABLE = 700
AT = {"name": 26, "pdr": 385, "verdict": 580, "firm": TABLE}  # pixels of the columns


@dataclass(frozen=True)
class Entry:
    """One curve of the sheet."""

    name: str
    found: Judgement
    look: Look
    trusted: bool = True  # guards object to none of what it rests on


def draw(entries: Sequence[Entry], rule: str) -> Spec:
    entries = [replace(entry, name=name) for entry, name in zip(entries, _distinct(entries), strict=True)]
    systems = [(entry.name, entry.look) for entry in entries]
    ends = [float(end) for entry in entries for end in entry.found.curve.rates[[0, -1]] / 1e6]
    far = max(ends) > FAR * min(ends)
    room = 0.03 * (max(ends) - min(ends)) or 0.05 * max(ends)
    span = (min(ends) / 1.1, max(ends) * 1.1) if far else (min(ends) - room, max(ends) + room)
    panels = [_loss(entries, systems, span, far), _delivered(entries, systems, span, far)]
    sheet = theme.stacked(theme.beside(*panels, spacing=36), _table(entries, systems, rule), spacing=18)
    return theme.themed(sheet, systems, zoom=True)


def _distinct(entries: Sequence[Entry]) -> list[str]:
    """Names, numbered where several curves have the same."""
    names = [entry.name for entry in entries]
    return [name if names.count(name) == 1 else f"{name} ({names[:at].count(name) + 1})" for at, name in enumerate(names)]


def _chart(records: list[Record]) -> alt.Chart:
    return alt.Chart(theme.data(records)).transform_filter(theme.SHOWN)


def _loss(entries: Sequence[Entry], systems: list[tuple[str, Look]], span: tuple[float, float], far: bool) -> Spec:
    lines, dots, strokes = [], [], []
    for entry in entries:
        along = zip(*along_the_loads(entry.found), strict=True)
        lines += [{"path": entry.name, "load": a, "plr": p, "edge": e} for a, p, e in along]
        dots += [{"path": entry.name, **record} for record in points(entry.found)]
        if entry.found.pdr.rate is not None:
            strokes.append({"path": entry.name, "load": entry.found.pdr.rate / 1e6, "plr": PDR, "text": _pdr(entry.found)})
    x, y, colour = alt.X("load:Q", **loads_axis(span, far)), alt.Y("plr:Q", **loss_scale()), theme.colour(systems)
    limit = alt.Chart(theme.data([{"plr": PDR}])).mark_rule(color=INK, strokeDash=[5, 3]).encode(y=y)
    stroke = _chart(strokes).mark_tick(orient="vertical", thickness=2.4, size=22, clip=True, opacity=1)
    tips = theme.tooltip(path="system", **TIPS)
    return theme.layer(
        limit,
        _chart(lines).mark_area(fillOpacity=0.18, clip=True).encode(x=x, y=y, y2="edge:Q", color=colour),
        _chart(lines).mark_line(clip=True).encode(x=x, y=y, color=colour),
        _chart(dots)
        .mark_point(filled=True, size=36, opacity=1, clip=True)
        .encode(x=x, y=y, color=colour, shape=theme.shape(systems), tooltip=tips)
        .add_params(theme.zooming("zoom_loss")),
        stroke.encode(x=x, y=y, color=colour, tooltip=theme.tooltip(path="system", text="PDR@0.5 %")),
        width=PANEL,
        height=TALL,
    )


def _delivered(entries: Sequence[Entry], systems: list[tuple[str, Look]], span: tuple[float, float], far: bool) -> Spec:
    records = []
    for entry in entries:
        half = np.nan_to_num(entry.found.curve.half_width) * entry.found.curve.rates / 1e6
        records += [
            {"path": entry.name, **record, "low": record["delivered"] - h, "high": record["delivered"] + h}
            for record, h in zip(points(entry.found), half, strict=True)
        ]
    values = [record["delivered"] for record in records]
    domain = [min(values) / 1.3, 1.3 * max(values)] if far else [0, 1.08 * max(values)]
    scale = theme.given(domain=domain, type="log" if far else "linear", nice=False)
    axis = theme.given(title="delivered, Mpps", tickCount=6, format=".5~g")
    x, y, colour = alt.X("load:Q", **loads_axis(span, far)), alt.Y("delivered:Q", scale=scale, axis=axis), theme.colour(systems)
    lossless = alt.Chart(theme.data([{"load": end, "delivered": end} for end in span]))
    return theme.layer(
        lossless.mark_line(color=SOFT, strokeWidth=1, strokeDash=[1, 3], clip=True).encode(x=x, y=y),
        _chart(records)
        .mark_area(fillOpacity=0.18, clip=True)
        .encode(x=x, y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q", color=colour),
        _chart(records).mark_line(clip=True).encode(x=x, y=y, color=colour),
        _chart(records)
        .mark_point(filled=True, size=36, opacity=1, clip=True)
        .encode(x=x, y=y, color=colour, shape=theme.shape(systems), tooltip=theme.tooltip(path="system", **TIPS))
        .add_params(theme.zooming("zoom_delivered")),
        width=PANEL,
        height=TALL,
    )


def _table(entries: Sequence[Entry], systems: list[tuple[str, Look]], rule: str) -> Spec:
    """One line per curve: its mark, its name, PDR with interval, the paper's verdict, and how sure that is."""
    head = {"path": " ", "name": "", "pdr": "PDR@0.5 % (95 % interval)", "verdict": f"rule {rule}", "firm": "by intervals"}
    lines = [
        {
            "path": entry.name,
            "name": entry.name,
            "pdr": _pdr(entry.found),
            "verdict": _bracketed(entry.found.verdict[rule], entry.trusted),
            "firm": _bracketed(entry.found.firm[rule], entry.trusted),
            "hue": verdict_colour(entry.found.verdict[rule]) if entry.trusted else SOFT,
        }
        for entry in entries
    ]
    y = alt.Y("path:N", sort=[" ", *(name for name, _ in systems)], axis=None)
    base = _chart([*({**line} for line in lines)])
    heads = alt.Chart(theme.data([head]))
    marks = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=theme.across(10), y=y, color=theme.colour(systems), shape=theme.shape(systems)
    )
    layers = [marks]
    for field, at in AT.items():
        align: theme.Align = "right" if field == "firm" else "left"
        layers.append(heads.mark_text(align=align, color=SOFT, fontSize=10).encode(x=theme.across(at), y=y, text=f"{field}:N"))
        words = base.mark_text(align=align, fontWeight="bold" if field == "verdict" else "normal")
        words = words.encode(x=theme.across(at), y=y, text=f"{field}:N")
        layers.append(words.encode(color=alt.Color("hue:N", scale=None, legend=None)) if field == "verdict" else words)
    keys = {"name": "table", "width": TABLE, "height": {"step": theme.ROW}}
    return theme.layer(*layers, **keys, resolve=theme.independent("color"))


def _bracketed(text: str, trusted: bool) -> str:
    return text if trusted else f"({text})"


def _pdr(found: Judgement) -> str:
    if found.pdr.rate is None:
        end, sign = (found.pdr.above, "<") if found.pdr.above is not None else (found.pdr.below, ">")
        return f"{sign} {rate_text(end)}, not bracketed" if end else "not bracketed"
    if found.pdr_ci95 is None or not np.isfinite(found.pdr_ci95).all():
        return rate_text(found.pdr.rate)
    return f"{rate_text(found.pdr.rate)} ({rate_text(*found.pdr_ci95)})"
