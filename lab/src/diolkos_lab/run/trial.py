# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The record of one trial: what a line of samples.jsonl holds."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from diolkos_lab.experiment.cells import LaneCell, TrialCell
from diolkos_lab.metric import MetricName
from diolkos_lab.outcome import INSTRUMENT
from diolkos_lab.run.guards import Objection


@dataclass(frozen=True)
class Trial:
    """One load on one lane, once.

    `metrics` and `series` are empty when `error` says how the system failed, or when an instrument did (`outcome`).
    """

    block: int  # 0 is the warm-up
    order: int  # within the block, from 0
    cell: TrialCell
    started: str  # ISO 8601, UTC
    duration_s: float
    error: str | None = None
    objections: list[Objection] = field(default_factory=list)
    metrics: dict[MetricName, float] = field(default_factory=dict)
    series: dict[MetricName, dict[str, list[float]]] = field(default_factory=dict)
    outcome: dict[str, Any] | None = None  # of the procedure whose last trial this is
    build: int | None = None  # of the lanes, where they are built more than once
    # Of a metric that is only known to lie in a range, as a rate that something else limited: both ends, None if infinite.
    bounds: dict[MetricName, tuple[float, float | None]] = field(default_factory=dict)

    @classmethod
    def without_instrument(
        cls, cell: TrialCell, block: int, order: int, why: str, started: str | None = None, duration_s: float = 0.0
    ) -> "Trial":
        """One in which what measures failed, so that there is no result: nobody's, but one that is to be made up for."""
        started = started or datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(block, order, cell, started, duration_s, objections=[Objection(INSTRUMENT, why)])

    @property
    def instrument_failure(self) -> str | None:
        """How what measures failed; None where it worked."""
        return next((each.detail for each in self.objections if each.guard == INSTRUMENT), None)

    @property
    def valid(self) -> bool:
        return self.error is None and not self.objections

    def as_json(self) -> dict[str, Any]:
        more: dict[str, Any] = {} if self.outcome is None else {"outcome": self.outcome}
        if self.build is not None:
            more["build"] = self.build
        if self.bounds:
            more["bounds"] = self.bounds
        return {
            "block": self.block,
            "order": self.order,
            **cell_keys(self.cell),
            "started": self.started,
            "duration": round(self.duration_s, 4),
            "valid": self.valid,
            "distrust": [vars(entry) for entry in self.objections],
            "error": self.error,
            "metrics": self.metrics,
            "series": self.series,
            **more,
        }


def cell_keys(cell: TrialCell) -> dict[str, Any]:
    """The keys of a record that say which cell it is of."""
    return {**lane_keys(cell.lane), "load": cell.load.name, "factors": cell.factors}


def lane_keys(lane: LaneCell) -> dict[str, Any]:
    """Those of them that say which lane."""
    subject = lane.subject
    return {
        "system": subject.system,
        "datapath": subject.datapath,
        "family": subject.family,
        "hops": subject.hops,
        "replica": lane.replica,
    }
