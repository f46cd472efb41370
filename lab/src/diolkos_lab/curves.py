# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The load–loss curves of a run: trials of the load `pps` gathered by path and setting, judged, and put into words.

Stages: gather (only trusted trials, where every rate has enough of them) → judge → entries of summary.json. As the source of a
cell among the samples, the PDR of a curve is a figure like any other: it has a ratio, a noise floor, rules and comparisons.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from diolkos_lab.curve import judge, known_curves, loss, resampling
from diolkos_lab.curve.judge import DEFAULT_RULE, Judgement
from diolkos_lab.curve.resampling import Plan
from diolkos_lab.curve.saturation import RULES
from diolkos_lab.experiment.frames import CpuPlacement
from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.experiment.varied import Varied
from diolkos_lab.outcome import outcome
from diolkos_lab.stats.pairing import WARM_UP, CellKey, Figures, Record, build_of

LOAD: LoadName = "pps"
VARIED = (*Varied.model_fields, "directions", "next_hops", "nodes", "native_share")  # factors that only some curves have
FEWEST_STEPS = 3  # rates; two make no curve
FEWEST = 2  # trusted trials of a rate; with one there is no interval
AMPLE = 2.0  # times the highest rate that a generator has to reach by itself
CALM = 0.5  # share of the PDR at which latency is given: below, so that no queue stands


@dataclass(frozen=True)
class Setting:
    """Names a curve: the path, and how it was measured."""

    system: str
    datapath: str
    family: str
    hops: int
    replica: int
    placement: CpuPlacement
    size: int
    seconds: float
    flows: int | str
    offloads: str = "on"
    host: tuple[tuple[str, Any], ...] = ()  # of `VARIED`
    run: str = ""  # of several that were merged: each has rates of its own

    @property
    def subject(self) -> str:
        return f"{self.system}/{self.datapath}/{self.family}/{self.hops}"

    @property
    def factors(self) -> dict[str, Any]:
        names = ("offloads", "placement", "size", "seconds", "flows")
        run = {"run": self.run} if self.run else {}
        return {name: getattr(self, name) for name in names} | dict(self.host) | run


@dataclass(frozen=True)
class Measured:
    """One curve with what the generator could do by itself."""

    setting: Setting
    found: Judgement
    trials: int
    untrusted: int
    trusted: bool  # False: all trials are used, since a rate lacks trusted ones
    latency: tuple[float, float] | None  # s, typical and worst case (RFC 8219 §7.2), at the load nearest to CALM of the PDR
    cpu: Mapping[str, float]  # s of CPU per million packets that arrived, by who was charged: generator, system, threads, all
    generator: float | None  # packets/s that it and its sink reach with nothing between them
    records: Sequence[Record]  # all its trials
    by_block: Figures  # the PDR of each block
    finest: loss.Curve  # all rates, those too that only look closer at the PDR

    @property
    def key(self) -> CellKey:
        """The cell among the samples whose figure the PDR is."""
        return CellKey(self.setting.subject, LOAD, tuple(sorted(self.setting.factors.items())), self.setting.replica)

    def figures(self, *, include_untrusted: bool = False) -> Figures:
        """The PDR@0.5 % of each block in packets/s."""
        return self.by_block if self.trusted or include_untrusted else {}

    @property
    def limited_by_generator(self) -> bool:
        """The generator is too near its own end to tell what the path does."""
        return self.generator is None or self.generator < AMPLE * float(self.found.curve.rates[-1])

    @property
    def remarks(self) -> list[str]:
        said = judge.remarks(self.found)
        if self.setting.system == known_curves.SYSTEM and self.setting.datapath in known_curves.ANSWERS:
            said.insert(0, known_curves.remark(self.found, known_curves.ANSWERS[self.setting.datapath]))
        if not self.trusted:
            said.insert(0, f"not trusted: guards object to {self.untrusted} of {self.trials} trials, and all are used")
        if self.generator is None:
            said.append("generator-bound: it is not known what the generator reaches by itself")
        elif self.limited_by_generator:
            alone, most = judge.rate_text(self.generator), judge.rate_text(float(self.found.curve.rates[-1]))
            said.append(f"generator-bound: alone it reaches {alone}, less than twice the highest load, {most}")
        return said


def gather(trials: Iterable[Record], generators: Sequence[Mapping[str, Any]]) -> list[Measured]:
    """Every curve that the trials hold, in their order. `generators` is the list of that name in host.json."""
    groups: dict[Setting, list[Record]] = defaultdict(list)
    for trial in trials:
        if trial["load"] == LOAD and trial["block"] != WARM_UP and (trial.get("error") or trial["metrics"].get("sent")):
            groups[_setting(trial)].append(trial)
    curves = [_measured(setting, records, generators) for setting, records in groups.items()]
    return [curve for curve in curves if curve is not None]


def entries(curves: Iterable[Measured]) -> list[dict[str, Any]]:
    """The list `curves` of summary.json."""
    return [_entry(curve) for curve in curves]


def _setting(trial: Record) -> Setting:
    names = ("system", "datapath", "family", "hops")
    factors = {name: value for name, value in trial["factors"].items() if name not in ("offered", "refines")}
    host = tuple((name, factors.pop(name)) for name in VARIED if factors.get(name) is not None)
    return Setting(**{name: trial[name] for name in names}, replica=trial.get("replica", 1), **factors, host=host)


def _measured(setting: Setting, records: list[Record], generators: Sequence[Mapping[str, Any]]) -> Measured | None:
    by_rate: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_rate[record["factors"]["offered"]].append(record)
    valid = {rate: [record for record in group if _trusted(record)] for rate, group in by_rate.items()}
    steps = {rate for rate, group in by_rate.items() if not all(record["factors"].get("refines") for record in group)}
    if len(steps) < FEWEST_STEPS:
        return None
    trusted = all(len(valid[rate]) >= FEWEST for rate in steps)
    kept = valid if trusted else by_rate
    # A rate between the steps counts where it has as many trials as an interval needs, or as the steps have.
    enough = min(resampling.FEWEST, *(len(kept[rate]) for rate in steps))
    used = {rate: group for rate, group in kept.items() if rate in steps or len(group) >= enough}
    builds = {record["block"]: build_of(record) for record in records}
    every = _curve(used)
    plan = Plan.from_curve(every, builds)
    assert plan
    found = _with_finer_pdr(judge.judge(_curve({rate: used[rate] for rate in steps}), plan=plan), judge.judge(every, plan=plan))
    alone = next((each for each in generators if same(each, setting)), {})
    return Measured(
        setting,
        found,
        trials=len(records),
        untrusted=sum(not _trusted(record) for record in records),
        trusted=trusted,
        latency=_latency(found, used),
        cpu=_cpu([record for group in used.values() for record in group]),
        generator=alone.get("rate"),
        records=records,
        by_block=found.pdr_by_block or {},
        finest=every,
    )


def _trusted(record: Record) -> bool:
    return outcome(record).counts


def _curve(used: Mapping[int, list[Record]]) -> loss.Curve:
    """A trial that failed lost all that it was to carry: who leaves it out makes a path that breaks down look lossless."""
    rates = sorted(used)
    sent = [[record["metrics"].get("sent") or rate * record["factors"]["seconds"] for record in used[rate]] for rate in rates]
    received = [[record["metrics"].get("received", 0.0) for record in used[rate]] for rate in rates]
    return loss.measure(rates, sent, received, [[record["block"] for record in used[rate]] for rate in rates])


def _with_finer_pdr(steps: Judgement, all_rates: Judgement) -> Judgement:
    """The verdict of the steps, with the PDR of all rates: the more of them, the better that is known."""
    pdr = replace(all_rates.pdr, first_above=steps.pdr.first_above, returns=steps.pdr.returns)
    return replace(steps, pdr=pdr, pdr_ci95=all_rates.pdr_ci95, pdr_by_block=all_rates.pdr_by_block, ndr=all_rates.ndr)


def same(generator: Mapping[str, Any], setting: Setting) -> bool:
    """Whether it is the generator of that setting."""
    wanted = {name: getattr(setting, name) for name in ("family", "placement", "size")} | {"directions": "one"}
    wanted |= {name: value for name, value in setting.host if name not in ("next_hops", "nodes", "native_share")}
    return wanted.items() <= {"directions": "one", **generator}.items() and generator.get("run", "") == setting.run


def _latency(found: Judgement, used: Mapping[int, list[Record]]) -> tuple[float, float] | None:
    target = CALM * (found.pdr.rate or float(found.curve.rates[0]))
    nearest = min(used, key=lambda rate: abs(rate - target))
    values = [record["metrics"] for record in used[nearest] if "latency" in record["metrics"]]
    if not values:
        return None
    typical, worst = (float(np.median([value[name] for value in values])) for name in ("latency", "latency_worst"))
    return typical, worst


def _cpu(records: list[Record]) -> dict[str, float]:
    packets = sum(record["metrics"].get("received", 0.0) for record in records)
    names = ("generator", "system", "threads", "all")
    sums = {name: sum(record["metrics"].get(f"cpu_{name}", 0.0) for record in records) for name in names}
    return {name: value / packets * 1e6 for name, value in sums.items()} if packets else {}


def _entry(curve: Measured) -> dict[str, Any]:
    found, setting = curve.found, curve.setting
    plain = found.curve
    ends = found.pdr_ci95
    return {
        **{name: getattr(setting, name) for name in ("system", "datapath", "family", "hops", "replica")},
        **setting.factors,
        "rates": plain.rates.tolist(),
        "runs": plain.runs.tolist(),
        "plr": plain.plr.tolist(),
        "plr_half_width": [_number(value) for value in plain.half_width],
        "tir": [_number(value) for value in plain.tir],
        "tir_ci95": [[_number(low), _number(high)] for low, high in zip(found.tir_low, found.tir_high, strict=True)],
        "pdr_0_5_pps": found.pdr.rate,
        "pdr_0_5_ci95": [_number(end) for end in ends] if ends else None,
        "bracket": [found.pdr.below, found.pdr.above],
        "bracketed": found.pdr.bracketed,
        "ndr_pps": found.ndr.rate,
        "saturation_throughput_pps": found.saturated,
        "saturation_throughput_ci95": list(found.saturated_ci95) if found.saturated_ci95 else None,
        "potential_index": found.potential,
        "saturation_index": found.saturation,
        "verdict": found.verdict,
        "firm": found.firm,
        "reason": {name: judge.reason(found, rule) for name, rule in RULES.items()},
        "good_share": found.good_share,
        "rule": DEFAULT_RULE,
        "remarks": curve.remarks,
        "trials": curve.trials,
        "distrusted": curve.untrusted,
        "trusted": curve.trusted,
        "latency_s": list(curve.latency) if curve.latency else None,
        "cpu_s_per_million": dict(curve.cpu),
        "generator_pps": curve.generator,
        "generator_bound": curve.limited_by_generator,
    }


def _number(value: float) -> float | None:
    """JSON has neither NaN nor infinity."""
    return float(value) if np.isfinite(value) else None
