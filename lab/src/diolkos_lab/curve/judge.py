# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All that is said of one curve: PDR and NDR, saturation and verdict by each rule, how sure, and why, in words."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.curve import by_block, resampling
from diolkos_lab.curve.crossing import NDR, PDR, Crossing, crossing, crossings
from diolkos_lab.curve.loss import CONFIDENCE, Array, Curve, increase_ratio
from diolkos_lab.curve.resampling import Plan
from diolkos_lab.curve.saturation import RULES, Rule, good, potential, saturation
from diolkos_lab.stats.bounds import Bounds

GOOD, BAD, UNDECIDED = "GOOD", "BAD", "undecided"
DEFAULT_RULE = "paper"
EXCESS = PDR / 100  # share of packets that arrive though nobody sent them, from which on they can hide a loss that matters
KEPT_WITHIN = 0.01  # a generator that sends more or less than this beside the others' pace did not keep its rate


@dataclass(frozen=True)
class Judgement:
    """What follows from a curve. Dictionaries have one entry per rule; indices count loads from 0."""

    curve: Curve
    pdr: Crossing  # of the mean curve; where trials have blocks, its rate is the median of theirs
    pdr_ci95: tuple[float, float] | None  # packets/s; an end above the measured loads is infinite
    ndr: Crossing
    potential: int | None
    saturation: dict[str, int | None]
    verdict: dict[str, str]
    saturated: float | None  # packets/s: T_sat, the throughput at the first saturated load by the default rule
    saturated_ci95: tuple[float, float] | None  # packets/s, Student's; None for a single trial
    good_share: dict[str, float] | None  # of the bootstrap's curves; None with too few trials
    firm: dict[str, str]  # the verdict by intervals of TIR: GOOD, BAD or undecided
    tir_low: Array  # 95 % interval of TIR by load; NaN where there is none
    tir_high: Array
    seed: int
    pdr_by_block: dict[int, Bounds] | None = None  # packets/s; None where trials have no blocks

    @property
    def depends_on_rule(self) -> bool:
        return len(set(self.verdict.values())) > 1


def judge(curve: Curve, seed: int = resampling.SEED, plan: Plan | None = None) -> Judgement:
    """Judge a curve by all rules; the random numbers of the intervals follow from `seed`.

    `plan` says which blocks of the trials share a build; without it, each block is one."""
    rates, tir = curve.rates, curve.tir
    pdr, ndr = (crossing(rates, curve.plr, allowed) for allowed in (PDR, NDR))
    start = potential(pdr.first_above, len(rates))
    sets_in = {name: saturation(tir, start, rule) for name, rule in RULES.items()}
    # What carries nothing saturates at nothing, and no rule means that.
    carries = bool((curve.plr < 1).any())
    verdict = {name: GOOD if carries and start is not None and index == start else BAD for name, index in sets_in.items()}

    saturated, saturated_ends = _saturated(curve, sets_in[DEFAULT_RULE])
    plan = plan or Plan.from_curve(curve)
    drawn = resampling.draws(curve, seed, plan=plan)
    drawn_tir = increase_ratio(rates, drawn)
    pairs = np.minimum(curve.runs, np.concatenate((curve.runs[:1], curve.runs[:-1])))  # TIR rests on two loads
    independent = len(plan.builds) if plan else int(curve.runs.max())  # no more than these say something new
    low, high = resampling.interval(drawn_tir, np.minimum(pairs, independent))
    few = min(int(curve.runs.min()), independent)
    ends: tuple[float, float] | None = None
    share: dict[str, float] | None = None
    blocks: dict[int, Bounds] | None = None
    if plan:
        blocks = by_block.rates(curve)
        pdr, ends = by_block.median(curve, blocks, pdr, plan)
    if few >= resampling.FEWEST:
        if not plan:
            low_pdr, high_pdr = resampling.interval(crossings(rates, drawn)[:, None], few)
            ends = float(low_pdr[0]), float(high_pdr[0])
        share = {name: float(good(drawn, drawn_tir, PDR, rule).mean()) for name, rule in RULES.items()}
    firmly = dict.fromkeys(RULES, BAD)
    if carries:
        firmly = {name: _firm(rule, curve, drawn, drawn_tir, np.minimum(pairs, independent)) for name, rule in RULES.items()}
    return Judgement(
        curve, pdr, ends, ndr, start, sets_in, verdict, saturated, saturated_ends, share, firmly, low, high, seed, blocks
    )


def _firm(rule: Rule, curve: Curve, drawn: Array, drawn_tir: Array, runs: NDArray[np.int64]) -> str:
    """The verdict as far as chance cannot have made it; `undecided` otherwise, and where saturation was not reached.

    The paper compares TIR itself with η. With noise of 3 % a step and five trials, TIR strays by 0.13: a saturated router is
    BAD by a throw of dice, and most of its resampled curves are too. So intervals are compared. GOOD: wherever saturation may
    have to begin, TIR is below the threshold with all its interval there and after. BAD: at some load that surely lies behind
    that, it is not; so many loads are looked at, so much wider is the interval.
    """
    loads = len(curve.rates)
    if runs.min() < resampling.FEWEST:
        return UNDECIDED
    least, most = resampling.interval(drawn, runs, _each_of(loads))
    if not (least > PDR).any():
        return UNDECIDED
    earliest, latest = (int(np.argmax(end > PDR)) + 1 for end in (most, least))
    if latest >= loads:
        return UNDECIDED
    _, high = resampling.interval(drawn_tir[:, earliest:], runs[earliest:])
    allowed = np.where(np.arange(earliest, loads) <= latest, min(rule.enter, rule.stay), rule.stay)
    if (high < allowed).all():
        return GOOD
    behind = latest + 1
    if behind >= loads:
        return UNDECIDED
    low, _ = resampling.interval(drawn_tir[:, behind:], runs[behind:], _each_of(loads - behind))
    return BAD if (low >= rule.stay).any() else UNDECIDED


def _each_of(number: int) -> float:
    """The confidence of each of so many intervals, so that all of them hold together (Bonferroni)."""
    return 1 - (1 - CONFIDENCE) / number


def _saturated(curve: Curve, index: int | None) -> tuple[float | None, tuple[float, float] | None]:
    if index is None:
        return None, None
    throughput, half = float(curve.throughput[index]), float(curve.rates[index] * curve.half_width[index])
    return throughput, (throughput - half, throughput + half) if np.isfinite(half) else None


# ---- in words


def reason(found: Judgement, rule: Rule) -> str:
    """Why a rule says GOOD or BAD, in one sentence."""
    rates, tir, start = found.curve.rates, found.curve.tir, found.potential
    if not (found.curve.plr < 1).any():
        return "No packet arrived at any load."
    if found.pdr.first_above is None:
        return f"No load up to {rate_text(rates[-1])} loses more than 0.5 %, so saturation was not reached."
    if start is None:
        return f"Only the highest load, {rate_text(rates[-1])}, loses more than 0.5 %: none after it shows saturation."
    where = f"{rate_text(rates[start])}, the load after the first that loses more than 0.5 %"
    if found.verdict[rule.name] == GOOD:
        held = f"TIR is {tir_text(tir[start:])} there" + (" and after" if start + 1 < len(rates) else ", the highest load")
        return f"Saturated from {where}: {held}."
    if tir[start] < rule.enter:
        again = start + 1 + int(np.argmax(tir[start + 1 :] >= rule.stay))
        return f"Saturated at {where}, but no longer at {rate_text(rates[again])}: TIR is {tir_text(tir[again])}."
    sets_in = found.saturation[rule.name]
    later = "is never reached" if sets_in is None else f"sets in only at {rate_text(rates[sets_in])}"
    return f"Throughput still grows at {where}: TIR is {tir_text(tir[start])}. Saturation {later}."


def remarks(found: Judgement) -> list[str]:
    """What a reader must know beside the verdict; empty for a curve without peculiarities."""
    curve, pdr, said = found.curve, found.pdr, []
    if pdr.first_above == 0:
        said.append(f"PDR is not bracketed: already the lowest load, {rate_text(curve.rates[0])}, loses more than 0.5 %")
    elif pdr.first_above is None:
        said.append(f"PDR is not bracketed: even the highest load, {rate_text(curve.rates[-1])}, loses at most 0.5 %")
    elif not pdr.bracketed:
        lacking = "too few blocks have trials at all loads to say where between"
        ends = [rate_text(end) for end in (pdr.below, pdr.above) if end is not None]
        said.append(f"PDR lies {'between' if len(ends) == 2 else 'beyond'} {' and '.join(ends) or 'the loads'}: {lacking}")
    if pdr.returns:
        loads = ", ".join(rate_text(curve.rates[i]) for i in pdr.returns)
        said.append(f"loss falls to 0.5 % or less again at {loads}: the PDR is the first of several crossings")
    if found.depends_on_rule:
        said.append("the verdict depends on the rule")
    if excess := int(np.count_nonzero(curve.trials < -EXCESS)):
        said.append(
            f"in {excess} of {int(curve.runs.sum())} trials far more packets arrived than were sent: loss may be higher"
        )
    seconds = curve.sent / curve.rates
    strayed = np.abs(seconds / np.median(seconds) - 1) > KEPT_WITHIN
    if strayed.any():
        loads = ", ".join(rate_text(rate) for rate in curve.rates[strayed])
        said.append(f"the number of packets sent does not fit the load at {loads}: did the generator keep its rate?")
    if curve.runs.min() < resampling.FEWEST:
        said.append(f"fewer than {resampling.FEWEST} trials of a load: no bootstrap interval")
    return said


def rate_text(rate: float, to: float | None = None) -> str:
    """A rate, or a range with one unit: 450000 → "450 kpps", 1350000, 1360000 → "1.35–1.36 Mpps"."""
    factor, unit = (1e6, "Mpps") if rate >= 1e6 else (1e3, "kpps")
    values = [value / factor for value in (rate, to) if value is not None]
    decimals = max(len(f"{value:.4g}".partition(".")[2]) for value in values)
    return "–".join(f"{value:.{decimals}f}" for value in values) + f" {unit}"


def tir_text(values: Array | float) -> str:
    """One TIR, or the range of several: "0.04", "−0.12 to 0.04"."""
    low, high = (f"{end:.2f}".replace("-0.00", "0.00").replace("-", "−") for end in (np.min(values), np.max(values)))
    return low if low == high else f"{low} to {high}"
