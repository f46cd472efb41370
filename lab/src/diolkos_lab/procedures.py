# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the procedures of a run found: NDR and PDR by MLRsearch; throughput, frame loss and delays by RFC 8219.

Stages: outcomes in the place of trials, for the table of summary.json. Beside that: outcomes, gathered by path and plan →
figures over the blocks (trusted ones alone, where there are some) → entries of summary.json.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diolkos_lab import curves
from diolkos_lab.metric import METRICS
from diolkos_lab.outcome import INSTRUMENT
from diolkos_lab.stats import bounds, hierarchy
from diolkos_lab.stats.bounds import Bounds, ends_as_json
from diolkos_lab.stats.median import Interval, median
from diolkos_lab.stats.pairing import WARM_UP, Record, build_of

LOADS = ("mlrsearch", "rfc8219")
RATE = METRICS["rate"]  # the metric as which what is found stands in tables
AMPLE = 2.0  # times the rate found that a generator has to reach by itself
DOUBT = {"guard": "bounds", "detail": "a trial at a bound of the rate is not trusted"}
APART = ("host", "kernel", "run")  # of merged runs, where these are told apart
PATH = ("system", "datapath", "family", "hops")
STREAMS = {"latency": ("typical_s", "worst_s"), "delay_variation": ("pdv_s", "ipdv_min_s", "ipdv_median_s", "ipdv_max_s")}


@dataclass(frozen=True, kw_only=True)
class Setting(curves.Setting):
    """Names one part of a procedure: the path, and how it was measured."""

    procedure: str


@dataclass(frozen=True)
class Rate:
    """A rate that a procedure looked for: what it is called, and what each block says."""

    name: str  # "NDR", "PDR@0.5 %" or "throughput"
    loss_ratio: float
    lower: Mapping[int, Bounds]  # block to packets/s: the highest rate that keeps to the loss ratio; a range at a limit
    upper: Mapping[int, float]  # the lowest that does not; infinite where the search met its highest rate
    conditional: Mapping[int, float]  # conditional throughput, of MLRsearch
    builds: tuple[tuple[int, ...], ...]  # the blocks of each build of the lanes
    trusted: bool  # of untrusted trials otherwise: no block has trusted ones at its bounds
    blocks: int  # in which the procedure came to its end
    remark: str | None  # why there is no such rate, or what stands beside it

    @property
    def found(self) -> Bounds | None:
        """The median over the blocks: a range where it fell on blocks that met a limit."""
        return bounds.median(list(self.lower.values())) if self.lower else None

    @property
    def value(self) -> float | None:
        """The median, or what it is at least; None where all that is known is that it is less than `above`."""
        return (self.found.low or None) if self.found else None

    @property
    def above(self) -> float | None:
        above = median(list(self.upper.values())) if self.upper else math.inf
        return above if math.isfinite(above) else None

    @property
    def forwarded(self) -> float | None:
        """The conditional throughput."""
        return median(list(self.conditional.values())) if self.conditional else None

    @property
    def ci95(self) -> Interval | None:
        return hierarchy.interval([[self.lower[block] for block in build if block in self.lower] for build in self.builds])


@dataclass(frozen=True)
class Found:
    """One part of a procedure on one path, over all blocks."""

    setting: Setting
    rates: list[Rate]
    outcomes: Mapping[int, Mapping[str, Any]]  # block to outcome
    unfinished: int  # blocks in which it was begun and did not end
    generator: float | None  # packets/s that generator and sink reach with nothing between them

    @property
    def trials(self) -> int:
        return self._tally("trials")

    @property
    def repeated(self) -> int:
        return self._tally("repeated")

    @property
    def untrusted(self) -> int:
        return self._tally("distrusted")

    @property
    def guards(self) -> dict[str, int]:
        """Objections by guard, in the trials of all attempts."""
        counted: dict[str, int] = defaultdict(int)
        for outcome in self.outcomes.values():
            for guard, number in outcome["tally"]["guards"].items():
                counted[guard] += number
        return dict(counted)

    @property
    def trusted(self) -> bool:
        return bool(self.rates) and all(rate.trusted for rate in self.rates)

    @property
    def deviations(self) -> list[str]:
        return list(dict.fromkeys(text for outcome in self.outcomes.values() for text in outcome["deviations"]))

    @property
    def errors(self) -> list[str]:
        return list(dict.fromkeys(outcome["error"] for outcome in self.outcomes.values() if outcome["error"]))

    @property
    def limited_by_generator(self) -> bool:
        """The generator is too near its own end to tell what the path does."""
        highest = max((rate.above or rate.value or 0.0 for rate in self.rates), default=0.0)
        return self.generator is None or self.generator < AMPLE * highest

    def of_test(self, name: str) -> list[Mapping[str, Any]]:
        """What each block says of the test `frame_loss`, `latency` or `delay_variation`."""
        return [outcome[name] for outcome in self.outcomes.values() if outcome.get(name)]

    def runs(self, test: str, figure: str) -> list[float]:
        """The figure of every stream that counts: trusted ones, where there are any."""
        parts = [part for part in self.of_test(test) if not part.get("error")]
        used = [part for part in parts if part["trusted"]] or parts
        return [value for part in used for value in part[figure]]

    def _tally(self, name: str) -> int:
        return sum(outcome["tally"][name] for outcome in self.outcomes.values())


def gather(trials: Iterable[Record], generators: Sequence[Mapping[str, Any]]) -> list[Found]:
    """Every part of a procedure that the trials hold, in their order. `generators` is the list of that name in host.json."""
    outcomes: dict[Setting, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    begun: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    builds: dict[int, int] = {}
    for trial in trials:
        if trial["load"] in LOADS and trial["block"] != WARM_UP:
            begun[_where(trial)].add(trial["block"])
            builds[trial["block"]] = build_of(trial)
            if "outcome" in trial:
                outcomes[_setting(trial)][trial["block"]] = trial["outcome"]
    ended = {_where_of(setting) for setting in outcomes}
    found = [
        _found(setting, by_block, begun[_where_of(setting)] - by_block.keys(), generators, builds)
        for setting, by_block in outcomes.items()
    ]
    return found + [_never_ended(where, blocks, generators, builds) for where, blocks in begun.items() if where not in ended]


def entries(found: Iterable[Found]) -> list[dict[str, Any]]:
    """The list `procedures` of summary.json. Rates are in packets/s, times in s."""
    return [_entry(each) for each in found]


def replace_trials_by_rates(trials: Iterable[Record]) -> Iterator[Record]:
    """The trials, with one record for each rate that a procedure found in the place of its trials: metric `rate`, packets/s.

    So what is said of trials (median, ratio within a block, noise floor, verdicts, comparison of runs) is said of these too.
    A rate that a limit of the search hides, above or below, is the range beyond it.
    """
    kept = list(trials)
    wanted: dict[tuple[Any, ...], dict[float, None]] = defaultdict(dict)  # the loss ratios that each search is for
    for trial in kept:
        if trial["load"] in LOADS and "outcome" in trial and not trial["outcome"]["error"]:
            wanted[_where(trial)] |= {found["loss_ratio"]: None for _, found in _bounds(trial["outcome"])}
    for trial in kept:
        if trial["load"] not in LOADS:
            yield trial
        elif "outcome" in trial:
            yield from _records(trial, trial["outcome"], wanted[_where(trial)])


def _records(trial: Record, outcome: Mapping[str, Any], wanted: Iterable[float]) -> Iterator[Record]:
    apart = {name: trial["factors"][name] for name in ("offloads", *APART) if name in trial["factors"]}
    factors = {**apart, **outcome["plan"]}
    if outcome["error"]:
        failed = {**trial, "valid": False, "distrust": [], "error": outcome["error"], "metrics": {}}
        if outcome.get("gave_up"):
            failed |= {"valid": True, "error": None, "bounds": {"rate": bounds.UNKNOWN.as_json}}
        elif outcome.get("instrument_failed"):
            failed |= {"error": None, "distrust": [{"guard": INSTRUMENT, "detail": outcome["error"]}]}
        for each in [{**factors, "loss_ratio": ratio} for ratio in wanted] or [factors]:
            yield {**failed, "factors": each}
        return
    for _, found in _bounds(outcome):
        yield {
            **trial,
            "factors": {**factors, "loss_ratio": found["loss_ratio"]},
            "valid": not found["distrusted"],
            "distrust": [DOUBT] if found["distrusted"] else [],
            "error": None,
            **_found_rate(found),
        }


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Median, as RFC 8219 §7.2 and §7.3 want it, with the 1st and 99th percentile, which §7.3.1 wants and §7.2 allows."""
    if not values:
        return None
    low, middle, high = (float(np.percentile(values, share)) for share in (1, 50, 99))
    return {"median": middle, "p1": low, "p99": high}


def loss_steps(found: Found) -> list[dict[str, Any]]:
    """Loss by share of the maximum rate, median over the blocks, trusted steps alone where there are any."""
    by_percent: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for part in found.of_test("frame_loss"):
        for step in part["steps"]:
            by_percent[step["percent"]].append(step)
    made = []
    for percent, steps in sorted(by_percent.items(), reverse=True):
        used = [step for step in steps if step["trusted"]] or steps
        names = ("offered_pps", "loss_ratio", "native_loss_ratio", "translated_loss_ratio")
        figures = {name: median([step[name] for step in used]) for name in names if used[0].get(name) is not None}
        made.append({"percent": percent, **figures, "trusted": used[0]["trusted"]})
    return made


def _where(trial: Record) -> tuple[Any, ...]:
    factors = trial["factors"]
    named = (factors["placement"], factors["size"], factors["flows"], factors["offloads"], _host(factors), trial.get("run", ""))
    return (*(trial[name] for name in PATH), trial.get("replica", 1), trial["load"], *named)


def _where_of(setting: Setting) -> tuple[Any, ...]:
    path = (*(getattr(setting, name) for name in PATH), setting.replica, setting.procedure)
    return (*path, setting.placement, setting.size, setting.flows, setting.offloads, setting.host, setting.run)


def _host(factors: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, factors[name]) for name in curves.VARIED if factors.get(name) is not None)


def _setting(trial: Record) -> Setting:
    path = {name: trial[name] for name in PATH}
    whole = {"offloads": trial["factors"]["offloads"], "run": trial.get("run", "")}
    plan = {name: value for name, value in trial["outcome"]["plan"].items() if name not in curves.VARIED}
    host = _host(trial["outcome"]["plan"])
    return Setting(**path, replica=trial.get("replica", 1), procedure=trial["load"], **plan, host=host, **whole)


def _never_ended(
    where: tuple[Any, ...], blocks: set[int], generators: Sequence[Mapping[str, Any]], builds: Mapping[int, int]
) -> Found:
    path = dict(zip(PATH, where, strict=False))
    names = ("replica", "procedure", "placement", "size", "flows", "offloads", "host", "run")
    setting = Setting(**path, **dict(zip(names, where[len(PATH) :], strict=True)), seconds=0.0)
    return _found(setting, {}, blocks, generators, builds)


def _found(
    setting: Setting,
    by_block: Mapping[int, Mapping[str, Any]],
    unfinished: Iterable[int],
    generators: Sequence[Mapping[str, Any]],
    builds: Mapping[int, int],
) -> Found:
    alone = next((each for each in generators if curves.same(each, setting)), {})
    ended = {block: outcome for block, outcome in by_block.items() if not outcome["error"]}
    looked_for: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for block, outcome in ended.items():
        for name, found in _bounds(outcome):
            looked_for[name][block] = found
    broken = {
        block: bounds.UNKNOWN if outcome.get("gave_up") else bounds.failed("higher")
        for block, outcome in by_block.items()
        if outcome["error"] and not outcome.get("instrument_failed")
    }
    rates = [_rate(name, by_block, broken, builds) for name, by_block in looked_for.items()]
    return Found(setting, rates, by_block, len(set(unfinished)), alone.get("rate"))


def _bounds(outcome: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Each rate of an outcome by name, in one form: loss_ratio, bounds, limits, whether all trials at them are trusted."""
    limits = outcome["limits"]
    if outcome["procedure"] == "mlrsearch":
        return [
            (
                rate_name(goal["goal"]["loss_ratio"]),
                {**goal, **limits, "loss_ratio": goal["goal"]["loss_ratio"], "distrusted": goal["distrusted_at_bounds"]},
            )
            for goal in outcome["goals"]
        ]
    return [("throughput", {**outcome["throughput"], **limits, "loss_ratio": 0.0})]


def _figure(found: Mapping[str, Any]) -> Bounds:
    """Between two rates that were measured, or beyond a limit of the search."""
    if found["lower_pps"] is None:
        return bounds.at_most(float(found["lowest"]))
    if found["upper_pps"] is None:
        return bounds.at_least(float(found["lower_pps"]))
    return bounds.exactly(float(found["lower_pps"]))


def _found_rate(found: Mapping[str, Any]) -> dict[str, Any]:
    figure = _figure(found)
    return {"metrics": {"rate": figure.low}} if figure.exact else {"metrics": {}, "bounds": {"rate": figure.as_json}}


def rate_name(loss_ratio: float) -> str:
    return f"PDR@{loss_ratio * 100:g} %" if loss_ratio else "NDR"


def _rate(
    name: str, by_block: Mapping[int, Mapping[str, Any]], broken: Mapping[int, Bounds], builds: Mapping[int, int]
) -> Rate:
    """`broken` is what blocks count for in which the procedure did not come to its end."""
    firm = {block: found for block, found in by_block.items() if not found["distrusted"]}
    used = firm or by_block
    first = next(iter(used.values()))
    too_low = sum(found["upper_pps"] is None for found in used.values())
    too_high = sum(found["lower_pps"] is None for found in used.values())
    remark = None
    if too_high == len(used):
        remark = f"more is lost even at the lowest rate, {first['lowest']} packets/s"
    elif too_low == len(used):
        remark = f"no more is lost even at the highest rate, {first['highest']} packets/s"
    elif too_low or too_high:
        met = [f"{count} at the {end}" for count, end in ((too_low, "highest"), (too_high, "lowest")) if count]
        remark = f"of {len(used)} blocks, {' and '.join(met)} met a limit of the rates; they count as what lies beyond it"
    shared: dict[int, list[int]] = defaultdict(list)
    for block in (*used, *broken):
        shared[builds[block]].append(block)
    return Rate(
        name,
        first["loss_ratio"],
        {block: _figure(found) for block, found in used.items()} | dict(broken),
        {block: math.inf if found["upper_pps"] is None else float(found["upper_pps"]) for block, found in used.items()},
        {block: float(found["conditional_pps"]) for block, found in used.items() if found.get("conditional_pps") is not None},
        tuple(map(tuple, shared.values())),
        bool(firm),
        len(by_block),
        remark,
    )


def _entry(found: Found) -> dict[str, Any]:
    setting = found.setting
    entry = {
        **{name: getattr(setting, name) for name in (*PATH, "replica", "procedure")},
        **setting.factors,
        "rates": [
            {
                "name": rate.name,
                "loss_ratio": rate.loss_ratio,
                "lower_pps": rate.value,
                "upper_pps": rate.above,
                "conditional_pps": rate.forwarded,
                "bounds": rate.found.as_json if rate.found else None,
                "ci95": rate.ci95 and ends_as_json(rate.ci95),
                "blocks": rate.blocks,
                "trusted": rate.trusted,
                "remark": rate.remark,
            }
            for rate in found.rates
        ],
        "trials": found.trials,
        "repeated": found.repeated,
        "distrusted": found.untrusted,
        "guards": found.guards,
        "unfinished": found.unfinished,
        "errors": found.errors,
        "deviations": found.deviations,
        "generator_pps": found.generator,
        "generator_bound": found.limited_by_generator,
    }
    if found.of_test("frame_loss"):
        entry["frame_loss"] = loss_steps(found)
    for test, figures in STREAMS.items():
        if found.of_test(test):
            entry[test] = {figure: percentiles(found.runs(test, figure)) for figure in figures}
            entry[test]["streams"] = len(found.runs(test, figures[0]))
            entry[test]["trusted"] = any(part.get("trusted") for part in found.of_test(test))
    return entry
