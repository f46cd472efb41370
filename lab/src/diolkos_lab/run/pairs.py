# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How many blocks each figure has that can be compared: a trusted trial of it, and of all that it is compared with."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from diolkos_lab.experiment.cells import TrialCell
from diolkos_lab.experiment.definition import Study


class Pairs:
    """Told of every trial, whether guards object to it. What it brought is not told, so nothing can depend on that."""

    def __init__(self, study: Study, cells: Iterable[TrialCell]) -> None:
        self._cells = list(cells)
        known = set(self._cells)
        self._partners = {cell: [each for each in _compared_with(study, cell) if each in known] for cell in self._cells}
        self._claimed = {cell for cell in self._cells if _is_claimed(study, cell)}
        self._needed = self._claimed.union(*(self._partners[cell] for cell in self._claimed))
        self._trusted: dict[TrialCell, set[int]] = defaultdict(set)

    def tell(self, cell: TrialCell, block: int, *, trusted: bool) -> None:
        if trusted:
            self._trusted[cell].add(block)

    def count(self, cell: TrialCell) -> int:
        """Blocks with a trusted trial of it and of all that it is compared with."""
        return len(self._trusted[cell].intersection(*(self._trusted[each] for each in self._partners[cell])))

    def decides(self, cell: TrialCell) -> bool:
        """Whether a claim needs it."""
        return cell in self._needed

    def lacking(self, wanted: int) -> list[TrialCell]:
        """Those with fewer, and with each all that it is compared with. What claims need comes first, by itself."""
        few = [cell for cell in self._cells if self.count(cell) < wanted]
        few = [cell for cell in few if cell in self._claimed] or few
        return list(dict.fromkeys(each for cell in few for each in (cell, *self._partners[cell])))


def _is_claimed(study: Study, cell: TrialCell) -> bool:
    subject, load = cell.lane.subject, cell.load.name
    of_it = (claim for claim in study.claim if (claim.system, claim.datapath) == (subject.system, subject.datapath))
    about = any(load in claim.loads and claim.where.items() <= cell.factors.items() for claim in of_it)
    return about and cell.lane.replica == 1


def _compared_with(study: Study, cell: TrialCell) -> list[TrialCell]:
    lane, load = cell.lane, cell.load
    subjects = {subject.key: subject for subject in study.system}
    names = {f"{subject.system}/{subject.datapath}": subject for subject in study.system}
    if lane.replica != 1:
        return [TrialCell(replace(lane, replica=1), load)]
    mine = [claim for claim in study.claim if names.get(f"{claim.system}/{claim.datapath}") == lane.subject]
    others = [names[claim.against] for claim in mine if claim.against and load.name in claim.loads]
    if baseline := lane.subject.baseline_key:
        others.append(subjects[baseline])
    found = [replace(lane, subject=other, replica=1) for other in others if other != lane.subject]
    return [TrialCell(each, load) for each in dict.fromkeys(found)]
