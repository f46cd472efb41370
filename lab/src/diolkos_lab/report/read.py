# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A result folder, read into typed records.

Stages: the format of each file is checked, then the records are built, then what the folder lacks is written
down in words. A folder of an interrupted run is not an error: the report is made of what is there.

All quantities keep the units of the files: bit/s, s, s/GB, ratios between 0 and 1.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from diolkos_lab import curves, procedures
from diolkos_lab.faults import UsageFault
from diolkos_lab.report.factors import Factors
from diolkos_lab.report.values import Ends, Interval, ends, interval, natural, number
from diolkos_lab.samples import contents
from diolkos_lab.samples.contents import FORMAT, Contents, FileName
from diolkos_lab.samples.folder import form_of
from diolkos_lab.samples.records import Series, TrialRecord
from diolkos_lab.stats.pairing import Samples


class UnreadableFolder(UsageFault):
    """The folder holds nothing a report can be made of. The message is one sentence for the user."""


@dataclass(frozen=True)
class Cell:
    """What was measured: a system in one place of the topology. Factors that never vary are left out."""

    system: str
    datapath: str
    family: str  # what the application speaks: "ipv6" or "ipv4"
    hops: int
    factors: tuple[tuple[str, str], ...] = ()
    alike: bool = field(default=False, compare=False)  # every path of the run has these hops, so its name leaves them out

    @property
    def native(self) -> bool:
        return self.system == "native"


@dataclass(frozen=True)
class Trial:
    cell: Cell
    load: str
    block: int  # 0 is the warm-up
    order: int
    twin: bool  # measured for the noise floor only
    started: str
    duration: float | None  # s
    valid: bool
    objections: tuple[tuple[str, str], ...]  # (guard, detail)
    error: str | None
    metrics: dict[str, float]
    series: dict[str, tuple[np.ndarray, np.ndarray]]  # quantity -> (t in s, y)

    @property
    def warm_up(self) -> bool:
        return self.block == 0

    @property
    def counts(self) -> bool:
        """Whether the statistics use what this trial measured."""
        return self.valid and not self.warm_up and self.error is None

    @property
    def failed(self) -> bool:
        """Whether the statistics take it for the worst that there is."""
        return self.error is not None and not self.warm_up


@dataclass(frozen=True)
class Row:
    """One cell and metric of summary.json."""

    cell: Cell
    load: str
    metric: str
    unit: str
    trials: int
    valid_trials: int
    median: float | None
    ci95: Interval | None
    baseline: str | None
    ratio: float | None
    ratio_ci95: Interval | None
    raw: dict[str, Any] = field(repr=False, hash=False, compare=False, default_factory=dict)
    untrusted: frozenset[str] = frozenset()  # "median" or "ratio", when it is of untrusted trials
    # Where the median or the ratio is no number: what it lies between.
    median_bounds: Ends | None = None
    ratio_bounds: Ends | None = None


@dataclass(frozen=True)
class Floor:
    """The noise floor: how far a system's ratio to itself strays from one (A/A comparison)."""

    cell: Cell
    load: str
    metric: str
    ratio: float  # median over the blocks
    ratio_ci95: Interval | None
    spread95: float | None  # 95 % of the single blocks stray less than this from one

    @property
    def deviation(self) -> float:
        """How far from one the median may lie by chance alone: the further end of its interval."""
        if self.ratio_ci95 is not None:
            return max(abs(end - 1) for end in self.ratio_ci95)
        return max(abs(self.ratio - 1), self.spread95 or 0.0)

    @property
    def bias(self) -> float:
        """By how much the twins differ at least, where that is more than chance: something but the system moves the figures."""
        low, high = self.ratio_ci95 or (1.0, 1.0)
        return max(low - 1, 1 - high, 0.0)


@dataclass(frozen=True)
class Results:
    contents: Contents = field(repr=False)  # the files, read once
    folder: Path
    name: str  # the study's
    study: dict[str, Any]  # study.toml
    host: dict[str, Any]  # host.json
    trials: list[Trial]
    rows: list[Row]
    untrusted: list[Row]  # beside those of `rows` that have no trusted median or ratio: over all trials, no intervals
    quick: bool
    form: str  # its name
    generated: str | None
    verdicts: list[dict[str, Any]]
    noise_floor: list[Floor]
    missing: list[dict[str, Any]]
    failures: list[Any]
    gaps: list[str]  # one sentence for each thing the folder lacks

    def row(self, cell: Cell, load: str, metric: str) -> Row | None:
        return next((r for r in self.rows if (r.cell, r.load, r.metric) == (cell, load, metric)), None)

    def shown(self, cell: Cell, load: str, metric: str) -> Row | None:
        """The row; what it lacks is taken from untrusted trials, and the row says so."""
        row = self.row(cell, load, metric)
        doubtful = next((r for r in self.untrusted if (r.cell, r.load, r.metric) == (cell, load, metric)), None)
        if row is None or doubtful is None:
            return row
        lacks = {name: getattr(doubtful, name) for name in ("median", "ratio") if getattr(row, name) is None}
        known = {name: value for name, value in lacks.items() if value is not None}
        return replace(row, untrusted=frozenset(known), **known)

    def loads(self, base: str) -> list[str]:
        """The variants in which a load was offered ("tcp-upload streams=1", …), the plainest first."""
        every = dict.fromkeys([r.load for r in self.rows] + [t.load for t in self.trials])
        return sorted((load for load in every if load.split(" ", maxsplit=1)[0] == base), key=natural)

    def start(self, load: str) -> float:
        """Seconds at the start of a trial that the statistics leave out, as study.toml says."""
        forms = self.study.get("form") or {}
        plans = (forms.get(self.form) or {}).get("load") or []
        starts = [number(p.get("start_s")) for p in plans if p.get("name") == load.split(" ", maxsplit=1)[0]]
        return max((s for s in starts if s is not None), default=0.0)

    @property
    def settings(self) -> list[tuple[tuple[str, str], ...]]:
        """The combinations of factor levels that cells come in, the plainest first; one empty one if none vary."""
        return sorted({c.factors for c in self.cells}, key=natural)

    def used(self, cell: Cell, load: str) -> list[Trial]:
        """The trials behind a cell's figures; those of its twin are not among them."""
        return [t for t in self.trials if t.counts and not t.twin and (t.cell, t.load) == (cell, load)]

    def failed(self, cell: Cell, load: str) -> int:
        """How many of a cell's trials failed."""
        return sum(t.failed and not t.twin and (t.cell, t.load) == (cell, load) for t in self.trials)

    @property
    def cells(self) -> list[Cell]:
        """Every cell of the run, with or without usable trials, in order of appearance."""
        return list(dict.fromkeys([r.cell for r in self.rows] + [t.cell for t in self.trials]))

    @property
    def measured(self) -> list[Trial]:
        """All trials after the warm-up, the failed and the untrusted ones too."""
        return [t for t in self.trials if not t.warm_up]

    @property
    def blocks(self) -> int:
        return len({t.block for t in self.measured})

    @cached_property
    def curves(self) -> list[curves.Measured]:
        """The load–loss curves, judged once."""
        return curves.gather(self.contents.trials, self.host.get("generator") or [])

    @cached_property
    def samples(self) -> Samples:
        """All figures by cell and block, as the statistics take them."""
        trials = procedures.replace_trials_by_rates(self.contents.trials)
        return Samples((trial for trial in trials if trial["load"] != curves.LOAD), self.curves)


def read(folder: Path) -> Results:
    """Read a result folder.

    Raises UnreadableFolder when there is no such folder, when it holds neither samples nor a summary, or when a
    file has a format this program does not know.
    """
    return from_contents(contents.load(folder))


def from_contents(found: Contents) -> Results:
    """The same of files that were read before."""
    folder = found.folder
    _require_format(found)
    gaps = _gaps(found)
    study = _study(found, gaps)
    header, samples, summary = found.header, found.trials, found.summary
    if not samples and not summary.get("rows"):
        raise UnreadableFolder(f"{folder} holds no trials (samples.jsonl) and no statistics (summary.json).")

    raw_rows = summary.get("rows") or []
    factors = Factors(samples, raw_rows, _of_systems(study))
    return Results(
        contents=found,
        folder=folder,
        name=str(summary.get("study") or header.get("study") or _study_name(study) or "unknown"),
        study=study,
        host=found.host,
        trials=[_trial(record, factors) for record in found.records],
        rows=[_row(r, factors) for r in raw_rows],
        untrusted=[_row(r, factors) for r in summary.get("untrusted") or []],
        quick=bool(summary.get("quick", header.get("quick", False))),
        form=str(summary.get("form") or form_of(header)),
        generated=summary.get("generated"),
        verdicts=list(summary.get("verdicts") or []),
        noise_floor=[f for r in (summary.get("noise_floor") or {}).get("rows") or [] if (f := _floor(r, factors))],
        missing=list(summary.get("missing") or header.get("missing") or []),
        failures=list(summary.get("failures") or []),
        gaps=gaps,
    )


# ---- files


CONSEQUENCES: dict[FileName, str] = {
    "samples.jsonl": "nothing can be shown over time, and no distribution",
    "summary.json": "no ratio to native, no interval and no verdict can be shown",
    "study.toml": "the study's own text and plan are unknown",
    "host.json": "the host, the command and the seed are unknown",
}


def _require_format(found: Contents) -> None:
    for name, damages in found.damages.items():
        if other := next((each.format for each in damages if each.kind == "format"), None):
            raise UnreadableFolder(
                f"{found.folder / name} has format {other}; this diolkos-lab reads format {FORMAT}. "
                "Make the report with the version that made the folder, or with a newer one."
            )


def _gaps(found: Contents) -> list[str]:
    """One sentence for each thing that the folder lacks. A killed run may have torn a line; that costs one trial."""
    gaps = []
    for name, consequence in CONSEQUENCES.items():
        damages = found.damages[name]
        torn = sum(damage.kind in ("content", "unfinished") for damage in damages)
        if name in found.absent:
            gaps.append(f"{name} is missing: {consequence}.")
        elif name == "samples.jsonl" and torn:
            gaps.append(f"{torn} line{'s' if torn > 1 else ''} of samples.jsonl could not be read and was left out.")
        elif name != "samples.jsonl" and damages:
            gaps.append(f"{name} could not be read ({damages[0].reason}): {consequence}.")
    return gaps


def _study(found: Contents, gaps: list[str]) -> dict[str, Any]:
    """study.toml as it stands, also where this version would not take it."""
    try:
        return tomllib.loads(found.study or "")
    except tomllib.TOMLDecodeError as problem:
        gaps.append(f"study.toml could not be read ({problem}).")
        return {}


def _of_systems(study: dict[str, Any]) -> set[str]:
    """Names of the factors that systems have."""
    listed = [each for each in study.get("system") or [] if isinstance(each, dict)]
    return {name for each in listed if isinstance(each.get("factors"), dict) for name in each["factors"]}


def _study_name(study: dict[str, Any]) -> str | None:
    return study.get("name") or (study.get("study") or {}).get("name")


# ---- records


def _cell(record: dict[str, Any], values: dict[str, Any], factors: Factors) -> Cell:
    return Cell(
        system=str(record.get("system", "unknown")),
        datapath=str(record.get("datapath") or ""),
        family=str(record.get("family") or ""),
        hops=int(record.get("hops") or 1),
        factors=factors.of_cell(values),
        alike=factors.same_hops,
    )


def _trial(record: TrialRecord, factors: Factors) -> Trial:
    return Trial(
        cell=_cell(record.model_dump(include={"system", "datapath", "family", "hops"}), record.factors, factors),
        load=factors.load({"load": record.load}, record.factors),
        block=record.block,
        order=record.order,
        twin=record.replica != 1,
        started=record.started,
        duration=record.duration,
        valid=record.valid,
        objections=tuple((each.guard, each.detail) for each in record.distrust),
        error=record.error or None,
        metrics=record.metrics,
        series={name: found for name, series in record.series.items() if (found := _series(series)) is not None},
    )


def _series(series: Series) -> tuple[np.ndarray, np.ndarray] | None:
    """Points without a value (a lost echo) are left out: loss is a metric of its own."""
    pairs = [(t, y) for t, y in zip(series.t, series.y, strict=True) if y is not None]
    if not pairs:
        return None
    t, y = zip(*pairs, strict=True)
    return np.asarray(t, dtype=float), np.asarray(y, dtype=float)


def _row(record: dict[str, Any], factors: Factors) -> Row:
    return Row(
        cell=_cell(record, record, factors),
        load=factors.load(record, record),
        metric=str(record.get("metric", "")),
        unit=str(record.get("unit") or ""),
        trials=int(record.get("trials") or 0),
        valid_trials=int(record.get("valid_trials") or 0),
        median=number(record.get("median")),
        ci95=interval(record.get("ci95")),
        baseline=record.get("baseline") or None,
        ratio=number(record.get("ratio")),
        ratio_ci95=interval(record.get("ratio_ci95")),
        raw=record,
        median_bounds=ends(record.get("median_bounds")),
        ratio_bounds=ends(record.get("ratio_bounds")),
    )


def _floor(record: dict[str, Any], factors: Factors) -> Floor | None:
    ratio, subject = number(record.get("ratio")), str(record.get("subject", "")).split("/")
    if ratio is None or len(subject) != 4:
        return None
    named = dict(zip(("system", "datapath", "family", "hops"), subject, strict=True))
    return Floor(
        cell=_cell({**named, "hops": int(named["hops"]) if named["hops"].isdigit() else 1}, record, factors),
        load=factors.load(record, record),
        metric=str(record.get("metric", "")),
        ratio=ratio,
        ratio_ci95=interval(record.get("ratio_ci95")),
        spread95=number(record.get("spread95")),
    )


# ---- values
