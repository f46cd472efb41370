# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The published studies that ours repeat: each with its latest run, its question, and what that run answers.

An answer needs all samples of a run. It is made once, and again when the files of the run change.
"""

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


class Repeated:
    """Not for several threads at once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, tuple[Run, str]] = {}

    def studies(self, found: RunList) -> list[Study]:
        """All of them where there is a run of at least one; otherwise none."""
        every = [(name, latest(found, name)) for name in names()]
        if not any(run for _, run in every):
            return []
        studies = []
        for name, run in every:
            data = ratios.published_figures(name)
            if data is not None:
                none = f"There is no run of it here; `sudo diolkos-lab run {name} --quick` makes one."
                said = self._answer(run) if run else none
                studies.append(Study(data.title, data.question, said, run))
        return studies

    def _answer(self, run: Run) -> str:
        kept = self._known.get(run.study)
        if kept and kept[0] is run:  # the index has another one when files change
            return kept[1]
        try:
            with self._index.folder(run) as folder:
                said, _ = page.answer_of(from_contents(contents.read(folder, most=MOST_BYTES)))
        except UsageFault as fault:
            said = f"Its latest run cannot be read: {short(str(fault).rstrip('.'))}."
        self._known[run.study] = run, said
        return said


def names() -> list[str]:
    return ratios.studies()


def latest(found: RunList, study: str) -> Run | None:
    """The newest run, of those that have statistics if there are any: one without may be going on. Of an emulated processor
    only where there is none of real hardware."""
    runs = [run for run in found.runs if run.study == study and run.whole]  # the newest first
    return min(runs, key=lambda run: (run.trusted is None, run.emulated), default=None)
