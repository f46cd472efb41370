# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of a study, decided by the rule that stood in study.toml before the run.

A claim is met when the whole 95 % interval of the ratio lies on the right side of the threshold, not met when the whole
interval lies on the wrong side, and undecided when the interval spans it or there are too few trusted blocks to have one.
Where a path and its twin differ by more than chance, something but the system moves the figures: by so much the interval
is widened first. A path that is compared with native IPv4 and with native IPv6 meets a claim only if it does so against
either: the verdict is the worse of both.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from diolkos_lab.experiment.definition import Claim, Study, Subject
from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.load.registry import LOADS
from diolkos_lab.metric import METRICS
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.stats.bounds import UNKNOWN, Bounds, ends_as_json
from diolkos_lab.stats.hierarchy import FEWEST_BUILDS
from diolkos_lab.stats.median import FEWEST, Interval
from diolkos_lab.stats.pairing import CellKey, MedianOfBlocks, Samples

MET, NOT_MET, UNDECIDED = "met", "not met", "undecided"


def verdicts(study: Study, samples: Samples, missing: Mapping[str, str]) -> list[dict[str, Any]]:
    """One verdict per claim, load and level of factors. `missing` says why a system was not measured."""
    return [
        verdict for claim in study.claim for load in claim.loads for verdict in _of_load(study, claim, load, samples, missing)
    ]


def decide(claim: Claim, ci95: Interval | None) -> str:
    if ci95 is None:
        return UNDECIDED
    low, high = ci95
    if claim.at_least is not None:
        return MET if low >= claim.at_least else NOT_MET if high < claim.at_least else UNDECIDED
    assert claim.at_most is not None
    return MET if high <= claim.at_most else NOT_MET if low > claim.at_most else UNDECIDED


def _of_load(study: Study, claim: Claim, load: LoadName, samples: Samples, missing: Mapping[str, str]) -> list[dict[str, Any]]:
    subject = _subject(study, f"{claim.system}/{claim.datapath}")
    others = _compared_with(study, claim, subject, load)
    cells = [key for key in samples.cells() if key.subject == subject.key and key.load == load and _is_about(claim, key)]
    for system in (subject.system, *(other.split("/", maxsplit=1)[0] for other in others)):
        if system in missing:
            return [_verdict(claim, load, {}, None, f"{system} was not measured: {missing[system]}", others[0])]
    if not cells:
        return [_verdict(claim, load, {}, None, "the run holds no trial of it", others[0])]
    varying = _varying(cells)
    levels = [{name: value for name, value in key.factors if name in varying} for key in cells]
    return [
        _worst(claim, [_of_cell(claim, samples, key, other, level) for other in others])
        for key, level in zip(cells, levels, strict=True)
    ]


def _compared_with(study: Study, claim: Claim, subject: Subject, load: LoadName) -> tuple[str, ...]:
    """The subjects, each of which the claim has to hold against."""
    if claim.against:
        return (_subject(study, claim.against).key,)
    if claim.against_where:
        return (subject.key,)
    return study.baselines(subject, load) or subject.candidates[:1]


def _of_cell(claim: Claim, samples: Samples, key: CellKey, other: str, level: dict[str, Any]) -> dict[str, Any]:
    """The verdict against one of them."""
    if claim.against_where:
        against = CellKey(other, key.load, tuple(sorted({**dict(key.factors), **claim.against_where}.items())))
    else:
        against = samples.counterpart(key, other)
    ratio = samples.ratio(key, against, claim.metric)
    why_not, bias = _why_not(samples, key, against, ratio), _bias(samples, key, claim)
    failures = _runs(samples) + _failures(samples, key, against)
    return _verdict(claim, key.load, level, ratio, why_not, other, bias, failures)


def _worst(claim: Claim, found: list[dict[str, Any]]) -> dict[str, Any]:
    """The verdict that decides, with what each of them says in `baselines`, and a sentence about the others."""

    def badness(verdict: Mapping[str, Any]) -> tuple[int, float]:
        low, high = (math.inf if end is None else end for end in verdict["ci95"] or (0.0, None))
        return (MET, UNDECIDED, NOT_MET).index(verdict["outcome"]), -low if claim.at_least is not None else high

    worst = max(found, key=badness)
    if len(found) == 1:
        return worst
    each = [{name: one[name] for name in ("baseline", "outcome", "value", "value_bounds", "ci95")} for one in found]
    beside = [
        f" Against {_in_words(one['baseline'], {})}: {one['outcome']}"
        + (f", {_times(one['value'])} times" if one["value"] is not None else "")
        + (f" ({_times(low)} to {_times(math.inf if high is None else high)})" if one["ci95"] else "")
        + "."
        for one in found
        if one is not worst
        for low, high in [one["ci95"] or (0.0, None)]
    ]
    named = " and ".join(_in_words(one["baseline"], {}) for one in found)
    rule = worst["rule"].replace(_in_words(worst["baseline"], {}), named, 1)
    return {**worst, "rule": rule, "sentence": worst["sentence"] + "".join(beside), "baselines": each}


def _bias(samples: Samples, key: CellKey, claim: Claim) -> float:
    """By how much a path differs from its twin at least, where that is more than chance: 0.02 for 2 %. Of several twins, the
    most."""
    twins = [each for each in samples.cells() if each.replica == 2 and (each.load, each.factors) == (key.load, key.factors)]
    ratios = [samples.ratio(twin, replace(twin, replica=1), claim.metric) for twin in twins]
    ends = [each.ci95 for each in ratios if each and each.ci95]
    return max((max(low - 1, 1 - high, 0.0) for low, high in ends), default=0.0)


def _runs(samples: Samples) -> str:
    """How many were merged, as part of a sentence."""
    return f" of {samples.runs} runs on {len(samples.hosts)} host{'s' * (len(samples.hosts) > 1)}" if samples.runs > 1 else ""


def _failures(samples: Samples, *cells: CellKey) -> str:
    """How many blocks failed, as part of a sentence; empty where none did."""
    errors = {
        record["block"]: record["error"] for cell in cells for record in reversed(samples.trials(cell)) if record["error"]
    }
    return f", of which {len(errors)} failed, first because {errors[min(errors)]}" if errors else ""


def _subject(study: Study, name: str | None) -> Subject:
    return next(subject for subject in study.system if f"{subject.system}/{subject.datapath}" == name)


def _is_about(claim: Claim, key: CellKey) -> bool:
    factors = dict(key.factors)
    return all(factors.get(name) == value for name, value in claim.where.items())


def _varying(cells: list[CellKey]) -> set[str]:
    """Names of the factors that need to be said: those in which the cells differ, and what a packet rate depends on most."""
    every = [dict(key.factors) for key in cells]
    names = {name for factors in every for name in factors}
    return {name for name in names if name == "flows" or len({factors.get(name) for factors in every}) > 1}


def _why_not(samples: Samples, key: CellKey, against: CellKey, ratio: MedianOfBlocks | None) -> str | None:
    """Why there is no interval, or None when there is one."""
    if ratio and ratio.ci95:
        return None
    blocks = len(ratio.by_block) if ratio else 0
    if blocks >= FEWEST and samples.runs > 1:
        return f"a run has fewer than {FEWEST} blocks with trusted trials of both, or fewer than {FEWEST_BUILDS} builds"
    if blocks >= FEWEST:
        return f"the {blocks} blocks that have trusted trials of both are of fewer than {FEWEST_BUILDS} builds of the lanes"
    found = Counter(outcome(record) for cell in (key, against) for record in samples.trials(cell))
    have = "1 block has" if blocks == 1 else f"{blocks} blocks have"
    lacking = f"{found[Outcome.UNTRUSTED]} trials are untrusted"
    if broken := found[Outcome.INSTRUMENT_FAILED]:
        lacking += f", and in {broken} an instrument of the lab failed"
    return f"only {have} trusted trials of both ({lacking}), {FEWEST} are needed"


def _verdict(
    claim: Claim,
    load: LoadName,
    level: dict[str, Any],
    ratio: MedianOfBlocks | None,
    obstacle: str | None,
    other: str,
    bias: float = 0.0,
    failures: str = "",
) -> dict[str, Any]:
    ci95 = (ratio.ci95[0] * (1 - bias), ratio.ci95[1] * (1 + bias)) if ratio and ratio.ci95 else None
    decided = decide(claim, ci95)
    bound = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most:g}"
    what = f"{claim.system} {claim.datapath}, {LOADS[load].words}"
    if level:
        what += f" ({', '.join(f'{name} {value}' for name, value in level.items())})"
    of = _in_words(other, claim.against_where)
    if ratio and ci95:
        interval = f"95 % interval {_times(ci95[0])} to {_times(ci95[1])}"
        widened = f", {bias:.1%} of each end for what a path and its twin differ by" if bias else ""
        words = METRICS[claim.metric].words
        measured = f"{words} is {_times_of(ratio.median)} times that of {of} ({interval}{widened}"
        sentence = f"{what}: {measured}, {len(ratio.by_block)} blocks{failures}); the rule asks for {bound}"
        sentence += ", and the interval spans it." if decided == UNDECIDED else "."
    else:
        sentence = f"{what}: not decided, because {obstacle}; the rule asks for {bound} of {of}."
    return {
        "claim": claim.claim,
        "rule": f"{METRICS[claim.metric].words} of {claim.system} {claim.datapath} / {of}, {LOADS[load].words}: {bound}",
        "outcome": decided,
        "sentence": f"{decided.capitalize()}. {sentence}",
        "value": ratio.median.number if ratio else None,
        "value_bounds": ratio.median.as_json if ratio else None,
        "ci95": ci95 and ends_as_json(ci95),
        "baseline": other,
    }


def _times_of(ratio: Bounds) -> str:
    if ratio.exact:
        return _times(ratio.low)
    if ratio == UNKNOWN:
        return "any number of"
    if math.isinf(ratio.high):
        return f"at least {_times(ratio.low)}"
    return f"{_times(ratio.low)} to {_times(ratio.high)}" if ratio.low else f"at most {_times(ratio.high)}"


def _times(ratio: float) -> str:
    """Three digits that mean something, also when the last of them are zeros."""
    if math.isinf(ratio):
        return "∞"
    return f"{ratio:.3g}" if ratio >= 10 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def _in_words(subject: str, where: Mapping[str, Any]) -> str:
    if where:
        return f"itself with {', '.join(f'{name} {value}' for name, value in where.items())}"
    system, datapath, family, hops = subject.split("/")
    if system == "native":
        return f"native {'IPv6' if family == 'ipv6' else 'IPv4'} over {hops} {'hop' if hops == '1' else 'hops'}"
    return f"{system} {datapath}"
