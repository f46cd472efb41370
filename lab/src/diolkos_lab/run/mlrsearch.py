# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NDR and PDR by FD.io's package MLRsearch, which is the controller of RFC 9971 (§4.9); we are its measurer.

The controller calls `measure` and waits. A procedure of ours is asked and told. So the controller has a thread of its own,
which sleeps whenever a trial is made:

    controller ── measure(duration, load) ──► asked ──► the session makes the trial ──► told ──► result ──► controller

The package is told durations in trials instead of seconds: it adds them up and compares the sums, which floating-point numbers
of seconds do not survive (five trials of 0.2 s make less than a second).

Stages: goals → search → relevant bounds of each goal.
"""

import threading
from dataclasses import dataclass
from importlib.metadata import version
from queue import SimpleQueue
from typing import Any

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
from MLRsearch.goal_result import GoalResult

from diolkos_lab.experiment.procedures import Goal, MlrSearch
from diolkos_lab.run.steps import Steps, TrialResult

DIGITS = 6  # of a sum of durations: 0.3 s are 3 trials of 0.1 s


class Abandoned(Exception):
    """Nobody wants the rest of the search."""


@dataclass(frozen=True)
class Request:
    trials: float  # its length, as a share of that of a full one
    rate: float  # packets/s


@dataclass(frozen=True)
class End:
    results: dict[SearchGoal, GoalResult]
    error: str | None = None


def steps(load: MlrSearch) -> Steps:
    """One search. The outcome's `goals` has an entry for each goal of the load, in their order.

    `lower_pps` and `upper_pps` are the relevant bounds; one is None where the search met the limit of the rates instead.
    `conditional_pps` is the conditional throughput. `distrusted_at_bounds` counts the trials at the bounds that are used
    though a guard objects: what was lost elsewhere has only led the search there.
    """
    asked: SimpleQueue[Request | End] = SimpleQueue()
    told: SimpleQueue[TrialResult | None] = SimpleQueue()
    controller = threading.Thread(target=_control, args=(load, asked, told), name="mlrsearch", daemon=True)
    controller.start()
    untrusted: dict[float, int] = {}
    try:
        while isinstance(request := asked.get(), Request):
            answer = yield load.trial(request.rate, request.trials * load.seconds, "search")
            untrusted[request.rate] = untrusted.get(request.rate, 0) + (not answer.trusted)
            told.put(answer)
    finally:
        told.put(None)
        controller.join()
    library = f"MLRsearch {version('MLRsearch')}"
    if request.error:
        return {"library": library, "error": request.error, "gave_up": True}
    found = [_found(goal, request.results[_search_goal(goal, load)], untrusted) for goal in load.goal]
    return {"library": library, "goals": found}


class _Measurer(AbstractMeasurer):  # type: ignore[misc]  # the package has no types
    def __init__(self, asked: "SimpleQueue[Request | End]", told: "SimpleQueue[TrialResult | None]") -> None:
        self._asked, self._told = asked, told

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        self._asked.put(Request(intended_duration, intended_load))
        answer = self._told.get()
        if answer is None:
            raise Abandoned
        # No duration with overheads: sums of durations are then those of the packets, whatever the lab needs beside them.
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=answer.sent,
            forwarding_count=answer.received,
        )


def _control(load: MlrSearch, asked: "SimpleQueue[Request | End]", told: "SimpleQueue[TrialResult | None]") -> None:
    try:
        config = Config(
            goals=[_search_goal(goal, load) for goal in load.goal],
            min_load=float(load.lowest),
            max_load=float(load.highest),
            search_duration_max=load.longest_s,
            warmup_duration=None,  # the warm-up block did that
        )
        results = MultipleLossRatioSearch(config=config).search(measurer=_Measurer(asked, told), debug=lambda _: None)
        asked.put(End(dict(results)))
    except Abandoned:
        pass
    except Exception as error:  # whatever a foreign package raises becomes part of the record
        asked.put(End({}, f"MLRsearch gave up: {error}"))


def _search_goal(goal: Goal, load: MlrSearch) -> SearchGoal:
    return SearchGoal(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.relative_width,
        initial_trial_duration=(load.initial_seconds or load.seconds) / load.seconds,
        final_trial_duration=1.0,
        duration_sum=round(goal.duration_sum_s / load.seconds, DIGITS),
        preceding_targets=goal.preceding_targets,
        expansion_coefficient=goal.expansion_coefficient,
        fail_fast=False,  # one goal that cannot be reached takes nothing from the others
    )


def _found(goal: Goal, result: GoalResult, untrusted: dict[float, int]) -> dict[str, Any]:
    bounds = [result.relevant_lower_bound, result.relevant_upper_bound]
    lower, upper = (float(bound) if bound is not None else None for bound in bounds)
    conditional = result.conditional_throughput
    return {
        "goal": goal.model_dump(),
        "lower_pps": lower,
        "upper_pps": upper,
        "conditional_pps": None if conditional is None else float(conditional),
        "distrusted_at_bounds": sum(untrusted.get(rate, 0) for rate in (lower, upper) if rate is not None),
    }
