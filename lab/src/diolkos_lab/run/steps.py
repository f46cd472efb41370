# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a procedure and its measurer say to each other: the trial that is asked for, and what came of it."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from diolkos_lab.experiment.procedures import PacketTrial
from diolkos_lab.metric import MetricName
from diolkos_lab.run.trial import Trial


@dataclass(frozen=True)
class TrialResult:
    """One trial as a procedure sees it."""

    sent: int  # frames that the generator wrote
    received: int  # frames that arrived unharmed, each counted once
    trusted: bool
    metrics: Mapping[MetricName, float]

    @classmethod
    def from_trial(cls, trial: Trial) -> "TrialResult":
        """A trial that failed has lost all that it was to send."""
        metrics = trial.metrics
        if trial.error:
            assert isinstance(trial.cell.load, PacketTrial) and trial.cell.load.offered
            return cls(max(1, round(trial.cell.load.offered * trial.cell.load.seconds)), 0, not trial.objections, metrics)
        return cls(int(metrics["sent"]), int(metrics["received"]), trial.valid, metrics)

    @property
    def lost(self) -> int:
        return self.sent - self.received

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent


Steps = Generator[PacketTrial, TrialResult, dict[str, Any]]
