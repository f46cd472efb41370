# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The blocks behind those of the plan: of rules whose intervals were wide when the whole blocks were done."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from diolkos_lab.experiment import compared
from diolkos_lab.experiment.cells import TrialCell
from diolkos_lab.experiment.definition import Form, Study
from diolkos_lab.run.trial import Trial

WideRules = Callable[[Study, Iterable[Mapping[str, Any]]], Study]
"""The study with those rules only that were wide, of the records of the whole blocks."""


class WideBlocks:
    """Looks once, when the blocks of the plan are done."""

    def __init__(self, study: Study, form: Form, cells: Sequence[TrialCell], wide_rules: WideRules | None) -> None:
        self._study, self._cells, self._wide_rules = study, cells, wide_rules
        self._whole = range(1, form.blocks)
        self._most = form.wide_blocks if wide_rules else 0
        self._records: list[Mapping[str, Any]] = []  # of the whole blocks, without series
        self._wide: Sequence[TrialCell] | None = None  # once that is known
        self._first = 0

    def remember(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Keep what has been measured before."""
        self._records = [each for each in records if each["block"] in self._whole]

    def note(self, trial: Trial) -> None:
        """A trial was made."""
        if trial.block in self._whole:
            self._records.append({**trial.as_json(), "series": {}})

    def blocks(self, first: int) -> Iterator[tuple[int, Sequence[TrialCell]]]:
        """Each further block with its trials, from this number on."""
        if not self._most or self._wide_rules is None:
            return
        self._wide = compared.needed(self._wide_rules(self._study, self._records), self._cells)
        self._first = first
        if self._wide:
            yield from ((block, self._wide) for block in range(first, first + self._most))

    def left(self, block: int, needed: int) -> int:
        """Trials that may follow behind this block; `needed` are those of a block with all rules."""
        if self._wide is None:
            return self._most * needed
        return max(0, self._most - (block - self._first + 1)) * len(self._wide)
