# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`compare` for this study: two runs' gaps and kept flows, fault by fault.

Stages: same study, traffic and faults? → the trials that decide, by fault, gateways and host → differences → table, JSON.

Which figures are compared does not depend on what they are. Trials of two runs have nothing in common, not even with the same
seed, so they are not paired: the test is that of other studies (Mann-Whitney, p corrected for the number of figures).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich import table as rich_table
from rich.console import Console
from rich.markup import escape

from diolkos_lab.comparing import facts_in_words
from diolkos_lab.failover import judge, report
from diolkos_lab.failover.definition import Quantity
from diolkos_lab.failover.judge import Row
from diolkos_lab.failover.records import Records
from diolkos_lab.faults import UsageFault
from diolkos_lab.report.tables import Table
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.stats import differences
from diolkos_lab.stats.comparison import FEWEST
from diolkos_lab.stats.differences import Difference

QUANTITIES: tuple[Quantity, ...] = ("kept_share", "gap_s", "call_gap_s", "new_flows_s", "downloads_share")
BETTER: dict[str, str] = {"kept_share": "higher", "downloads_share": "higher"}  # of the others, less is better


@dataclass(frozen=True)
class Side:
    """One run: what the trials that decide measured, and how many decide nothing."""

    values: tuple[float, ...]
    disturbed: int

    @property
    def median(self) -> float | None:
        return median(self.values) if self.values else None


@dataclass(frozen=True)
class Compared:
    """A figure of both runs. Without a difference, too few trials decide."""

    fault: str
    gateways: str
    quantity: str
    first: Side
    second: Side
    difference: Difference | None


@dataclass(frozen=True)
class Comparison:
    """All figures that both runs have, and in what their hosts differ."""

    study: str
    figures: Sequence[Compared]
    facts: Mapping[str, tuple[Any, Any]]

    @property
    def sentence(self) -> str:
        """How many of them are more than chance."""
        tested = [each.difference for each in self.figures if each.difference]
        few = len(self.figures) - len(tested)
        said = []
        if tested:
            changed = sum(each.significant for each in tested)
            said.append(f"{changed} of {len(tested)} figures changed by more than chance explains (5 % level).")
        if few:
            said.append(
                f"Of {few} figures, nothing can be said: fewer than {FEWEST} trials decide in one of the runs; "
                "more repetitions, or runs that `diolkos-lab merge` puts together, have more."
            )
        return " ".join(said)


def compare(places: tuple[Path | str, Path | str], first: Records, second: Records) -> Comparison:
    """Raises UsageFault for runs that measured something else."""
    _require_comparable(places, first, second)
    hosts = _pairs(places, first, second)
    before, after = report.groups(first.rows), report.groups(second.rows)
    common = [key for key in before if key in after]
    if not common:
        raise UsageFault(f"{places[0]} and {places[1]} have no fault and kind of gateway in common: they cannot be compared")
    named = [(key, quantity) for key in common for quantity in QUANTITIES if _both(before[key], after[key], quantity)]
    strata = [
        [(_values(first, before[key], quantity, one), _values(second, after[key], quantity, two)) for one, two in hosts]
        for key, quantity in named
    ]
    found = differences.corrected([differences.difference(each) for each in strata])
    figures = [
        Compared(*key, quantity, _side(of_hosts, 0, before[key]), _side(of_hosts, 1, after[key]), each)
        for (key, quantity), of_hosts, each in zip(named, strata, found, strict=True)
    ]
    return Comparison(first.study.name, figures, samples_folder.differing(first.host, second.host))


def table(found: Comparison) -> Table:
    """As printed and as CSV."""
    lines, raw, strong = [], [], set()
    for number, each in enumerate(found.figures):
        write = report.WRITTEN[each.quantity]
        sides = [f"{report.figure(side.values, write)} · {_trials(side)}" for side in (each.first, each.second)]
        change = _change(each.difference, each.quantity)
        p = f"{each.difference.p:.3f}" if each.difference else "–"
        lines.append([each.fault, each.gateways, report.HEADINGS[each.quantity], *sides, change, p])
        raw.append([
            each.fault, each.gateways, each.quantity,
            each.first.median, len(each.first.values), each.first.disturbed,
            each.second.median, len(each.second.values), each.second.disturbed,
            *((each.difference.value, *each.difference.ci95, each.difference.p) if each.difference else (None,) * 4),
        ])  # fmt: skip
        if each.difference and each.difference.significant:
            strong.add(number)
    return Table(
        name="changes",
        caption="Second run minus first; median (least–most) · trials that decide + those that do not; p is corrected for the "
        "number of figures; –: too few trials",
        heads=["Fault", "Gateways", "Figure", "First", "Second", "Change [95 % interval]", "p"],
        lines=lines,
        raw_heads=[
            "fault",
            "gateways",
            "quantity",
            "first",
            "first_trials",
            "first_decide_nothing",
            "second",
            "second_trials",
            "second_decide_nothing",
            "change",
            "ci95_low",
            "ci95_high",
            "p",
        ],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 2}),
        strong=frozenset(strong),
    )


def show(console: Console, found: Comparison) -> None:
    """On the terminal."""
    for differs in facts_in_words(found.facts):
        console.print(f"[yellow]host differs[/] {escape(differs)}")
    of = table(found)
    shown = rich_table.Table(caption=of.caption)
    for number, heading in enumerate(of.heads):
        shown.add_column(heading.lower(), justify="left" if number in of.text_columns else "right")
    for number, line in enumerate(of.lines):
        shown.add_row(*map(escape, line), style="bold" if number in of.strong else "")
    console.print(shown)
    console.print(found.sentence)


def document(folders: tuple[Path, Path], found: Comparison) -> dict[str, Any]:
    """Of `compare --json`."""
    return {
        "study": found.study,
        "first": str(folders[0]),
        "second": str(folders[1]),
        "host_differences": [{"fact": name, "first": one, "second": two} for name, (one, two) in found.facts.items()],
        "changes": [_entry(each) for each in found.figures],
    }


def _require_comparable(places: tuple[Path | str, Path | str], first: Records, second: Records) -> None:
    one, two = first.study, second.study
    if one.name != two.name:
        raise UsageFault(f"{places[0]} holds the study {one.name}, {places[1]} the study {two.name}: they cannot be compared")
    plans = [{each.name: each for each in study.fault} for study in (one, two)]
    differs = {
        "bfd": one.bfd != two.bfd,
        "traffic": first.traffic != second.traffic,
        **{f"fault {name}": plan != plans[1].get(name, plan) for name, plan in plans[0].items()},
    }
    if name := next((name for name, yes in differs.items() if yes), None):
        raise UsageFault(
            f"`{name}` differs between {places[0]} and {places[1]}, so a change would not be one of the gateways: "
            "compare runs of one study and form"
        )


def _pairs(places: tuple[Path | str, Path | str], first: Records, second: Records) -> list[tuple[str, str]]:
    """The hosts that are compared. Two runs of one host each are, whatever their hosts; several hosts each with itself."""
    before, after = (list(dict.fromkeys(_host(of, row) for row in of.rows)) for of in (first, second))
    if len(before) <= 1 and len(after) <= 1:
        return [("".join(before), "".join(after))]
    both = [(host, host) for host in before if host in after]
    if not both:
        raise UsageFault(
            f"{places[0]} ({', '.join(before)}) and {places[1]} ({', '.join(after)}) have no host in common, and hosts "
            "differ by themselves: compare runs of the same hosts"
        )
    return both


def _host(of: Records, row: Row) -> str:
    """Rows of a single run do not name it."""
    hosts = {run["run"]: str(run["host"]) for run in of.merged}
    return hosts.get(str(row.get("run")), str(of.host.get("hostname") or ""))


def _both(before: Sequence[Row], after: Sequence[Row], quantity: str) -> bool:
    """Have both runs measured it, or might they have?"""
    return all(any(judge.is_disturbed(row) or judge.is_measured(row, quantity) for row in rows) for rows in (before, after))


def _values(of: Records, rows: Sequence[Row], quantity: str, host: str) -> list[float]:
    return judge.figures([row for row in rows if _host(of, row) == host], quantity)


def _side(strata: Sequence[tuple[list[float], list[float]]], which: int, rows: Sequence[Row]) -> Side:
    values = tuple(value for pair in strata for value in pair[which])
    return Side(values, sum(judge.is_disturbed(row) for row in rows))


def _trials(side: Side) -> str:
    return str(len(side.values)) + (f" + {side.disturbed}" if side.disturbed else "")


def _change(found: Difference | None, quantity: str) -> str:
    if not found:
        return "–"
    value, low, high = (_signed(each, quantity) for each in (found.value, *found.ci95))
    return f"{value} [{low}, {high}]"


def _signed(value: float, quantity: str) -> str:
    if not math.isfinite(value):
        return "never" if value > 0 else "no longer never"
    share = quantity.endswith("_share")
    return f"{100 * value:+.3f} points" if share else f"{value:+.3f} s"


def _entry(each: Compared) -> dict[str, Any]:
    found = each.difference
    return {
        "fault": each.fault,
        "gateways": each.gateways,
        "quantity": each.quantity,
        "unit": "ratio" if each.quantity.endswith("_share") else "s",
        "better": BETTER.get(each.quantity, "lower"),
        "first": _finite(each.first.median),
        "second": _finite(each.second.median),
        "first_trials": len(each.first.values),
        "second_trials": len(each.second.values),
        "first_decide_nothing": each.first.disturbed,
        "second_decide_nothing": each.second.disturbed,
        "difference": _finite(found.value) if found else None,
        "ci95": [_finite(end) for end in found.ci95] if found else None,
        "p": found.p if found else None,
        "significant": found.significant if found else None,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
