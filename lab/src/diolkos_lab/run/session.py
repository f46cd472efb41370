# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A whole run: stations set up, trials in randomised interleaved blocks, everything removed at the end, however it ends.

Stages: set up all stations → for each block: repair → shuffle → trials → tear down.
"""

import contextlib
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence

from diolkos_lab.experiment.cells import LaneCell, lane_cells, trial_cells
from diolkos_lab.experiment.definition import Form, Study
from diolkos_lab.run.counters import softirq_threads
from diolkos_lab.run.station import Station, Surroundings
from diolkos_lab.run.trial import Trial
from diolkos_lab.sut.lookup import Found
from diolkos_lab.topology import namespace, scratch


class Session(contextlib.ExitStack):
    """Use as a context manager; then iterate over `trials()` once."""

    def __init__(self, study: Study, form: Form, systems: Mapping[str, Found], seed: int) -> None:
        super().__init__()
        self.form = form
        self.lanes = lane_cells(study, form, systems)
        self.stations: dict[LaneCell, Station] = {}
        self.block = 0
        self._study = study
        self._systems = systems
        self._cells = trial_cells(form, self.lanes)
        self._random = random.Random(seed)
        self._begun: float | None = None
        self._trials_done = 0

    def set_up(self) -> Iterator[Station]:
        """Build every lane and start every system, one after the other; yields each station when it is done."""
        self.callback(namespace.remove_own)
        folder = self.enter_context(scratch.folder())
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        around = Surroundings(self._study.topology, self._study.guards, folder, cpus, tuple(softirq_threads()))
        for cell in self.lanes:
            station = self.enter_context(Station(cell, self._systems[cell.subject.system], around))
            self.stations[cell] = station
        for station in self.stations.values():
            station.bring_up()
            yield station

    @property
    def placement(self) -> str:
        return self._study.topology.placement

    @property
    def block_trials(self) -> int:
        return len(self._cells)

    def remaining_s(self) -> float:
        """Time left, from the loads' own lengths at first, then from the trials so far."""
        per_trial = self._length_of_block() / self.block_trials
        left = (self.form.blocks * self.block_trials - self._trials_done) * per_trial
        if self.form.time_budget_s is not None:
            elapsed_s = time.monotonic() - self._begun if self._begun is not None else 0.0
            left = min(left, self.form.time_budget_s - elapsed_s)
        return max(0.0, left)

    def trials(self) -> Iterator[Trial]:
        """Every trial, block by block. Block 0 is the warm-up; the seed decides all orders."""
        self._begun = time.monotonic()
        for block in range(self.form.blocks):
            self.block = block
            if block > 1 and self._would_exceed_budget():
                return
            cells: Sequence = self._random.sample(self._cells, len(self._cells))
            for station in self.stations.values():
                if station.failure and not station.given_up:
                    station.bring_up()
            for order, cell in enumerate(cells):
                station = self.stations[cell.lane]
                if not station.given_up or block == 0:
                    yield station.measure(cell, block, order)
                self._trials_done += 1

    def _would_exceed_budget(self) -> bool:
        if self.form.time_budget_s is None or self._begun is None:
            return False
        return time.monotonic() - self._begun + self._length_of_block() > self.form.time_budget_s

    def _length_of_block(self) -> float:
        if self._begun is None or self._trials_done < self.block_trials:
            return sum(cell.load.expected_s for cell in self._cells)
        return (time.monotonic() - self._begun) / self._trials_done * self.block_trials
