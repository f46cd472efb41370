# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the files of a result folder must hold for the statistics and the report. Other keys may stand beside these.

A file is checked once, when it is read; all that follows takes its shape for granted.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from diolkos_lab.experiment.definition import NAME, Family, FormName
from diolkos_lab.experiment.failover import FaultName, Kind
from diolkos_lab.experiment.frames import CpuPlacement, Directions, Flows
from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.experiment.offloads import Switch
from diolkos_lab.samples.figures import not_below_zero
from diolkos_lab.samples.outcome_records import Outcome
from diolkos_lab.samples.shapes import Count, Exact, Positive, Shape

Name = Annotated[str, Field(pattern=NAME, max_length=80)]  # is part of keys, files and pictures
Label = Annotated[str, Field(max_length=120)]
Model = TypeVar("Model", bound=BaseModel)


class MissingSystem(Shape):
    system: str
    datapath: str | None = None
    reason: str
    how: str = ""
    factor: str | None = None  # of whose levels only this one is missing
    level: str | None = None


class Header(Shape):
    """The first line of samples.jsonl."""

    study: str
    quick: bool = False
    form: FormName | None = None
    missing: list[MissingSystem] = Field([])


class Generator(Shape):
    """What generator and sink reach with nothing between them."""

    family: Family
    placement: CpuPlacement
    size: int
    rate: Positive | None = None
    run: Label = ""  # of a merged folder


class MergedRun(Shape):
    """One run of a folder that was merged."""

    run: Label
    host: Label
    facts: dict[str, Any]
    missing: list[MissingSystem] = Field([])


class SkippedLevel(Shape):
    """What the study asks for and the host cannot offer."""

    factor: str
    value: str
    reason: str


class Host(Shape):
    """host.json; every fact may be absent."""

    merged: Annotated[list[MergedRun], Field(min_length=1)] | None = None
    generator: list[Generator] | None = None
    skipped: list[SkippedLevel] | None = None
    varied: dict[str, list[str | int]] | None = None


class Objection(Shape):
    guard: str
    detail: str


class Series(Shape):
    t: list[Annotated[float, Field(ge=0)]]
    y: list[float | None]  # None: nothing came back

    @model_validator(mode="after")
    def _pairs(self) -> "Series":
        if len(self.t) != len(self.y):
            raise ValueError(f"t has {len(self.t)} values and y has {len(self.y)}")
        return self


class _Packets(Shape):
    """The factors of a load that sends packets."""

    placement: CpuPlacement
    size: int
    seconds: Positive
    flows: Flows
    offered: Annotated[int, Field(ge=1, le=10**12)]


class _PacketsOfCurve(Exact, _Packets):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
    offloads: Switch = "on"
    refines: int = 0
    directions: Directions = "one"
    next_hops: int = 1
    nodes: int = 1
    native_share: float = 0.0
    clocksource: str | None = None
    ring: int | None = None
    run: Label = ""  # of several that were merged


class _PacketsWithoutLimit(Shape):
    placement: CpuPlacement
    size: int
    seconds: Positive
    flows: Flows
    offloads: Switch


class _Latency(Shape):
    offloads: Switch
    placement: CpuPlacement
    size: int
    flows: Flows
    share: Positive


class _PacketsOfProcedure(_Packets):
    offloads: Switch
    offered: Count


class _Names(Shape):
    offloads: Switch
    cache: Literal["cold", "warm"]
    offered: Annotated[int, Field(ge=1)] | Literal["most"]


class _Objects(Shape):
    offloads: Switch
    object: Annotated[int, Field(ge=1)]
    by: Literal["literal", "name"]


class _NewFlows(Shape):
    offloads: Switch
    sessions: Annotated[int, Field(ge=1)]
    bindings: str
    nodes: Annotated[int, Field(ge=1)] | None = None  # not in results of versions before 0.2
    placement: CpuPlacement
    size: int


class _Capacity(Shape):
    offloads: Switch
    bindings: str
    nodes: Annotated[int, Field(ge=1)] | None = None
    placement: CpuPlacement
    size: int


class _Udp(Shape):
    offloads: Switch
    streams: Annotated[int, Field(ge=1)]
    datagram: Annotated[int, Field(ge=1)]
    rate: Annotated[int, Field(ge=1)] | Literal["most", "knee"]


class _UdpGso(Shape):
    offloads: Switch
    datagram: Annotated[int, Field(ge=1)]


class _PingUnderLoad(Shape):
    offloads: Switch
    streams: Annotated[int, Field(ge=1)]
    direction: Literal["upload", "download"]
    interval: Positive


class _Fault(Shape):
    """Of a trial of a study of faults, whose datapath is the kind of gateway."""

    fault: FaultName
    gateways: Kind


FACTORS: dict[str, type[Shape]] = {
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


class TrialRecord(Shape):
    """A line of samples.jsonl after the first."""

    block: Count
    order: Count
    system: Name
    datapath: Name
    family: Family
    hops: Annotated[int, Field(ge=1, le=2)]
    replica: Annotated[int, Field(ge=1, le=2)] = 1
    load: Literal[LoadName, "failover"]
    factors: dict[Name, str | int | float]
    started: str = ""
    duration: float | None = None
    valid: bool
    distrust: list[Objection]
    error: str | None
    metrics: Annotated[dict[Name, float], AfterValidator(not_below_zero)]
    series: dict[Name, Series]
    build: Count = 0  # which build of the lanes; absent where each block had one of its own
    bounds: dict[Name, Ends] = Field({})
    host: Label = ""  # of several that were merged; with it come run and kernel
    run: Label = ""
    kernel: Label = ""
    late_by_gateways: list[str] = Field([])  # of a fault: what would be a guard, had the gateways not used the CPUs
    outcome: Outcome = None  # type: ignore[assignment]  # may be absent, but is never null

    @model_validator(mode="after")
    def _has_what_its_load_needs(self) -> "TrialRecord":
        if shape := FACTORS.get(self.load):
            try:
                require(shape, self.factors)
            except ValueError as error:
                raise ValueError(f"factors.{error}") from None
        if self.load == "failover":
            require(_Fault, {"fault": self.factors.get("fault"), "gateways": self.datapath})
            if wrong := next((name for name, value in self.metrics.items() if not 0 <= value <= _most(name)), None):
                raise ValueError(f"metrics.{wrong}: is not between 0 and {_most(wrong):g}")
        if self.load == "pps" and self.metrics.get("sent"):
            if self.metrics["sent"] < 1 or self.metrics.get("received", -1) < 0:
                raise ValueError("metrics: sent and received have to be counts")
            if "latency" in self.metrics and "latency_worst" not in self.metrics:
                raise ValueError("metrics: latency_worst is missing")
        if self.outcome and self.outcome.procedure != self.load:
            raise ValueError(f"outcome: is one of {self.outcome.procedure}, but the load is {self.load}")
        return self


def _most(figure: str) -> float:
    return 1.0 if figure in ("kept_share", "downloads_share") else math.inf


class _Row(Shape):
    hops: int | None = None
    trials: int | None = None
    valid_trials: int | None = None


class _Floors(Shape):
    rows: list[dict[str, Any]] = Field([])


class Summary(Shape):
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
