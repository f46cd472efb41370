# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What curves and procedures of a run say together: the answer, and how far to trust it."""

from __future__ import annotations

from collections.abc import Sequence

from diolkos_lab.curve import judge
from diolkos_lab.curve.judge import BAD, DEFAULT_RULE, GOOD, UNDECIDED
from diolkos_lab.curves import Measured
from diolkos_lab.procedures import Found
from diolkos_lab.report import curve_chapters
from diolkos_lab.report.trust import Trust
from diolkos_lab.stats.median import FEWEST

LEVELS = ("poor", "limited", "good")


def answer(curves: Sequence[Measured], found: Sequence[Found]) -> str:
    """Of curves and of procedures, as far as the run has them."""
    return " ".join([*([lead(curves)] if curves or not found else []), *([lead_of(found)] if found else [])])


def lead(curves: Sequence[Measured]) -> str:
    """The answer in two sentences."""
    if not curves:
        return "No curve could be measured."
    count = curve_chapters.counts(curves)
    firm = count[GOOD] + count[BAD]
    if not firm:
        return f"This run cannot say: none of its {len(curves)} curves rests on trusted trials alone."
    answer = (
        f"{count[GOOD]} of {firm} curves are GOOD: for these, the rate at which 0.5 % is lost is also about the most that the "
        "path carries."
    )
    if count[BAD]:
        answer += f" {count[BAD]} are BAD: the path carries more beyond that rate, or its end was not reached."
    undecided = sum(curve.found.firm[DEFAULT_RULE] == UNDECIDED for curve in curves if curve.trusted)
    if undecided:
        answer += f" By their intervals, {undecided} of the {firm} {'is' if undecided == 1 else 'are'} undecided."
    if count["not trusted"]:
        answer += f" {count['not trusted']} more were measured, but are not trusted."
    return answer


def lead_of(found: Sequence[Found]) -> str:
    """The answer of the procedures: how many rates were found, and the least and the greatest of each kind."""
    rates = [(each, rate) for each in found for rate in each.rates]
    firm = [(each, rate) for each, rate in rates if rate.trusted and rate.value and rate.above]
    if not firm:
        return "The procedures found no rate that is trusted and bracketed."
    said = []
    for name in dict.fromkeys(rate.name for _, rate in firm):
        values = [rate.value for _, rate in firm if rate.name == name and rate.value is not None]
        low, high = (float(f"{end:.3g}") for end in (min(values), max(values)))
        said.append(f"{name} {judge.rate_text(low, high if len(set(values)) > 1 else None)}")
    return f"The procedures found, with trusted trials, {len(firm)} of {len(rates)} rates: {'; '.join(said)}."


def trust(curves: Sequence[Measured], found: Sequence[Found] = ()) -> Trust:
    """Level, answer and reasons; the worse of both kinds decides."""
    parts = [*([_trust_in_curves(curves)] if curves or not found else []), *([_trust_in_procedures(found)] if found else [])]
    worst = min(parts, key=lambda part: LEVELS.index(part.level))
    return Trust(worst.level, worst.answer, [reason for part in parts for reason in part.reasons])


def _trust_in_procedures(found: Sequence[Found]) -> Trust:
    trials, repeated, used = (sum(getattr(each, name) for each in found) for name in ("trials", "repeated", "untrusted"))
    untrusted, bound = sum(not each.trusted for each in found), sum(each.limited_by_generator for each in found)
    reasons = [
        f"Of {trials} trials of procedures, guards object to {repeated + used}; {repeated} of these were retried, and "
        f"{used} are used because no attempt was trusted."
    ]
    rates = [rate for each in found for rate in each.rates]
    if rates and not any(rate.ci95 for rate in rates):
        most = max(rate.blocks for rate in rates)
        times = "once" if most == 1 else f"{most} times"
        reasons.append(
            f"No rate has an interval: that takes {FEWEST} searches, and each was searched for {times}. A bracket says how far "
            "the search went, not how sure it is, and no rule is decided by it."
        )
    if untrusted:
        reasons.append(f"{untrusted} of {len(found)} procedures rest on such trials at their bounds, or did not end.")
    if bound:
        reasons.append(
            f"{bound} of {len(found)} are generator-bound: alone, generator and sink do not reach twice the rate found."
        )
    if untrusted == len(found):
        return Trust("poor", "No: the machine was too busy with other things.", reasons)
    return Trust("limited", "In part.", reasons) if untrusted or bound else Trust("good", "Yes.", reasons)


def _trust_in_curves(curves: Sequence[Measured]) -> Trust:
    trials, rejected = sum(curve.trials for curve in curves), sum(curve.untrusted for curve in curves)
    bound = sum(curve.limited_by_generator for curve in curves)
    untrusted = sum(not curve.trusted for curve in curves)
    reasons = [f"Guards object to {rejected} of {trials} trials; a curve uses the others where every rate has two of them."]
    if untrusted:
        reasons.append(f"{untrusted} of {len(curves)} curves lack trusted trials at some rate and use all of them.")
    most = "twice the highest rate that was offered"
    reasons.append(
        f"{bound} of {len(curves)} curves are generator-bound: alone, generator and sink do not reach {most}."
        if bound
        else f"Alone, generator and sink reach more than {most}."
    )
    if not curves or untrusted == len(curves):
        return Trust("poor", "No: the machine was too busy with other things.", reasons)
    if untrusted or bound:
        return Trust("limited", "In part.", reasons)
    return Trust("good", "Yes.", reasons)
