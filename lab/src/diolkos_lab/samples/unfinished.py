# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A run that was interrupted or killed: which of its blocks are whole, and how long they took.

A block is whole when a later one was begun. Of the last one nobody knows, so it counts as half: who kept what there is of it
would compare trials that were made before the break with others after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from diolkos_lab.samples.folder import AnyResult, Result

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Unfinished:
    """The trials of a run, with those that are not kept."""

    kept: Sequence[Record]
    left_out: Sequence[Record]
    seconds: float  # from the first kept trial of each part of the run to the end of its last


def look(result: Result) -> Unfinished:
    parts = [part for part in result.host.get("parts") or [] if isinstance(part, dict)]
    starts = [block for part in parts if isinstance(block := part.get("next_block"), int)]
    kept, left_out = _whole(result.trials, max(starts, default=1))
    return Unfinished(kept, left_out, sum(_seconds(part) for part in _parts(kept, starts)))


def is_complete(result: AnyResult) -> bool:
    return result.host.get("complete") is True


def _whole(trials: Sequence[Record], certain: int) -> tuple[list[Record], list[Record]]:
    """Blocks below `certain` were whole when the run last went on."""
    runs = [list(group) for _, group in groupby(trials, key=lambda trial: trial["block"])]
    half = runs.pop() if runs and not 0 < runs[-1][0]["block"] < certain else []
    kept = [trial for run in runs for trial in run]
    if not any(trial["block"] for trial in kept):
        return [], [*kept, *half]
    return kept, half


def _parts(kept: Sequence[Record], starts: Sequence[int]) -> list[list[Record]]:
    """What was measured without a break. A warm-up that stands among the kept trials begins a part."""
    borders = sorted(set(starts))
    grouped = groupby((trial for trial in kept if trial["block"]), key=lambda trial: sum(trial["block"] >= b for b in borders))
    return [list(group) for _, group in grouped]


def _seconds(part: Sequence[Record]) -> float:
    try:
        first, last = (datetime.fromisoformat(part[end]["started"]) for end in (0, -1))
    except (KeyError, ValueError):  # an older folder: the trials alone
        return float(sum(trial.get("duration") or 0.0 for trial in part))
    return max(0.0, (last - first).total_seconds() + (part[-1].get("duration") or 0.0))
