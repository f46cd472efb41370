# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The published studies that ours repeat: each with its latest run, its question, and what that run answers."""

from __future__ import annotations

from dataclasses import dataclass

from diolkos_lab.faults import UsageFault
from diolkos_lab.published import ratios
from diolkos_lab.report import page
from diolkos_lab.report.read import from_contents
from diolkos_lab.samples import contents
from diolkos_lab.serve.index import Index, RunList
from diolkos_lab.serve.reports import MOST_BYTES
from diolkos_lab.serve.run_details import Run, short


@dataclass(frozen=True)
class Study:
    title: str
    question: str
    answer: str
    run: Run | None  # the latest; None where there is none


def studies(index: Index) -> list[Study]:
    """All of them where there is a run of at least one; otherwise none."""
    every = {name: latest(index.listing, name) for name in names()}
    if not any(every.values()):
        return []
    found = []
    for name, run in every.items():
        data = ratios.published_figures(name)
        if data is not None:
            none = f"There is no run of it here; `sudo diolkos-lab run {name} --quick` makes one."
            found.append(Study(data.title, data.question, _answer(index, run) if run else none, run))
    return found


def _answer(index: Index, run: Run) -> str:
    try:
        with index.folder(run) as folder:
            return page.answer_of(from_contents(contents.read(folder, most=MOST_BYTES)))[0]
    except UsageFault as fault:
        return f"Its latest run cannot be read: {short(str(fault).rstrip('.'))}."


def names() -> list[str]:
    return ratios.studies()


def latest(found: RunList, study: str) -> Run | None:
    """The newest run, of those that have statistics if there are any: one without may be going on. Of an emulated processor
    only where there is none of real hardware."""
    runs = [run for run in found.runs if run.study == study and run.whole]  # the newest first
    return min(runs, key=lambda run: (run.trusted is None, run.emulated), default=None)
