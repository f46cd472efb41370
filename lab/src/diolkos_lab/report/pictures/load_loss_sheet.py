# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Several load–loss curves on one sheet: what each loses, what each delivers, and its PDR and verdict below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from diolkos_lab.curve.crossing import PDR
from diolkos_lab.curve.judge import Judgement, rate_text
from diolkos_lab.report.pictures.load_loss import FLOOR, along_the_loads, loss_axis, verdict_colour
from diolkos_lab.report.pictures.style import SOFT, Layout
from diolkos_lab.report.systems import INK, Look

ROW = 0.17  # inches of a line of the table below
FAR = 5.0  # times the lowest load that the highest is, from which on loads are drawn on a logarithmic axis
TICKS = (1, 2, 5)


@dataclass(frozen=True)
class Entry:
    """One curve of the sheet."""

    name: str
    found: Judgement
    look: Look
    trusted: bool = True  # guards object to none of what it rests on


def draw(entries: Sequence[Entry], rule: str, layout: Layout) -> Figure:
    drawn, loss, throughput, table = _sheet(layout, len(entries))
    ends = [end for entry in entries for end in entry.found.curve.rates[[0, -1]] / 1e6]
    far = max(ends) > FAR * min(ends)
    room = 0.03 * (max(ends) - min(ends)) or 0.05 * max(ends)
    left, right = (min(ends) / 1.1, max(ends) * 1.1) if far else (min(ends) - room, max(ends) + room)
    for ax in (loss, throughput):
        if far:
            _logarithmic(ax.xaxis)
        else:
            ax.xaxis.set_major_locator(MaxNLocator(6))
        ax.set_xlim(left, right)
        ax.set_xlabel("offered load, Mpps")
        ax.tick_params(labelsize=7.8)
        ax.grid(axis="y")
    loss_axis(loss)
    loss.set_ylabel("packet loss ratio")
    loss.axhline(PDR, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1.5)
    loss.annotate(
        "0.5 %",
        (1, PDR),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2),
        textcoords="offset points",
        fontsize=7.2,
        ha="right",
    )
    throughput.set_ylabel("delivered, Mpps")
    throughput.plot((left, right), (left, right), color=SOFT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    for entry in entries:
        _curve(loss, throughput, entry)
    highest = max(float((entry.found.curve.throughput / 1e6).max()) for entry in entries)
    if far:
        _logarithmic(throughput.yaxis)
        throughput.set_ylim(min(float((entry.found.curve.throughput / 1e6).min()) for entry in entries) / 1.3, 1.3 * highest)
    else:
        throughput.set_ylim(0, 1.08 * highest)
    _table(table, entries, rule, layout)
    return drawn


def _logarithmic(axis: Axis) -> None:
    """Loads far from one another, as those of a translator in the kernel and of one in user space: equal ratios, equal ways."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})  # type: ignore[attr-defined]  # not in the stubs of matplotlib
    axis.set_major_locator(LogLocator(subs=TICKS))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _sheet(layout: Layout, rows: int) -> tuple[Figure, Axes, Axes, Axes]:
    panel, between, foot = 2.7, 0.5, ROW * (rows + 1) + 0.22
    height = 0.1 + panel + between + foot + (0 if layout.wide else panel + between)
    drawn = Figure(figsize=(layout.width, height))
    FigureCanvasAgg(drawn)

    def place(left: float, width: float, bottom: float, tall: float) -> Axes:
        return drawn.add_axes((left / layout.width, bottom / height, width / layout.width, tall / height))

    low = foot + between - 0.1
    if layout.wide:
        loss, throughput = place(0.68, 2.9, low, panel), place(4.24, 2.88, low, panel)
    else:
        loss, throughput = place(0.68, 2.99, low + panel + between, panel), place(0.68, 2.99, low, panel)
    table = place(0, layout.width, 0, foot)
    table.axis("off")
    table.set_xlim(0, layout.width)
    table.set_ylim(foot, 0)
    return drawn, loss, throughput, table


def _curve(loss: Axes, throughput: Axes, entry: Entry) -> None:
    found, look = entry.found, entry.look
    curve, mega = found.curve, found.curve.rates / 1e6
    along, line, edge = along_the_loads(found)
    loss.fill_between(along, line, edge, color=look.light, alpha=0.18, linewidth=0, zorder=2)
    loss.plot(along, line, color=look.light, zorder=3)
    loss.plot(mega, np.maximum(curve.plr, FLOOR), look.marker, color=look.light, markersize=4, zorder=3)
    if found.pdr.rate is not None:
        loss.plot(found.pdr.rate / 1e6, PDR, "|", color=look.light, markersize=14, markeredgewidth=1.6, zorder=4)
    delivered, half = curve.throughput / 1e6, np.nan_to_num(curve.half_width) * mega
    throughput.fill_between(mega, delivered - half, delivered + half, color=look.light, alpha=0.18, linewidth=0, zorder=2)
    throughput.plot(mega, delivered, color=look.light, marker=look.marker, markersize=4, zorder=3)


def _table(ax: Axes, entries: Sequence[Entry], rule: str, layout: Layout) -> None:
    """One line per curve: its mark, its name, PDR with interval, verdict."""
    verdict_at = layout.width - 0.1
    pdr_at, letters = (layout.width - 2.35, 84) if layout.wide else (layout.width - 1.35, 34)
    ax.text(pdr_at, 0.1, "PDR@0.5 % (95 % interval)" if layout.wide else "PDR@0.5 %", fontsize=7.2, color=SOFT, va="center")
    ax.text(verdict_at, 0.1, f"rule {rule}", fontsize=7.2, color=SOFT, va="center", ha="right")
    for number, entry in enumerate(entries, start=1):
        y, found = 0.1 + ROW * number, entry.found
        ax.plot((0.1, 0.4), (y, y), color=entry.look.light)
        ax.plot(0.25, y, entry.look.marker, color=entry.look.light, markersize=4)
        name = entry.name if len(entry.name) <= letters else f"{entry.name[: letters - 1]}…"
        ax.text(0.48, y, name, fontsize=7.6, va="center")
        ax.text(pdr_at, y, _pdr(found, layout), fontsize=7.6, va="center")
        verdict = found.verdict[rule]
        colour = verdict_colour(verdict) if entry.trusted else SOFT
        words = verdict if entry.trusted else f"({verdict})"
        ax.text(verdict_at, y, words, fontsize=7.6, fontweight="bold", color=colour, va="center", ha="right")


def _pdr(found: Judgement, layout: Layout) -> str:
    if found.pdr.rate is None:
        end, sign = (found.pdr.above, "<") if found.pdr.above is not None else (found.pdr.below, ">")
        return f"{sign} {rate_text(end)}, not bracketed" if end and layout.wide else "not bracketed"
    if not layout.wide or found.pdr_ci95 is None or not np.isfinite(found.pdr_ci95).all():
        return rate_text(found.pdr.rate)
    return f"{rate_text(found.pdr.rate)} ({rate_text(*found.pdr_ci95)})"
