# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What many cores would do: the fit on rounds whose truth is known."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "scale"))
from scaling import Round, scaling

CORES = (1, 2, 8, 32)


def rounds_of(alone: float, added: float, noise: float, number: int, seed: int) -> list[Round]:
    """A machine in a mood (both figures of a round share it), and noise of each figure."""
    random = np.random.default_rng(seed)
    found = []
    for mood in random.normal(1, 0.05, number):
        one, two = random.normal(0, noise, 2)
        found.append(Round(alone * mood + one, (alone + added) * mood + two))
    return found


def truth(alone: float, added: float, cores: int) -> float:
    return 1e9 * cores / (alone + (cores - 1) * added)


def test_without_noise_the_truth_is_found() -> None:
    found = scaling([Round(500, 530)] * 6, CORES)
    assert (found.alone.value, found.added.value) == (500, 30)
    for n in CORES:
        rate = found.rates[n]
        assert rate.low == rate.value == rate.high == pytest.approx(truth(500, 30, n))


@pytest.mark.parametrize("added", [0.0, 5.0, 40.0])
def test_the_interval_holds_the_truth_as_often_as_it_says(added: float) -> None:
    tries = 200
    held = dict.fromkeys(CORES, 0)
    for seed in range(tries):
        found = scaling(rounds_of(700, added, 10, 15, seed), CORES, draws=500, seed=seed)
        for n in CORES:
            held[n] += found.rates[n].low <= truth(700, added, n) <= found.rates[n].high
    # 95 % is promised; a bootstrap of medians of 15 rounds keeps nearly that.
    assert all(count >= 0.9 * tries for count in held.values()), held


def test_more_cores_are_less_certain() -> None:
    found = scaling(rounds_of(700, 20, 10, 15, seed=1), CORES)
    widths = [(rate.high - rate.low) / rate.value for rate in found.rates.values()]
    assert widths == sorted(widths)


def test_two_that_were_faster_than_one_promise_no_more_than_n_times_one() -> None:
    found = scaling([Round(500, 490)] * 6, CORES)
    assert found.added.value == -10
    assert found.rates[32].value == pytest.approx(32e9 / 500)


def test_what_a_packet_costs_besides_counts_on_every_core() -> None:
    found = scaling([Round(500, 500)] * 6, CORES, more_ns=[90, 100, 110])
    assert found.rates[8].value == pytest.approx(8e9 / 600)
    assert found.rates[8].low < found.rates[8].value < found.rates[8].high


def test_too_few_rounds_have_no_interval() -> None:
    with pytest.raises(ValueError, match="5 rounds"):
        scaling([Round(500, 500)] * 5, CORES)
