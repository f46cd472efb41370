# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cells of a study: every lane that has to stand, and every trial that one block holds."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from diolkos_lab.experiment.definition import Form, Study, Subject
from diolkos_lab.experiment.levels import Chosen, combinations, words
from diolkos_lab.experiment.loads import AnyLoad, PpsLoad
from diolkos_lab.experiment.offloads import Switch
from diolkos_lab.experiment.procedures import Procedure
from diolkos_lab.experiment.varied import Setting


@dataclass(frozen=True)
class LaneCell:
    """A subject in one setting. `replica` 2 is the twin of a subject that is measured against itself."""

    subject: Subject
    offloads: Switch
    replica: int
    levels: Chosen = ()  # of the system's factors
    setting: Setting = ()  # of the host, where it is varied: the lane is the same under each

    @property
    def bare(self) -> "LaneCell":
        """The lane that has to stand."""
        return replace(self, setting=())

    @property
    def name(self) -> str:
        """Short and unique; part of the names of the lane's namespaces."""
        off = "" if self.offloads == "on" else "-off"
        twin = "" if self.replica == 1 else f"-{self.replica}"
        levels = f"-{words(self.levels)}" if self.levels else ""
        return f"{self.subject.key.replace('/', '_')}{levels}{off}{twin}"


@dataclass(frozen=True)
class PlannedCell:
    """One load of the study on one lane: a trial of every block, a curve, or a procedure."""

    lane: LaneCell
    load: AnyLoad | Procedure


@dataclass(frozen=True)
class TrialCell:
    """One load on one lane."""

    lane: LaneCell
    load: AnyLoad

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"offloads": self.lane.offloads, **dict(self.lane.levels), **dict(self.lane.setting), **self.load.factors}


def lane_cells(study: Study, form: Form, systems: Collection[str]) -> list[LaneCell]:
    """Every lane the chosen systems need. The offload levels are those that some load of the subject asks for."""
    return [
        LaneCell(subject, level, replica, chosen)
        for subject in study.system
        if subject.system in systems
        for chosen in combinations(subject.factors)
        for level in _offload_levels(subject, form)
        for replica in ((1, 2) if subject.twin else (1,))
    ]


def under(settings: Sequence[Setting], lanes: Collection[LaneCell]) -> list[LaneCell]:
    """Every lane under every setting of the host."""
    return [replace(lane, setting=setting) for setting in settings for lane in lanes]


def trial_cells(form: Form, lanes: Collection[LaneCell]) -> list[PlannedCell]:
    """One block: every load on every lane that has it and its offload level."""
    return [PlannedCell(lane, load) for lane in lanes for load in loads_of(lane, form)]


def loads_of(lane: LaneCell, form: Form) -> list[AnyLoad | Procedure]:
    return [load for load in form.load if lane.subject.gets(load) and lane.offloads in load.offloads]


def expected_s(cells: Collection[PlannedCell]) -> float:
    """How long a block should take; of a load–loss curve it holds every rate."""
    return sum(cell.load.expected_s * (cell.load.steps if isinstance(cell.load, PpsLoad) else 1) for cell in cells)


def _offload_levels(subject: Subject, form: Form) -> list[Switch]:
    return sorted({level for load in form.load if subject.gets(load) for level in load.offloads}, reverse=True)
