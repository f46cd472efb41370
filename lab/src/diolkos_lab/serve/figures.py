# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The figures of a run, which other runs of the study have too: the rows of summary.json by name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from diolkos_lab.experiment import nodes
from diolkos_lab.metric import ROW_METRICS, named
from diolkos_lab.report.read import Cell
from diolkos_lab.report.systems import load_label, load_order, order, short_label
from diolkos_lab.report.values import natural
from diolkos_lab.samples.json_text import shown

MOST_ROWS = 5000  # of a summary
LONGEST = 80  # characters of a name
Count = Annotated[int, Field(ge=0, le=10**9)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e30, le=1e30)]
Ends = Annotated[list[Number | None], Field(min_length=2, max_length=2)]
Name = Annotated[str, Field(max_length=LONGEST)]
# What rows hold beside the factors that name them; a value that is no plain one names nothing.
NO_FACTORS = frozenset(("study", "failed_trials", "blocks", "mean", "sd", "min", "max", "p95", "p99"))


@dataclass(frozen=True)
class FigureName:
    """What a figure is of. Two runs have the same figure when all of it is equal."""

    system: str
    datapath: str
    family: str
    hops: int
    load: str
    metric: str
    unit: str
    factors: tuple[tuple[str, str], ...]

    @property
    def cell(self) -> Cell:
        return Cell(self.system, self.datapath, self.family, self.hops)

    @property
    def sort_key(self) -> tuple[Any, ...]:
        return self.kind.sort_key, order(self.cell), natural(self.factors)

    def who(self, varying: frozenset[str] = frozenset()) -> str:
        """ "diolkos siit-tc, 2 hops", with those factors that tell it from others."""
        return short_label(self.cell) + "".join(f", {name} {value}" for name, value in self.factors if name in varying)

    @property
    def kind(self) -> Kind:
        return Kind(self.load, self.metric, self.unit)


@dataclass(frozen=True)
class Kind:
    """What figures of several systems have in common: the load and what was measured."""

    load: str
    metric: str
    unit: str

    @property
    def in_words(self) -> str:
        known = named(self.metric)
        return f"{load_label(self.load)}, {known.words if known else self.metric}"

    @property
    def sort_key(self) -> tuple[Any, ...]:
        row_metrics = [str(name) for name in ROW_METRICS]
        place = row_metrics.index(self.metric) if self.metric in row_metrics else len(row_metrics)
        return load_order(self.load), place, self.metric, self.unit


@dataclass(frozen=True)
class Figure:
    """A median with its interval, or the range that it lies in; and its ratio to native, if it has one."""

    name: FigureName
    value: Reading | None
    ratio: Reading | None


@dataclass(frozen=True)
class Reading:
    """A value; `limit` is "≥" or "≤" where only that is known. Of a range, the value is its lower end."""

    value: float
    low: float | None = None  # ends of the 95 % interval
    high: float | None = None
    limit: str = ""


class RowOfSummary(BaseModel):
    """A row of summary.json; all keys that it does not name are factors."""

    model_config = ConfigDict(extra="allow")
    system: Name
    datapath: Name
    family: Name
    hops: Annotated[int, Field(ge=0, le=99)]
    load: Name
    metric: Name
    unit: Name = ""
    trials: Count = 0
    valid_trials: Count = 0
    baseline: Name | None = None
    median: Number | None = None
    median_bounds: Ends | None = None
    ci95: Ends | None = None
    ratio: Number | None = None
    ratio_bounds: Ends | None = None
    ratio_ci95: Ends | None = None

    @property
    def kernel(self) -> str:
        return str((self.model_extra or {}).get("kernel"))

    def figure(self, without: frozenset[str]) -> Figure:
        """Without factors that are those of the whole run."""
        factors = dict(self.model_extra or {})
        nodes.fill_in(factors)
        more = tuple(sorted(item for item in factors.items() if item[0] not in without))
        name = _name(self.system, self.datapath, self.family, self.hops, self.load, self.metric, self.unit, more)
        value = _reading(self.median, self.median_bounds, self.ci95)
        return Figure(name, value, _reading(self.ratio, self.ratio_bounds, self.ratio_ci95))


class Rows(BaseModel):
    """summary.json, as far as trends need it."""

    rows: Annotated[list[RowOfSummary], Field(max_length=MOST_ROWS)] = []


def read(content: bytes) -> tuple[Figure, ...]:
    """The figures in a summary.json; none where it is damaged, which the list says."""
    try:
        rows = Rows.model_validate_json(content).rows
        # One kernel is that of the run, by which runs are told apart; several are factors of a run that was merged by them.
        without = frozenset(("kernel",)) if len({row.kernel for row in rows}) == 1 else frozenset[str]()
        return tuple(row.figure(without) for row in rows)
    except (ValidationError, TypeError):  # a factor that is a list or an object names nothing
        return ()


@lru_cache(maxsize=10_000)  # runs of a study have the same names
def _name(
    system: str, datapath: str, family: str, hops: int, load: str, metric: str, unit: str, more: tuple[tuple[str, Any], ...]
) -> FigureName:
    factors = tuple((shown(name)[:LONGEST], shown(str(value))[:LONGEST]) for name, value in more if name not in NO_FACTORS)
    system, datapath, family, load, metric, unit = (shown(text) for text in (system, datapath, family, load, metric, unit))
    return FigureName(system, datapath, family, hops, load, metric, unit, factors)


def _reading(value: float | None, bounds: Ends | None, ci95: Ends | None) -> Reading | None:
    if value is not None:
        ends = (ci95[0], ci95[1]) if ci95 else (None, None)
        return Reading(value, *ends)
    low, high = bounds or (None, None)
    if low is not None and (low or high is None):
        return Reading(low, limit="≥")
    return Reading(high, limit="≤") if high is not None and math.isfinite(high) else None


def varying(names: Iterable[FigureName]) -> frozenset[str]:
    """The factors in which figures of the same load differ; the others need not be said."""
    seen: dict[tuple[str, str], set[str]] = {}
    for name in names:
        for factor, value in name.factors:
            seen.setdefault((name.load, factor), set()).add(value)
    return frozenset(factor for (_, factor), values in seen.items() if len(values) > 1)
