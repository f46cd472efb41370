# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Curves whose trials were made in blocks: intervals and ratios know that a block slows all loads alike."""

import numpy as np
import pytest
from numpy.typing import NDArray

from diolkos_lab.curve import by_block, resampling
from diolkos_lab.curve.crossing import PDR, crossing, crossings
from diolkos_lab.curve.judge import BAD, GOOD, UNDECIDED, judge
from diolkos_lab.curve.loss import Curve, measure
from diolkos_lab.curve.resampling import Plan
from diolkos_lab.stats import hierarchy, median
from diolkos_lab.stats.bounds import at_least, at_most

RATES = np.arange(20_000, 66_000, 2500.0)
RUNS = 300
# The least that 300 runs show in 999 of 1000 cases where an interval covers 95 %: binom.ppf(0.001, 300, 0.95) / 300.
LEAST = 0.9067
FEWER, LEAST_OF_FEWER = 60, 0.85  # binom.ppf(0.003, 60, 0.95) / 60


def _curve(speed: NDArray[np.float64], capacity: float, random: np.random.Generator | None = None, noise: float = 0.0) -> Curve:
    """Of a router that loses more and more up to `capacity` packets/s, in blocks in which all is `speed` times as fast."""
    capacities, load = capacity * speed[None, :], RATES[:, None]
    loss = np.where(load < capacities, 10 ** (-8 + 6 * load / capacities), 1 - 0.99 * capacities / load)
    if random is not None:
        loss = np.maximum(0, loss * (1 + noise * random.standard_normal(loss.shape)))
    sent = np.full(loss.shape, 1e9)
    blocks = [list(range(1, len(speed) + 1))] * len(RATES)
    return measure(RATES.tolist(), list(sent), list(np.round(sent * (1 - loss))), blocks)


def _without_blocks(curve: Curve) -> Curve:
    return Curve(curve.rates, curve.runs, curve.trials, curve.sent)


@pytest.mark.parametrize("drift", [0.0, 0.03, 0.05, 0.1])
@pytest.mark.parametrize("blocks", [6, 10, 30])
def test_the_interval_of_a_pdr_covers_it_however_capacity_drifts(blocks: int, drift: float) -> None:
    """The PDR of the mean of all blocks, with intervals by bootstrap, covered it 68 to 90 times in a hundred."""
    truth = float(crossings(RATES, _curve(np.ones(1), 50_000).plr[None, :], PDR)[0])
    random = np.random.default_rng(11)
    hits, errors = 0, []
    for _ in range(FEWER):
        curve = _curve(1 + drift * random.standard_normal(blocks), 50_000, random, 0.1)
        plan = Plan.from_curve(curve)
        assert plan
        told, ends = by_block.median(curve, by_block.rates(curve), crossing(RATES, curve.plr), plan)
        assert ends and told.rate
        # Between two loads, a straight line is off by up to 0.7 % of this grid, whose loads are 5 % apart.
        hits += ends[0] <= truth * 1.007 and ends[1] >= truth * 0.993
        errors.append(told.rate / truth - 1)
    assert hits / FEWER >= LEAST_OF_FEWER
    assert abs(np.mean(errors)) < 0.012, "the mean curve's PDR is up to 10 % too low"


def test_the_pdr_is_the_median_of_those_of_the_blocks() -> None:
    curve = _curve(np.array([0.8, 0.9, 1.0, 1.0, 1.0, 1.02, 1.04]), 50_000)
    found, each = judge(curve), by_block.rates(curve)
    assert found.pdr.rate == pytest.approx(median.median([figure.low for figure in each.values()]))
    assert found.pdr.rate == pytest.approx(judge(_curve(np.ones(7), 50_000)).pdr.rate, rel=1e-9)
    assert found.pdr.below and found.pdr.above and found.pdr.below <= found.pdr.rate <= found.pdr.above


def test_blocks_that_slow_all_loads_narrow_the_interval_of_tir() -> None:
    """What loads have in common cancels in the difference of two loads."""
    random = np.random.default_rng(4)
    tir = []
    for _ in range(30):
        curve = _curve(1 + 0.04 * random.standard_normal(8), 50_000)
        both = [judge(each) for each in (curve, _without_blocks(curve))]
        tir.append(np.divide(*(found.tir_high[-1] - found.tir_low[-1] for found in both)))
    assert np.median(tir) < 0.5


@pytest.mark.parametrize("drift", [0.0, 0.04, 0.1])
@pytest.mark.parametrize("blocks", [6, 8])
def test_the_ratio_of_two_pdrs_covers_the_truth_and_blocks_cancel(blocks: int, drift: float) -> None:
    random = np.random.default_rng(7)
    hits, widths = 0, []
    for _ in range(FEWER):
        speed = 1 + drift * random.standard_normal(blocks)
        upper, lower = (by_block.rates(_curve(speed, capacity, random, noise=0.3)) for capacity in (52_000, 42_000))
        found = hierarchy.interval([[ratio] for block in upper if (ratio := upper[block].ratio_to(lower[block]))])
        assert found
        hits += found[0] <= 52 / 42 <= found[1]
        widths.append(found[1] - found[0])
    assert hits / FEWER >= LEAST_OF_FEWER
    # Of the drift, a ratio within blocks should keep little.
    assert np.median(widths) < 0.12


def test_a_pdr_beyond_the_loads_leaves_the_interval_open() -> None:
    never, always = (_curve(np.ones(8), capacity) for capacity in (100_000, 10_000))
    assert set(by_block.rates(never).values()) == {at_least(RATES[-1])}
    assert set(by_block.rates(always).values()) == {at_most(RATES[0])}
    above, below = judge(never), judge(always)
    assert above.pdr_ci95 and below.pdr_ci95 and above.pdr.rate is below.pdr.rate is None
    assert above.pdr_ci95[1] == np.inf and below.pdr_ci95[0] == 0
    assert (above.pdr.below, below.pdr.above) == (RATES[-1], RATES[0])


def test_too_few_blocks_have_no_interval() -> None:
    assert judge(_curve(np.ones(resampling.FEWEST - 1), 50_000)).pdr_ci95 is None


def test_blocks_of_one_build_count_as_one() -> None:
    """Nine blocks of three builds say no more than three of what differs between builds."""
    random = np.random.default_rng(3)
    luck = 1 + 0.04 * random.standard_normal(3)
    curve = _curve(np.repeat(luck, 3), 52_000)
    builds = {block: (block - 1) // 3 for block in range(1, 10)}
    assert judge(curve).pdr_ci95 is not None
    assert judge(curve, plan=Plan.from_curve(curve, builds)).pdr_ci95 is None


def test_a_plan_of_two_curves_has_the_blocks_of_both() -> None:
    assert Plan(((1, 2), (3,))) | Plan(((2, 4), (5,))) == Plan(((1, 2, 4), (3,), (5,)))


def test_two_curves_of_one_plan_are_drawn_by_the_same_blocks() -> None:
    weights, again = Plan(((1, 2), (3, 4), (5,))).weights(1, 500), Plan(((1, 2), (3, 4), (5,))).weights(1, 500)
    assert all(np.array_equal(weights[block], again[block]) for block in weights)
    # As many blocks are drawn of a build as it has, each time that it is drawn.
    assert set(np.unique((weights[1] + weights[2]) / 2)) <= {0, 1, 2, 3}
    assert np.array_equal((weights[1] + weights[2]) / 2 + (weights[3] + weights[4]) / 2 + weights[5], np.full(500, 3))


def _verdicts(spread: float, loss: NDArray[np.float64]) -> list[str]:
    """Firm verdicts of 100 runs of 8 blocks, with noise of so much in each loss ratio."""
    random = np.random.default_rng(2)
    found = []
    for _ in range(100):
        plr = loss[:, None] + spread * random.standard_normal((len(RATES), 8))
        sent = np.full(plr.shape, 1e9)
        blocks = [list(range(1, 9))] * len(RATES)
        found.append(judge(measure(RATES.tolist(), list(sent), list(sent * (1 - plr)), blocks)).firm["paper"])
    return found


SATURATED = np.maximum(0, 1 - 50_000 / RATES)
GROWING = np.maximum(0, 0.5 * (1 - 50_000 / RATES))  # half of what is added beyond 50 kpps and more gets through


@pytest.mark.parametrize(("loss", "right", "wrong"), [(SATURATED, GOOD, BAD), (GROWING, BAD, GOOD)])
def test_the_firm_verdict_is_right_or_undecided(loss: NDArray[np.float64], right: str, wrong: str) -> None:
    """Noise makes verdicts undecided, not wrong; the paper's are BAD for every router that is noisy enough."""
    assert set(_verdicts(1e-5, loss)) == {right}
    for spread in (0.001, 0.003, 0.01, 0.03):
        assert _verdicts(spread, loss).count(wrong) <= 8  # binom.ppf(0.9, 100, 0.05)
    assert UNDECIDED in _verdicts(0.03, loss)


def test_a_router_that_never_saturates_is_firmly_bad() -> None:
    loss = np.linspace(0, 0.2, len(RATES))[:, None] * np.ones(8)
    sent = np.full(loss.shape, 1e6)
    curve = measure(RATES.tolist(), list(sent), list(sent * (1 - loss)), [list(range(1, 9))] * len(RATES))
    assert judge(curve).firm["paper"] == BAD


def test_too_few_trials_decide_nothing() -> None:
    assert judge(_curve(np.ones(2), 50_000)).firm["paper"] == UNDECIDED
