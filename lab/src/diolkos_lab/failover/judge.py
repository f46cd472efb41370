# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rules that were fixed before the run, held against the rows of its trials.

A trial that was disturbed (a generator was late, BFD lost a neighbour before the fault, flows were not established) or that
ended in a fault of the lab decides nothing; it is counted. A figure that is null because something never went on again keeps
no limit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from diolkos_lab.failover.definition import FailoverStudy, Rule

Row = Mapping[str, Any]
Verdict = Literal["met", "not met", "undecided"]
ESTABLISHED_SHARE = 0.99  # of the flows; a trial of fewer says nothing about so many


@dataclass(frozen=True)
class Judged:
    """A rule, and what the trials say of it."""

    rule: Rule
    verdict: Verdict
    trials: int  # that decide
    disturbed: int  # or failed, and do not
    against: tuple[Row, ...]  # the trials that do not keep it
    silent: tuple[str, ...]  # faults of which no trial decides


def reasons(row: Row) -> list[str]:
    """Why the trial decides nothing; empty where it decides. Older rows were not guarded when they were measured."""
    if row.get("error"):
        return [str(row["error"])]
    found = [str(guard) for guard in row.get("guards") or []]
    established, flows = row.get("established"), row.get("flows")
    if established is not None and flows is not None and established < ESTABLISHED_SHARE * flows:
        too_few = f"only {established} of {flows} flows were established before the fault"
        found += [too_few] if too_few not in found else []
    return found


def is_disturbed(row: Row) -> bool:
    """Does the trial decide nothing?"""
    return bool(reasons(row))


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
    silent = tuple(dict.fromkeys(row["fault"] for row in about if row["fault"] not in {each["fault"] for each in deciding}))
    verdict: Verdict = "not met" if against else "met" if deciding and not silent else "undecided"
    return Judged(rule, verdict, len(deciding), len(about) - len(deciding), against, silent)


def keeps(rule: Rule, row: Row) -> bool:
    """Is the figure of a trial within the limit? One that has no end is not."""
    value = row.get(rule.quantity)
    if value is None:
        return False
    if rule.at_least is not None:
        return bool(value >= rule.at_least)
    return bool(value <= rule.at_most)
