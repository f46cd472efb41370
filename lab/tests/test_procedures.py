# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Procedures against measurers whose loss is known: a formula, a formula with chance in it, and one that is disturbed."""

import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diolkos_lab.experiment.procedures import Goal, MlrSearch, PacketTrial, Procedure, Rfc8219
from diolkos_lab.run import mlrsearch, rfc8219
from diolkos_lab.run.steps import TrialResult

sys.path.insert(0, str(Path(__file__).parent / "curve"))
import paper_curves

Router = Callable[[float], float]  # offered packets/s to loss ratio
DELAYS = {"latency": 1e-5, "latency_worst": 9e-5, "pdv": 8e-5, "ipdv_min": -7e-5, "ipdv_median": 0.0, "ipdv_max": 7e-5}
QUICK = MlrSearch(name="mlrsearch", seconds=0.2, goal=tuple(Goal(loss_ratio=x, duration_sum_s=2) for x in (0.0, 0.005)))
RFC = Rfc8219(name="rfc8219", sizes=(84,))


def _steps(plan: Procedure) -> Any:
    return mlrsearch.steps(plan) if isinstance(plan, MlrSearch) else rfc8219.steps(plan)


def _carry_out(
    plan: Procedure, tell: Callable[[PacketTrial], TrialResult]
) -> tuple[dict[str, Any], list[tuple[PacketTrial, TrialResult]]]:
    """The outcome, and what was asked and told."""
    steps, made = _steps(plan), []
    asked = next(steps)
    while True:
        made.append((asked, tell(asked)))
        try:
            asked = steps.send(made[-1][1])
        except StopIteration as end:
            return end.value, made


def _exact(router: Router) -> Callable[[PacketTrial], TrialResult]:
    def tell(trial: PacketTrial) -> TrialResult:
        assert trial.offered
        sent = round(trial.offered * trial.seconds)
        return TrialResult(sent, sent - round(sent * router(trial.offered)), True, DELAYS)

    return tell


def _by_chance(router: Router, seed: int, disturbed: float = 0.0) -> Callable[[PacketTrial], TrialResult]:
    """Each packet is lost by chance; in a share of the trials something else loses another 3 %."""
    draw = np.random.default_rng(seed)

    def tell(trial: PacketTrial) -> TrialResult:
        assert trial.offered
        sent = round(trial.offered * trial.seconds)
        ratio = router(trial.offered) + (0.03 if draw.random() < disturbed else 0.0)
        return TrialResult(sent, sent - int(draw.binomial(sent, min(1.0, ratio))), True, DELAYS)

    return tell


def _hard(saturation: float) -> Router:
    return lambda rate: max(0.0, 1 - saturation / rate)


def _realistic(rate: float) -> float:
    return float(paper_curves.realistic(np.array([rate]))[0])


# ---- MLRsearch


@settings(max_examples=40)
@given(saturation=st.floats(11_000, 1_900_000), width=st.sampled_from([0.005, 0.02]))
def test_bounds_enclose_the_saturation_of_a_hard_router(saturation: float, width: float) -> None:
    goals = tuple(Goal(loss_ratio=ratio, relative_width=width) for ratio in (0.0, 0.005))
    outcome, made = _carry_out(MlrSearch(name="mlrsearch", goal=goals), _exact(_hard(saturation)))
    for goal, truth in zip(outcome["goals"], (saturation, saturation / 0.995), strict=True):
        # A loss of less than half a packet is none.
        assert goal["lower_pps"] <= truth * (1 + 1e-4) and truth <= goal["upper_pps"] * (1 + 1e-4)
        assert goal["upper_pps"] - goal["lower_pps"] <= width * goal["upper_pps"] * (1 + 1e-9)
        assert goal["conditional_pps"] <= saturation * (1 + 1e-4)
    assert all(QUICK.lowest <= (trial.offered or 0) <= QUICK.highest for trial, _ in made)


PDR = paper_curves.SATURATION * (np.log10(0.005) + 8) / 6  # where 10 ** (-8 + 6x) is 0.5 %


@pytest.mark.parametrize("disturbed", [0.0, 0.1])
def test_the_pdr_is_found_where_packets_are_lost_by_chance(disturbed: float) -> None:
    """Ten trials of a load all but never have six that are disturbed, if one in ten is: 0.02 % of the loads."""
    hits = 0
    for seed in range(20):
        outcome, _ = _carry_out(QUICK, _by_chance(_realistic, seed, disturbed))
        [_, pdr] = outcome["goals"]
        # At 0.5 % of some 190 000 packets chance moves the loss by 3 %, which moves the rate by less than 0.3 %.
        hits += pdr["lower_pps"] * (1 - 0.005) <= PDR <= pdr["upper_pps"] * (1 + 0.005)
    assert hits >= 19


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=514)
def test_relevant_bounds_are_those_that_the_draft_makes_of_the_trials(seed: int) -> None:
    """Load classification as in appendix A of RFC 9971, by itself."""
    outcome, made = _carry_out(QUICK, _by_chance(_realistic, seed, disturbed=0.3))
    for found, goal in zip(outcome["goals"], QUICK.goal, strict=True):
        good: dict[float, float] = defaultdict(float)
        bad: dict[float, float] = defaultdict(float)
        for trial, told in made:
            assert trial.offered and trial.seconds == QUICK.seconds, "no short trials here"
            (bad if told.loss_ratio > goal.loss_ratio else good)[trial.offered] += trial.seconds
        upper, lower = [], []
        for rate in {*good, *bad}:
            total = max(goal.duration_sum_s, good[rate] + bad[rate])
            if bad[rate] > total * goal.exceed_ratio + 1e-9:
                upper.append(rate)
            elif total - good[rate] <= total * goal.exceed_ratio + 1e-9:
                lower.append(rate)
        assert round(found["upper_pps"]) == min(upper)
        # None where the lowest rate that there is was disturbed too often.
        below = max((rate for rate in lower if rate < min(upper)), default=None)
        assert (found["lower_pps"] and round(found["lower_pps"])) == below


@pytest.mark.parametrize(("router", "bounds"), [(lambda _: 1.0, (None, 10_000.0)), (lambda _: 0.0, (2_000_000.0, None))])
def test_a_limit_of_the_rates_is_no_bound(router: Router, bounds: tuple[float | None, float | None]) -> None:
    outcome, made = _carry_out(QUICK, _exact(router))
    assert [(goal["lower_pps"], goal["upper_pps"]) for goal in outcome["goals"]] == [bounds, bounds]
    assert len(made) < 40


def test_goals_and_package_are_on_record() -> None:
    plan = MlrSearch(name="mlrsearch", goal=(Goal(loss_ratio=0.01, exceed_ratio=0.25, duration_sum_s=5),))
    outcome, made = _carry_out(plan, _exact(_hard(77_000)))
    assert outcome["library"].startswith("MLRsearch 1.")
    assert outcome["goals"][0]["goal"] == plan.goal[0].model_dump()
    assert {trial.seconds for trial, _ in made} == {1.0}


def test_a_search_that_takes_too_long_says_so() -> None:
    outcome, _ = _carry_out(QUICK.model_copy(update={"longest_s": 1e-9}), _exact(_hard(77_000)))
    assert outcome["error"] == "MLRsearch gave up: Optimized search takes too long."


def test_distrusted_trials_count_where_they_are_bounds() -> None:
    exact = _exact(_hard(100_000))
    outcome, _ = _carry_out(QUICK, lambda trial: TrialResult(*vars(exact(trial)).values()))
    assert [goal["distrusted_at_bounds"] for goal in outcome["goals"]] == [0, 0]

    def doubtful(trial: PacketTrial, *, above: float) -> TrialResult:
        told = exact(trial)
        return TrialResult(told.sent, told.received, (trial.offered or 0) < above, told.metrics)

    far, _ = _carry_out(QUICK, lambda trial: doubtful(trial, above=500_000))
    assert [goal["distrusted_at_bounds"] for goal in far["goals"]] == [0, 0], "far above, a trial only shows the way"
    near, _ = _carry_out(QUICK, lambda trial: doubtful(trial, above=100_000))
    assert all(goal["distrusted_at_bounds"] for goal in near["goals"])


def test_an_abandoned_search_leaves_no_thread() -> None:
    steps = mlrsearch.steps(QUICK)
    next(steps)
    assert [thread for thread in threading.enumerate() if thread.name == "mlrsearch"]
    steps.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "mlrsearch"]


# ---- RFC 2544 and RFC 8219


@given(saturation=st.integers(10_000, 1_999_999), resolution=st.sampled_from([0.001, 0.005, 0.05]))
def test_throughput_lies_in_its_bracket(saturation: int, resolution: float) -> None:
    plan = RFC.model_copy(update={"resolution": resolution, "tests": ("throughput",)})
    outcome, made = _carry_out(plan, _exact(lambda rate: 0.5 if rate > saturation else 0.0))
    lower, upper = outcome["throughput"]["lower_pps"], outcome["throughput"]["upper_pps"]
    assert lower <= saturation < upper
    assert upper - lower <= max(1, resolution * upper)
    assert all(plan.lowest <= (trial.offered or 0) <= plan.highest for trial, _ in made)
    assert {trial.seconds for trial, _ in made} == {60.0}


@given(seed=st.integers(0, 2**32 - 1))
def test_throughput_is_between_a_rate_that_lost_nothing_and_one_that_did(seed: int) -> None:
    """Also where the same rate loses a packet in one trial and none in the next."""
    outcome, made = _carry_out(RFC.model_copy(update={"seconds": 0.1}), _by_chance(_realistic, seed))
    lost = {trial.offered: told.lost for trial, told in made if trial.test == "throughput"}
    lower, upper = outcome["throughput"]["lower_pps"], outcome["throughput"]["upper_pps"]
    assert (lower is None or lost[lower] == 0) and lost[upper] > 0
    assert lower is None or all(loss > 0 for rate, loss in lost.items() if rate and rate > lower), "it is the fastest of them"


def test_one_lost_packet_of_a_minute_is_loss() -> None:
    def tell(trial: PacketTrial) -> TrialResult:
        sent = round((trial.offered or 0) * trial.seconds)
        return TrialResult(sent, sent - (1 if (trial.offered or 0) > 50_000 else 0), True, DELAYS)

    outcome, _ = _carry_out(RFC.model_copy(update={"tests": ("throughput",)}), tell)
    assert outcome["throughput"]["lower_pps"] <= 50_000 < outcome["throughput"]["upper_pps"]


def test_frame_loss_is_told_in_steps_until_two_rates_lose_nothing() -> None:
    router = _hard(100_000)
    outcome, _ = _carry_out(RFC.model_copy(update={"maximum": 200_000}), _exact(router))
    steps = outcome["frame_loss"]["steps"]
    assert [step["percent"] for step in steps] == [100, 90, 80, 70, 60, 50, 40]
    assert [step["loss_ratio"] for step in steps] == pytest.approx([router(step["offered_pps"]) for step in steps], abs=1e-6)


def test_without_a_maximum_twice_the_throughput_is_100_percent() -> None:
    outcome, _ = _carry_out(RFC, _exact(_hard(100_000)))
    assert outcome["frame_loss"]["maximum_pps"] == 2 * outcome["throughput"]["lower_pps"]
    assert any("twice the throughput" in text for text in RFC.deviations)
    assert not any("twice the throughput" in text for text in RFC.model_copy(update={"maximum": 5000}).deviations)


def test_delays_are_told_at_the_throughput_in_bursts_of_one() -> None:
    outcome, made = _carry_out(RFC, _exact(_hard(100_000)))
    rate = outcome["throughput"]["lower_pps"]
    for test, seconds in (("latency", 120.0), ("delay-variation", 60.0)):
        streams = [trial for trial, _ in made if trial.test == test]
        assert {(trial.offered, trial.seconds, trial.burst) for trial in streams} == {(rate, seconds, 1)}
        assert len(streams) == 20
    assert outcome["latency"]["typical_s"] == [1e-5] * 20 and outcome["latency"]["worst_s"] == [9e-5] * 20
    assert not outcome["latency"]["short"], "of more than 500 frames"
    variation = outcome["delay_variation"]
    assert [variation[name][0] for name in ("pdv_s", "ipdv_min_s", "ipdv_median_s", "ipdv_max_s")] == [8e-5, -7e-5, 0, 7e-5]


def test_streams_that_are_not_trusted_are_used_where_none_is() -> None:
    exact, numbers = _exact(_hard(100_000)), iter(range(10_000))

    def tell(trial: PacketTrial) -> TrialResult:
        told = exact(trial)
        number = next(numbers)
        trusted = trial.test == "throughput" or (trial.test == "latency" and number % 2 == 0)
        return TrialResult(told.sent, told.received, trusted, {**DELAYS, "latency": 1.0 if trusted else 2.0})

    outcome, _ = _carry_out(RFC, tell)
    assert set(outcome["latency"]["typical_s"]) == {1.0} and len(outcome["latency"]["typical_s"]) == 10
    assert outcome["latency"]["trusted"] and outcome["latency"]["distrusted"] == 10
    assert len(outcome["delay_variation"]["pdv_s"]) == 20 and not outcome["delay_variation"]["trusted"]
    assert outcome["throughput"]["distrusted"] == 0
    assert outcome["frame_loss"]["distrusted"] == len(outcome["frame_loss"]["steps"])


def test_without_a_rate_there_are_no_delays() -> None:
    outcome, made = _carry_out(RFC, _exact(lambda _: 0.01))
    assert outcome["throughput"]["lower_pps"] is None and outcome["throughput"]["upper_pps"] == RFC.lowest
    assert outcome["latency"] == outcome["delay_variation"] == {"error": rfc8219.NO_RATE}
    assert outcome["frame_loss"]["maximum_pps"] == RFC.highest
    assert len(made) == 11


def test_what_the_rfcs_ask_for_is_done_by_default_but_for_what_is_said() -> None:
    whole = Rfc8219(name="rfc8219", maximum=1_000_000)
    told = " | ".join(whole.deviations)
    for each in (
        "no native traffic",
        "no time limit",
        "4096 flows",
        "one destination",
        "not of 500 after",
        "when it is written",
    ):
        assert each in told
    assert len(whole.deviations) == 6 and whole.directions == "both"
    beside = [
        [text for text in whole.model_copy(update={"native_share": share}).deviations if "native" in text]
        for share in (0.0, 0.1, 0.5, 0.9, 0.3)
    ]
    assert list(map(len, beside)) == [1, 0, 0, 0, 1] and "30 % native IPv6" in beside[-1][0], "RFC 8219 section 5.3"
    more = {"flows": "unique", "next_hops": 64, "frame_timeout_s": 1.0, "directions": "one"}
    told = " | ".join(whole.model_copy(update=more).deviations)
    assert "flows" not in told and "time limit" not in told and "one direction only" in told and "64 destinations" in told
    short = whole.model_copy(update={"seconds": 5.0, "latency_s": 1.0, "variation_s": 1.0, "repeats": 2, "rest_s": 0.0})
    assert len(short.deviations) == 6 + 5
    assert [part.sizes for part in whole.parts] == [(size,) for size in whole.sizes]
