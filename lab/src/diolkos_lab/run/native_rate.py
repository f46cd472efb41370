# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rate at which delays are measured: a share of what the native path carries, the same for all that are compared with it.

Stages: search on the native path (warm-up) → knee → its share → every trial of the load.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from diolkos_lab.experiment.cells import LaneCell, TrialCell
from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.run.completed import CompletedTrials
from diolkos_lab.run.sweep import PROBE_S, Sweep
from diolkos_lab.run.trial import Trial

UNKNOWN = "it is not known how many packets a second the native path carries: no probe of the search had a result"


class NativeRates:
    """Of all cells that have a load of this kind, for those that share a native path."""

    def __init__(self, cells: Iterable[TrialCell], lanes: Sequence[LaneCell], completed: CompletedTrials) -> None:
        self._native: dict[TrialCell, TrialCell] = {}
        self._rates: dict[TrialCell, float] = {}  # by the cell of the native path
        for cell in cells:
            if isinstance(cell.load, LatencyLoad):
                native = TrialCell(_native(cell.lane, lanes), cell.load)
                self._native[cell] = native
                # A run that goes on has the rate with which it began.
                for trial in completed.of_cell(cell):
                    if rate := trial["metrics"].get("offered"):
                        self._rates[native] = rate

    @property
    def searches(self) -> list["Search"]:
        """Those that the warm-up has to make."""
        wanted = [native for native in dict.fromkeys(self._native.values()) if native not in self._rates]
        return [Search(native, self._rates) for native in wanted]

    def trial(self, cell: TrialCell, block: int) -> TrialCell | None:
        """The cell with the rate of its trials; None where that could not be found out. The warm-up begins without one."""
        if not isinstance(cell.load, LatencyLoad) or cell.load.offered:
            return cell
        rate = self._rates.get(self._native[cell]) or (None if block else cell.load.lowest)
        return replace(cell, load=cell.load.at(rate)) if rate else None


class Search:
    """Of one knee, as the warm-up of a load–loss curve makes it."""

    def __init__(self, native: TrialCell, rates: dict[TrialCell, float]) -> None:
        assert isinstance(native.load, LatencyLoad)
        self.lane = native.lane
        self._native, self._load, self._rates = native, native.load, rates
        like = self._load.as_fields | {name: getattr(self._load, name) for name in ("size", "lowest", "highest")}
        self._sweep = Sweep(PpsLoad(name="pps", seconds=PROBE_S, **like), blocks=1)

    def probes(self) -> Iterator[TrialCell]:
        """`record` has to be called for each before the next is asked for."""
        for probe in self._sweep.probes():
            assert probe.offered
            yield TrialCell(self.lane, self._load.probe(probe.offered, probe.seconds))
        if self._sweep.knee:
            self._rates[self._native] = self._sweep.knee * self._load.share

    def record(self, trial: Trial) -> None:
        self._sweep.record(self._sweep.load, 0, trial.metrics.get("loss"), believed=trial.valid)


def _native(lane: LaneCell, lanes: Sequence[LaneCell]) -> LaneCell:
    """The lane with which it is compared. The lane itself, where that is native or has none."""
    key = lane.subject.reference_key
    wanted = (key, 1, lane.offloads)
    found = (each for each in lanes if (each.subject.key, each.replica, each.offloads) == wanted)
    native = next(found, None) or next((each for each in lanes if each == replace(lane.bare, replica=1)), lane.bare)
    return replace(native, setting=lane.setting)
