# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which rates are offered, against routers whose loss is a formula (the paper's, see curve/paper_curves.py)."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.run.sweep import LOST, Sweep

sys.path.insert(0, str(Path(__file__).parent / "curve"))
import paper_curves

BLOCKS = 7
LOAD = PpsLoad(name="pps", seconds=1)
Router = Callable[[float], float]  # offered rate to loss


def _realistic(rate: float) -> float:
    return float(paper_curves.realistic(np.array([rate]))[0])


def _search(load: PpsLoad, router: Router) -> tuple[Sweep, list[int]]:
    sweep, offered = Sweep(load, BLOCKS), []
    for probe in sweep.probes():
        assert probe.offered
        offered.append(probe.offered)
        sweep.record(probe, 0, router(probe.offered))
    return sweep, offered


@pytest.mark.parametrize("saturation", [3_000, 41_000, 777_000])
def test_the_search_finds_the_knee(saturation: float) -> None:
    sweep, offered = _search(LOAD, lambda rate: max(0.0, 1 - saturation / rate))
    assert sweep.knee == pytest.approx(saturation, rel=0.05)
    assert len(offered) < 25
    rates = [load.offered for load in sweep.rates(1) if not load.refines]
    assert rates == sorted(rates) and len(rates) == len(LOAD.shares)
    assert rates[0] < saturation < rates[-3], "at least two loads lie beyond it"


def test_one_disturbance_does_not_lead_the_search_astray() -> None:
    seen: set[float] = set()

    def disturbed(rate: float) -> float:
        first = rate not in seen
        seen.add(rate)
        return 0.3 if first and len(seen) == 2 else _realistic(rate)

    sweep, _ = _search(LOAD, disturbed)
    assert sweep.knee == pytest.approx(paper_curves.SATURATION * 0.95, rel=0.05)


def _guarded(answer: Callable[[int, int], tuple[float, bool]]) -> Sweep:
    """A search whose probes guards judge: rate and number of the probe at that rate, to loss and whether it is believed."""
    sweep = Sweep(LOAD, BLOCKS)
    asked: dict[int, int] = {}
    for probe in sweep.probes():
        assert probe.offered
        asked[probe.offered] = asked.get(probe.offered, 0) + 1
        loss, believed = answer(probe.offered, asked[probe.offered])
        sweep.record(probe, 0, loss, believed=believed)
    return sweep


def test_a_loss_that_is_known_to_be_a_disturbance_does_not_lead_the_search_astray() -> None:
    """Even if it comes again: of every rate the first two probes are disturbed, and guards see it."""
    sweep = _guarded(lambda rate, time: (0.3, False) if time <= 2 else (_realistic(rate), True))
    assert sweep.knee == pytest.approx(paper_curves.SATURATION * 0.95, rel=0.05)


def test_a_rate_that_was_not_offered_is_no_rate_that_passes() -> None:
    """Guards say so, and the next probe loses packets."""
    too_high = 1.1 * paper_curves.SATURATION
    sweep = _guarded(lambda rate, time: (0.0, False) if time == 1 and rate > too_high else (_realistic(rate), True))
    assert sweep.knee == pytest.approx(paper_curves.SATURATION * 0.95, rel=0.05)


def test_nothing_beyond_the_highest_rate_is_offered() -> None:
    load = PpsLoad(name="pps", seconds=1, highest=500_000)
    sweep, offered = _search(load, _realistic)
    assert max(offered) <= 500_000
    assert max(each.offered for each in sweep.rates(1)) <= 500_000


def test_a_path_that_carries_nothing_ends_the_search() -> None:
    _, offered = _search(LOAD, lambda rate: 1.0)
    assert len(offered) < 20


def test_a_failed_probe_ends_the_search_and_leaves_no_rates() -> None:
    sweep = Sweep(LOAD, BLOCKS)
    for probe in sweep.probes():
        sweep.record(probe, 0, None)
    assert sweep.rates(1) == []


def test_rates_of_the_study_are_taken_as_they_are() -> None:
    load = PpsLoad(name="pps", seconds=1, rates=(100, 200, 300))
    sweep, offered = _search(load, _realistic)
    assert offered == [100]
    assert [each.offered for each in sweep.rates(1)] == [100, 200, 300]


def _measured(router: Router, load: PpsLoad = LOAD) -> tuple[Sweep, dict[int, int]]:
    """All blocks; how often each rate was offered."""
    sweep, _ = _search(load, router)
    counted: dict[int, int] = {}
    for block in range(1, BLOCKS):
        for each in sweep.rates(block):
            assert each.offered
            counted[each.offered] = counted.get(each.offered, 0) + 1
            sweep.record(each, block, router(each.offered))
    return sweep, counted


@pytest.mark.parametrize("router", [_realistic, lambda rate: max(0.0, 1 - 777_777 / rate)])
def test_the_bracket_of_the_pdr_becomes_narrow_and_new_rates_catch_up(router: Router) -> None:
    sweep, counted = _measured(router)
    assert [load.refines for load in sweep.rates(BLOCKS - 1)][: len(LOAD.shares)] == [False] * len(LOAD.shares)
    first = next(rate for rate in sorted(counted) if router(rate) > LOST)
    assert set(counted.values()) == {BLOCKS - 1}, "all rates have as many trials in the end"
    below = max(rate for rate in counted if rate < first)
    assert (first - below) / first < 0.0211
    assert len(counted) <= len(LOAD.shares) + 6


def test_a_knee_that_has_moved_since_the_search_is_followed() -> None:
    sweep, _ = _search(LOAD, _realistic)
    moved = 0.97  # of what it was
    counted: set[int] = set()
    for block in range(1, BLOCKS):
        for each in sweep.rates(block):
            assert each.offered
            counted.add(each.offered)
            sweep.record(each, block, _realistic(each.offered / moved))
    first = next(rate for rate in sorted(counted) if _realistic(rate / moved) > LOST)
    assert (first - max(rate for rate in counted if rate < first)) / first < 0.0211


def test_an_end_that_may_be_on_either_side_gets_a_rate_beyond_it() -> None:
    load = PpsLoad(name="pps", seconds=0.1, rates=(49_000, 50_000, 60_000))
    sweep, _ = _search(load, _realistic)
    for each in sweep.rates(1):
        sweep.record(each, 1, {49_000: 0.0048, 50_000: 0.009, 60_000: 0.1}[each.offered or 0])
    assert [each.offered for each in sweep.rates(2) if each.refines][:1] == [48_020], "24 of 4900 packets are no certainty"


@pytest.mark.parametrize(("loss", "side"), [(0.9, -1), (0.0, 1)])
def test_where_the_rates_do_not_bracket_the_pdr_further_ones_are_added(loss: float, side: int) -> None:
    load = PpsLoad(name="pps", seconds=1, rates=(1000, 2000, 3000))
    _, counted = _measured(lambda rate: loss, load)
    added = sorted(set(counted) - {1000, 2000, 3000}, key=lambda rate: side * rate)
    assert added[0] == (3900 if side > 0 else 700)
    assert len(added) <= 6


def test_a_rate_that_is_offered_already_is_not_added() -> None:
    """The knee is 55 356 here; both of its neighbours are wanted first, and the study has the lower one."""
    load = LOAD.model_copy(update={"shares": (0.8, 1 - LOAD.refine / 2, 1.2)})
    sweep, _ = _search(load, lambda rate: max(0.0, 1 - 53_900 / rate))
    offered = [each.offered for each in sweep.rates(1)]
    assert offered.count(54_800) == 1 and len(offered) == 4


def test_a_rate_that_begins_with_1_is_added_where_it_was_wanted() -> None:
    load = PpsLoad(name="pps", seconds=60, rates=(101_000, 102_000, 140_000))
    sweep, _ = _search(load, _realistic)
    for each in sweep.rates(1):
        sweep.record(each, 1, {101_000: 0.0, 102_000: 0.02, 140_000: 0.3}[each.offered or 0])
    assert {each.offered for each in sweep.rates(2) if each.refines} == {101_500}, "half of the way, not its end"


def test_what_is_left_goes_down_to_nothing() -> None:
    """So that a trial is made again only while every rate still gets its trial in each block."""
    sweep, _ = _search(LOAD, _realistic)
    left = sweep.left
    assert left >= (BLOCKS - 1) * len(LOAD.shares)
    for block in range(1, BLOCKS):
        for load in sweep.rates(block):
            assert load.offered
            sweep.record(load, block, _realistic(load.offered))
        assert sweep.left < left
        left = sweep.left
    assert left == 0, "so that the last block may use all the time that there is"


@pytest.mark.parametrize(("placement", "tries"), [("apart", 6), ("one-cpu", 1), ("free", 1)])
def test_only_a_generator_that_can_do_better_tries_again(placement: str, tries: int) -> None:
    assert Sweep(LOAD.model_copy(update={"placement": placement}), BLOCKS).tries == tries


def test_rates_that_the_generator_cannot_make_are_left_out() -> None:
    rates = (100_000, 200_000, 300_000, 400_000)
    sweep = Sweep(LOAD.model_copy(update={"rates": rates, "refine": 0}), BLOCKS)
    assert sweep.limit(None) == [] and sweep.limit(400_000) == []
    assert sweep.limit(350_000) == [400_000] and sweep.possible
    assert [load.offered for load in sweep.rates(1)] == [100_000, 200_000, 300_000], "and no others are added"
    assert sweep.limit(250_000) == [300_000] and not sweep.possible, "two rates make no curve"
    assert sweep.rates(2) == [] and list(sweep.probes()) == []


def test_a_rate_that_was_added_and_only_fails_ends_no_run() -> None:
    sweep, _ = _search(LOAD, _realistic)
    for block in range(1, BLOCKS):
        for each in sweep.rates(block):
            sweep.record(each, block, None if each.refines else _realistic(each.offered or 0))
    assert any(each.refines for each in sweep.rates(BLOCKS - 1))


# ---- a run that goes on


def _record(load: PpsLoad, block: int, loss: float | None, *, valid: bool = True) -> dict[str, Any]:
    """As a line of samples.jsonl tells it."""
    metrics = {} if loss is None else {"loss": loss}
    return {"block": block, "factors": load.factors, "valid": valid and loss is not None, "metrics": metrics}


@pytest.mark.parametrize("broken_off", range(2, BLOCKS + 1))
@pytest.mark.parametrize("load", [LOAD, LOAD.model_copy(update={"rates": (40_000, 50_000, 60_000, 70_000)})])
def test_a_curve_that_goes_on_offers_what_it_would_have_offered_without_a_break(load: PpsLoad, broken_off: int) -> None:
    whole, _ = _search(load, _realistic)
    records = []
    for block in range(1, broken_off):
        for each in whole.rates(block):
            loss = _realistic(each.offered or 0)
            records.append(_record(each, block, loss))
            whole.record(each, block, loss)
    again = Sweep(load, BLOCKS)
    again.remember(records)
    assert len(list(again.probes())) == 1, "it warms up, and searches no more"
    assert again.knee == (None if load.rates else pytest.approx(whole.knee, rel=0.006))
    assert (again.left, again.trials) == (whole.left, whole.trials)
    for block in range(broken_off, BLOCKS):
        wanted = whole.rates(block)
        assert [(each.offered, each.refines) for each in again.rates(block)] == [(w.offered, w.refines) for w in wanted]
        for each in wanted:
            for sweep in (whole, again):
                sweep.record(each, block, _realistic(each.offered or 0))
    assert again.left == whole.left == 0 and again.lacking(BLOCKS - 1) == whole.lacking(BLOCKS - 1) == []


def test_a_curve_that_goes_on_keeps_the_rates_beyond_what_the_generator_reaches_alone() -> None:
    """The run began with them: alone, the generator is tried out before the search finds any."""
    sweep, _ = _search(LOAD, _realistic)
    rates = sweep.rates(1)
    again = Sweep(LOAD, BLOCKS)
    again.remember([_record(each, 1, _realistic(each.offered or 0)) for each in rates])
    assert again.limit(min(each.offered or 0 for each in rates)) == [] and again.possible
    assert {each.offered for each in rates} <= {each.offered for each in again.rates(2)}


def test_a_curve_that_goes_on_leaves_out_the_rates_that_were_left_out_when_the_run_began() -> None:
    load = LOAD.model_copy(update={"rates": (100_000, 200_000, 300_000, 400_000), "refine": 0})
    began = Sweep(load, BLOCKS)
    began.limit(350_000)
    again = Sweep(load, BLOCKS)
    again.remember([_record(each, 1, 0.0) for each in began.rates(1)])
    assert again.limit(500_000) == []
    assert [each.offered for each in again.rates(2)] == [100_000, 200_000, 300_000]


def test_of_trials_that_were_made_again_the_trusted_one_is_remembered() -> None:
    load = LOAD.model_copy(update={"rates": (1000, 2000, 3000), "refine": 0})
    again = Sweep(load, BLOCKS)
    low, middle, high = (load.at(rate) for rate in load.rates)
    again.remember(
        [
            _record(low, 1, 0.9, valid=False),
            _record(low, 1, 0.0),
            _record(middle, 1, 0.8, valid=False),
            _record(middle, 1, 0.4, valid=False),
            _record(high, 1, None),
        ]
    )
    assert [again._loss[rate] for rate in load.rates] == [[0.0], [0.4], []]
    assert [each.offered for each in again.lacking(1)] == [2000], "one that failed says what the path does"


def test_nothing_that_is_remembered_changes_nothing() -> None:
    load = LOAD.model_copy(update={"rates": (1000, 2000, 3000)})
    again = Sweep(load, BLOCKS)
    again.remember([])
    assert [each.offered for each in again.rates(1)] == [1000, 2000, 3000]
