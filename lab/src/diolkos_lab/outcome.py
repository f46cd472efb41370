# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a trial comes to, in one of four outcomes. `docs/method.md` draws the lines between them.

A trial that failed is the system's result, and the worst that there is, unless there is evidence that an instrument of the
lab failed. The burden of proof is this way round so that no failure of a path can excuse itself: what is neither
measured nor proved to be the lab's fault counts against the path.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

INSTRUMENT = "instrument"  # name of the guard that objects to a trial in which the lab itself failed


class Outcome(StrEnum):
    """Of one trial. The first two are results of the path; the other two say nothing of it, and are made up for."""

    MEASURED = "measured"
    SYSTEM_FAILED = "system failed"  # it ended, does not forward, or does not come back: the worst result
    UNTRUSTED = "untrusted"  # a guard objects to its surroundings
    INSTRUMENT_FAILED = "instrument failed"  # a server, a generator or the host of the lab failed: there are no figures

    @property
    def counts(self) -> bool:
        """Does it decide anything?"""
        return self in (Outcome.MEASURED, Outcome.SYSTEM_FAILED)


def outcome(trial: Mapping[str, Any]) -> Outcome:
    """Of a line of samples.jsonl."""
    if trial.get("error") is not None:
        return Outcome.SYSTEM_FAILED
    if any(objection["guard"] == INSTRUMENT for objection in trial.get("distrust", ())):
        return Outcome.INSTRUMENT_FAILED
    return Outcome.MEASURED if trial["valid"] else Outcome.UNTRUSTED
