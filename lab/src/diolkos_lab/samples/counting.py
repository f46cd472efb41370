# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How many trials of a run can be trusted: one count, and its words, for page, terminal, list of runs and export."""

from collections.abc import Mapping, Sequence
from typing import Any

WARM_UP = 0


def counted(trials: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Trials after the warm-up, each once, however many figures it has: all, those that a guard objects to, those that failed.

    A failure is the worst result that there is, and counts; only what a guard objects to is not trusted."""
    measured = [trial for trial in trials if trial["block"] != WARM_UP]
    return {
        "measured": len(measured),
        "untrusted": sum(bool(trial["distrust"]) for trial in measured),
        "failed": sum(bool(trial["error"]) for trial in measured),
    }


def trusted_share(counts: Mapping[str, int]) -> float | None:
    """None without a trial."""
    return 1 - counts["untrusted"] / counts["measured"] if counts["measured"] else None


def in_words(counts: Mapping[str, int]) -> str:
    """One sentence, or none without a trial."""
    share = trusted_share(counts)
    if share is None:
        return ""
    failed = f"; {counts['failed']} failed" if counts["failed"] else ""
    trials = "1 trial" if counts["measured"] == 1 else f"{counts['measured']} trials"
    return f"{percent(share)} of {trials} are trusted: guards reject {counts['untrusted']}{failed}."


def percent(share: float) -> str:
    """Rounded towards the middle: 100 % are all, 0 % none."""
    return f"{min(99, max(1, round(100 * share))) if 0 < share < 1 else round(100 * share)} %"
