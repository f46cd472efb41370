# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Known answers: the limits of chance, the truths, and that a wrong truth is missed."""

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from diolkos_lab import run_study
from diolkos_lab.curve import known_curves
from diolkos_lab.experiment.definition import Form
from diolkos_lab.studies import load
from diolkos_lab.sut import definition

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import false_alarms
import known_answers
from calibration import limits, truths
from calibration.judging import JUDGES, Check

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
Make = Callable[..., dict[str, Any]]
BLOCKS = 6

# ---- how many misses chance explains


@given(runs=st.integers(1, 300), criteria=st.integers(1, 40))
def test_a_right_lab_fails_the_whole_command_at_most_once_in_a_hundred(runs: int, criteria: int) -> None:
    most = limits.most_misses(runs, criteria)
    assert criteria * limits.more_misses(runs, most, 0.95) <= limits.RISK
    assert most == 0 or criteria * limits.more_misses(runs, most - 1, 0.95) > limits.RISK, "and no miss more is allowed"


def test_so_few_runs_that_nothing_could_fail_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert limits.most_misses(limits.FEWEST, 40) < limits.FEWEST and limits.most_misses(limits.FEWEST - 1, 13) == 2
    for command, option in ((known_answers, "--runs"), (false_alarms, "--comparisons")):
        monkeypatch.setattr(sys, "argv", ["command", option, "2"])
        with pytest.raises(SystemExit, match="2"):
            command.main()
        assert f"{option} 2: give at least 3" in capsys.readouterr().err


def _failing(draw: np.random.Generator, coverage: float, runs: int, criteria: int, *, alike: bool = False) -> float:
    """The share of commands that fail. `alike`: all criteria of a run are inside or outside together."""
    commands = 4000
    inside = draw.random((commands, runs, 1 if alike else criteria)) < coverage
    inside = np.broadcast_to(inside, (commands, runs, criteria))
    made = [limits.lines({str(n): each[:, n].tolist() for n in range(criteria)}) for each in inside]
    return sum(not all(line.passed for line in judged) for judged in made) / commands


@pytest.mark.parametrize("alike", [False, True])
def test_drawn_right_labs_fail_at_most_once_in_a_hundred(alike: bool) -> None:
    failing = _failing(np.random.default_rng(21), 0.95, runs=20, criteria=13, alike=alike)
    assert failing <= limits.RISK + 3 * (limits.RISK / 4000) ** 0.5


def test_a_fixed_bar_of_95_percent_fails_a_right_lab_once_in_three_times() -> None:
    assert 1 - binom.cdf(2, 40, 0.05) == pytest.approx(0.32, abs=0.005)
    assert limits.more_misses(40, limits.most_misses(40, 1), 0.95) <= 0.01


def test_a_weak_lab_fails_as_often_as_the_result_says() -> None:
    for runs, criteria in ((20, 13), (40, 4)):
        judged = limits.lines(dict.fromkeys(map(str, range(criteria)), [True] * runs))
        least, apart = limits.weak_lab_fails(judged)
        draw = np.random.default_rng(22)
        assert _failing(draw, limits.WEAK, runs, criteria) == pytest.approx(apart, abs=0.03)
        assert _failing(draw, limits.WEAK, runs, criteria, alike=True) == pytest.approx(least, abs=0.03)
    assert limits.more_misses(20, limits.most_misses(20, 13), 0.5) > 0.97, "a criterion that covers half is found out"


def test_a_line_says_its_limit() -> None:
    [good] = limits.lines({"loss": [True] * 38 + [False] * 2})
    assert good.passed and good.most == 6
    assert good.words.startswith("loss: 38 of 40 inside, 2 misses, at most 6 allowed (80% coverage fails with 71%)")
    [bad] = limits.lines({"loss": [True] * 33 + [False] * 7})
    assert not bad.passed and bad.words.endswith("FAILED")


# ---- truths


def _numbers(system: str, datapath: str) -> str:
    """What the path is made of, in one text."""
    path = definition.load_all()[system].datapath[datapath]
    lines = [path.compile or (), *path.prepare]
    return " ".join(" ".join(line) for line in lines) + (path.nftables or "")


def test_truths_are_made_of_the_numbers_of_the_systems() -> None:
    rate = _numbers("shaper", "rate")
    assert re.findall(r"rate (\d+)mbit", rate) == [f"{truths.SHAPED / 1e6:.0f}"] * 2
    for name, bits in truths.DELAYS.items():
        text = _numbers("shaper", name)
        assert re.findall(r"rate (\d+)kbit burst (\d+)", text) == [(f"{bits / 1e3:.0f}", str(truths.BUCKET))]
    assert re.findall(r"random mod (\d+) 0 ", _numbers("limiter", "loss")) == [str(truths.LOST_ONE_IN)]
    assert re.findall(r"size (\d+)", _numbers("limiter", "table")) == [str(truths.TABLE)]
    limit = r"over (\d+)/second burst (\d+) packets"
    assert re.findall(limit, _numbers("limiter", "responder")) == [(f"{truths.NEW_FLOWS:.0f}", str(truths.AT_ONCE))]
    assert f"-DT_SAT={known_curves.SATURATION:.0f}" in _numbers("synthetic", "ideal")


@pytest.mark.parametrize(("name", "delay"), [("delay-short", 0.0058), ("delay-long", 0.008)])
def test_a_request_waits_as_a_bucket_of_tokens_makes_it_wait(name: str, delay: float) -> None:
    """Tokens counted one after the other: a decoy takes its own, and the request waits for the rest."""
    bytes_per_s = Fraction(int(truths.DELAYS[name]), 8)
    left = truths.BUCKET - truths.ECHO
    assert 0 <= left < truths.ECHO, "a decoy passes, and does not leave enough for the request"
    assert float((truths.ECHO - left) / bytes_per_s) == truths.echo_delay(truths.DELAYS[name]) == pytest.approx(delay)
    [ping] = load(str(BENCHMARKS / "known" / "ping.toml")).form["quick"].load
    assert ping.name == "ping" and ping.interval_s > delay + float(truths.BUCKET / bytes_per_s), "the bucket is full again"


def test_new_flows_get_through_up_to_the_known_rate_and_no_faster() -> None:
    """The limiter's rule, packet by packet and without rounding."""

    def refused(rate: Fraction, sessions: int) -> int:
        tokens, count = Fraction(truths.AT_ONCE), 0
        for number in range(sessions):
            tokens = min(Fraction(truths.AT_ONCE), tokens + (Fraction(int(truths.NEW_FLOWS)) / rate if number else 0))
            count += tokens < 1
            tokens -= tokens >= 1
        return count

    sessions = 3000
    truth = Fraction(truths.new_flows(sessions).low)
    assert refused(truth * Fraction(9999, 10000), sessions) == 0
    assert refused(truth * Fraction(10002, 10000), sessions) > 0


def test_tcp_has_the_share_of_full_frames_that_is_payload() -> None:
    truth = truths.shaped_throughput(0.6)
    assert (truth.low + truth.high) / 2 == pytest.approx(200e6 * 1428 / 1514)
    assert truth.high / truth.low - 1 < 5e-4, "what the derivation leaves open is far less than a wrong rate would be"


def test_an_interval_without_an_end_holds_no_truth() -> None:
    truth = truths.exactly(47_491)
    assert truth.inside((47_000, 48_000)) and truth.inside((47_491, 47_491)) and not truth.inside((47_492, 48_000))
    assert not (truth.inside(None) or truth.inside((-math.inf, 48_000)) or truth.inside((47_000, math.inf)))


def test_the_ideal_router_is_known_at_every_rate() -> None:
    assert truths.ndr() == truths.Truth(50_000, 50_000) == truths.pdr(0.0)
    assert truths.pdr(0.005).low == pytest.approx(50_251.26, abs=0.01)
    assert truths.frame_loss(60_000).low == pytest.approx(1 / 6) and truths.frame_loss(49_000).low == 0


# ---- judging


def _form(name: str) -> Form:
    return load(str(BENCHMARKS / "known" / f"{name}.toml")).form["quick"]


def _blocks(make: Make, figures: Sequence[float], **given: Any) -> list[dict[str, Any]]:
    metric = given.pop("metric")
    return [make(block=block, metrics={metric: value}, **given) for block, value in enumerate(figures, start=1)]


def _around(value: float, share: float = 0.01) -> list[float]:
    return [value * (1 + share * step) for step in np.linspace(-1, 1, BLOCKS)]


def _tcp(make: Make) -> list[dict[str, Any]]:
    where = {"system": "shaper", "datapath": "rate", "metric": "throughput"}
    rate = 200e6 * 1428 / 1514
    return [each for name in ("tcp-upload", "tcp-download") for each in _blocks(make, _around(rate), load=name, **where)]


def _ping(make: Make) -> list[dict[str, Any]]:
    """Beside the delays the path takes a time of its own, the same on both, which nobody knows."""
    where = {"system": "shaper", "load": "ping", "factors": {"offloads": "on"}, "metric": "rtt"}
    own = _around(1e-4, 0.2)
    short, long = ([delay + mine for mine in own] for delay in (0.0058, 0.008))
    long = [value + step for value, step in zip(long, np.linspace(-1e-5, 1e-5, BLOCKS), strict=True)]
    return [*_blocks(make, short, datapath="delay-short", **where), *_blocks(make, long, datapath="delay-long", **where)]


NEAR = (47_000.0, 48_000.0)  # the PDR of the realistic router


def _packets(make: Make, draw: np.random.Generator, system: str, datapath: str, rates: dict[float, float], sent: int) -> Any:
    factors = {"offloads": "on", "placement": "apart", "size": 84, "seconds": 0.25, "flows": 16}
    for block in range(1, BLOCKS + 1):
        for rate, loss in rates.items():
            lost = int(draw.binomial(sent, loss))
            metrics = {"sent": float(sent), "received": float(sent - lost), "loss": lost / sent}
            given = {"system": system, "datapath": datapath, "load": "pps", "series": {}, "metrics": metrics}
            yield make(block=block, factors={**factors, "offered": rate, "refines": int(rate in NEAR)}, **given)


def _loss(make: Make) -> list[dict[str, Any]]:
    rates = dict.fromkeys((20_000.0, 30_000.0, 40_000.0), 1 / 512)
    return list(_packets(make, np.random.default_rng(3), "limiter", "loss", rates, 50_000))


def _curve(make: Make) -> list[dict[str, Any]]:
    answer = known_curves.ANSWERS["realistic"]
    rates = [*NEAR, *(answer.pdr * share for share in (0.475, 0.625, 0.775, 0.925, 1.075, 1.225, 1.375, 1.525))]
    loss = {rate: 10 ** (-8 + 6 * rate / 50_000) if rate <= 50_000 else 1 - 49_500 / rate for rate in rates}
    return list(_packets(make, np.random.default_rng(3), "synthetic", "realistic", loss, 20_000))


def _search(make: Make, name: str, metrics: dict[str, float]) -> list[dict[str, Any]]:
    return [make(system="limiter", datapath="table", load=name, block=block, metrics=metrics) for block in (0, 1)]


def _capacity(make: Make) -> list[dict[str, Any]]:
    return _search(make, "capacity", {"capacity": 2987.0, "too_many": 3007.0, "attempts": 9.0})


def _new_flows(make: Make) -> list[dict[str, Any]]:
    return _search(make, "new-flows", {"rate": 20_100.0, "attempts": 7.0})


def _outcome(make: Make, name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    plan = {"placement": "apart", "size": 84, "seconds": 0.2, "flows": 16}
    outcome = {"procedure": name, "plan": plan, "limits": {"lowest": 20_000, "highest": 100_000}, "deviations": []}
    outcome |= {"tally": {"trials": 9, "repeated": 0, "distrusted": 0, "guards": {}}, "error": None, **found}
    given = {"system": "synthetic", "datapath": "ideal", "load": name, "series": {}, "metrics": {"sent": 1.0}}
    return [make(factors={"offloads": "on", **plan, "offered": 1}, outcome=outcome, **given)]


def _bound(lower: float | None, upper: float | None, **more: Any) -> dict[str, Any]:
    return {"lower_pps": lower, "upper_pps": upper, "distrusted": 0, "distrusted_at_bounds": 0, "conditional_pps": None, **more}


def _mlrsearch(make: Make) -> list[dict[str, Any]]:
    goals = [
        _bound(49_700, 50_300, goal={"loss_ratio": 0.0}),
        _bound(49_900, 50_700, goal={"loss_ratio": 0.005}),
    ]
    return _outcome(make, "mlrsearch", {"goals": goals})


def _rfc8219(make: Make) -> list[dict[str, Any]]:
    offered = {100: 74_000, 90: 66_600, 80: 59_200, 70: 51_800, 60: 44_400}
    steps = []
    for percent, rate in offered.items():
        sent = rate // 5
        lost = round(max(0.0, 1 - 50_000 / rate) * sent)
        steps.append({"percent": percent, "offered_pps": rate, "sent": sent, "loss_ratio": lost / sent, "trusted": True})
    frame_loss = {"maximum_pps": 74_000, "steps": steps, "distrusted": 0}
    return _outcome(make, "rfc8219", {"throughput": _bound(49_600, 50_400), "frame_loss": frame_loss})


RUNS: dict[str, tuple[Callable[[Make], list[dict[str, Any]]], int]] = {
    "curve": (_curve, 3),
    "tcp": (_tcp, 2),
    "ping": (_ping, 1),
    "loss": (_loss, 3),
    "capacity": (_capacity, 1),
    "new-flows": (_new_flows, 1),
    "mlrsearch": (_mlrsearch, 2),
    "rfc8219": (_rfc8219, 1 + 5),
}


def test_every_kind_of_load_is_tested() -> None:
    assert RUNS.keys() == JUDGES.keys() == {file.stem for file in (BENCHMARKS / "known").iterdir()}


def test_the_default_is_the_most_runs_of_which_four_misses_are_beyond_chance(record: Make) -> None:
    criteria = {check.criterion for name, (made, _) in RUNS.items() for check in JUDGES[name](_form(name), made(record), 1.0)}
    assert len(criteria) == 13
    limit = [limits.most_misses(runs, len(criteria)) for runs in (known_answers.RUNS, known_answers.RUNS + 1)]
    assert limit == [3, 4]


@pytest.mark.parametrize("name", RUNS)
def test_a_right_run_is_inside_and_a_wrong_truth_is_missed(name: str, record: Make) -> None:
    made, answers = RUNS[name]
    trials = made(record)
    right = JUDGES[name](_form(name), trials, 1.0)
    assert len(right) == answers and all(check.inside for check in right), right
    for factor in (0.8, 1.25):
        wrong = JUDGES[name](_form(name), trials, factor)
        # At a rate at which nothing is lost, the loss is 0 whatever it is multiplied by.
        missed = [check for check in wrong if not check.inside]
        assert len(missed) == answers - (name == "rfc8219"), (factor, wrong)
        assert {check.criterion for check in missed} == {check.criterion for check in right}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_brings_nothing_misses(name: str, record: Make) -> None:
    """Nothing is left out: who does not answer is not right."""
    made, _ = RUNS[name]
    failed = [
        {
            **{key: value for key, value in trial.items() if key != "outcome"},
            **{"metrics": {}, "valid": False, "error": "the path has died"},
        }
        for trial in made(record)
    ]
    checks = JUDGES[name](_form(name), failed, 1.0)
    expected = {check.criterion for check in JUDGES[name](_form(name), made(record), 1.0)}
    assert {check.criterion for check in checks} == expected and not any(check.inside for check in checks)


def test_a_rate_near_the_truth_is_not_the_truth(record: Make) -> None:
    """What each interval of a search leaves out, it leaves out."""
    near = _search(record, "capacity", {"capacity": 3001.0, "too_many": 3100.0})
    assert not JUDGES["capacity"](_form("capacity"), near, 1.0)[0].inside
    near = _search(record, "capacity", {"capacity": 2900.0, "too_many": 3000.0})
    assert not JUDGES["capacity"](_form("capacity"), near, 1.0)[0].inside
    assert not JUDGES["capacity"](_form("capacity"), _search(record, "capacity", {"capacity": 3000.0}), 1.0)[0].inside
    near = _outcome(record, "mlrsearch", {"goals": [_bound(50_100, None, goal={"loss_ratio": 0.0})]})
    assert not any(check.inside for check in JUDGES["mlrsearch"](_form("mlrsearch"), near, 1.0))


def test_of_a_search_that_was_made_again_the_trusted_one_counts(record: Make) -> None:
    def judged(*rates: tuple[float, bool]) -> list[bool]:
        trials = [record(load="new-flows", metrics={"rate": rate}, valid=valid) for rate, valid in rates]
        return [check.inside for check in JUDGES["new-flows"](_form("new-flows"), trials, 1.0)]

    assert judged((15_000.0, False), (20_100.0, True)) == [True]
    assert judged((20_100.0, False), (15_000.0, False)) == [False]
    assert judged((20_100.0, True), (15_000.0, False)) == [True]


# ---- the commands


def test_where_one_block_is_an_answer_each_run_is_a_block_on_new_lanes(monkeypatch: pytest.MonkeyPatch, record: Make) -> None:
    asked: list[tuple[Form, int]] = []
    closed: list[bool] = []

    def measured(_: str, form: Form, seed: int) -> Iterator[dict[str, Any]]:
        asked.append((form, seed))
        try:
            for block in range(form.blocks + 1):  # the last one makes up for another
                held = 2900.0 if block == 2 else 2000.0
                yield record(load="capacity", block=block, metrics={"capacity": held, "too_many": 3100.0})
        finally:
            closed.append(True)

    monkeypatch.setattr(known_answers, "_measured", measured)
    found = list(known_answers.runs("capacity", range(5, 8), 1.0))
    assert [len(run.checks) for run in found] == [1, 1, 1] and closed == [True]
    [(form, seed)] = asked
    assert (form.blocks, form.build_blocks, seed) == (1 + 3, 1, 5)
    assert [run.checks[0].words.split()[0] for run in found] == ["2000", "2900", "2000"]


def test_where_blocks_make_an_interval_each_run_is_a_session(monkeypatch: pytest.MonkeyPatch, record: Make) -> None:
    seeds: list[int] = []

    def measured(_: str, form: Form, seed: int) -> Iterator[dict[str, Any]]:
        seeds.append(seed)
        assert form.build_blocks == 1 and form.blocks > BLOCKS
        yield from _ping(record)

    monkeypatch.setattr(known_answers, "_measured", measured)
    found = list(known_answers.runs("ping", range(5, 8), 1.0))
    assert seeds == [5, 6, 7] and [run.checks[0].inside for run in found] == [True] * 3
    assert found[0].words.endswith(f"({2 * BLOCKS} trials, 0 untrusted)")


@pytest.mark.parametrize(("misses", "code"), [(0, 0), (5, 0), (6, 1), (20, 1)])
def test_the_exit_code_is_that_of_the_limit(
    misses: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def runs(name: str, seeds: Sequence[int], factor: float) -> list[known_answers.Run]:
        return [known_answers.Run([Check(name, seed > misses, "")], 1, 0) for seed in seeds]

    monkeypatch.setattr(known_answers, "runs", runs)
    monkeypatch.setattr(run_study, "require_root", lambda: None)
    monkeypatch.setattr(sys, "argv", ["known_answers.py", "--runs", "20"])
    assert known_answers.main() == code
    said = capsys.readouterr().out
    assert f"{20 - misses} of 20 inside, {misses} misses, at most 5 allowed" in said
    assert ("FAILED" in said) == bool(code)


@pytest.mark.parametrize(("alarms", "code"), [(2, 0), (3, 0), (6, 0), (7, 1)])
def test_false_alarms_beyond_chance_fail(
    alarms: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [{"block": block, "valid": True} for block in range(1, 40 * 8 + 1)]
    monkeypatch.setattr(false_alarms, "_measure", lambda blocks, seed: records)
    monkeypatch.setattr(false_alarms, "_compare", lambda group: (group[0]["block"] <= 8 * alarms, ""))
    monkeypatch.setattr(run_study, "require_root", lambda: None)
    monkeypatch.setattr(sys, "argv", ["false_alarms.py"])
    assert false_alarms.main() == code
    assert "at most 6 allowed" in capsys.readouterr().out
