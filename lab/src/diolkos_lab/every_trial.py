# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rules about every trial of a study of faults, which were fixed before the run, held against its trials.

A trial has one of the outcomes of `outcome.Outcome`. One that was disturbed (a generator was late, BFD lost a neighbour
before the fault) or in which an instrument failed decides nothing; it is counted, and repeated. A gateway that does not come
back is the worst result of every rule that it concerns. A figure that has no end, because something never went on again, keeps
no limit.

A rule says something of every trial, so one that breaks it is enough for *not met*. That none of n broke it bounds the share
of all such trials that would (Clopper and Pearson 1934, Biometrika 26): *met* needs a bound as low as the rule asks for, of
each fault that it is about. With fewer trials the rule is *undecided*.

Stages: figures of a trial → by fault and gateways → judged → verdicts of summary.json.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from diolkos_lab.experiment.failover import FailoverStudy, Rule
from diolkos_lab.outcome import outcome
from diolkos_lab.stats.shares import fewest, interval
from diolkos_lab.verdict import MET, NOT_MET, UNDECIDED

Trial = Mapping[str, Any]  # a line of samples.jsonl


def _seconds(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:.{digits}f} s"


def _percent(digits: int) -> Callable[[float], str]:
    return lambda value: f"{100 * value:.{digits}f} %"


def _number(value: float) -> str:
    return f"{value:.0f}"


# Quantity to its heading, how a number is written, and so exactly that it can be told from a limit.
QUANTITIES: dict[str, tuple[str, Callable[[float], str], Callable[[float], str]]] = {
    "kept_share": ("flows kept", _percent(3), _percent(4)),
    "gap_s": ("longest gap", _seconds(2), _seconds(4)),
    "call_gap_s": ("of calls", _seconds(2), _seconds(4)),
    "new_flows_s": ("new flows after", _seconds(1), _seconds(4)),
    "step_s": ("longest step", _seconds(1), _seconds(4)),
    "downloads_share": ("downloads whole", _percent(0), _percent(4)),
    "moved": ("moved", _number, _number),
    "wrong": ("wrong", _number, _number),
    "duplicates": ("duplicates", _number, _number),
}


# ---- figures


def figure(trial: Trial, quantity: str) -> float | None:
    """What a trial measured. What never ended is infinite; None where it was not measured."""
    if quantity in trial.get("bounds", {}):
        return math.inf
    value: float | None = trial["metrics"].get(quantity)
    return value


def figures(trials: Sequence[Trial], quantity: str) -> list[float]:
    """A quantity in each trial that decides; a trial without the quantity is left out."""
    found = (figure(trial, quantity) for trial in trials if outcome(trial).counts)
    return [value for value in found if value is not None]


def groups(trials: Sequence[Trial]) -> dict[tuple[str, str], list[Trial]]:
    """The trials of each fault and kind of gateway, in the order in which they were measured."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        found.setdefault((fault_of(trial), trial["datapath"]), []).append(trial)
    return found


def fault_of(trial: Trial) -> str:
    return str(trial["factors"]["fault"])


def undecided_trials(trials: Sequence[Trial]) -> int:
    """How many decide nothing."""
    return sum(not outcome(trial).counts for trial in trials)


def rows(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Of summary.json: median, least and most of each figure by fault and kind of gateway; null is a figure without end."""
    found = []
    for (fault, gateways), group in groups(trials).items():
        about = {"fault": fault, "gateways": gateways, "decide_nothing": undecided_trials(group)}
        for quantity in QUANTITIES:
            values = figures(group, quantity)
            spread = zip(
                ("median", "least", "most"), (median(values), min(values), max(values)) if values else (), strict=False
            )
            ends = {name: value if math.isfinite(value) else None for name, value in spread}
            found.append({**about, "quantity": quantity, "trials": len(values), **ends})
    return found


# ---- rules


@dataclass(frozen=True)
class Judged:
    """A rule, and what the trials say of it."""

    rule: Rule
    verdict: str
    trials: int  # that decide
    disturbed: int  # or failed, and do not
    against: tuple[Trial, ...]  # the trials that do not keep it
    lacking: Mapping[str, int]  # fault to how many trials more would decide, where there are too few

    @property
    def broken(self) -> tuple[float, float]:
        """Between which shares of all such trials break the rule (95 % confidence); where trials are of several faults, on the
        average over these."""
        return interval(len(self.against), self.trials)


def judge(study: FailoverStudy, trials: Sequence[Trial]) -> list[Judged]:
    """Every rule of the study, in its order."""
    return [_judge(rule, trials) for rule in study.rule]


def _judge(rule: Rule, trials: Sequence[Trial]) -> Judged:
    about = [
        each for each in trials if each["datapath"] == rule.gateways and (not rule.faults or fault_of(each) in rule.faults)
    ]
    about = [each for each in about if not outcome(each).counts or figure(each, rule.quantity) is not None]
    deciding = [trial for trial in about if outcome(trial).counts]
    against = tuple(trial for trial in deciding if not keeps(rule, trial))
    # What one fault does says nothing of another one.
    made = Counter(map(fault_of, deciding))
    needed = fewest(rule.broken_at_most)
    faults = dict.fromkeys(map(fault_of, about))
    lacking = {fault: needed - made[fault] for fault in faults if made[fault] < needed}
    verdict = NOT_MET if against else UNDECIDED if lacking or not deciding else MET
    return Judged(rule, verdict, len(deciding), len(about) - len(deciding), against, lacking)


def keeps(rule: Rule, trial: Trial) -> bool:
    """Is the figure of a trial within the limit? One that has no end is not."""
    value = figure(trial, rule.quantity)
    if value is None or math.isinf(value):
        return False
    if rule.at_least is not None:
        return value >= rule.at_least
    assert rule.at_most is not None
    return value <= rule.at_most


# ---- in words


def verdicts(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Of summary.json."""
    return [
        {
            "claim": each.rule.rule,
            "rule": f"{limit(each.rule)} in each trial of {', '.join((each.rule.gateways, *each.rule.faults))}",
            "outcome": each.verdict,
            "sentence": f"{each.verdict.capitalize()}. {limit(each.rule, capital=True)}: {carried(each)}.",
            "value": None,
            "ci95": None,
            **each.rule.model_dump(mode="json", exclude={"rule"}),
            "trials": each.trials,
            "decide_nothing": each.disturbed,
            "broken_ci95": list(each.broken),
            "lacking": dict(each.lacking),
            "against": against(each),
        }
        for each in judged
    ]


def carried(judged: Judged) -> str:
    """What the trials carry: how many broke the rule, what that says of all such trials, and what is missing."""
    low, high = judged.broken
    if not judged.trials:
        share = "no trial decides"
    elif judged.against:
        share = f"{len(judged.against)} of {_trials(judged.trials)} break it: {100 * low:.1f} to {100 * high:.0f} %"
    else:
        share = f"none of {_trials(judged.trials)} breaks it: at most {100 * high:.0f} %"
    said = [f"{share} of all such trials would (95 % confidence)" if judged.trials else share]
    if judged.verdict == UNDECIDED:
        said[0] += f": not decided, because {_lacking(judged)}"
    said += [f"{judged.disturbed} more decide nothing"] if judged.disturbed else []
    return "; ".join(filter(None, [against(judged), *said]))


def _lacking(judged: Judged) -> str:
    if not judged.lacking:
        return "no trial of it was made"
    more, faults = sorted(set(judged.lacking.values())), list(judged.lacking)
    each = f"{more[0]}" if len(more) == 1 else f"{more[0]} to {more[-1]}"
    of = f"each of {len(faults)} faults" if len(faults) > 1 else faults[0]
    least = f"at most {100 * judged.rule.broken_at_most:.0f} %"
    return f"too few trials decide: {each} more of {of} would decide, if none breaks it ({least})"


def limit(rule: Rule, capital: bool = False) -> str:
    """As in the study: "longest gap ≤ 1.00 s"."""
    value = rule.at_least if rule.at_least is not None else rule.at_most
    heading, write, _ = QUANTITIES[rule.quantity]
    heading = heading[:1].upper() + heading[1:] if capital else heading
    return f"{heading} {'≥' if rule.at_least is not None else '≤'} {write(value or 0.0)}"


def against(judged: Judged) -> str:
    """The trials that do not keep a rule, with enough digits to tell them from its limit."""
    quantity = judged.rule.quantity
    return "; ".join(f"{name(trial)}: {_exactly(figure(trial, quantity), quantity)}{_why(trial)}" for trial in judged.against)


def name(trial: Trial) -> str:
    return f"{fault_of(trial)}, trial {trial['block']}"


def answer(judged: Sequence[Judged]) -> str:
    """One sentence on all rules."""
    broken = sum(each.verdict == NOT_MET for each in judged)
    open_ = [each for each in judged if each.verdict == UNDECIDED]
    if broken:
        return f"No: {broken} of {len(judged)} rules are not met."
    if open_:
        more = max((number for each in open_ for number in each.lacking.values()), default=0)
        repetitions = "1 more repetition" if more == 1 else f"{more} more repetitions"
        needs = f"; {repetitions} of each fault would decide, if none breaks one" if more else ""
        return f"Undecided: no trial breaks a rule, and for {len(open_)} of {len(judged)} rules too few trials decide{needs}."
    return f"Yes: all {len(judged)} rules are met."


def _why(trial: Trial) -> str:
    late = trial.get("late_by_gateways")
    whys = [trial["error"]] if trial["error"] else []
    whys += [f"{'; '.join(late)}, by the CPU time of the gateways"] if late else []
    return f" ({'; '.join(whys)})" if whys else ""


def _exactly(value: float | None, quantity: str) -> str:
    return "never" if value is None or math.isinf(value) else QUANTITIES[quantity][2](value)


def _trials(number: int) -> str:
    return "1 trial" if number == 1 else f"{number} trials"
