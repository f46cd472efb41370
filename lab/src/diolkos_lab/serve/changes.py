# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two runs on one page: what changed, by the same code as `diolkos-lab compare`, and in what the hosts differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diolkos_lab import comparing
from diolkos_lab.failover import comparing as failovers
from diolkos_lab.faults import UsageFault
from diolkos_lab.metric import METRICS
from diolkos_lab.report import facts
from diolkos_lab.report.charts import Picture, rows
from diolkos_lab.report.quantities import digits, factor
from diolkos_lab.report.systems import look
from diolkos_lab.report.tables import Table
from diolkos_lab.samples import contents
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.samples.folder import AnyResult, FailoverResult
from diolkos_lab.serve import figures
from diolkos_lab.serve.figures import FigureName
from diolkos_lab.serve.index import Index
from diolkos_lab.serve.run_details import Run, short
from diolkos_lab.stats.comparison import Change

MOST_BYTES = 256 * 1024 * 1024  # of a file of samples
MOST_FACTS = 60
FAR = 3  # a change by more than this, or to less than its inverse


@dataclass(frozen=True)
class Comparison:
    first: Run
    second: Run
    changes: Sequence[tuple[FigureName, Change]]
    differing: Sequence[tuple[str, str, str]]  # a fact, in the first and in the second run

    @property
    def sentence(self) -> str:
        return comparing.in_words([change for _, change in self.changes])

    @property
    def varying(self) -> frozenset[str]:
        return figures.varying(name for name, _ in self.changes)


@dataclass(frozen=True)
class ComparisonOfFailovers:
    """The same of two runs of the study `failover`, which has no systems side by side and figures of its own."""

    first: Run
    second: Run
    found: failovers.Comparison

    @property
    def sentence(self) -> str:
        return self.found.sentence

    @property
    def changes(self) -> Sequence[failovers.Compared]:
        return self.found.figures

    @property
    def differing(self) -> Sequence[tuple[str, str, str]]:
        return _differing(self.found.facts)


def compare(index: Index, first: Run, second: Run) -> Comparison | ComparisonOfFailovers:
    """Raises UsageFault, with one sentence, where these two cannot be compared."""
    if first.study != second.study:
        raise UsageFault(
            f"{first.place} holds the study {first.study}, {second.place} the study {second.study}: they cannot be compared"
        )
    one, two = (read(index, run) for run in (first, second))
    if isinstance(one, FailoverResult) or isinstance(two, FailoverResult):
        return ComparisonOfFailovers(first, second, failovers.compare(one, two))
    facts = _differing(samples_folder.differing_facts(one, two))
    return Comparison(first, second, in_order(comparing.compare(one, two)), facts)


def in_order(found: Sequence[Change]) -> list[tuple[FigureName, Change]]:
    """Changes by the names of their figures, in the order of a report."""
    return sorted(((_name(change), change) for change in found), key=lambda each: each[0].sort_key)


def read(index: Index, run: Run) -> AnyResult:
    """All samples of a run. Faults name the run as the list does."""
    with index.folder(run) as folder:
        try:
            return samples_folder.whole(contents.read(folder, with_summary=False, most=MOST_BYTES))
        except UsageFault as fault:
            raise UsageFault(short(str(fault).replace(str(folder.path), run.place))) from fault


def picture(found: Comparison) -> Picture:
    """The change of every figure with its interval, a panel for each load and metric."""
    panels: dict[str, list[rows.Mark]] = {}
    for name, change in found.changes:
        mark = rows.Mark(
            path=name.who(found.varying),
            look=look(name.cell),
            value=change.change,
            ends=change.ci95,
            text=factor(change.change, change.ci95) + (" *" if change.significant else ""),
            tips={"first": _shown(change, 0), "second": _shown(change, 1), "p": f"{change.p:.3f}"},
            hollow=not change.significant,
        )
        panels.setdefault(name.kind.in_words, []).append(mark)
    drawn = [
        rows.Panel(title, "second run over first", marks, log=_spreads(marks), reference=1.0) for title, marks in panels.items()
    ]
    return Picture(
        "changes",
        "Second run over first",
        "Point: the second run's median over the first's. Bar: its 95 % interval. Full, with *: more than chance explains. "
        "Black line: no change.",
        " ".join(f"{panel.title}: {'; '.join(f'{mark.path} {mark.text}' for mark in panel.marks)}." for panel in drawn),
        lambda: rows.draw(drawn),
    )


def table(found: Sequence[tuple[FigureName, Change]]) -> Table:
    lines, raw, strong = [], [], set()
    varying = figures.varying(name for name, _ in found)
    for number, (name, change) in enumerate(found):
        of = "times native" if change.relative else "itself"
        said = "yes" if change.significant else "no"
        values = [_shown(change, 0), _shown(change, 1), factor(change.change, change.ci95), f"{change.p:.3f}", said]
        lines.append([name.who(varying), name.kind.in_words, of, *values])
        raw.append([change.cell.subject, change.cell.load, change.metric, change.relative, *change.medians, change.change,
                    *change.ci95, change.p])  # fmt: skip
        if change.significant:
            strong.add(number)
    return Table(
        name="changes",
        caption="Every figure of both runs; p is corrected for their number",
        heads=["System", "Figure", "Compared is", "First", "Second", "Change [95 % interval]", "p", "More than chance"],
        lines=lines,
        raw_heads=["subject", "load", "metric", "times_native", "first", "second", "change", "ci95_low", "ci95_high", "p"],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 2, 7}),
        strong=frozenset(strong),
    )


def _spreads(marks: Sequence[rows.Mark]) -> bool:
    """A change by far, up or down, is drawn on a logarithmic scale, which has no place for zero."""
    values = [mark.value for mark in marks if mark.value is not None and math.isfinite(mark.value)]
    ends = [end for mark in marks for end in mark.ends or () if math.isfinite(end) and end > 0]
    far = any(each > FAR or each < 1 / FAR for each in (*values, *ends))
    return far and all(value > 0 for value in values)


def _shown(change: Change, which: int) -> str:
    known = METRICS[change.metric]
    if change.relative:
        return digits(change.medians[which])
    unit = known.prefix(change.medians)
    return f"{digits(change.medians[which] * unit.factor)} {unit.unit}"


def _name(change: Change) -> FigureName:
    system, datapath, family, hops = change.cell.subject.split("/")
    factors = tuple((name, str(value)) for name, value in change.cell.factors)
    unit = METRICS[change.metric].unit
    return FigureName(system, datapath, family, int(hops), change.cell.load, change.metric, unit, factors)


def _differing(found: Mapping[str, tuple[Any, Any]]) -> list[tuple[str, str, str]]:
    """Facts one by one; of nested ones those that differ."""
    first, second = (dict(facts.flat({name: pair[each] for name, pair in found.items()})) for each in (0, 1))
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    return [(short(name), short(first.get(name, "–")), short(second.get(name, "–"))) for name in names[:MOST_FACTS]]
