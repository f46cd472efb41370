# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The table on the first screen: what each system costs, one line each, under the figures of both native families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from diolkos_lab.report.answer import CPU, PACKETS, plainest_load
from diolkos_lab.report.baselines import Against, families, more_is_better
from diolkos_lab.report.quantities import NONE, THIN, TO, count, digits, factor, percent, scale
from diolkos_lab.report.read import Cell, Results, Row
from diolkos_lab.report.systems import HEADLINE, baseline_label, load_label, order, short_label
from diolkos_lab.report.words import carries, why_nothing

NO_LOSS = "no loss seen"


class Shown(NamedTuple):
    """A value with what stands below it; in brackets when only untrusted trials have it."""

    value: str
    small: tuple[str, ...] = ()
    trusted: bool = True


@dataclass(frozen=True)
class Cost:
    name: str
    against: str | None  # the baseline, where it is not the usual one
    cells: list[Shown]  # one for each column
    native: bool = False
    failed: str | None = None


class Column(NamedTuple):
    heading: str
    row: Callable[[Results, Cell, str], Row | None]  # with a trusted median or ratio, as the last argument says


class Table(NamedTuple):
    """A line for each path; a load that the run does not have has no column."""

    headings: list[str]
    lines: list[Cost]
    packets: str  # which packet rate is shown; empty where there is none


HEADINGS = {"tcp-upload": "TCP up", "tcp-download": "TCP down", "ping": "Ping takes"}  # of the loads in HEADLINE


def table(results: Results, setting: tuple[Any, ...]) -> Table | None:
    """Of a setting: both native families in their own units, then every translated system."""
    columns = [Column(HEADINGS[base], _of(base, metric)) for base, metric in HEADLINE]
    columns.insert(2, Column("CPU per GB", _cpu))
    packets = next((load for base in PACKETS if (load := plainest_load(results, base))), None)
    if packets:
        columns.insert(3, Column("Packets/s", lambda results, cell, name: _known(results, cell, [(packets, "rate")], name)))
    cells = sorted((c for c in results.cells if c.factors == setting and carries(results, c)), key=order)
    natives = [c for c in cells if c.native]
    if not cells:
        return None
    usual = {(cell.family, cell.hops) for cell in natives[:1]}
    lines = [_native(results, cell, columns) for cell in natives if cell.hops == natives[0].hops]
    lines += [_system(results, cell, columns, usual) for cell in cells if not cell.native]
    kept = [n for n in range(len(columns)) if any(line.cells and line.cells[n].value != NONE for line in lines)]
    for line in lines:
        line.cells[:] = [*(line.cells[n] for n in kept), line.cells[-1]] if line.cells else []
    return Table([*(columns[n].heading for n in kept), "Trials"], lines, load_label(packets) if packets else "")


def _of(base: str, metric: str) -> Callable[[Results, Cell, str], Row | None]:
    return lambda results, cell, name: _known(results, cell, [(load, metric) for load in results.loads(base)], name)


def _cpu(results: Results, cell: Cell, name: str) -> Row | None:
    """Of the TCP direction that costs more."""
    each = [_known(results, cell, [(load, CPU)], name) for base, _ in HEADLINE for load in results.loads(base)[:1]]
    return max((row for row in each if row), key=lambda row: getattr(row, name), default=None)


def _known(results: Results, cell: Cell, loads: list[tuple[str, str]], name: str) -> Row | None:
    """The first row with a trusted median or ratio (`name`), else the first with one of untrusted trials."""
    rows = [row for load, metric in loads if (row := results.shown(cell, load, metric)) and getattr(row, name) is not None]
    return next((row for row in rows if name not in row.untrusted), next(iter(rows), None))


def _native(results: Results, cell: Cell, columns: list[Column]) -> Cost:
    shown = []
    for row in (column.row(results, cell, "median") for column in columns):
        if row is None or row.median is None:
            shown.append(Shown(NONE))
            continue
        unit = scale(row.metric, [row.median], row.unit)
        ends = () if row.ci95 is None else (f"{unit.text(row.ci95[0])}{TO}{unit.text(row.ci95[1])}",)
        shown.append(_marked(Shown(f"{unit.text(row.median)}{THIN}{unit.unit}", ends), "median" in row.untrusted))
    return Cost(short_label(cell), None, [*shown, Shown(_trials(results, cell))], native=True)


def _system(results: Results, cell: Cell, columns: list[Column], usual: set[tuple[str, int]]) -> Cost:
    rows = [column.row(results, cell, "ratio") for column in columns]
    if not any(rows):
        return Cost(short_label(cell), None, [], failed=why_nothing(results, cell))
    bases = {row.baseline for row in rows if row and row.baseline}
    strange = sorted(baseline_label(base) for base in bases if _path(base) not in usual)
    against = f"of {' and '.join(strange)}" if strange else None
    name = short_label(cell).split(",", maxsplit=1)[0]  # without the hops, which the baseline beside it names
    return Cost(name, against, [*(_ratio(results, row) for row in rows), Shown(_trials(results, cell))])


def _path(baseline: str) -> tuple[str, int]:
    parts = baseline.split("/")
    return (parts[2], int(parts[3])) if len(parts) == 4 and parts[3].isdigit() else ("", 0)


def _ratio(results: Results, row: Row | None) -> Shown:
    if row is None or row.ratio is None:
        return Shown(NONE)
    if "ratio" in row.untrusted:
        plain = percent(row.ratio) if more_is_better(row) else f"{digits(row.ratio)} times"
        return _marked(Shown(plain), untrusted=True)
    every = families(results, row)
    named = len(every) > 1
    return Shown(_value(row, every[0]), tuple(_small(row, each, named) for each in every))


def _value(row: Row, each: Against) -> str:
    """More than native is no gain by translation, but no loss that can be seen."""
    if not more_is_better(row):
        return f"{factor(each.ratio, each.ci).partition(' [')[0]} times"
    return NO_LOSS if each.ratio > 1 else percent(each.ratio, each.ci).partition(" [")[0]


def _small(row: Row, each: Against, named: bool) -> str:
    """ "IPv6: 102 [97–108 %]" """
    shown = percent if more_is_better(row) else factor
    text = shown(each.ratio, each.ci)
    if each.ci and more_is_better(row):
        text = text.replace(f"{THIN}% [", " [")
    if not named and not (more_is_better(row) and each.ratio > 1):  # the large figure says the rest
        text = text.partition(" [")[2].removesuffix("]") or "no interval"
    return f"{each.family}: {text}" if named else text


def _marked(shown: Shown, untrusted: bool) -> Shown:
    return Shown(f"({shown.value})", shown.small, trusted=False) if untrusted else shown


def _trials(results: Results, cell: Cell) -> str:
    trials = [t for t in results.measured if t.cell == cell and not t.twin]
    used = sum(t.counts for t in trials)
    return "" if not trials else count(used, "trial") if used == len(trials) else f"{used} of {len(trials)}"
