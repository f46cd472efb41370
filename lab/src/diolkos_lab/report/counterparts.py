# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which rows of this run belong beside which published figures, and why one has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diolkos_lab.published import ratios
from diolkos_lab.published.definition import Group, Published, System
from diolkos_lab.report.factors import plain
from diolkos_lab.report.read import Results, Row
from diolkos_lab.report.systems import baseline_label, order, short_label, variant
from diolkos_lab.report.tables import kind
from diolkos_lab.report.values import natural

Levels = dict[str, str]
WORDS = {"streams": ("connection", "connections"), "rules": ("rule", "rules")}  # of factors that are counts


def counterpart_rows(results: Results, group: Group, system: System) -> list[Row]:
    """Rows of the system's counterparts, for the factor levels that were published."""
    mine = [row for row in _rows(results, group) if _is(row, system)]
    return [row for row in mine if _published(group, system, levels(row, group))]


def others(results: Results, data: Published, group: Group) -> list[Row]:
    """Rows of systems that the original does not have, of the kinds that belong beside its own."""
    rows = [row for row in _rows(results, group) if not any(_is(row, each) for each in data.system)]
    if group.also is not None:
        return [row for row in rows if row.cell.system in group.also]
    return [row for row in rows if not data.kinds or kind(row.cell) in data.kinds]


def absence(results: Results, system: System, *groups: Group) -> str:
    """Why this run has nothing to set beside a system."""
    if system.absent:
        return system.absent
    for entry in results.missing:
        if any(_names(name, str(entry.get("system")), str(entry.get("datapath") or "")) for name in system.counterparts):
            return str(entry.get("reason") or "reason not recorded").rstrip(".")
    if not any(row.load.startswith(group.load) for group in groups for row in results.rows):
        return "this run has no such load"
    if any(_names(name, c.system, c.datapath) for name in system.counterparts for c in results.cells):
        return "it has no usable figure of this load"
    return "this form of the study leaves it out"


def levels(row: Row, group: Group) -> Levels:
    """The row's levels of the factors that the published figures name, in their order."""
    named = dict.fromkeys(name for figure in group.figures for name in figure.factors)
    return {name: level for name in named if (level := _level(row, name))}


def levels_in_words(row: Row, group: Group) -> str:
    """The row's levels in words: those that were published first, then the others that tell its cell apart."""
    found = levels(row, group)
    return in_words(found | {name: level for name, level in row.cell.factors if name not in found})


def in_words(factors: Levels | dict[str, Any]) -> str:
    """ "10 connections", "place client, 10 to 1000 rules"."""
    return ", ".join(_factor(name, value) for name, value in factors.items())


def native_row(results: Results, row: Row) -> Row | None:
    """The native row that a ratio was taken to. A native path may lack factors that the system has."""
    name = baseline_label(row.baseline)
    mine = [r for r in results.rows if r.cell.native and r.metric == row.metric and short_label(r.cell) == name]
    alike = [r for r in mine if r.load == row.load] or [r for r in mine if _base(r) == _base(row)]
    found = next((r for r in alike if r.cell.factors == row.cell.factors), next(iter(alike), None))
    return None if found is None else results.shown(found.cell, found.load, found.metric)


# ---- parts


def _rows(results: Results, group: Group) -> list[Row]:
    """One row for each path and level of the published factors: in all else the plainest setting and variant."""
    rows = [row for row in results.rows if (_base(row), row.metric) == (group.load, group.metric)]
    rows = [row for row in rows if not row.cell.native and group.family in (None, row.cell.family)]
    rows = [row for row in rows if all(ratios.covers(level, _level(row, name) or level) for name, level in group.where.items())]
    shown = [found for row in rows if (found := results.shown(row.cell, row.load, row.metric))]
    chosen: dict[tuple[Any, ...], Row] = {}
    for row in sorted(shown, key=lambda r: (order(r.cell), natural(r.load))):
        cell = row.cell
        path = (cell.system, cell.datapath, cell.family, cell.hops, *levels(row, group).items())
        if row.ratio is not None or row.ratio_bounds is not None:
            chosen.setdefault(path, row)
    return sorted(chosen.values(), key=lambda r: (order(r.cell)[1:], natural(tuple(levels(r, group).items()))))


def _level(row: Row, name: str) -> str:
    """Empty where the row does not have the factor."""
    value = (dict(row.cell.factors) | variant(row.load)).get(name, row.raw.get(name))
    return "" if value is None else plain(value)


def _published(group: Group, system: System, found: Levels) -> bool:
    """Whether some figure of the system was published for these levels."""
    figures = [figure for figure in group.figures if figure.system == system.name]
    return any(
        all(ratios.covers(level, found[name]) for name, level in figure.factors.items() if name in found) for figure in figures
    )


def _is(row: Row, system: System) -> bool:
    return any(_names(name, row.cell.system, row.cell.datapath) for name in system.counterparts)


def _names(counterpart: str, system: str, datapath: str) -> bool:
    return counterpart in (system, f"{system}/{datapath}")


def _base(row: Row) -> str:
    return row.load.split(" ", maxsplit=1)[0]


def _factor(name: str, value: object) -> str:
    every: Sequence[object] = value if isinstance(value, tuple) else (value,)
    one, many = WORDS.get(name, ("", ""))
    text = f"{every[0]} to {every[-1]}" if many and len(every) > 1 else " or ".join(map(str, every))
    return f"{text} {one if text == '1' else many}" if many else f"{name} {text}"
