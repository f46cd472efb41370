# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A load–loss curve on one sheet: loss ratio, delivery ratio, throughput increase ratio, and the verdict with its reason.

The first two panels are those of the paper (see `curve`): the loss ratio on a logarithmic axis with its upper confidence
band and the normalised interval, and the delivery ratio. The third, TIR with its interval, shows what the verdict rests on.
The floor of the loss ratio is one of the picture only; no number is made from it.
"""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from diolkos_lab.curve.crossing import PDR
from diolkos_lab.curve.judge import GOOD, Judgement, rate_text, reason
from diolkos_lab.curve.saturation import ETA, RULES
from diolkos_lab.report.charts import theme
from diolkos_lab.report.charts.theme import BLUE, ORANGE, SHADE, SOFT, Record, Spec

GREEN, RED = theme.GOOD, theme.BAD
FLOOR = 1e-6  # no trial of reasonable length tells smaller ratios apart
LOWEST = 3e-7  # end of the axis, so that the floor does not lie on it
WIDEST = 2.0  # end of the axis of the normalised interval
DELIVERY = (0.7, 1.01)
INCREASE = (-0.35, 1.25)
BENT = 40  # points of a bent line between two loads
COLUMNS = 118  # letters of a line above the panels
LEFT, RIGHT, TALL = 270, 270, 300  # pixels
LOADS = "offered load, Mpps"


def draw(found: Judgement, title: str, rule: str) -> Spec:
    """`title` names the experiment; `rule` is the one whose verdict stands at the top."""
    mega = found.curve.rates / 1e6
    room = 0.04 * max(float(np.ptp(mega)), 0.1 * float(mega[-1]))
    span = (float(mega[0] - room), float(mega[-1] + room))
    saturated = found.saturation[rule]
    marks = [*_saturated(mega, saturated, span), *_pdr(found, span)]
    half = (TALL - 58) / 2
    loss = theme.layer(
        *marks,
        *_pdr_name(found, span),
        _loss(found, span),
        _width(found, span),
        resolve=theme.independent("y"),
        width=LEFT,
        height=TALL,
    )
    delivery = theme.layer(*marks, *_delivery(found, span), width=RIGHT, height=half)
    increase = theme.layer(*marks, *_increase(found, span), width=RIGHT, height=half)
    head = {"text": wrap(title, COLUMNS), "subtitle": _head(found, rule), "subtitleColor": SOFT, "subtitleFontSize": 11,
            "subtitlePadding": 5, "offset": 12}  # fmt: skip
    return theme.themed(theme.beside(loss, theme.stacked(delivery, increase, spacing=14), title=head), zoom=True, beside=200)


def verdict_words(found: Judgement, rule: str) -> str:
    """The paper's verdict, and how sure it is by intervals."""
    return f"{found.verdict[rule]}; by intervals: {found.firm[rule]}"


def verdict_colour(verdict: str) -> str:
    return GREEN if verdict == GOOD else RED


def _head(found: Judgement, rule: str) -> list[str]:
    """Lines below the title: verdict with its rule, the rules that say something else, the reason."""
    verdict = found.verdict[rule]
    others = [f"{name}: {said}" for name, said in found.verdict.items() if said != verdict]
    by_rule = f"{verdict_words(found, rule)}. Rule {rule} ({RULES[rule].words})."
    by_rule += f" The verdict depends on the rule: {', '.join(others)}." if others else ""
    return [line for text in (by_rule, reason(found, RULES[rule])) for line in wrap(text, COLUMNS)]


def loads_axis(span: tuple[float, float], log: bool = False) -> dict[str, Any]:
    """The horizontal axis of every panel; a field is given with it."""
    scale = theme.given(domain=list(span), type="log" if log else "linear", nice=False)
    return {"scale": scale, "axis": theme.given(title=LOADS, tickCount=6, format=".5~g")}


def loss_scale() -> dict[str, Any]:
    """The logarithmic axis of a loss ratio, whose lowest mark stands for all that lies below it."""
    labels = "datum.value <= 1.5e-6 ? '≤ 10⁻⁶' : datum.value < 0.0099 ? format(datum.value, '.0e') : format(datum.value, '~g')"
    return {
        "scale": theme.given(type="log", domain=[LOWEST, 1], nice=False),
        "axis": theme.given(title="packet loss ratio", values=[10.0**power for power in range(-6, 1)], labelExpr=labels),
    }


def along_the_loads(found: Judgement) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The curve as a line on that axis: loads in Mpps, loss ratio, upper edge of its band.

    The PDR is interpolated linearly in the loss. Where that is done the line is drawn so, and bends: a straight one would
    pass 0.5 % at another rate.
    """
    curve, mega = found.curve, found.curve.rates / 1e6
    knots, plr = mega, curve.plr
    if found.pdr.rate is not None:  # which may rest on rates that are no steps of the curve
        at = int(np.searchsorted(mega, found.pdr.rate / 1e6))
        knots, plr = np.insert(mega, at, found.pdr.rate / 1e6), np.insert(plr, at, PDR)
    along, pdr = mega, found.pdr
    if pdr.below is not None and pdr.above is not None:
        along = np.union1d(mega, np.linspace(pdr.below / 1e6, pdr.above / 1e6, BENT))
    half = np.interp(along, mega, np.where(curve.runs > 1, curve.half_width, 0))
    line = np.interp(along, knots, plr)
    line, edge = np.maximum(line, FLOOR), np.maximum(line + half, FLOOR)
    return along, line, np.maximum(edge, line)


def points(found: Judgement) -> list[Record]:
    """One record for each load that was offered."""
    curve = found.curve
    return [
        {
            "load": rate / 1e6,
            "plr": max(plr, FLOOR),
            "delivered": throughput / 1e6,
            "tip_load": rate_text(rate),
            "tip_loss": f"{100 * plr:.3g} %" + (f" ± {100 * half:.2g} %" if np.isfinite(half) else ""),
            "tip_delivered": rate_text(throughput),
            "trials": int(runs),
        }
        for rate, plr, half, throughput, runs in zip(
            curve.rates, curve.plr, curve.half_width, curve.throughput, curve.runs, strict=True
        )
    ]


TIPS = {"tip_load": "offered", "tip_loss": "lost", "tip_delivered": "delivered", "trials": "trials"}


def _chart(records: list[Record]) -> alt.Chart:
    return alt.Chart(theme.data(records))


def _x(span: tuple[float, float], field: str = "load") -> alt.X:
    return alt.X(f"{field}:Q", **loads_axis(span))


def _saturated(mega: np.ndarray, saturated: int | None, span: tuple[float, float]) -> list[alt.Chart]:
    if saturated is None:
        return []
    shade = _chart([{"load": mega[saturated], "to": span[1]}]).mark_rect(color=SHADE, clip=True)
    return [shade.encode(x=_x(span), x2="to:Q")]


def _pdr(found: Judgement, span: tuple[float, float]) -> list[alt.Chart]:
    """A stroke at the PDR, with its interval as a band as far as it has ends."""
    if found.pdr.rate is None:
        return []
    text = rate_text(found.pdr.rate)
    marks = []
    if found.pdr_ci95 and np.isfinite(found.pdr_ci95).all():
        text += f" ({rate_text(*found.pdr_ci95)})"
        ends = {"load": found.pdr_ci95[0] / 1e6, "to": found.pdr_ci95[1] / 1e6}
        marks.append(_chart([ends]).mark_rect(color=GREEN, fillOpacity=0.13, clip=True).encode(x=_x(span), x2="to:Q"))
    line = _chart([{"load": found.pdr.rate / 1e6, "text": text}]).mark_rule(color=GREEN, strokeWidth=1.4, clip=True)
    return [*marks, line.encode(x=_x(span), tooltip=theme.tooltip(text="PDR@0.5 %"))]


def _pdr_name(found: Judgement, span: tuple[float, float]) -> list[alt.Chart]:
    """Beside the stroke at the top of the first panel, on the side that has room."""
    if found.pdr.rate is None:
        return []
    at = found.pdr.rate / 1e6
    left = at > (span[0] + span[1]) / 2
    words = ["PDR@0.5 %", rate_text(found.pdr.rate)]
    text = _chart([{"load": at, "text": words}]).mark_text(
        align="right" if left else "left", baseline="top", dx=-4 if left else 4, dy=4, color=GREEN, fontSize=10, clip=False
    )
    return [text.encode(x=_x(span), y=theme.down(0), text="text:N")]


def _level(
    field: str, value: float, said: str, colour: str, scale: dict[str, Any], align: theme.Align = "right"
) -> list[alt.Chart]:
    """A dashed line across, with its name at one end."""
    base = _chart([{field: value, "text": said}])
    y = alt.Y(f"{field}:Q", **scale)
    words = base.mark_text(align=align, baseline="bottom", dx=-3 if align == "right" else 3, dy=-2, color=colour, fontSize=10)
    x = theme.across("width" if align == "right" else 0)
    return [base.mark_rule(color=colour, strokeDash=[5, 3]).encode(y=y), words.encode(x=x, y=y, text="text:N")]


def _loss(found: Judgement, span: tuple[float, float]) -> Spec:
    scale = loss_scale()
    scale["axis"] |= {"titleColor": BLUE}
    along, line, edge = along_the_loads(found)
    curve = _chart([{"load": a, "plr": p, "edge": e} for a, p, e in zip(along, line, edge, strict=True)])
    y = alt.Y("plr:Q", **scale)
    band = curve.mark_area(color=BLUE, fillOpacity=0.2, clip=True).encode(x=_x(span), y=y, y2="edge:Q")
    dots = _chart(points(found)).mark_point(color=BLUE, filled=True, size=45, opacity=1, clip=True)
    dots = dots.encode(x=_x(span), y=y, tooltip=theme.tooltip(**TIPS)).add_params(theme.zooming("zoom_loss"))
    said = "PDR@0.5 % is not bracketed" if found.pdr.rate is None else "0.5 %"
    lines = curve.mark_line(color=BLUE, clip=True).encode(x=_x(span), y=y)
    return theme.layer(*_level("plr", PDR, said, GREEN, scale), band, lines, dots)


def _width(found: Judgement, span: tuple[float, float]) -> Spec:
    """The normalised interval, on the axis beside the loss; a triangle where it is wider than the axis."""
    widths = found.curve.delta_ucl95
    records = [
        {"load": load / 1e6, "width": min(width, WIDEST), "beyond": bool(width > WIDEST), "text": f"{width:.3g}"}
        for load, width in zip(found.curve.rates, widths, strict=True)
        if np.isfinite(width)
    ]
    axis = theme.given(
        title="ΔUCL95 = (UCL95 − PLR) / PLR", titleColor=ORANGE, orient="right", grid=False, values=[0, 0.5, 1, 1.5, 2]
    )
    y = alt.Y("width:Q", scale=theme.given(domain=[0, WIDEST], nice=False), axis=axis)
    base = _chart(records).encode(x=_x(span), y=y, tooltip=theme.tooltip(text="ΔUCL95"))
    shape = alt.ShapeValue("circle", condition={"test": "datum.beyond", "value": "triangle-up"})
    dots = base.mark_point(color=ORANGE, filled=True, size=22, opacity=1).encode(shape=shape)
    return theme.layer(base.mark_line(color=ORANGE, strokeDash=[3, 2], strokeWidth=1), dots)


def _delivery(found: Judgement, span: tuple[float, float]) -> list[alt.Chart]:
    scale: dict[str, Any] = {
        "scale": theme.given(domain=list(DELIVERY), nice=False, clamp=True),
        "axis": theme.given(title="delivery ratio", tickCount=5),
    }
    curve = found.curve
    records = [
        {**record, "ratio": ratio, "low": 1 - high, "high": 1 - low, "below": bool(ratio < DELIVERY[0])}
        for record, ratio, low, high in zip(points(found), curve.delivery_ratio, curve.lcl95, curve.ucl95, strict=True)
    ]
    base = _chart(records)
    x = alt.X("load:Q", scale=loads_axis(span)["scale"], axis=theme.given(title=None, labels=False, tickCount=6))
    y = alt.Y("ratio:Q", **scale)
    shape = alt.ShapeValue("circle", condition={"test": "datum.below", "value": "triangle-down"})
    dots = base.mark_point(color=BLUE, filled=True, size=40, opacity=1).encode(
        x=x, y=y, shape=shape, tooltip=theme.tooltip(**TIPS)
    )
    band = base.mark_area(color=BLUE, fillOpacity=0.2).encode(x=x, y=alt.Y("low:Q", **scale), y2="high:Q")
    return [*_level("ratio", 1 - PDR, "", GREEN, scale), band, base.mark_line(color=BLUE).encode(x=x, y=y), dots]


def _increase(found: Judgement, span: tuple[float, float]) -> list[alt.Chart]:
    scale: dict[str, Any] = {
        "scale": theme.given(domain=list(INCREASE), nice=False, clamp=True),
        "axis": theme.given(title="TIR", tickCount=5),
    }
    records = [
        {
            "load": load / 1e6, "tir": tir, "low": low, "high": high, "tip": rate_text(load), "text": f"{tir:.2f}",
            "interval": f"{low:.2f} to {high:.2f}" if np.isfinite(low) else "–",
            "beyond": "up" if tir > INCREASE[1] else "down" if tir < INCREASE[0] else "",
        }
        for load, tir, low, high in zip(found.curve.rates, found.curve.tir, found.tir_low, found.tir_high, strict=True)
        if np.isfinite(tir)
    ]  # fmt: skip
    base = _chart(records)
    y = alt.Y("tir:Q", **scale)
    tips = theme.tooltip(tip="offered", text="TIR", interval="95 % interval")
    shape = alt.Shape(
        "beyond:N", scale=theme.given(domain=["", "up", "down"], range=["circle", "triangle-up", "triangle-down"]), legend=None
    )
    dots = base.mark_point(color=BLUE, filled=True, size=40, opacity=1).encode(x=_x(span), y=y, shape=shape, tooltip=tips)
    bars = base.transform_filter("isValid(datum.low)").mark_rule(color=BLUE)
    bars = bars.encode(x=_x(span), y=alt.Y("low:Q", **scale), y2="high:Q")
    across = _level("tir", ETA, f"η = {ETA}", RED, scale, "left")
    return [*across, bars, base.mark_line(color=BLUE).encode(x=_x(span), y=y), dots]
