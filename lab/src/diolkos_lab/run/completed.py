# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The trials of the whole blocks that an interrupted run has completed, from its folder."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from diolkos_lab.experiment.cells import TrialCell
from diolkos_lab.run.trial import cell_keys

Record = Mapping[str, Any]


@dataclass(frozen=True)
class CompletedTrials:
    """Empty for a new run."""

    trials: Sequence[Record] = ()
    seconds: float = 0.0  # that measuring them took; they count towards the time budget

    @property
    def next_block(self) -> int:
        """The first missing block. Block 0 is the warm-up of a new run and of a resumed one."""
        return max((trial["block"] for trial in self.trials), default=0) + 1

    @property
    def next_build(self) -> int:
        """Of the lanes, which are new in any case."""
        return max((trial["build"] + 1 for trial in self.trials if "build" in trial), default=0)

    def of_cell(self, cell: TrialCell) -> Sequence[Record]:
        """Trials of the cell after the warm-up, in the order of measurement."""
        return self._by_cell.get(_key(cell_keys(cell)), ())

    @cached_property
    def _by_cell(self) -> Mapping[str, Sequence[Record]]:
        found: dict[str, list[Record]] = defaultdict(list)
        for trial in self.trials:
            if trial["block"]:
                found[_key(trial)].append(trial)
        return found

    def of_curve(self, lane: TrialCell) -> Sequence[Record]:
        """The trials of all rates of a curve; `lane` is one of its trials at any rate."""
        wanted = _curve(cell_keys(lane))
        return [trial for trial in self.trials if trial["block"] and trial["load"] == "pps" and _curve(trial) == wanted]


def _key(record: Record) -> str:
    names = ("system", "datapath", "family", "hops", "replica", "load", "factors")
    return json.dumps([record.get(name, 1) for name in names], sort_keys=True)


def _curve(record: Record) -> str:
    factors = {name: value for name, value in record["factors"].items() if name not in ("offered", "refines")}
    return _key({**record, "factors": factors})
