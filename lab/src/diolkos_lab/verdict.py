# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of a study, decided by the rule that stood in study.toml before the run.

A claim is met when the whole interval of the ratio lies on the right side of the threshold, not met when the whole interval
lies on the wrong side, and undecided when the interval spans it or there are too few trusted blocks to have one. The interval
is wider than 95 % by as much as the number of rules asks for (`stats/family.py`). Where a path and its twin differ by more than
chance, something but the system moves the figures: by so much the interval is widened first. A path that is compared with
native IPv4 and with native IPv6 meets a claim only if it does so against either: the verdict is the worse of both.

Stages: asked (each rule with its ratios) → the confidence that all of them need → verdicts.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from diolkos_lab.experiment.definition import Claim, Study, Subject
from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.load.registry import LOADS
from diolkos_lab.metric import METRICS
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.stats import family
from diolkos_lab.stats.bounds import UNKNOWN, Bounds, ends_as_json
from diolkos_lab.stats.median import CONFIDENCE, FEWEST, Interval
from diolkos_lab.stats.pairing import CellKey, Figures, MedianOfBlocks, Samples

MET, NOT_MET, UNDECIDED = "met", "not met", "undecided"
OUTCOMES = (MET, UNDECIDED, NOT_MET)  # from the best to the worst


@dataclass(frozen=True)
class Compared:
    """One rule at one load and level of factors against one other path, with what the run says of it."""

    claim: Claim
    load: LoadName
    level: Mapping[str, Any]
    other: str  # what it is compared with
    ratio: MedianOfBlocks | None
    obstacle: str | None  # why there is no interval
    samples: Samples
    bias: float = 0.0
    said: str = ""  # of runs and failures, as part of a sentence

    def interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        if not self.ratio or not (ends := self.samples.interval(self.ratio.by_block, confidence)):
            return None
        return ends[0] * (1 - self.bias), ends[1] * (1 + self.bias)

    def outcome(self, confidence: float = CONFIDENCE) -> str:
        return decide(self.claim, self.interval(confidence))

    @cached_property
    def has_interval(self) -> bool:
        return self.interval() is not None

    def badness(self, confidence: float = CONFIDENCE) -> tuple[int, float]:
        """Against the others of its rule: the one with the highest decides."""
        low, high = self.interval() or (0.0, math.inf)
        return OUTCOMES.index(self.outcome(confidence)), -low if self.claim.at_least is not None else high


@dataclass(frozen=True)
class Asked:
    """One rule at one load and level of factors, against each path that it has to hold against."""

    against: tuple[Compared, ...]

    def worst(self, confidence: float = CONFIDENCE) -> Compared:
        return max(self.against, key=lambda each: each.badness(confidence))

    def outcome(self, confidence: float = CONFIDENCE) -> str:
        return self.worst(confidence).outcome(confidence)

    @cached_property
    def has_interval(self) -> bool:
        return self.worst().has_interval


def verdicts(study: Study, samples: Samples, missing: Mapping[str, str]) -> list[dict[str, Any]]:
    return decided(asked(study, samples, missing))


def decided(every: Sequence[Asked]) -> list[dict[str, Any]]:
    """One verdict for each rule."""
    confidence = _confidence(every)
    rules = sum(each.has_interval for each in every)
    return [_verdict(each, confidence, rules) for each in every]


def asked(study: Study, samples: Samples, missing: Mapping[str, str]) -> list[Asked]:
    """One rule per claim, load and level of factors. `missing` says why a system was not measured."""
    return [each for claim in study.claim for load in claim.loads for each in _of_load(study, claim, load, samples, missing)]


def of_family(every: Sequence[Asked]) -> dict[str, Any] | None:
    """How sure each rule has to be, and how many would be decided where nothing differs, each by itself and as they are; None
    without a rule that has an interval. Of merged runs, whose blocks differ, nobody knows the latter."""
    rules = [each for each in every if each.has_interval]
    if not rules:
        return None
    confidence = _confidence(every)
    decided = sum(each.outcome(confidence) != UNDECIDED for each in rules)
    chance = {}
    worst = [each.worst() for each in rules]
    if all(each.samples.runs == 1 for each in worst):
        names = ("alone", "together")
        found = family.by_chance([_said(each.samples, each.ratio.by_block) for each in worst if each.ratio])
        chance = {name: {"mean": each.mean, "most95": each.most} for name, each in zip(names, found, strict=True)}
    return {"rules": len(rules), "decided": decided, "confidence": confidence, "by_chance": chance or None}


def family_in_words(entry: Mapping[str, Any] | None) -> str | None:
    """What the number of rules does to them, for page, terminal and export; None where it does nothing, or where another
    program wrote the entry."""
    try:
        return _in_words_of_family(entry) if entry and entry["rules"] > 1 else None
    except (KeyError, TypeError, ValueError):
        return None


def _in_words_of_family(entry: Mapping[str, Any]) -> str:
    said = f"{entry['rules']} rules are judged together: each is decided by a {_level(entry['confidence'])} interval."
    if chance := entry["by_chance"]:
        alone, together = chance["alone"], chance["together"]
        said += (
            f" Were each judged by its 95 % interval alone, a lab in which nothing differs would decide {alone['mean']:.1f} of "
            f"them wrongly on average, and up to {alone['most95']} in 95 of 100 runs; as they are judged, "
            f"{together['mean']:.1f} and {together['most95']}."
        )
    return said


def _confidence(every: Sequence[Asked]) -> float:
    rules = [each for each in every if each.has_interval]
    return family.confidence([lambda level, rule=each: rule.outcome(level) != UNDECIDED for each in rules])  # type: ignore[misc]


def _said(samples: Samples, figures: Figures) -> dict[int, float]:
    """What each build says; of a range, the end that was measured."""
    return {build: (each.low or each.high) for build, each in samples.said_by_build(figures).items()}


def decide(claim: Claim, ci95: Interval | None) -> str:
    if ci95 is None:
        return UNDECIDED
    low, high = ci95
    if claim.at_least is not None:
        return MET if low >= claim.at_least else NOT_MET if high < claim.at_least else UNDECIDED
    assert claim.at_most is not None
    return MET if high <= claim.at_most else NOT_MET if low > claim.at_most else UNDECIDED


def _of_load(study: Study, claim: Claim, load: LoadName, samples: Samples, missing: Mapping[str, str]) -> list[Asked]:
    subject = _subject(study, f"{claim.system}/{claim.datapath}")
    others = _compared_with(study, claim, subject, load)

    def without(obstacle: str) -> list[Asked]:
        return [Asked((Compared(claim, load, {}, others[0], None, obstacle, samples),))]

    for system in (subject.system, *(other.split("/", maxsplit=1)[0] for other in others)):
        if system in missing:
            return without(f"{system} was not measured: {missing[system]}")
    cells = [key for key in samples.cells() if key.subject == subject.key and key.load == load and _is_about(claim, key)]
    if not cells:
        return without("the run holds no trial of it")
    varying = _varying(cells)
    levels = [{name: value for name, value in key.factors if name in varying} for key in cells]
    return [
        Asked(tuple(_of_cell(claim, samples, key, other, level) for other in others))
        for key, level in zip(cells, levels, strict=True)
    ]


def _compared_with(study: Study, claim: Claim, subject: Subject, load: LoadName) -> tuple[str, ...]:
    """The subjects, each of which the claim has to hold against."""
    if claim.against:
        return (_subject(study, claim.against).key,)
    if claim.against_where:
        return (subject.key,)
    return study.baselines(subject, load) or subject.candidates[:1]


def _of_cell(claim: Claim, samples: Samples, key: CellKey, other: str, level: Mapping[str, Any]) -> Compared:
    if claim.against_where:
        against = CellKey(other, key.load, tuple(sorted({**dict(key.factors), **claim.against_where}.items())))
    else:
        against = samples.counterpart(key, other)
    ratio = samples.ratio(key, against, claim.metric)
    why_not, bias = _why_not(samples, key, against, ratio), _bias(samples, key, claim)
    said = _runs(samples) + _failures(samples, key, against)
    return Compared(claim, key.load, level, other, ratio, why_not, samples, bias, said)


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
        return f"a run has fewer than {FEWEST} blocks with trusted trials of both, or fewer than {FEWEST} builds"
    if blocks >= FEWEST:
        return f"the {blocks} blocks that have trusted trials of both are of fewer than {FEWEST} builds of the lanes"
    found = Counter(outcome(record) for cell in (key, against) for record in samples.trials(cell))
    have = "1 block has" if blocks == 1 else f"{blocks} blocks have"
    lacking = f"{found[Outcome.UNTRUSTED]} trials are untrusted"
    if broken := found[Outcome.INSTRUMENT_FAILED]:
        lacking += f", and in {broken} an instrument of the lab failed"
    return f"only {have} trusted trials of both ({lacking}), {FEWEST} are needed"


def _verdict(rule: Asked, confidence: float, rules: int) -> dict[str, Any]:
    """The verdict that decides, with what each of them says in `baselines`, and a sentence about the others."""
    worst = rule.worst(confidence)
    found = {each.other: _against(each, confidence, rules) for each in rule.against}
    decides = found.pop(worst.other)
    if not found:
        return decides
    names = ("baseline", "outcome", "value", "value_bounds", "ci95")
    each = [{name: one[name] for name in names} for one in (decides, *found.values())]
    every = [_in_words(one.other, {}) for one in rule.against]
    told = decides["rule"].replace(_in_words(worst.other, {}), " and ".join(every), 1)
    sentence = decides["sentence"] + "".join(_beside(one) for one in found.values())
    return {**decides, "rule": told, "sentence": sentence, "baselines": each}


def _beside(verdict: Mapping[str, Any]) -> str:
    """A sentence about a comparison that does not decide."""
    said = f" Against {_in_words(verdict['baseline'], {})}: {verdict['outcome']}"
    if verdict["value"] is not None:
        said += f", {_times(verdict['value'])} times"
    if verdict["ci95"]:
        low, high = verdict["ci95"]
        said += f" ({_times(low)} to {_times(math.inf if high is None else high)})"
    return f"{said}."


def _against(rule: Compared, confidence: float, rules: int) -> dict[str, Any]:
    """The verdict against one other path."""
    claim, ratio, ci95 = rule.claim, rule.ratio, rule.interval()
    found = rule.outcome(confidence)
    bound = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most:g}"
    what = f"{claim.system} {claim.datapath}, {LOADS[rule.load].words}"
    if rule.level:
        what += f" ({', '.join(f'{name} {value}' for name, value in rule.level.items())})"
    of = _in_words(rule.other, claim.against_where)
    if ratio and ci95:
        interval = f"95 % interval {_times(ci95[0])} to {_times(ci95[1])}"
        widened = f", {rule.bias:.1%} of each end for what a path and its twin differ by" if rule.bias else ""
        words = METRICS[claim.metric].words
        measured = f"{words} is {_times_of(ratio.median)} times that of {of} ({interval}{widened}"
        sentence = f"{what}: {measured}, {len(ratio.by_block)} blocks{rule.said}); the rule asks for {bound}"
        sentence += f"{_why_undecided(rule, confidence, rules)}." if found == UNDECIDED else "."
    else:
        sentence = f"{what}: not decided, because {rule.obstacle}; the rule asks for {bound} of {of}."
    return {
        "claim": claim.claim,
        "rule": f"{METRICS[claim.metric].words} of {claim.system} {claim.datapath} / {of}, {LOADS[rule.load].words}: {bound}",
        "outcome": found,
        "sentence": f"{found.capitalize()}. {sentence}",
        "value": ratio.median.number if ratio else None,
        "value_bounds": ratio.median.as_json if ratio else None,
        "ci95": ci95 and ends_as_json(ci95),
        "baseline": rule.other,
    }


def _why_undecided(rule: Compared, confidence: float, rules: int) -> str:
    """Of one that has an interval, as part of a sentence."""
    if rule.outcome() == UNDECIDED:
        return ", and the interval spans it"
    level, ends = _level(confidence), rule.interval(confidence)
    if ends is None:
        return f"; among {rules} rules that takes a {level} interval, for which there are too few blocks"
    return f"; among {rules} rules that takes a {level} interval, and that ({_times(ends[0])} to {_times(ends[1])}) spans it"


def _level(confidence: float) -> str:
    """Rounded so that it never says 100 %."""
    return f"{100 * confidence:.4g} %"


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
