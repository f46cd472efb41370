# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The published means beside this run's, as ratios to native IPv6 of the same hops."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from diolkos_lab.report import published
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, beside_published
from diolkos_lab.report.charts.beside_published import Point
from diolkos_lab.report.facts import clocksource
from diolkos_lab.report.quantities import NONE, THIN, listing
from diolkos_lab.report.read import Cell, Interval, Results, Row
from diolkos_lab.report.systems import baseline_label, label, order, short_label
from diolkos_lab.report.tables import Table, kind

TOOLS = ("tayga", "tundra", "jool")
_OURS = "this run"


def chapter(results: Results) -> Chapter:
    paragraphs = [
        f"Source: {published.SOURCE}. Its machines are not this one, so only ratios to native can be compared. Absolute "
        "figures stand beside them for reading, not for comparing.",
        _hops(results),
        "On two hosts with tsc every published path shows 0.929 Gbit/s, native too: that is the rate of their 1 Gbit/s "
        "link, so the ratio of 100 % says nothing about a translator.",
    ]
    pictures, tables = [], []
    for quantity, points, table in (
        ("throughput", throughput_points(results), throughput_table(results)),
        ("rtt", rtt_points(results), rtt_table(results)),
    ):
        axis = {"throughput": "TCP throughput", "rtt": "round-trip time"}[quantity]
        pictures.append(
            Picture(
                f"published-{quantity}",
                f"{axis[0].upper()}{axis[1:]}, published and measured here",
                "Ratio to native IPv6 of the same hops. Hollow: published (one run, no interval). Filled: this run, median "
                "with 95 % interval."
                + (" Dotted: the thesis has two native means for this cell." if quantity == "throughput" else ""),
                beside_published.alt(points),
                partial(beside_published.draw, points, f"{axis}, native = 1 (log scale)"),
            )
        )
        tables.append(table)
    return Chapter("published", "The published figures and ours", paragraphs, pictures=pictures, tables=tables)


def _hops(results: Results) -> str:
    """Who was how far from the server, there and here."""
    here = sorted((c for c in results.cells if kind(c) == "CLAT" and c.system in (*TOOLS, *_unpublished(results))), key=order)
    by_hops: dict[int, list[str]] = {}
    for cell in here:
        by_hops.setdefault(cell.hops, []).append(_tool(cell))
    ours = listing([f"{listing(list(dict.fromkeys(names)))} at {_hop_word(h)}" for h, names in sorted(by_hops.items())])
    absent = [label(Cell(t, "", "ipv4", 1)) for t in TOOLS if not any(c.system == t for c in here)]
    text = (
        "In the thesis Tayga and Tundra were one hop from the server and Jool two, so their absolute figures must not be "
        "set against each other. "
    )
    text += f"This run measured {ours}." if ours else "This run measured none of these translators."
    return text + (f" It did not measure {listing(absent)}." if absent else "")


def _unpublished(results: Results) -> list[str]:
    """Translators of this run that the thesis does not have."""
    return sorted({c.system for c in results.cells if kind(c) == "CLAT" and c.system not in TOOLS})


def _hop_word(hops: int) -> str:
    return "one hop" if hops == 1 else f"{hops} hops"


# ---- points


def throughput_points(results: Results) -> list[Point]:
    points = []
    for tool in TOOLS:
        for entry in published.THROUGHPUT:
            ends = published.throughput_ratio(entry, tool)
            if ends is not None:
                middle = (ends[0] * ends[1]) ** 0.5  # on a log axis the middle of two values
                points.append(
                    Point(_published_cell(tool), _where(entry.environment), middle, ends, ours=False, metric="throughput")
                )
        points += _ours(results, [tool], "tcp-upload", "throughput")
    return points + _ours(results, _unpublished(results), "tcp-upload", "throughput")


def rtt_points(results: Results) -> list[Point]:
    points = []
    for tool in TOOLS:
        for entry in published.RTT:
            ratio = published.rtt_ratio(entry, tool)
            if ratio is not None:
                points.append(Point(_published_cell(tool), entry.environment, ratio, None, ours=False, metric="rtt"))
        points += _ours(results, [tool], "ping", "rtt")
    return points + _ours(results, _unpublished(results), "ping", "rtt")


def _ours(results: Results, systems: list[str], load: str, metric: str) -> list[Point]:
    """This run's ratios in its plainest setting and variant of the load."""
    return [
        Point(row.cell, "this run", row.ratio, row.ratio_ci95, ours=True, metric=metric)
        for row in our_rows(results, systems, load, metric)
        if row.ratio is not None
    ]


def our_rows(results: Results, systems: list[str], load: str, metric: str) -> list[Row]:
    """Rows with a ratio to native IPv6, in the run's plainest setting and variant of the load."""
    load = next(iter(results.loads(load)), load)
    rows = [
        r
        for r in results.rows
        if r.cell.system in systems and kind(r.cell) == "CLAT" and (r.load, r.metric) == (load, metric) and r.ratio is not None
    ]
    return sorted((r for r in rows if r.cell.factors == results.settings[0]), key=lambda r: order(r.cell))


def _published_cell(tool: str) -> Cell:
    return Cell(tool, "", "ipv4", published.HOPS[tool])


def _where(environment: published.Environment) -> str:
    return f"{environment.name}, {environment.clocksource}" + (" (link full)" if environment.line_rate else "")


# ---- tables

_HEADS = ["Tool", "Where", "Hops", "Translated", "Native IPv6, same hops", "Ratio"]
_RAW_HEADS = ["tool", "where", "source", "hops", "translated", "native", "ratio", "ratio_low", "ratio_high"]


@dataclass
class _Lines:
    """A table as it grows: lines in print and lines as raw values."""

    load: str
    metric: str
    factor: float
    unit: str
    printed: list[list[str]] = field(default_factory=list)
    raw: list[list[Any]] = field(default_factory=list)

    def shown(self, value: float | None, otherwise: str = NONE) -> str:
        """With the digits the thesis gives."""
        return otherwise if value is None else f"{value * self.factor:.4g}{THIN}{self.unit}"

    def add_ours(self, results: Results, systems: list[str]) -> None:
        """This run's lines, with the absolute value of the baseline that the ratio belongs to."""
        where = f"{_OURS}, {clocksource(results.host) or 'clock unknown'}"
        for row in our_rows(results, systems, self.load, self.metric):
            native = _baseline_row(results, row)
            base = None if native is None else native.median
            ratio = beside_published.text(Point(row.cell, "", row.ratio or 0.0, row.ratio_ci95, ours=True, metric=self.metric))
            name = _tool(row.cell)
            self.printed.append([name, where, str(row.cell.hops), self.shown(row.median), self.shown(base), ratio])
            self.raw.append([name, where, _OURS, row.cell.hops, row.median, base, row.ratio, *(row.ratio_ci95 or (None, None))])

    def table(self, name: str, caption: str, unit: str) -> Table:
        heads = [f"{h} ({unit})" if h in {"translated", "native"} else h for h in _RAW_HEADS]
        ours = frozenset(i for i, line in enumerate(self.raw) if line[2] == _OURS)
        return Table(name, caption, _HEADS, self.printed, heads, self.raw, frozenset({0, 1}), ours)


def throughput_table(results: Results) -> Table:
    lines = _Lines("tcp-upload", "throughput", 1e-9, "Gbit/s")
    for tool in TOOLS:
        hops, name = published.HOPS[tool], _tool(_published_cell(tool))
        for entry in published.THROUGHPUT:
            value, native, ends = entry.translated[tool], entry.native[hops], published.throughput_ratio(entry, tool)
            where = _where(entry.environment)
            natives = " or ".join(lines.shown(n) for n in native)
            lines.printed.append(
                [name, where, str(hops), lines.shown(value, "failed"), natives, _ratio_text(ends, lines.metric)]
            )
            raw_native = " or ".join(f"{n:g}" for n in native)
            lines.raw.append([tool, where, "published", hops, value, raw_native, None, *(ends or (None, None))])
        lines.add_ours(results, [tool])
    lines.add_ours(results, _unpublished(results))
    caption = "Throughput of one TCP stream from client to server: published 30 s means, and medians of this run (bold)."
    return lines.table("published-throughput", caption, "bit/s")


def rtt_table(results: Results) -> Table:
    lines = _Lines("ping", "rtt", 1e3, "ms")
    for tool in TOOLS:
        hops, name = published.HOPS[tool], _tool(_published_cell(tool))
        for entry in published.RTT:
            value, native, ratio = entry.translated[tool], entry.native[tool], published.rtt_ratio(entry, tool)
            where, ends = entry.environment, None if ratio is None else (ratio, ratio)
            shown = lines.shown(value, "failed")
            lines.printed.append([name, where, str(hops), shown, lines.shown(native), _ratio_text(ends, lines.metric)])
            lines.raw.append([tool, where, "published", hops, value, native, ratio, None, None])
        lines.add_ours(results, [tool])
    lines.add_ours(results, _unpublished(results))
    caption = (
        "Round-trip time: published averages of 30 echoes with native from the same namespace, and medians of this run (bold)."
    )
    return lines.table("published-rtt", caption, "s")


def _baseline_row(results: Results, row: Row) -> Row | None:
    """The native row that a ratio was taken to: the baseline's, in the same setting, of the same load and metric."""
    name, want = baseline_label(row.baseline), (row.cell.factors, row.load, row.metric)
    rows = (r for r in results.rows if r.cell.native and (r.cell.factors, r.load, r.metric) == want)
    return next((r for r in rows if short_label(r.cell) == name), None)


def _tool(cell: Cell) -> str:
    """The name without the hops, which have a column of their own."""
    return short_label(cell).split(",", maxsplit=1)[0]


def _ratio_text(ends: Interval | None, metric: str) -> str:
    return (
        NONE
        if ends is None
        else beside_published.text(Point(Cell("", "", "", 1), "", ends[0], ends, ours=False, metric=metric))
    )
