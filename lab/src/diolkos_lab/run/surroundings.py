# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What all stations of a run share."""

from dataclasses import dataclass, field
from pathlib import Path

from diolkos_lab.experiment.cells import TrialCell
from diolkos_lab.experiment.definition import Guards, Topology
from diolkos_lab.run.calm import Calm
from diolkos_lab.topology.wires import Wires


@dataclass(frozen=True)
class Surroundings:
    """Where and under which rules they stand."""

    topology: Topology
    guards: Guards
    folder: Path  # scratch
    objects: Path  # what HTTP servers serve
    cpus: tuple[int, ...]
    softirq_threads: tuple[int, ...]
    calm: Calm = field(default_factory=Calm)
    wires: Wires | None = None  # to the router's machine
    fastest: dict[TrialCell, float] = field(default_factory=dict)  # the greatest main figure of its trials

    @property
    def load_cpu(self) -> int | None:
        """The CPU for both ends of the load: the last, since the first has the most interrupts. The system is free."""
        return self.cpus[-1] if self.topology.placement == "load-on-one-cpu" else None
