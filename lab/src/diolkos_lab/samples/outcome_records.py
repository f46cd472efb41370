# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a procedure found, as the record of its last trial holds it."""

from typing import Annotated

from pydantic import Field, model_validator

from diolkos_lab.experiment.frames import CpuPlacement, Directions, Flows
from diolkos_lab.experiment.procedures import ProcedureName
from diolkos_lab.samples.shapes import Count, Exact, Positive, Shape


class Plan(Exact):
    """What varies from one part of a procedure to the next."""

    placement: CpuPlacement
    size: int
    seconds: float
    flows: Flows
    directions: Directions = "one"
    next_hops: int = 1
    nodes: int = 1
    native_share: float = 0.0


class Tally(Shape):
    trials: Count
    repeated: Count
    distrusted: Count
    guards: dict[str, Count]


class Limits(Shape):
    lowest: float
    highest: float


class Goal(Shape):
    loss_ratio: float = Field(ge=0, lt=1)
    exceed_ratio: float
    relative_width: float
    duration_sum_s: float


class Bounds(Shape):
    lower_pps: Positive | None
    upper_pps: Positive | None


class GoalFound(Bounds):
    goal: Goal
    distrusted_at_bounds: Count
    conditional_pps: float | None = None


class Throughput(Bounds):
    distrusted: Count


class LossStep(Shape):
    percent: int
    offered_pps: Positive
    loss_ratio: float
    native_loss_ratio: float | None = None  # where native frames went beside the others
    translated_loss_ratio: float | None = None
    trusted: bool


class FrameLoss(Shape):
    steps: list[LossStep]


class NotMeasured(Shape):
    error: Annotated[str, Field(min_length=1)]


class _Streams(Shape):
    offered_pps: Positive
    frames: list[Count]
    lost: int
    distrusted: Count
    trusted: bool


class Latency(_Streams):
    typical_s: list[float]
    worst_s: list[float]


class DelayVariation(_Streams):
    pdv_s: list[float]
    ipdv_min_s: list[float]
    ipdv_median_s: list[float]
    ipdv_max_s: list[float]


class Outcome(Shape):
    """What a procedure found, in the record of its last trial."""

    procedure: ProcedureName
    plan: Plan
    limits: Limits
    deviations: list[str]
    tally: Tally
    error: str | None
    instrument_failed: bool = False  # so the error is not the path's
    library: str | None = None
    goals: Annotated[list[GoalFound], Field(min_length=1)] | None = None
    throughput: Throughput | None = None
    frame_loss: FrameLoss | None = None
    latency: NotMeasured | Latency | None = None
    delay_variation: NotMeasured | DelayVariation | None = None

    @model_validator(mode="after")
    def _says_what_was_found(self) -> "Outcome":
        needed = ("goals", "library") if self.procedure == "mlrsearch" else ("throughput",)
        if not self.error and (lacks := next((name for name in needed if getattr(self, name) is None), None)):
            raise ValueError(f"{lacks} is missing")
        return self
