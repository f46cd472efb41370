# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From counts to the curve, its intervals and its crossings: against known answers and against scipy."""

import numpy as np
import paper_curves as paper
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from diolkos_lab.curve import resampling
from diolkos_lab.curve.crossing import NDR, PDR, crossing, crossings
from diolkos_lab.curve.judge import judge
from diolkos_lab.curve.loss import increase_ratio, measure


def test_student_interval_is_scipys() -> None:
    rx = np.array([990, 985, 999, 970, 991.0])
    curve = measure([1000], [np.full(5, 1000)], [rx])
    low, high = stats.t.interval(0.95, 4, loc=np.mean(1 - rx / 1000), scale=stats.sem(1 - rx / 1000))
    assert curve.plr[0] == pytest.approx(0.013)
    assert (curve.lcl95[0], curve.ucl95[0]) == (pytest.approx(low), pytest.approx(high))
    assert curve.delta_ucl95[0] == pytest.approx((high - 0.013) / 0.013)
    assert curve.delivery_ratio[0] == pytest.approx(0.987)


def test_one_trial_has_no_interval_and_more_received_than_sent_is_negative_loss() -> None:
    found = judge(measure([100, 200], [[1000], [2000]], [[1001], [1990]]))
    assert found.curve.plr == pytest.approx([-0.001, 0.005])
    assert np.isnan(found.curve.half_width).all() and np.isnan(found.curve.delta_ucl95).all()
    assert np.isnan(found.tir_low).all() and found.pdr_ci95 is None and found.good_share is None
    assert found.curve.throughput == pytest.approx([100.1, 199])
    assert found.curve.tir[1] == pytest.approx(0.989)
    assert found.curve.excess_trials == 1


def test_loads_of_unequal_trials_in_any_order_are_pooled() -> None:
    curve = measure([200, 100, 200], [[1000, 1000], [500], [1000]], [[900, 800], [500], [700]])
    assert curve.rates.tolist() == [100, 200] and curve.runs.tolist() == [1, 3]
    assert curve.plr == pytest.approx([0, 0.2])
    assert curve.sd[1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("rates", "tx", "rx"),
    [
        ([], [], []),
        ([0], [[1]], [[1]]),
        ([np.nan], [[1]], [[1]]),
        ([1], [[0]], [[0]]),
        ([1], [[1]], [[-1]]),
        ([1], [[1, 2]], [[1]]),
        ([1], [[]], [[]]),
        ([1, 2], [[1]], [[1]]),
    ],
)
def test_what_is_no_measurement_is_refused(rates: list, tx: list, rx: list) -> None:
    with pytest.raises(ValueError):
        measure(rates, tx, rx)


def test_the_ideal_router_of_figure_3() -> None:
    found = judge(measure(paper.FINE, *paper.counts(paper.FINE, paper.ideal(paper.FINE))))
    assert found.ndr.rate == paper.SATURATION
    assert found.pdr.below == 1_000_000 and found.pdr.above == 1_010_000
    assert found.pdr.rate == pytest.approx(paper.SATURATION / (1 - PDR), rel=1e-4)
    assert set(found.verdict.values()) == {"GOOD"} and found.good_share is None, "five trials are too few to draw from"
    more = judge(measure(paper.FINE, *paper.counts(paper.FINE, paper.ideal(paper.FINE), runs=6)))
    assert more.good_share == {"paper": 1, "hysteresis": 1, "notebook": 1}
    assert found.curve.rates[found.saturation["paper"]] == 1_020_000
    assert found.curve.tir[1:71] == pytest.approx(1) and found.curve.tir[71:] == pytest.approx(0, abs=1e-5)


def test_the_realistic_router_of_figures_4_and_5() -> None:
    """On the paper's loads the knee lies between two of them; on a fine grid, loss passes 0.5 % well before saturation."""
    coarse = judge(measure(paper.GRID, *paper.counts(paper.GRID, paper.realistic(paper.GRID))))
    assert (coarse.pdr.below, coarse.pdr.above) == (900_000, 1_050_000)
    assert coarse.potential == 6 and set(coarse.verdict.values()) == {"GOOD"}
    assert coarse.curve.throughput[5:] == pytest.approx(np.full(4, 0.99e6))

    fine = judge(measure(paper.FINE, *paper.counts(paper.FINE, paper.realistic(paper.FINE))))
    truth = paper.SATURATION * (8 + np.log10(PDR)) / 6
    assert fine.pdr.rate == pytest.approx(truth, rel=5e-4)
    assert fine.ndr.rate is None or fine.ndr.rate < 400_000  # losses of 1e-6 show in 3 million packets
    assert fine.verdict == {"paper": "BAD", "hysteresis": "BAD", "notebook": "BAD"}
    # T(1.01 Mpps) = T(1 Mpps), so saturation sets in there; from 1.5 Mpps on throughput falls by T_sat/M of the added load.
    assert fine.curve.rates[fine.saturation["paper"]] == 1_010_000
    assert fine.curve.tir[-1] == pytest.approx(-0.99)


def test_pdr_is_bracketed_or_not_and_never_extrapolated() -> None:
    rates = np.array([1.0, 2, 3])
    assert crossing(rates, np.array([0.01, 0.02, 0.03])).above == 1
    for plr, below, above in (([0.01, 0.02, 0.03], None, 1), ([0, 0, 0.005], 3, None)):
        found = crossing(rates, np.array(plr))
        assert not found.bracketed and found.rate is None and (found.below, found.above) == (below, above)
    inside = crossing(rates, np.array([0.001, 0.004, 0.006]))
    assert inside.rate == pytest.approx(2.5) and (inside.below, inside.above) == (2, 3)
    again = crossing(rates, np.array([0.001, 0.006, 0.004]))
    assert again.first_above == 1 and again.returns == (2,)


def test_ndr_is_a_measured_load_even_where_loss_seems_negative() -> None:
    rates = np.array([1.0, 2, 3])
    assert crossing(rates, np.array([0, -1e-3, 1e-3]), NDR).rate == 2
    assert not crossing(rates, np.array([1e-9, 0.1, 0.2]), NDR).bracketed


def test_bootstrap_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """PDR and TIR of a router whose loss varies from trial to trial; all random numbers are seeded."""
    rates = np.array([0.8e6, 0.9e6, 1e6, 1.1e6, 1.2e6])
    truth = np.array([1e-4, 2e-3, 1.5e-2, 9e-2, 0.17])
    true_tir = increase_ratio(rates, truth)
    true_pdr = crossings(rates, truth[None, :])[0]
    random = np.random.default_rng(5)
    simulations, in_tir, in_pdr = 300, 0, 0
    for _ in range(simulations):
        plr = truth[:, None] * (1 + 0.3 * random.standard_normal((5, 10)))
        found = judge(measure(rates, np.full((5, 10), 1e9), 1e9 * (1 - plr)))
        in_tir += found.tir_low[3] <= true_tir[3] <= found.tir_high[3]
        in_pdr += found.pdr_ci95[0] <= true_pdr <= found.pdr_ci95[1]
    for covered in (in_tir, in_pdr):
        assert 0.92 <= covered / simulations <= 0.985


def test_the_same_seed_gives_the_same_intervals() -> None:
    random = np.random.default_rng(1)
    curve = measure(paper.GRID, np.full((9, 8), 1e6), random.integers(900_000, 1_000_000, (9, 8)))
    first, second, other = judge(curve, 1), judge(curve, 1), judge(curve, 2)
    assert np.array_equal(first.tir_low, second.tir_low, equal_nan=True) and first.good_share == second.good_share
    assert not np.array_equal(first.tir_low, other.tir_low, equal_nan=True)


def test_pdr_interval_is_open_where_draws_leave_the_measured_loads() -> None:
    rx = np.array([[999] * 6, [990, 999, 996, 999, 993, 999]])
    found = judge(measure([100, 200], np.full((2, 6), 1000), rx))
    assert found.pdr_ci95 is not None and np.isinf(found.pdr_ci95[1]) and np.isfinite(found.pdr_ci95[0])


# ---- properties

losses = some.lists(some.floats(0, 0.5), min_size=2, max_size=12)


@given(losses, some.floats(0, 0.2), some.floats(0, 0.2))
def test_a_higher_allowed_loss_never_lowers_the_rate(plr: list[float], one: float, other: float) -> None:
    rates = np.arange(1, len(plr) + 1) * 1e5
    low, high = (crossings(rates, np.array([plr]), allowed)[0] for allowed in sorted((one, other)))
    assert low <= high * (1 + 1e-12)


@given(losses)
def test_the_rate_lies_in_its_bracket(plr: list[float]) -> None:
    rates = np.arange(1, len(plr) + 1) * 1e5
    found = crossing(rates, np.array(plr))
    if found.bracketed:
        assert found.below <= found.rate <= found.above
        assert plr[found.first_above - 1] <= PDR < plr[found.first_above]


@given(losses, some.sampled_from([2**-10, 0.5, 1, 64]), some.randoms())  # powers of two, which round nothing
def test_neither_the_unit_of_the_load_nor_the_order_of_lines_matters(plr: list[float], unit: float, random) -> None:
    rates = np.arange(1, len(plr) + 1) * 1e5
    tx, rx = paper.counts(rates, np.array(plr), runs=2)
    order = list(range(len(plr)))
    random.shuffle(order)
    found, moved = judge(measure(rates, tx, rx)), judge(measure((rates * unit)[order], tx[order], rx[order]))
    assert found.verdict == moved.verdict and found.saturation == moved.saturation
    assert moved.curve.tir == pytest.approx(found.curve.tir, nan_ok=True, abs=1e-6)
    assert (found.pdr.rate is None) == (moved.pdr.rate is None)
    if found.pdr.rate is not None:
        assert moved.pdr.rate == pytest.approx(found.pdr.rate * unit, rel=1e-6)


@given(some.lists(some.integers(0, 1000), min_size=resampling.FEWEST, max_size=20), some.integers(0, 2**32))
def test_draws_stay_within_the_trials(received: list[int], seed: int) -> None:
    curve = measure([1.0], [np.full(len(received), 1000)], [received])
    drawn = resampling.draws(curve, seed, number=50)
    assert drawn.min() >= curve.trials.min() - 1e-12 and drawn.max() <= curve.trials.max() + 1e-12
