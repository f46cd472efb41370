# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The table on the first screen: what each system costs, one line each, under native's own figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from diolkos_lab.report.grades import half_width
from diolkos_lab.report.quantities import MINUS, NONE, THIN, TO, count, factor, percent, percent_decimals, scale
from diolkos_lab.report.ratio_words import TIMES_FROM
from diolkos_lab.report.read import Cell, Results, Row
from diolkos_lab.report.systems import HEADLINE, baseline_label, order, short_label
from diolkos_lab.report.values import Interval
from diolkos_lab.report.words import Answer, answers, carries, plainest


class Shown(NamedTuple):
    """A value with the interval or remark below it; in brackets when only untrusted trials have it."""

    value: str
    small: str = ""
    trusted: bool = True


@dataclass(frozen=True)
class Cost:
    name: str
    against: str | None  # the baseline, where it is not the usual one
    cells: list[Shown]  # one for each load in HEADLINE; precision with the trials behind it
    native: bool = False
    failed: str | None = None


HEADINGS = {"tcp-upload": "TCP up", "tcp-download": "TCP down", "ping": "Ping takes"}  # of the loads in HEADLINE


class Table(NamedTuple):
    """A line for each path; a load that the study does not have has no column."""

    headings: list[str]
    lines: list[Cost]


def table(results: Results, setting: tuple[Any, ...]) -> Table | None:
    """Of a setting: native in its own units, the other native family beside it, then every translated system."""
    lines = _lines(results, setting)
    if not lines:
        return None
    shown = [n for n in range(len(HEADLINE)) if any(line.cells and line.cells[n].value != NONE for line in lines)]
    headings = [HEADINGS[HEADLINE[n][0]] for n in shown] + ["Sure to"]
    return Table(headings, [replace(line, cells=_only(line.cells, shown)) for line in lines])


def _only(cells: list[Shown], shown: list[int]) -> list[Shown]:
    """The last one, how sure the others are, always stays."""
    return [*(cells[n] for n in shown), cells[-1]] if cells else []


def _lines(results: Results, setting: tuple[Any, ...]) -> list[Cost]:
    natives = sorted((c for c in results.cells if c.native and c.factors == setting and carries(results, c)), key=order)
    found = [_native(results, natives[0])] if natives else []
    usual = baseline_label(f"native/kernel/{natives[0].family}/{natives[0].hops}") if natives else ""
    found += [_shares(results, cell, usual) for cell in natives[1:] if cell.hops == natives[0].hops]
    return found + [
        _cost(results, a, usual) for a in answers(results) if a.cell.factors == setting and carries(results, a.cell)
    ]


def _native(results: Results, cell: Cell) -> Cost:
    """The baseline that most systems are compared with: it sets the scale for the shares below it."""
    shown = []
    for row in (_shown(results, cell, load, metric, "median") for load, metric in HEADLINE):
        if row is None or row.median is None:
            shown.append(Shown(NONE))
            continue
        unit = scale(row.metric, [row.median])
        ends = "" if row.ci95 is None else f"{unit.text(row.ci95[0])}{TO}{unit.text(row.ci95[1])}"
        shown.append(_marked(Shown(f"{unit.text(row.median)}{THIN}{unit.unit}", ends), "median" in row.untrusted))
    return Cost(short_label(cell), None, [*shown, Shown("", _trials(results, cell))], native=True)


def _cost(results: Results, answer: Answer, usual: str) -> Cost:
    if answer.failed and not any(_shown(results, answer.cell, load, metric, "ratio") for load, metric in HEADLINE):
        return Cost(short_label(answer.cell), None, [], failed=answer.cost)
    return _shares(results, answer.cell, usual)


def _shares(results: Results, cell: Cell, usual: str) -> Cost:
    """Shares of the baseline, which is named where it is not the `usual` one."""
    rows = [_shown(results, cell, load, metric, "ratio") for load, metric in HEADLINE]
    baselines = {baseline_label(row.baseline) for row in rows if row}
    against = None if baselines <= {usual} else " and ".join(f"of {name.removeprefix('native ')}" for name in sorted(baselines))
    return Cost(_name(cell), against, [*(_ratio(row) for row in rows), Shown(_sure(rows), _trials(results, cell))])


def _shown(results: Results, cell: Cell, base: str, metric: str, name: str) -> Row | None:
    """The plainest row with a trusted median or ratio (`name`), else the plainest with one of untrusted trials."""
    rows = (results.shown(cell, load, metric) for load in results.loads(base))
    trusted = plainest(results, cell, base, metric, ratio=name == "ratio")
    if trusted is not None and getattr(trusted, name) is not None:
        return trusted
    return next((row for row in rows if row and getattr(row, name) is not None), trusted)


def _sure(rows: list[Row | None]) -> str:
    ratios = [row for row in rows if row is not None and row.ratio is not None]
    doubtful = sum("ratio" in row.untrusted for row in ratios)
    if doubtful:
        return "not trusted" if doubtful == len(ratios) else "not trusted in part"
    widest = half_width(rows)
    return f"±{THIN}{percent(widest)}" if widest is not None else "no interval"


def _marked(shown: Shown, untrusted: bool) -> Shown:
    return Shown(f"({shown.value})", shown.small, trusted=False) if untrusted else shown


def _name(cell: Cell) -> str:
    """Without the hops, which the baseline beside it names."""
    return short_label(cell).split(",", maxsplit=1)[0]


def _trials(results: Results, cell: Cell) -> str:
    trials = [t for t in results.measured if t.cell == cell and not t.twin]
    used = sum(t.counts for t in trials)
    return "" if not trials else count(used, "trial") if used == len(trials) else f"{used} of {len(trials)}"


def _ratio(row: Row | None) -> Shown:
    if row is None or row.ratio is None:
        return Shown(NONE)
    return _marked(Shown(*_in_words(row.ratio, row.ratio_ci95, row.metric)), "ratio" in row.untrusted)


def _in_words(ratio: float, ci: Interval | None, metric: str) -> tuple[str, str]:
    """("97 %", "96-99 %") of a throughput; ("+2.6 %", "+1.4-3.9 %") or ("4.6 times", "4.5-4.7") of a time."""
    if metric == "throughput":
        value, _, ends = percent(ratio, ci).partition(" [")
        return value, ends.rstrip("]")
    if ratio >= TIMES_FROM:
        value, _, ends = factor(ratio, ci).partition(" [")
        return f"{value} times", ends.rstrip("]")
    decimals = percent_decimals(ratio - 1, ci, fewest=0) if ci else 1
    value, *bounds = (f"{100 * (r - 1):+.{decimals}f}".replace("-", MINUS) for r in (ratio, *(ci or ())))
    if not bounds:
        return f"{value}{THIN}%", ""
    low, high = bounds
    return f"{value}{THIN}%", f"{low}{TO}{high[1:]}{THIN}%" if low[0] == high[0] else f"{low} to {high}{THIN}%"
