# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A load–loss curve on one sheet: loss ratio, delivery ratio, throughput increase ratio, and the verdict with its reason.

The first two panels are those of the paper (see `curve`): the loss ratio on a logarithmic axis with its upper confidence
band and the normalised interval, and the delivery ratio. The third, TIR with its interval, shows what the verdict rests on.
The floor of the loss ratio is one of the picture only; no number is made from it.
"""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from diolkos_lab.curve.crossing import PDR
from diolkos_lab.curve.judge import GOOD, Judgement, rate_text, reason
from diolkos_lab.curve.saturation import ETA, RULES
from diolkos_lab.report.pictures.style import GROUND, SHADE, SOFT, Layout
from diolkos_lab.report.systems import INK

BLUE, ORANGE, GREEN, RED = "#0067a5", "#b97e00", "#008a63", "#d04f00"
FLOOR = 1e-6  # no trial of reasonable length tells smaller ratios apart
LOWEST = 3e-7  # end of the axis, so that the floor does not lie on it
WIDEST = 2.0  # end of the axis of the normalised interval
DELIVERY = (0.7, 1.01)
INCREASE = (-0.35, 1.25)
BENT = 40  # points of a bent line between two loads
LINE = 0.14  # inches of a line of the head
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def draw(found: Judgement, title: str, rule: str, layout: Layout) -> Figure:
    """`title` names the experiment; `rule` is the one whose verdict stands at the top."""
    head = _head(found, title, rule, layout)
    drawn, (loss, delivery, increase) = _sheet(layout, 0.12 + LINE * len(head))
    _write(drawn, head, found.verdict[rule])
    mega = found.curve.rates / 1e6
    saturated = found.saturation[rule]
    beside = loss.twinx()
    loss.set_zorder(beside.get_zorder() + 1)  # the loss lies over the interval
    for ax in (beside, delivery, increase):
        _frame(ax, mega)
        if saturated is not None:
            ax.axvspan(mega[saturated], ax.get_xlim()[1], color=SHADE, linewidth=0, zorder=0)
        if found.pdr.rate is not None:
            ax.axvline(found.pdr.rate / 1e6, color=GREEN, linewidth=1, zorder=1.5)
    _width(beside, found, mega)
    _loss(loss, found, mega, saturated)
    _delivery(delivery, found, mega)
    _increase(increase, found, mega)
    for ax in (loss, increase):
        ax.set_xlabel("offered load, Mpps")
    return drawn


def _head(found: Judgement, title: str, rule: str, layout: Layout) -> list[tuple[str, dict[str, object]]]:
    """Lines above the panels: title; verdict with its rule, and the rules that say something else; reason."""
    verdict = found.verdict[rule]
    others = [f"{name}: {said}" for name, said in found.verdict.items() if said != verdict]
    by_rule = f"Rule {rule} ({RULES[rule].words}): {verdict}."
    by_rule += f" The verdict depends on the rule: {', '.join(others)}." if others else ""
    titles = wrap(title, 92 if layout.wide else 46)
    texts = [(text, colour) for text, colour in ((by_rule, SOFT), (reason(found, RULES[rule]), INK))]
    lines = [(line, {"fontsize": 9, "fontweight": "bold", "color": INK}) for line in titles]
    columns = 140 if layout.wide else 70
    return lines + [(line, {"fontsize": 7.4, "color": colour}) for text, colour in texts for line in wrap(text, columns)]


def _sheet(layout: Layout, head: float) -> tuple[Figure, list[Axes]]:
    """Panels at fixed places below a head of `head` inches. What their labels need is known; looking for it takes time."""
    panels, foot = (3.1, 0.42) if layout.wide else (6.1, 0.42)
    height = head + panels + foot
    drawn = Figure(figsize=(layout.width, height))
    FigureCanvasAgg(drawn)

    def place(x: float, bottom: float, width: float, tall: float) -> Axes:
        return drawn.add_axes((x, (foot + bottom) / height, width, tall / height))

    if layout.wide:
        return drawn, [place(0.098, 0, 0.375, 3.0), place(0.605, 1.58, 0.385, 1.42), place(0.605, 0, 0.385, 1.42)]
    return drawn, [place(0.175, 3.4, 0.66, 2.6), place(0.175, 1.55, 0.66, 1.35), place(0.175, 0, 0.66, 1.35)]


def _write(drawn: Figure, head: list[tuple[str, dict[str, Any]]], verdict: str) -> None:
    inch = 1 / drawn.get_figheight()
    x = 0.09 / drawn.get_figwidth()
    for number, (line, look) in enumerate(head):
        drawn.text(x, 1 - (0.16 + LINE * number) * inch, line, va="center", **look)
    colour = verdict_colour(verdict)
    badge = {"boxstyle": "round,pad=0.25", "facecolor": "none", "edgecolor": colour, "linewidth": 1}
    drawn.text(
        1 - x, 1 - 0.17 * inch, verdict, fontsize=9.5, fontweight="bold", color=colour, ha="right", va="center", bbox=badge
    )


def verdict_colour(verdict: str) -> str:
    return GREEN if verdict == GOOD else RED


def _frame(ax: Axes, mega: np.ndarray) -> None:
    room = 0.04 * max(float(np.ptp(mega)), 0.1 * float(mega[-1]))
    ax.set_xlim(mega[0] - room, mega[-1] + room)
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.grid(axis="y")
    ax.tick_params(labelsize=7.8)


def _width(ax: Axes, found: Judgement, mega: np.ndarray) -> None:
    """The normalised interval, on the axis beside the loss."""
    ax.spines["right"].set_visible(True)
    ax.grid(False)
    ax.set_ylim(0, WIDEST)
    ax.set_yticks((0, 0.5, 1, 1.5, 2))
    ax.set_ylabel("ΔUCL95 = (UCL95 − PLR) / PLR", color=ORANGE)
    widths = found.curve.delta_ucl95
    dashes = (0, (2, 1.5))
    ax.plot(mega, np.minimum(widths, WIDEST), color=ORANGE, linewidth=0.9, linestyle=dashes, marker=".", markersize=4)
    beyond = widths > WIDEST
    ax.plot(mega[beyond], np.full(beyond.sum(), WIDEST), "^", color=ORANGE, markersize=4, clip_on=False)


def loss_axis(ax: Axes) -> None:
    """The logarithmic axis of a loss ratio, whose lowest mark stands for all that lies below it."""
    ax.set_yscale("log")
    ax.set_ylim(LOWEST, 1)
    names = [f"10{power}".translate(SUPERSCRIPT).replace("¹⁰", "10", 1) for power in range(-6, 0)]
    ax.yaxis.set_major_locator(FixedLocator([10.0**power for power in range(-6, 1)]))
    ax.yaxis.set_major_formatter(FixedFormatter(["≤ " + names[0], *names[1:], "1"]))
    ax.yaxis.set_minor_locator(NullLocator())


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


def _loss(ax: Axes, found: Judgement, mega: np.ndarray, saturated: int | None) -> None:
    shown = np.maximum(found.curve.plr, FLOOR)
    _frame(ax, mega)
    loss_axis(ax)
    ax.set_ylabel("packet loss ratio", color=BLUE)

    ax.axhline(PDR, color=GREEN, linewidth=1, linestyle=(0, (4, 2)), zorder=1.5)
    along, line, edge = along_the_loads(found)
    ax.fill_between(along, line, edge, color=BLUE, alpha=0.2, linewidth=0, zorder=2)
    ax.plot(along, line, color=BLUE, zorder=3)
    ax.plot(mega, shown, "o", color=BLUE, markersize=4, zorder=3)
    _note(ax, ax.get_xlim()[1], PDR, "0.5 %", GREEN, (-2, -2), "right", "top")
    if found.pdr.rate is not None:
        right = found.pdr.rate / 1e6 > np.mean(ax.get_xlim())
        text = f"PDR@0.5 %\n{rate_text(found.pdr.rate)}"
        if found.pdr_ci95 and np.isfinite(found.pdr_ci95).all():
            text += f"\n({rate_text(*found.pdr_ci95)})"
        _note(ax, found.pdr.rate / 1e6, 1, text, GREEN, (-3 if right else 3, -3), "right" if right else "left", "top")
    else:
        _note(ax, ax.get_xlim()[0], 1, "PDR@0.5 % is not bracketed", GREEN, (4, -3), "left", "top")
    if saturated is not None:
        _note(ax, ax.get_xlim()[1], LOWEST, "saturated", SOFT, (-2, 3), "right", "bottom")
        ax.plot(
            mega[saturated],
            shown[saturated],
            "o",
            color=GROUND,
            markeredgecolor=RED,
            markeredgewidth=1.4,
            markersize=6.5,
            zorder=4,
        )


def _delivery(ax: Axes, found: Judgement, mega: np.ndarray) -> None:
    ratio = found.curve.delivery_ratio
    ax.set_ylim(*DELIVERY)
    ax.set_ylabel("delivery ratio")
    ax.axhline(1 - PDR, color=GREEN, linewidth=1, linestyle=(0, (4, 2)), zorder=1.5)
    ax.fill_between(mega, 1 - found.curve.ucl95, 1 - found.curve.lcl95, color=BLUE, alpha=0.2, linewidth=0, zorder=2)
    ax.plot(mega, ratio, color=BLUE, marker="o", markersize=3.4, zorder=3)
    below = ratio < DELIVERY[0]
    ax.plot(mega[below], np.full(below.sum(), DELIVERY[0]), "v", color=BLUE, markersize=4.5, clip_on=False, zorder=3)
    _note(ax, ax.get_xlim()[1], 1 - PDR, "99.5 %", GREEN, (-2, -2), "right", "top")
    ax.tick_params(labelbottom=False)


def _increase(ax: Axes, found: Judgement, mega: np.ndarray) -> None:
    tir = found.curve.tir
    ax.set_ylim(*INCREASE)
    ax.set_ylabel("TIR")
    ax.axhline(ETA, color=RED, linewidth=1, linestyle=(0, (4, 2)), zorder=1.5)
    inside = np.clip(tir, *INCREASE)
    known = np.isfinite(found.tir_low) & np.isfinite(tir)
    for beyond, end, marker in ((tir > INCREASE[1], INCREASE[1], "^"), (tir < INCREASE[0], INCREASE[0], "v")):
        ax.plot(mega[beyond], np.full(beyond.sum(), end), marker, color=BLUE, markersize=4.5, clip_on=False, zorder=3)
    bars = np.maximum([tir - found.tir_low, found.tir_high - tir], 0)[:, known]
    if known.any():
        ax.errorbar(mega[known], tir[known], bars, fmt="none", ecolor=BLUE, elinewidth=1, capsize=2, zorder=2)
    ax.plot(mega, inside, color=BLUE, marker="o", markersize=3.4, zorder=3)
    _note(ax, ax.get_xlim()[0], ETA, f"η = {ETA}", RED, (4, 2), "left", "bottom")


def _note(ax: Axes, x: float, y: float, text: str, colour: str, offset: tuple[float, float], ha: str, va: str) -> None:
    ax.annotate(
        text,
        (x, y),
        xytext=offset,
        textcoords="offset points",
        fontsize=7.2,
        color=colour,
        ha=ha,
        va=va,
        annotation_clip=False,
        zorder=5,
    )
