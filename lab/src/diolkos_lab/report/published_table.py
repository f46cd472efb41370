# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The table of published figures and this run's: value, native, ratio."""

from __future__ import annotations

from typing import Any

from diolkos_lab.published import ratios
from diolkos_lab.published.definition import UNITS, Figure, Group, Published
from diolkos_lab.report import counterparts
from diolkos_lab.report.charts import glance
from diolkos_lab.report.facts import clocksource
from diolkos_lab.report.quantities import NONE, THIN, TO, ratio_of
from diolkos_lab.report.read import Cell, Results, Row
from diolkos_lab.report.systems import baseline_label, short_label
from diolkos_lab.report.tables import Table

OURS = "this run"
_RAW = ["system", "where", "source", "hops", "factors", "value", "value_high", "native", "ratio", "ratio_low", "ratio_high"]
_RAW += ["min", "max", "sd", "p95", "n", "sent", "loss"]


def table(results: Results, data: Published, group: Group) -> Table:
    """Published lines as they were printed; ours in the unit of the original, set bold."""
    printed: list[list[str]] = []
    raw: list[list[Any]] = []
    shown: set[str] = set()
    ours_at = f"{OURS}, {clocksource(results.host) or 'clock unknown'}"
    for system in data.system:
        figures = [figure for figure in group.figures if figure.system == system.name]
        for figure in figures:
            printed.append(_published(data, group, system.words, figure))
            raw.append(_published_raw(data, group, system.name, figure))
        rows = counterparts.counterpart_rows(results, group, system)
        for row in rows:
            printed.append(_ours(results, group, row, ours_at))
            raw.append(_ours_raw(results, group, row))
        if figures and not rows:
            reason = counterparts.absence(results, system, group)
            printed.append([system.words, ours_at, "", f"not measured: {reason}", NONE, NONE])
            raw.append([system.name, OURS, OURS, *[None] * (len(_RAW) - 3)])
        shown |= {system.name}
    for row in counterparts.others(results, data, group):
        printed.append(_ours(results, group, row, ours_at))
        raw.append(_ours_raw(results, group, row))
    native = group.ceiling.words if group.ceiling else group.native
    return Table(
        name=f"published-{group.name}",
        caption=f"{group.title}: published ({group.statistic}; {group.source}), and medians of this run (bold). Native: "
        f"{native}; of this run as it says.",
        heads=["System", "Where", "Hops", "Value", "Native", "Ratio"],
        lines=printed,
        raw_heads=_RAW,
        raw_lines=raw,
        text_columns=frozenset({0, 1}),
        strong=frozenset(number for number, line in enumerate(raw) if line[2] == OURS),
    )


def where(data: Published, figure: Figure) -> str:
    """Environment and factor levels: "AWS, hpet", "two hosts, 10 GbE, 10 connections"."""
    found = next(each for each in data.environment if each.name == figure.environment)
    levels = counterparts.in_words(figure.factors)
    return found.words + (f", {levels}" if levels else "") + (" (link full)" if found.line_rate else "")


def tool(cell: Cell) -> str:
    """The name without the hops, which have a column of their own."""
    return short_label(cell).split(",", maxsplit=1)[0]


def ratio_text(group: Group, figure: Figure) -> str:
    """A published ratio: "1.9 %", "3.6 or 5.6 %" where it has two natives, "74–81 %" where it is a range."""
    ends = ratios.ratio(group, figure)
    if ends is None:
        return "failed" if figure.failed else NONE
    share = ratio_of(group.metric)
    if ends[0] == ends[1]:
        return share(ends[0])
    unit = f"{THIN}%"
    first = share(ends[0]).removesuffix(unit) if share(ends[1]).endswith(unit) else share(ends[0])
    if first == share(ends[1]).removesuffix(unit):
        return share(ends[1])
    return f"{first} or {share(ends[1])}" if figure.value is not None else f"{first}{TO}{share(ends[1])}"


def _published(data: Published, group: Group, name: str, figure: Figure) -> list[str]:
    value = "failed" if figure.failed else _range(figure, group.unit)
    if ratios.impossible(data, group, figure, UNITS[group.unit]):
        value += " (more than the link carries)"
    below = " or ".join(_range(each, group.unit) for each in ratios.natives(group, figure))
    if not below and group.ceiling:
        below = f"{group.ceiling.value:g}{THIN}{group.unit}"
    return [name, where(data, figure), str(figure.hops), value, below or NONE, ratio_text(group, figure)]


def _range(figure: Figure, unit: str) -> str:
    if figure.ends is None:
        return NONE
    low, high = figure.ends
    return f"{low:g}{THIN}{unit}" if low == high else f"{low:g}{TO}{high:g}{THIN}{unit}"


def _published_raw(data: Published, group: Group, name: str, figure: Figure) -> list[Any]:
    factor, ends = UNITS[group.unit], figure.ends or (None, None)
    low, high = (None if end is None else end * factor for end in ends)
    natives = [each.value for each in ratios.natives(group, figure) if each.value is not None]
    below = natives or ([group.ceiling.value] if group.ceiling else [])
    known = ratios.ratio(group, figure) or (None, None)
    one = known[0] if known[0] == known[1] else None
    more = (None if v is None else v * factor for v in (figure.min, figure.max, figure.sd, figure.p95))
    return [
        *(name, where(data, figure), "published", figure.hops, counterparts.in_words(figure.factors)),
        *(low, None if high == low else high, " or ".join(f"{v * factor:g}" for v in below), one, *known),
        *(*more, figure.n, None if figure.sent is None else figure.sent * factor, figure.loss),
    ]


def _ours(results: Results, group: Group, row: Row, ours_at: str) -> list[str]:
    native = counterparts.native_row(results, row)
    levels = counterparts.levels_in_words(row, group)
    base = NONE if native is None else _shown(native, group)
    if row.baseline:
        base += f" ({baseline_label(row.baseline)})"
    at = f"{ours_at}, {levels}" if levels else ours_at
    return [tool(row.cell), at, str(row.cell.hops), _shown(row, group), base, glance.text(row)]


def _shown(row: Row, group: Group) -> str:
    """The median; in brackets where it is not trusted."""
    text = NONE if row.median is None else f"{row.median / UNITS[group.unit]:.4g}{THIN}{group.unit}"
    return f"({text})" if "median" in row.untrusted else text


def _ours_raw(results: Results, group: Group, row: Row) -> list[Any]:
    native = counterparts.native_row(results, row)
    levels = counterparts.levels_in_words(row, group)
    ends = row.ratio_ci95 or row.ratio_bounds or (None, None)
    base = None if native is None else native.median
    return [tool(row.cell), OURS, OURS, row.cell.hops, levels, row.median, None, base, row.ratio, *ends, *[None] * 7]
