# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whole runs without a network: what guards object to is made again, with what it is compared with, until there are enough
pairs or the time is over; lanes are rebuilt; nothing depends on what a trial brought."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from diolkos_lab import studies
from diolkos_lab.experiment.cells import LaneCell, TrialCell
from diolkos_lab.run import session as runs
from diolkos_lab.run.completed import CompletedTrials
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.session import Session
from diolkos_lab.run.trial import Trial
from diolkos_lab.stats.pairing import CellKey, Samples
from diolkos_lab.sut import definition, lookup
from diolkos_lab.wide_rules import is_wide, with_wide_rules

BUSY = [Objection("foreign-cpu", "other programs used 30 % of the CPUs")]
Disturbed = Callable[[TrialCell], bool]


@dataclass
class Path:
    """A testbed without a network."""

    disturbed: Disturbed
    value: Callable[[TrialCell], float | None]
    clock: list[float]
    failure: str | None = None
    given_up: bool = False

    def measure(self, cell: TrialCell, block: int, order: int) -> Trial:
        self.clock[0] += 1
        value = self.value(cell)
        if value is None:
            return Trial(block, order, cell, "", 1.0, error="it died")
        metric = "rtt" if cell.load.name == "ping" else "throughput"
        return Trial(block, order, cell, "", 1.0, objections=BUSY if self.disturbed(cell) else [], metrics={metric: value})

    def bring_up(self) -> None: ...


def _run(
    monkeypatch: pytest.MonkeyPatch,
    disturbed: Disturbed,
    value: Callable[[TrialCell], float | None] = lambda _: 1.0,
    *,
    blocks: int = 10,
    build_blocks: int = 1,
    claim_blocks: int = 0,
    wide_blocks: int = 0,
    budget_s: float | None = None,
    seed: int = 1,
    names: tuple[str, ...] = ("tcp-upload", "ping"),
    completed: CompletedTrials | None = None,
) -> list[Trial]:
    """The trials of these loads of native IPv6, IPv4 and diolkos by tc and tun, a second each."""
    study = studies.load("clat")
    chosen = tuple(
        each for each in study.system if each.system in ("native", "diolkos") and each.datapath in ("kernel", "tc", "tun")
    )
    claims = tuple(claim for claim in study.claim if claim.datapath in ("tc", "tun") and not claim.against)
    study = study.model_copy(update={"system": chosen, "claim": claims})
    loads = [load for load in study.form["quick"].load if load.name in names]
    form = study.form["quick"].model_copy(
        update={
            "blocks": blocks,
            "build_blocks": build_blocks,
            "claim_blocks": claim_blocks,
            "wide_blocks": wide_blocks,
            "load": loads,
            "time_budget_s": budget_s,
        }
    )
    clock = [0.0]
    monkeypatch.setattr(runs.time, "monotonic", lambda: clock[0])
    systems = definition.load_all()
    found = {name: lookup.Found(systems[name], None, None) for name in ("native", "diolkos")}
    session = Session(study, form, found, seed, completed=completed, wide_rules=with_wide_rules)

    def build(lanes: Iterable[LaneCell]) -> None:
        session.testbeds.by_lane = {lane: Path(disturbed, value, clock) for lane in lanes}  # type: ignore[misc]

    def rebuild(lanes: Iterable[LaneCell]) -> None:
        session.testbeds.build += 1
        build(lanes)

    session.testbeds.rebuild = rebuild  # type: ignore[method-assign]
    build(session.lanes)
    return list(session.trials())


def _never(_: TrialCell) -> bool:
    return False


def _pairs(trials: list[Trial]) -> dict[tuple[LaneCell, str], int]:
    """Blocks with a trusted trial of each cell that has baselines, and of each of these."""
    trusted: dict[tuple[str, int, str], set[int]] = {}
    for trial in trials:
        if trial.block and not trial.objections:
            lane = trial.cell.lane
            trusted.setdefault((lane.subject.key, lane.replica, trial.cell.load.name), set()).add(trial.block)
    found = {}
    for trial in trials:
        lane, load = trial.cell.lane, trial.cell.load.name
        others = lane.subject.candidates if lane.replica == 1 else (lane.subject.key,)
        if others:
            every = [(lane.subject.key, lane.replica, load), *((key, 1, load) for key in others)]
            found[lane, load] = len(set.intersection(*(trusted.get(each, set()) for each in every)))
    return found


def test_where_nothing_disturbs_the_plan_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = _run(monkeypatch, _never)
    cells = {(trial.cell.lane, trial.cell.load.name) for trial in trials}
    assert len(trials) == 10 * len(cells)
    assert {trial.block for trial in trials} == set(range(10))


def test_what_is_disturbed_half_of_the_time_gets_all_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(3)
    trials = _run(monkeypatch, lambda _: draw.random() < 0.5)
    assert min(_pairs(trials).values()) >= 9
    systems = {number for (lane, _), number in _pairs(trials).items() if lane.subject.system != "native"}
    assert systems <= {9, 10}, "native paths are measured again with each system"


def test_the_time_budget_holds_and_most_pairs_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(4)
    planned = _run(monkeypatch, _never)
    budget_s = 1.6 * len(planned)
    trials = _run(monkeypatch, lambda _: draw.random() < 0.3, budget_s=budget_s)
    assert len(trials) <= budget_s + len(planned) / 10
    assert min(_pairs(trials).values()) >= 6, "enough for an interval"


def test_what_is_disturbed_for_ever_ends_nonetheless(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = _run(monkeypatch, lambda _: True, blocks=4)
    assert set(_pairs(trials).values()) == {0}
    # Each block, and two that make up for each, with as many repeats as it has trials.
    assert len(trials) <= 3 * 2 * len([trial for trial in trials if trial.block == 0]) * 4


def test_a_block_that_makes_up_holds_what_is_lacking_and_what_that_is_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def tun(cell: TrialCell) -> bool:
        return cell.lane.subject.datapath == "tun" and cell.load.name == "ping"

    trials = _run(monkeypatch, tun)
    more = {(trial.cell.lane.subject.key, trial.cell.load.name) for trial in trials if trial.block > 9}
    baselines = next(trial.cell.lane.subject.candidates for trial in trials if tun(trial.cell))
    assert len(baselines) == 2 and more == {(key, "ping") for key in ("diolkos/tun/ipv4/1", *baselines)}


def test_what_claims_need_is_made_up_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ping through tun has no claim: its pairs are made when all others are there."""
    draw = random.Random(9)
    trials = _run(monkeypatch, lambda _: draw.random() < 0.5)
    more = [[trial.cell for trial in trials if trial.block == block] for block in range(10, trials[-1].block + 1)]
    of_claims = [any(_is_claimed(cell.lane, cell.load.name) for cell in cells) for cells in more]
    assert True in of_claims and False in of_claims
    assert of_claims == sorted(of_claims, reverse=True)


def _is_claimed(lane: LaneCell, load: str) -> bool:
    return lane.subject.system == "diolkos" and (lane.subject.datapath == "tc" or load != "ping")


def test_what_claims_compare_gets_further_blocks_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(6)
    trials = _run(monkeypatch, lambda _: draw.random() < 0.2, blocks=5, claim_blocks=7)
    planned = {trial.block for trial in trials if trial.cell.lane.subject.key == "diolkos/tc/ipv4/1"}
    assert set(range(5 + 7)) <= planned
    inside = {trial.cell.lane.subject.key for trial in trials if 5 <= trial.block < 5 + 7}
    assert inside == {"native/kernel/ipv6/1", "native/kernel/ipv4/1", "diolkos/tc/ipv4/1", "diolkos/tun/ipv4/1"}
    for (lane, load), number in _pairs(trials).items():
        claimed = _is_claimed(lane, load)
        assert number >= (4 + 7 if claimed else 4), (lane, load)
        assert claimed or lane.subject.system == "native" or number < 4 + 7


def test_rules_that_are_still_wide_get_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tun` strays by a third, and the rest by nothing: on which side of their thresholds they lie changes no block."""

    def made(factor: float, budget_s: float | None = None) -> list[tuple[int, str, str]]:
        draw = random.Random(9)

        def value(cell: TrialCell) -> float:
            ours = cell.lane.subject.system == "diolkos"
            return (factor if ours else 1.0) * (draw.uniform(0.7, 1.3) if cell.lane.subject.datapath == "tun" else 1.0)

        trials = _run(monkeypatch, _never, value, blocks=7, claim_blocks=2, wide_blocks=9, budget_s=budget_s)
        return [(trial.block, trial.cell.lane.subject.key, trial.cell.load.name) for trial in trials]

    trials = made(1.0)
    last = {each[1:] for each in trials if each[0] >= 7 + 2}
    assert {subject for subject, _ in last} == {"native/kernel/ipv6/1", "native/kernel/ipv4/1", "diolkos/tun/ipv4/1"}
    assert {load for _, load in last} == {"tcp-upload"}
    assert {block for block, *_ in trials} == set(range(7 + 2 + 9))
    assert made(0.1) == trials == made(10.0), "no verdict is asked"
    assert 0 < len(made(1.0, budget_s=len(trials) - 4)) < len(trials) - 3, "the time is over"


def test_without_a_width_every_interval_is_wide() -> None:
    claim = next(claim for claim in studies.load("clat").claim if claim.datapath == "tc")
    assert claim.width and not is_wide(claim, (1.0, claim.width)) and is_wide(claim, (1.0, claim.width * 1.01))
    assert is_wide(claim, None) and is_wide(claim, (0.0, 1.0))
    assert is_wide(claim.model_copy(update={"width": None}), (1.0, 1.0))


def test_a_failure_is_no_reason_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts: who tries until it succeeds measures another system."""
    draw = random.Random(5)
    trials = _run(monkeypatch, _never, lambda cell: None if cell.lane.subject.datapath == "tc" and draw.random() < 0.5 else 1.0)
    assert {trial.block for trial in trials} == set(range(10))
    assert set(Counter((trial.cell.lane, trial.cell.load.name, trial.block) for trial in trials).values()) == {1}
    samples = Samples([trial.as_json() for trial in trials])
    key = next(key for key in samples.cells() if key.subject.startswith("diolkos/tc") and key.load == "tcp-upload")
    assert len(samples.figures(key, "throughput")) == 9


def test_what_is_made_does_not_depend_on_what_trials_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs, disturbed alike, of which one measures a fast system and the other one that is slow, or fails."""

    def made(value: Callable[[TrialCell], float | None]) -> list[tuple[int, int, str, str, bool]]:
        draw = random.Random(6)
        trials = _run(monkeypatch, lambda _: draw.random() < 0.3, value)
        return [(t.block, t.order, t.cell.lane.name, t.cell.load.name, bool(t.objections)) for t in trials]

    lucky = random.Random(7)
    assert made(lambda _: 1.0) == made(lambda _: 1e-3) == made(lambda _: lucky.random())


def test_equal_systems_are_rejected_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path and its twin, one of which is a hundred times as fast, on a machine that disturbs both: chi-square, 1 of 1000."""
    draw = random.Random(8)
    trials = _run(
        monkeypatch,
        lambda _: draw.random() < 0.3,
        lambda cell: 100.0 if cell.lane.replica == 2 else 1.0,
        blocks=60,
    )
    native = [trial for trial in trials if trial.cell.lane.subject.key == "native/kernel/ipv6/1"]
    first, second = ([trial for trial in native if trial.cell.lane.replica == replica] for replica in (1, 2))
    rejected = [sum(bool(trial.objections) for trial in each) for each in (first, second)]
    total, every = sum(rejected), len(first) + len(second)
    chi = sum(
        (found - expected) ** 2 / expected
        for each, bad in zip((first, second), rejected, strict=True)
        for found, expected in (
            (bad, len(each) * total / every),
            (len(each) - bad, len(each) * (every - total) / every),
        )
    )
    assert chi < 10.8


def test_the_seed_decides_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def orders(seed: int) -> list[list[str]]:
        trials = _run(monkeypatch, _never, seed=seed)
        blocks = [[trial for trial in trials if trial.block == block] for block in range(10)]
        return [[f"{trial.cell.lane.name} {trial.cell.load.name}" for trial in block] for block in blocks]

    first, again, other = orders(1), orders(1), orders(2)
    assert first == again != other
    assert all(sorted(block) == sorted(first[0]) for block in first), "every block holds every cell once"
    assert first[0] != first[1]


def test_what_is_compared_is_measured_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lanes have one load and what guards object to in it, then the next; both orders are random."""
    draw = random.Random(5)
    trials = _run(monkeypatch, lambda _: draw.random() < 0.3, names=("tcp-upload", "ping", "http"))
    orders, lanes = set(), set()
    for block in range(1, 10):
        of_block = [trial for trial in trials if trial.block == block]
        assert [trial.order for trial in of_block] == list(range(len(of_block)))
        loads = [trial.cell.load for trial in of_block]
        one_by_one = [load for load, before in zip(loads, [None, *loads], strict=False) if load != before]
        assert len(one_by_one) == 5, "three of them fetch different objects"
        orders.add(tuple(one_by_one))
        lanes.add(tuple(trial.cell.lane.name for trial in of_block if trial.cell.load.name == "ping")[:4])
    assert len(orders) > 4 and len(lanes) > 4


@pytest.mark.parametrize(("build_blocks", "builds"), [(1, 9), (2, 5), (3, 3), (100, 1)])
def test_lanes_are_built_anew_every_few_blocks(monkeypatch: pytest.MonkeyPatch, build_blocks: int, builds: int) -> None:
    trials = _run(monkeypatch, _never, build_blocks=build_blocks)
    by_build: dict[int, set[int]] = {}
    for trial in trials:
        if trial.block:
            by_build.setdefault(trial.build, set()).add(trial.block)
    assert len(by_build) == builds
    assert all(len(blocks) <= build_blocks for blocks in by_build.values())
    assert all(trial.build == 0 for trial in trials if not trial.block)
    record = trials[-1].as_json()
    assert record["build"] == builds - 1
    assert CellKey.from_record(record).subject.count("/") == 3


def _records(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """As the folder has them."""
    return [json.loads(json.dumps(trial.as_json())) for trial in trials]


def test_a_run_that_goes_on_has_the_orders_that_it_would_have_had(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _run(monkeypatch, _never, blocks=6)
    rest = _run(monkeypatch, _never, blocks=6, completed=CompletedTrials(_records(trial for trial in whole if trial.block < 3)))
    assert [trial.block for trial in rest if trial.block < 3] == [0] * (len(whole) // 6), "it warms up again, and no more"
    made = [(trial.block, trial.order, trial.cell) for trial in rest if trial.block]
    assert made == [(trial.block, trial.order, trial.cell) for trial in whole if trial.block >= 3]
    assert {trial.build for trial in rest}.isdisjoint({trial.build for trial in whole if trial.block < 3}), "lanes are new"


def test_what_was_disturbed_before_the_break_is_made_up_for_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = _run(monkeypatch, lambda cell: cell.load.name == "ping", blocks=4)
    before = [trial for trial in busy if trial.block < 3]
    rest = _run(monkeypatch, _never, blocks=4, completed=CompletedTrials(_records(before)))
    pings = {trial.block for trial in rest if trial.block and trial.cell.load.name == "ping"}
    assert pings >= {3, 4, 5}, "the plan wanted three trusted blocks"
    assert {trial.block for trial in rest if trial.cell.load.name == "tcp-upload"} == {0, 3}


def test_time_that_was_used_before_the_break_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _run(monkeypatch, _never, blocks=6)
    completed = CompletedTrials(_records(trial for trial in whole if trial.block < 3), seconds=1000.0)
    rest = _run(monkeypatch, _never, blocks=6, budget_s=1000.0, completed=completed)
    assert {trial.block for trial in rest} == {0}
