# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rules that were fixed before the run, held against the rows of its trials.

A trial has one of the outcomes of `outcome.Outcome`. One that was disturbed (a generator was late, BFD lost a neighbour
before the fault) or in which an instrument failed decides nothing; it is counted, and repeated. A gateway that does not come
back is the worst result of every rule that it concerns. A figure that is null because something never went on again keeps no
limit.

A rule says something of every trial, so one that breaks it is enough for *not met*. That none of n broke it bounds the share
of all such trials that would (Clopper and Pearson 1934, Biometrika 26): *met* needs a bound as low as the rule asks for, of
each fault that it is about. With fewer trials the rule is *undecided*.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from diolkos_lab.failover.definition import FailoverStudy, Rule
from diolkos_lab.outcome import Outcome
from diolkos_lab.stats.shares import fewest, interval

Row = Mapping[str, Any]
Verdict = Literal["met", "not met", "undecided"]


@dataclass(frozen=True)
class Judged:
    """A rule, and what the trials say of it."""

    rule: Rule
    verdict: Verdict
    trials: int  # that decide
    disturbed: int  # or failed, and do not
    against: tuple[Row, ...]  # the trials that do not keep it
    lacking: Mapping[str, int]  # fault to how many trials more would decide, where there are too few

    @property
    def broken(self) -> tuple[float, float]:
        """Between which shares of all such trials break the rule (95 % confidence); where trials are of several faults, on the
        average over these."""
        return interval(len(self.against), self.trials)


def outcome(row: Row) -> Outcome:
    """Of one trial."""
    if row.get("error"):
        return Outcome.INSTRUMENT_FAILED
    if row.get("guards"):
        return Outcome.UNTRUSTED
    return Outcome.SYSTEM_FAILED if row.get("lost") else Outcome.MEASURED


def reasons(row: Row) -> list[str]:
    """Why the trial decides nothing; empty where it decides."""
    if row.get("error"):
        return [f"an instrument failed: {row['error']}"]
    return [str(guard) for guard in row.get("guards") or []]


def is_disturbed(row: Row) -> bool:
    """Does the trial decide nothing?"""
    return not outcome(row).counts


def figures(rows: Sequence[Row], quantity: str) -> list[float]:
    """A quantity in each trial that decides. A gap that never ended is infinite; a trial without the quantity is left out."""
    found = []
    for row in rows:
        if is_disturbed(row) or not is_measured(row, quantity):
            continue
        value = row[quantity]
        found.append(math.inf if value is None else float(value))
    return found


def is_measured(row: Row, quantity: str) -> bool:
    # Without downloads there is no share of them.
    return quantity in row and not (quantity == "downloads_share" and row[quantity] is None)


def judge(study: FailoverStudy, rows: Sequence[Row]) -> list[Judged]:
    """Every rule of the study, in its order."""
    return [_judge(rule, rows) for rule in study.rule]


def _judge(rule: Rule, rows: Sequence[Row]) -> Judged:
    about = [row for row in rows if row["gateways"] == rule.gateways and (not rule.faults or row["fault"] in rule.faults)]
    about = [row for row in about if is_disturbed(row) or is_measured(row, rule.quantity)]
    deciding = [row for row in about if not is_disturbed(row)]
    against = tuple(row for row in deciding if not keeps(rule, row))
    # What one fault does says nothing of another one.
    made = Counter(row["fault"] for row in deciding)
    needed = fewest(rule.broken_at_most)
    faults = dict.fromkeys(row["fault"] for row in about)
    lacking = {fault: needed - made[fault] for fault in faults if made[fault] < needed}
    verdict: Verdict = "not met" if against else "undecided" if lacking or not deciding else "met"
    return Judged(rule, verdict, len(deciding), len(about) - len(deciding), against, lacking)


def keeps(rule: Rule, row: Row) -> bool:
    """Is the figure of a trial within the limit? One that has no end is not."""
    value = row.get(rule.quantity)
    if value is None:
        return False
    if rule.at_least is not None:
        return bool(value >= rule.at_least)
    return bool(value <= rule.at_most)
