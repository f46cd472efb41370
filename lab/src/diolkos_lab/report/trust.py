# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How far to trust a run that compares paths with native, with every reason that speaks for or against it.

The intervals carry what the host did to the figures: trials that guards rejected are not in them, and noise makes them wide.
So a restless host is no reason to deny what an interval says. A path that differs from its own twin by more than chance is
one to widen intervals, as rules do.
"""

from __future__ import annotations

from dataclasses import dataclass

from diolkos_lab import verdict
from diolkos_lab.report.baselines import in_blocks
from diolkos_lab.report.quantities import TO, count, join_words, percent
from diolkos_lab.report.read import Floor, Results
from diolkos_lab.report.systems import HEADLINE, load_label
from diolkos_lab.report.words import decided, trial_counts, verdict_count

UNTRUSTED_NOTED = 0.05  # share of the trials
FEW_BLOCKS = 8  # behind an interval, below which it leans on very few differences


@dataclass(frozen=True)
class Trust:
    level: str  # good, limited, poor
    answer: str
    reasons: list[str]


def of(results: Results) -> Trust:
    rows = [row for row in results.rows if row.ratio_ci95 is not None and not row.cell.native]
    floors = plain_floors(results)
    untrusted, failed, total = trial_counts(results)
    blocks = _blocks(results)
    reasons = [_intervals(results, blocks), noise(floors, any(t.twin for t in results.measured))]
    reasons += [_trials(untrusted, failed, total), verdict_count(results.verdicts)]
    if said := verdict.family_in_words(results.contents.summary.get("family")):
        reasons.append(said)
    if results.quick:
        reasons.append("This is the quick form: short trials, few blocks. The full study narrows the intervals.")
    if not rows and not decided(results.verdicts):
        why = "No: no ratio to native has an interval. The figures show that the paths work, not what they cost."
        return Trust("poor", why, reasons)
    weak = [
        text
        for text, holds in (
            ("few blocks stand behind some intervals", bool(blocks) and min(blocks) < FEW_BLOCKS),
            (f"{percent(untrusted / max(total, 1))} of the trials were disturbed and do not count",
             untrusted > UNTRUSTED_NOTED * total),
            ("no path was compared with itself", not floors),
            ("a path differs from itself by more than chance", any(f.bias for f in floors)),
        )
        if holds
    ]  # fmt: skip
    if weak:
        return Trust("limited", f"With care, within the intervals: {join_words(weak)}.", reasons)
    return Trust("good", "Yes, within the intervals.", reasons)


def plain_floors(results: Results) -> list[Floor]:
    """The comparisons with a twin in the plainest setting and the plainest variant of each load."""
    plain = {results.loads(base)[0] for base in {f.load.split(" ", maxsplit=1)[0] for f in results.noise_floor}}
    return [f for f in results.noise_floor if f.load in plain and f.cell.factors == results.settings[0]]


def noise(found: list[Floor], twins: bool = False) -> str:
    """`twins`: a system was measured against itself, with or without a trusted result."""
    if not found and twins:
        return "A path was compared with itself, but no trial of it is trusted, so nothing shows how far equal paths stray."
    if not found:
        return "No path was compared with itself (A/A), so nothing shows how far equal paths stray."
    ratios = [f"{load_label(f.load)} {percent(f.ratio, f.ratio_ci95)}" for f in found]
    text = f"A path compared with itself should give 100 %: {join_words(ratios)}."
    biased = [f for f in found if f.bias]
    if biased:
        names = join_words(sorted({load_label(f.load) for f in biased}))
        text += f" In {names} the two differ by more than chance: something besides the system moves the figures. "
        text += "The first sentence and the rules about it use intervals that are widened by that much."
    return text


def _blocks(results: Results) -> list[int]:
    """How many blocks stand behind each interval of the headline's loads."""
    mine = [r for r in results.rows if r.ratio_ci95 and not r.cell.native]
    shown = [r for r in mine if (r.load.split(" ", maxsplit=1)[0], r.metric) in HEADLINE] or mine
    return [len(found.by_block) for row in shown if (found := in_blocks(results, row))]


def _intervals(results: Results, blocks: list[int]) -> str:
    whole = count(results.blocks, "block")
    if not blocks:
        return f"The run has {whole} after the warm-up."
    low, high = min(blocks), max(blocks)
    behind = str(low) if low == high else f"{low}{TO}{high}"
    return (
        f"Intervals are 95 % intervals of the ratio to native. Behind each stand {behind} blocks with a trusted trial of the "
        f"path and of native; the run has {whole} after the warm-up."
    )


def _trials(untrusted: int, failed: int, total: int) -> str:
    if not total:
        return "The single trials are not in this folder."
    if not untrusted and not failed:
        return f"No trial is untrusted and none failed ({total} in all)."
    said = [f"guards rejected {untrusted}, which do not count"] if untrusted else []
    said += [f"{failed} failed, which count as the worst that there is"] if failed else []
    return f"Of {count(total, 'trial')}, {join_words(said)}; each is listed below with its reason."
