# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How many blocks each figure has that can be compared: a trusted trial of it, and of all that it is compared with."""

from collections import defaultdict
from collections.abc import Iterable

from diolkos_lab.experiment import compared
from diolkos_lab.experiment.cells import TrialCell
from diolkos_lab.experiment.definition import Study


class Pairs:
    """Told of every trial, whether guards object to it. What it brought is not told, so nothing can depend on that."""

    def __init__(self, study: Study, cells: Iterable[TrialCell]) -> None:
        self._cells = list(cells)
        self._partners = compared.partners(study, self._cells)
        self._claimed = compared.claimed(study, self._cells)
        self.needed = compared.needed(study, self._cells)
        """What claims need."""
        self._trusted: dict[TrialCell, set[int]] = defaultdict(set)

    def record(self, cell: TrialCell, block: int, *, trusted: bool) -> None:
        if trusted:
            self._trusted[cell].add(block)

    def count(self, cell: TrialCell) -> int:
        """Blocks with a trusted trial of it and of all that it is compared with."""
        return len(self._trusted[cell].intersection(*(self._trusted[each] for each in self._partners[cell])))

    def decides(self, cell: TrialCell) -> bool:
        """Whether a claim needs it."""
        return cell in self.needed

    def makeup_trials(self, wanted: int, further: int, blocks: int, claim_blocks: int) -> int:
        """Trials of the blocks that will make up for what guards have rejected, if they reject nothing more. So many `blocks`
        of the plan, and `claim_blocks` of what claims need, are still to come."""
        short: dict[TrialCell, int] = {}
        for cell in self._cells:
            coming = blocks + (claim_blocks if cell in self.needed else 0)
            missing = wanted + (further if cell in self._claimed else 0) - self.count(cell) - coming
            for each in (cell, *self._partners[cell]) if missing > 0 else ():
                short[each] = max(missing, short.get(each, 0))
        return sum(short.values())

    def lacking(self, wanted: int, further: int = 0) -> list[TrialCell]:
        """Those with fewer, and with each all that it is compared with. What claims need comes first, by itself; what they are
        about shall have `further` ones besides."""
        few = [cell for cell in self._cells if self.count(cell) < wanted + (further if cell in self._claimed else 0)]
        few = [cell for cell in few if cell in self._claimed] or few
        return list(dict.fromkeys(each for cell in few for each in (cell, *self._partners[cell])))
