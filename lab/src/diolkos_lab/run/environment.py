# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What all testbeds of a run share."""

from dataclasses import dataclass, field
from pathlib import Path

from diolkos_lab.experiment.cells import TrialCell
from diolkos_lab.experiment.definition import Guards, Topology
from diolkos_lab.run.idle_wait import IdleWait
from diolkos_lab.topology.box_links import BoxLinks
from diolkos_lab.topology.nic_links import NicLinks


@dataclass(frozen=True)
class RunEnvironment:
    """Where and under which rules they stand."""

    topology: Topology
    guards: Guards
    folder: Path  # scratch
    objects: Path  # what HTTP servers serve
    cpus: tuple[int, ...]
    idle_wait: IdleWait = field(default_factory=IdleWait)
    nic_links: NicLinks | BoxLinks | None = None  # to the router's machine
    fastest: dict[TrialCell, float] = field(default_factory=dict)  # the greatest main figure of its trials

    @property
    def load_cpu(self) -> int | None:
        """The CPU for both ends of the load: the last, since the first has the most interrupts. The system is free."""
        return self.cpus[-1] if self.topology.placement == "load-on-one-cpu" else None
