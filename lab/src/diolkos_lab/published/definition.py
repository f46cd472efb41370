# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a file of published figures may say. Facts and figures of the original, none of its sentences."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.definition import NAME, Family
from diolkos_lab.experiment.document import StrictModel
from diolkos_lab.metric import RowMetric

Id = Annotated[str, Field(pattern=NAME, max_length=80)]
Words = Annotated[str, Field(min_length=1, max_length=300)]
Value = Annotated[float, Field(gt=0)]
Level = str | int | float
NATIVE = "native"  # the system that forwards and does nothing else
# Units of the originals, in those of result folders.
UNITS: dict[str, float] = {"Gbit/s": 1e9, "ms": 1e-3, "packets/s": 1}


class Source(StrictModel):
    """Who published the figures, and where."""

    cite: Words
    year: int = Field(ge=1990, le=2100)
    notes: tuple[Words, ...] = ()  # what a reader of the figures has to know


class Environment(StrictModel):
    """A machine or set-up of the original, within which its figures can be compared."""

    name: Id
    words: Words
    link_rate: Value | None = None  # bit/s, where a link has one
    line_rate: bool = False  # every path, native too, fills the link


class System(StrictModel):
    """A system of the original, and which of ours is its counterpart."""

    name: Id
    words: Words
    counterparts: tuple[
        Annotated[str, Field(pattern=r"^[a-z0-9.+-]+(/[a-z0-9.+-]+)?$")], ...
    ] = ()  # `system` or `system/datapath`
    absent: str = ""  # why the lab has no counterpart

    @model_validator(mode="after")
    def _has_a_counterpart_or_a_reason(self) -> "System":
        if bool(self.counterparts) == bool(self.absent):
            raise ValueError("give counterparts, or say in `absent` why there are none")
        return self


class Ceiling(StrictModel):
    """What stands for a native path that the original did not measure: the most that its link carries."""

    value: Value  # in the unit of the group
    words: Words


class Figure(StrictModel):
    """One published value. A range has a low and a high end; a failed measurement has no value."""

    environment: Id
    system: Id
    hops: Literal[1, 2] = 1
    factors: dict[Id, Level | tuple[Level, ...]] = Field({})  # several levels: the value covers them all
    value: Value | None = None
    low: Value | None = None  # of a range
    high: Value | None = None
    min: Value | None = None  # over the runs, where published
    max: Value | None = None
    sd: Value | None = None
    p95: Value | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    loss: float | None = Field(None, ge=0, le=1)
    sent: Value | None = None  # in the unit of the group
    beside: Id | None = None  # of a native path: measured from the place of this system
    failed: bool = False
    good: tuple[Literal["paper", "hysteresis", "notebook"], ...] | None = None  # rules by which a PDR can be trusted
    bracketed: bool = True  # of a PDR: the offered rates enclose it

    @property
    def ends(self) -> tuple[float, float] | None:
        """The value as a range, whose ends are equal where it is one number."""
        if self.value is not None:
            return self.value, self.value
        return (self.low, self.high) if self.low is not None and self.high is not None else None

    @model_validator(mode="after")
    def _says_one_thing(self) -> "Figure":
        told = [self.value is not None, self.low is not None or self.high is not None, self.failed, not self.bracketed]
        if sum(told) != 1:
            raise ValueError("give one of value, low with high, failed, bracketed = false")
        if (self.low is None) != (self.high is None) or (self.low or 0) > (self.high or 0):
            raise ValueError("low and high are the ends of a range, the lower one first")
        middle = self.value
        if middle is not None and not (self.min or middle) <= middle <= (self.max or middle):
            raise ValueError(f"the value {middle} is not between min and max")
        if self.beside and self.system != NATIVE:
            raise ValueError("`beside` is for native paths")
        return self


class Group(StrictModel):
    """Figures of one load and metric, from one place of the original."""

    name: Id  # of its picture and table
    title: Words
    load: Id
    metric: RowMetric
    unit: Literal["Gbit/s", "ms", "packets/s"]
    statistic: Words
    source: Words  # section, table or figure of the original
    read_from: Literal["table", "text", "picture", "data"]
    family: Family | None = None  # that the application speaks; None: any
    native: Words = "native"  # which path the ratios are to
    ceiling: Ceiling | None = None
    where: dict[Id, Level] = Field({})  # levels of our loads that are like the original's, where ours come in several
    also: tuple[Id, ...] | None = None  # of ours what else belongs beside them, where not all of the file's kinds do
    figures: tuple[Figure, ...] = Field(min_length=1)


class Limit(StrictModel):
    """What the original could not see, and what a run of ours does about it.

    `here` may name facts of the run in braces. Where the run lacks one of these, or of `needs`, `otherwise` is said.
    """

    there: Words
    here: Words
    needs: tuple[Id, ...] = ()
    otherwise: str = ""

    @model_validator(mode="after")
    def _has_another_word(self) -> "Limit":
        if self.needs and not self.otherwise:
            raise ValueError("say in `otherwise` what holds for a run without what it needs")
        return self


class Published(StrictModel):
    """A whole file."""

    format: Literal[1]
    study: Id
    title: Words  # of ours, and what it asks
    question: Words
    source: Source
    kinds: tuple[str, ...] = ()  # what else of ours belongs beside the figures; none given: every path that translates
    environment: tuple[Environment, ...] = Field(min_length=1)
    system: tuple[System, ...] = Field(min_length=1)
    group: tuple[Group, ...] = Field(min_length=1)
    limit: tuple[Limit, ...] = ()

    @model_validator(mode="after")
    def _holds_together(self) -> "Published":
        environments, systems = ({each.name for each in named} for named in (self.environment, self.system))
        for group in self.group:
            seen = set()
            for figure in group.figures:
                if figure.environment not in environments:
                    raise ValueError(f"group {group.name}: no environment is called {figure.environment}")
                if figure.system not in systems | {NATIVE} or (figure.beside or figure.system) not in systems | {NATIVE}:
                    raise ValueError(f"group {group.name}: no system is called {figure.beside or figure.system}")
                key = (figure.environment, figure.system, figure.hops, str(sorted(figure.factors.items())), figure.beside)
                if figure.system != NATIVE and key in seen:
                    raise ValueError(f"group {group.name}: {figure.system} has two values in {figure.environment}")
                seen.add(key)
        return self
