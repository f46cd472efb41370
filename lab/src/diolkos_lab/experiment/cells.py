# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cells of a study: every lane that has to stand, and every trial that one block holds."""

from collections.abc import Collection
from dataclasses import dataclass

from diolkos_lab.experiment.definition import Form, PingLoad, Study, Subject, Switch, TcpLoad


@dataclass(frozen=True)
class LaneCell:
    """A subject in one setting. `replica` 2 is the twin of a subject that is measured against itself."""

    subject: Subject
    offloads: Switch
    replica: int

    @property
    def name(self) -> str:
        """Short and unique; part of the names of the lane's namespaces."""
        off = "" if self.offloads == "on" else "-off"
        twin = "" if self.replica == 1 else f"-{self.replica}"
        return f"{self.subject.key.replace('/', '_')}{off}{twin}"


@dataclass(frozen=True)
class TrialCell:
    """One load on one lane."""

    lane: LaneCell
    load: TcpLoad | PingLoad

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"offloads": self.lane.offloads, **self.load.factors}


def lane_cells(study: Study, form: Form, systems: Collection[str]) -> list[LaneCell]:
    """Every lane the chosen systems need. The offload levels are those that some load asks for."""
    levels = sorted({level for load in form.load for level in load.offloads}, reverse=True)
    return [
        LaneCell(subject, level, replica)
        for subject in study.system
        if subject.system in systems
        for level in levels
        for replica in ((1, 2) if subject.twin else (1,))
    ]


def trial_cells(form: Form, lanes: Collection[LaneCell]) -> list[TrialCell]:
    """One block: every load on every lane that has its offload level."""
    return [TrialCell(lane, load) for lane in lanes for load in form.load if lane.offloads in load.offloads]
