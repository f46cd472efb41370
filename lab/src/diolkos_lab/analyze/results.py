# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The analysis of one file, and the JSON object that says it all."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diolkos_lab.analyze import names, raw
from diolkos_lab.curve import judge, loss
from diolkos_lab.curve.crossing import Crossing
from diolkos_lab.curve.judge import Judgement
from diolkos_lab.curve.saturation import RULES

FORMAT = 1


@dataclass(frozen=True)
class Analysis:
    """A judged file."""

    file: str  # as given on the command line
    named: names.Named
    malformed: tuple[raw.Malformed, ...]
    found: Judgement

    @property
    def title(self) -> str:
        return names.title(self.named.factors) or self.file


def analyze(experiment: raw.Experiment, seed: int) -> Analysis:
    """Raises ValueError when no line of the file could be used."""
    curve = loss.measure(experiment.rates, experiment.tx, experiment.rx)
    file = readable(experiment.file)
    return Analysis(file, names.parse(Path(file)), tuple(experiment.malformed), judge.judge(curve, seed))


def readable(file: Path) -> str:
    """The name of a file as text that can be written anywhere: what is not UTF-8 in it becomes a replacement character."""
    return os.fsencode(file).decode(errors="replace")


def as_json(analysis: Analysis, rule: str) -> dict[str, Any]:
    """The object of `--json`. Rates in packets/s, lists by load in ascending order, null where a value does not exist."""
    found, curve = analysis.found, analysis.found.curve
    return {
        "format": FORMAT,
        "file": analysis.file,
        "factors": analysis.named.factors,
        "rates": [int(rate) if rate.is_integer() else rate for rate in curve.rates.tolist()],
        "runs": int(curve.runs.min()),
        "runs_by_rate": curve.runs.tolist(),
        "excess_trials": curve.excess_trials,
        "plr": _numbers(curve.plr),
        "plr_sd": _numbers(curve.sd),
        "plr_ci95": _pairs(curve.lcl95, curve.ucl95),
        "delta_ucl95": _numbers(curve.delta_ucl95),
        "delivery_ratio": _numbers(curve.delivery_ratio),
        "throughput_pps": _numbers(curve.throughput),
        "tir": _numbers(curve.tir),
        "tir_ci95": _pairs(found.tir_low, found.tir_high),
        "verdict": found.verdict,
        "rule": rule,
        "reason": judge.reason(found, RULES[rule]),
        "depends_on_rule": found.depends_on_rule,
        "good_share": found.good_share,
        "first_index_above_pdr": found.pdr.first_above,
        "potential_index": found.potential,
        "saturation_index": found.saturation,
        "pdr_0_5_pps": found.pdr.rate,
        "pdr_0_5_ci95": found.pdr_ci95 and _numbers(found.pdr_ci95),
        "pdr_0_5_bracket_pps": [found.pdr.below, found.pdr.above],
        "bracketed": found.pdr.bracketed,
        "ndr_pps": found.ndr.rate,
        "ndr_bracket_pps": [found.ndr.below, found.ndr.above],
        "remarks": judge.remarks(found),
        "unknown_name_parts": list(analysis.named.unknown),
        "malformed": [asdict(entry) for entry in analysis.malformed],
        "seed": found.seed,
    }


@dataclass(frozen=True)
class Line:
    """What is kept of an analysis once its file is done: one line of a table."""

    file: str
    title: str
    factors: names.Factors
    loads: int
    runs: int  # trials, at the load that has the fewest
    verdict: dict[str, str]
    reason: str  # by the chosen rule
    pdr: Crossing
    lowest: float  # packets/s: the ends of the measured loads
    highest: float
    remarks: tuple[str, ...]
    malformed: tuple[raw.Malformed, ...]
    unknown: tuple[str, ...]
    picture: str | None  # name of its picture, without folder and suffix

    @property
    def depends_on_rule(self) -> bool:
        return len(set(self.verdict.values())) > 1

    @property
    def pdr_text(self) -> str:
        """The PDR in Mpps, or the end of the measured loads beyond which it lies."""
        if self.pdr.rate is not None:
            return f"{self.pdr.rate / 1e6:.2f}"
        return f"< {self.lowest / 1e6:.2f}" if self.pdr.above is not None else f"> {self.highest / 1e6:.2f}"


def line(analysis: Analysis, rule: str, picture: str | None = None) -> Line:
    found, named = analysis.found, analysis.named
    rates = found.curve.rates
    return Line(
        analysis.file,
        analysis.title,
        named.factors,
        len(rates),
        int(found.curve.runs.min()),
        found.verdict,
        judge.reason(found, RULES[rule]),
        found.pdr,
        float(rates[0]),
        float(rates[-1]),
        tuple(judge.remarks(found)),
        analysis.malformed,
        named.unknown,
        picture,
    )


def shared_folder(files: Sequence[str]) -> str:
    """The longest beginning that all names share, up to a slash; nothing for a single file."""
    shared = os.path.commonprefix(files) if len(files) > 1 else ""  # noqa: RUF071  cut at a slash below
    return shared[: shared.rfind("/") + 1]


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


def _pairs(low: np.ndarray, high: np.ndarray) -> list[list[float | None]]:
    return [_numbers(pair) for pair in zip(low, high, strict=True)]
