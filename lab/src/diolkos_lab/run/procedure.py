# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Run a procedure of an RFC: it requests one trial after the other and receives the result of each.

Stages: request → measure → untrusted? retry → result → … → the outcome, in the record of the last trial.

A procedure is a generator. It yields the trial that it wants, receives a `TrialResult`, and returns its outcome. It knows
nothing of namespaces, clocks or files, so a test can be its measurer.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from diolkos_lab.experiment.procedures import MlrSearch, PacketTrial, Procedure, Rfc8219
from diolkos_lab.faults import Fault
from diolkos_lab.run import rfc8219
from diolkos_lab.run.steps import Steps, TrialResult
from diolkos_lab.run.trial import Trial

WARM_UP_S = 1.0


@dataclass
class Tally:
    """What became of the trials of one procedure."""

    trials: int = 0
    repeated: int = 0  # not trusted, and made again
    untrusted: int = 0  # not trusted, and used all the same, since no attempt was
    guards: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        counts = {"trials": self.trials, "repeated": self.repeated, "distrusted": self.untrusted}  # keys of the file format
        return {**counts, "guards": dict(self.guards)}


def warm_up(part: Procedure) -> PacketTrial:
    """A short trial at the lowest rate, before the procedure, or of generator and sink by themselves."""
    return part.trial(part.lowest, min(part.seconds, WARM_UP_S), "warm-up")


def run_procedure(
    part: Procedure, whole: Procedure, measure: Callable[[PacketTrial], Trial], repair: Callable[[], None]
) -> Iterator[Trial]:
    """Every trial of one part of a procedure, as it is made. The last one's `outcome` says what was found.

    A trial that failed has lost all its packets: who made it again until it succeeds would find a rate that the path keeps
    now and then. `repair` is called after it. When trials fail as often in a row as one may be made, or where one failed and no
    rate was found, the outcome says why. Where an instrument fails in every attempt, the procedure has no outcome of the path.
    """
    tally = Tally()
    steps = _steps(part)
    try:
        try:
            asked = next(steps)
        except StopIteration as end:
            raise Fault(f"{part.name} asks for no trial: {end.value['error']}") from end
        attempt, failures = 1, 0
        why: str | None = None  # the first trial that failed did so
        while True:
            trial = measure(asked.model_copy(update={"attempt": attempt}))
            tally.trials += 1
            tally.guards.update(entry.guard for entry in trial.objections)
            if trial.error:
                repair()
            failures = failures + 1 if trial.error else 0
            why = why or trial.error
            if trial.objections and attempt < part.tries:
                tally.repeated += 1
                attempt += 1
                yield trial
                continue
            if broken := trial.instrument_failure:
                yield replace(trial, outcome=_outcome(part, whole, tally, {"error": broken, "instrument_failed": True}))
                return
            if trial.error and failures >= part.tries:
                yield replace(trial, outcome=_outcome(part, whole, tally, {"error": trial.error}))
                return
            tally.untrusted += bool(trial.objections)
            try:
                asked = steps.send(TrialResult.from_trial(trial))
            except StopIteration as end:
                error = {"error": why} if why and not _has_rate(end.value) else {}
                yield replace(trial, outcome=_outcome(part, whole, tally, end.value | error))
                return
            attempt = 1
            yield trial
    finally:
        steps.close()


def _steps(part: Procedure) -> Steps:
    if not isinstance(part, MlrSearch):
        return rfc8219.steps(part)
    from diolkos_lab.run import mlrsearch  # noqa: PLC0415  most of a second, which a report need not wait

    return mlrsearch.steps(part)


def _has_rate(found: dict[str, Any]) -> bool:
    parts = found.get("goals") or [found.get("throughput") or {}]
    return any(part.get("lower_pps") is not None for part in parts)


def _outcome(part: Procedure, whole: Procedure, tally: Tally, found: dict[str, Any]) -> dict[str, Any]:
    rest = {"rest_s": part.rest_s} if isinstance(part, Rfc8219) else {}
    return {
        "procedure": part.name,
        "plan": part.plan,
        "limits": {"lowest": part.lowest, "highest": part.highest, **rest},
        "deviations": whole.deviations,
        "tally": tally.as_json(),
        "error": None,
        **found,
    }
