# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a run could not decide, and how many more blocks would decide it.

An interval of a median narrows with the root of the number of blocks, so the number that is needed follows from its width.
"""

from __future__ import annotations

import math
import re
from typing import Any

from diolkos_lab.report.answer import GROUPS, Kept, kept
from diolkos_lab.report.baselines import in_blocks
from diolkos_lab.report.quantities import THIN, count, percent
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import short_label
from diolkos_lab.report.values import Interval, interval, number

WIDE = 0.10  # half of an interval, relative to its ratio
MOST = 10  # times as many blocks as there are: more is no advice
AGAIN = (
    "More blocks: run the study again into another folder and put both together (`diolkos-lab merge`), or choose a longer "
    "form. The numbers follow from the widths of the intervals, which narrow with the root of the number of blocks."
)


def sentences(results: Results) -> list[str]:
    """One for each rule that was not decided, then one for each load whose intervals are wide."""
    rules = [_of_rule(verdict) for verdict in results.verdicts if verdict.get("outcome") == "undecided"]
    return [*rules, *(text for group in GROUPS if (text := _of_width(results, kept(results, *group))))]


def more_blocks(blocks: int, have: float, want: float) -> int | None:
    """How many more make half of an interval, `have`, as narrow as `want`; None where that is no advice."""
    if want <= 0 or not math.isfinite(have) or not blocks:
        return None
    needed = math.ceil(blocks * (have / want) ** 2) - blocks
    return max(1, needed) if needed <= MOST * blocks else None


def _of_rule(verdict: dict[str, Any]) -> str:
    rule, sentence = str(verdict.get("rule") or verdict.get("claim")), str(verdict.get("sentence") or "")
    rule = rule[:1].upper() + rule[1:]
    value, ci, limit = number(verdict.get("value")), interval(verdict.get("ci95")), _threshold(rule)
    if value is None or ci is None:
        because = re.search(r"not decided, because (.*?)(; the rule asks for .*)?$", sentence)
        return f"{rule}: {because[1].rstrip('.') if because else 'there is no interval'}."
    blocks = int(found[1]) if (found := re.search(r", (\d+) blocks", sentence)) else 0
    if limit is not None and not ci[0] <= limit <= ci[1]:
        return f"{rule}: its 95 % interval is on one side of the limit, but the wider one that so many rules ask for spans it."
    further = None if limit is None else more_blocks(blocks, _reach(value, ci, limit), abs(value - limit))
    if further is None:
        return f"{rule}: the interval spans the limit; it takes more than {MOST} times as many blocks, or fewer failures."
    return f"{rule}: the interval spans the limit. About {count(further, 'more block')} would decide if the ratio stays."


def _reach(value: float, ci: Interval, limit: float) -> float:
    """From the ratio to the end of its interval beyond the limit."""
    return value - ci[0] if value >= limit else ci[1] - value


def _threshold(rule: str) -> float | None:
    found = re.search(r"at (?:least|most) ([0-9.]+(?:e[+-]?\d+)?)\s*$", rule)
    return float(found[1]) if found else None


def _of_width(results: Results, group: list[Kept]) -> str | None:
    widest = max(group, key=_half, default=None)
    if widest is None or _half(widest) <= WIDE:
        return None
    found = in_blocks(results, widest.row, widest.against.baseline)
    further = more_blocks(len(found.by_block), _half(widest), WIDE) if found else None
    what = re.sub("^(a|an|the) ", "", widest.what)
    name = f"{what[:1].upper()}{what[1:]} through {short_label(widest.cell)}"
    if math.isinf(_half(widest)):
        return f"{name}: the interval has no end, because trials failed."
    said = f"{name}: the interval is ±{THIN}{percent(_half(widest))} wide"
    if further is None:
        return f"{said}; more blocks of this length will not make it ±{THIN}{percent(WIDE)}."
    return f"{said}; about {count(further, 'more block')} would make it ±{THIN}{percent(WIDE)}."


def _half(each: Kept) -> float:
    return (each.ci[1] - each.ci[0]) / 2 / each.against.ratio if each.against.ratio else math.inf
