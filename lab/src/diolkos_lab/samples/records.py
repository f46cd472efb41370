# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the files of a result folder must hold for the statistics and the report. Other keys may stand beside these.

A file is checked once, when it is read; all that follows takes its shape for granted.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from diolkos_lab.experiment.definition import NAME, Family, FormName
from diolkos_lab.experiment.frames import CpuPlacement, Directions, Flows
from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.experiment.offloads import Switch
from diolkos_lab.experiment.procedures import ProcedureName
from diolkos_lab.samples.figures import not_below_zero

Name = Annotated[str, Field(pattern=NAME, max_length=80)]  # is part of keys, files and pictures
Label = Annotated[str, Field(max_length=120)]
Count = Annotated[int, Field(ge=0)]
Model = TypeVar("Model", bound=BaseModel)
Positive = Annotated[float, Field(gt=0)]


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Exact(_Shape):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")


class MissingSystem(_Shape):
    system: str
    datapath: str | None = None
    reason: str
    how: str = ""
    factor: str | None = None  # of whose levels only this one is missing
    level: str | None = None


class Header(_Shape):
    """The first line of samples.jsonl."""

    study: str
    quick: bool = False
    form: FormName | None = None
    missing: list[MissingSystem] = []


class Generator(_Shape):
    """What generator and sink reach with nothing between them."""

    family: Family
    placement: CpuPlacement
    size: int
    rate: Positive | None = None
    run: Label = ""  # of a merged folder


class MergedRun(_Shape):
    """One run of a folder that was merged."""

    run: Label
    host: Label
    facts: dict[str, Any]
    missing: list[MissingSystem] = []


class SkippedLevel(_Shape):
    """What the study asks for and the host cannot offer."""

    factor: str
    value: str
    reason: str


class Host(_Shape):
    """host.json; every fact may be absent."""

    merged: Annotated[list[MergedRun], Field(min_length=1)] | None = None
    generator: list[Generator] | None = None
    skipped: list[SkippedLevel] | None = None
    varied: dict[str, list[str | int]] | None = None


class Objection(_Shape):
    guard: str
    detail: str


class Series(_Shape):
    t: list[Annotated[float, Field(ge=0)]]
    y: list[float | None]  # None: nothing came back

    @model_validator(mode="after")
    def _pairs(self) -> "Series":
        if len(self.t) != len(self.y):
            raise ValueError(f"t has {len(self.t)} values and y has {len(self.y)}")
        return self


class Plan(_Exact):
    """What varies from one part of a procedure to the next."""

    placement: CpuPlacement
    size: int
    seconds: float
    flows: Flows
    directions: Directions = "one"
    next_hops: int = 1


class Tally(_Shape):
    trials: Count
    repeated: Count
    distrusted: Count
    guards: dict[str, Count]


class Limits(_Shape):
    lowest: float
    highest: float


class Goal(_Shape):
    loss_ratio: float = Field(ge=0, lt=1)
    exceed_ratio: float
    relative_width: float
    duration_sum_s: float


class Bounds(_Shape):
    lower_pps: Positive | None
    upper_pps: Positive | None


class GoalFound(Bounds):
    goal: Goal
    distrusted_at_bounds: Count
    conditional_pps: float | None = None


class Throughput(Bounds):
    distrusted: Count


class LossStep(_Shape):
    percent: int
    offered_pps: Positive
    loss_ratio: float
    trusted: bool


class FrameLoss(_Shape):
    steps: list[LossStep]


class NotMeasured(_Shape):
    error: Annotated[str, Field(min_length=1)]


class _Streams(_Shape):
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


class Outcome(_Shape):
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


class _Packets(_Shape):
    """The factors of a load that sends packets."""

    placement: CpuPlacement
    size: int
    seconds: Positive
    flows: Flows
    offered: Annotated[int, Field(ge=1, le=10**12)]


class _PacketsOfCurve(_Exact, _Packets):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
    offloads: Switch = "on"
    refines: int = 0
    directions: Directions = "one"
    next_hops: int = 1
    clocksource: str | None = None
    ring: int | None = None
    run: Label = ""  # of several that were merged


class _PacketsWithoutLimit(_Shape):
    placement: CpuPlacement
    size: int
    seconds: Positive
    flows: Flows
    offloads: Switch


class _Latency(_Shape):
    offloads: Switch
    placement: CpuPlacement
    size: int
    flows: Flows
    share: Positive


class _PacketsOfProcedure(_Packets):
    offloads: Switch
    offered: Count


class _Names(_Shape):
    offloads: Switch
    cache: Literal["cold", "warm"]
    offered: Annotated[int, Field(ge=1)] | Literal["most"]


class _Objects(_Shape):
    offloads: Switch
    object: Annotated[int, Field(ge=1)]
    by: Literal["literal", "name"]


class _NewFlows(_Shape):
    offloads: Switch
    sessions: Annotated[int, Field(ge=1)]
    bindings: str
    placement: CpuPlacement
    size: int


class _Capacity(_Shape):
    offloads: Switch
    bindings: str
    placement: CpuPlacement
    size: int


class _Udp(_Shape):
    offloads: Switch
    streams: Annotated[int, Field(ge=1)]
    datagram: Annotated[int, Field(ge=1)]
    rate: Annotated[int, Field(ge=1)] | Literal["most", "knee"]


class _UdpGso(_Shape):
    offloads: Switch
    datagram: Annotated[int, Field(ge=1)]


class _PingUnderLoad(_Shape):
    offloads: Switch
    streams: Annotated[int, Field(ge=1)]
    direction: Literal["upload", "download"]
    interval: Positive


FACTORS: dict[str, type[_Shape]] = {
    "pps": _PacketsOfCurve,
    "forwarding-rate": _PacketsWithoutLimit,
    "latency": _Latency,
    "mlrsearch": _PacketsOfProcedure,
    "rfc8219": _PacketsOfProcedure,
    "udp": _Udp,
    "udp-gso": _UdpGso,
    "ping-under-load": _PingUnderLoad,
    "dns": _Names,
    "http": _Objects,
    "new-flows": _NewFlows,
    "connections": _NewFlows,
    "capacity": _Capacity,
}


def _in_order(ends: list[float | None]) -> list[float | None]:
    low, high = ends
    if low is None or low < 0 or (high is not None and high < low):
        raise ValueError(f"no figure lies between {low} and {high}")
    return ends


# What a figure lies between; null for an upper end that is infinite.
Ends = Annotated[list[float | None], Field(min_length=2, max_length=2), AfterValidator(_in_order)]


class TrialRecord(_Shape):
    """A line of samples.jsonl after the first."""

    block: Count
    order: Count
    system: Name
    datapath: Name
    family: Family
    hops: Annotated[int, Field(ge=1, le=2)]
    replica: Annotated[int, Field(ge=1, le=2)] = 1
    load: LoadName
    factors: dict[Name, str | int | float]
    started: str = ""
    duration: float | None = None
    valid: bool
    distrust: list[Objection]
    error: str | None
    metrics: Annotated[dict[Name, float], AfterValidator(not_below_zero)]
    series: dict[Name, Series]
    build: Count = 0  # which build of the lanes; absent where each block had one of its own
    bounds: dict[Name, Ends] = {}
    host: Label = ""  # of several that were merged; with it come run and kernel
    run: Label = ""
    kernel: Label = ""
    outcome: Outcome = None  # type: ignore[assignment]  # may be absent, but is never null

    @model_validator(mode="after")
    def _has_what_its_load_needs(self) -> "TrialRecord":
        if shape := FACTORS.get(self.load):
            try:
                require(shape, self.factors)
            except ValueError as error:
                raise ValueError(f"factors.{error}") from None
        if self.load == "pps" and self.metrics.get("sent"):
            if self.metrics["sent"] < 1 or self.metrics.get("received", -1) < 0:
                raise ValueError("metrics: sent and received have to be counts")
            if "latency" in self.metrics and "latency_worst" not in self.metrics:
                raise ValueError("metrics: latency_worst is missing")
        if self.outcome and self.outcome.procedure != self.load:
            raise ValueError(f"outcome: is one of {self.outcome.procedure}, but the load is {self.load}")
        return self


class _Row(_Shape):
    hops: int | None = None
    trials: int | None = None
    valid_trials: int | None = None


class _Floors(_Shape):
    rows: list[dict[str, Any]] = []


class Summary(_Shape):
    """summary.json, as far as the report does not look at each value with care."""

    quick: bool = False
    form: FormName | None = None
    generated: str | None = None
    verdicts: list[dict[str, Any]] | None = None
    family: dict[str, Any] | None = None
    noise_floor: _Floors | None = None
    missing: list[dict[str, Any]] | None = None
    failures: list[dict[str, Any]] | None = None
    rows: list[_Row] | None = None
    untrusted: list[_Row] | None = None


def require(shape: type[Model], value: Mapping[str, Any]) -> Model:
    """The value as a record. Raises ValueError that says which key is wrong, and how."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        raise ValueError(_first(error)) from None


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part)[:80] for part in found["loc"])
    message = found["msg"].removeprefix("Value error, ").splitlines()[0]
    return f"{where}: {message}" if where else message
