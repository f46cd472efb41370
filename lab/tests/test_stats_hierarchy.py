# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Intervals of blocks that share builds: how often do they cover the truth?"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from diolkos_lab.stats import hierarchy, median
from diolkos_lab.stats.bounds import Bounds, at_least, exactly, failed

RUNS = 400


def _builds(table: NDArray[np.float64]) -> list[list[Bounds]]:
    return [[exactly(value) for value in row] for row in table]


def _covered(builds: int, blocks: int, build_sd: float, *, plain: bool = False) -> float:
    """Share of runs whose interval holds 1, the median of all figures that there could be. Seeded, so a failure replays."""
    random = np.random.default_rng(builds * 100 + blocks)
    hits = 0
    for _ in range(RUNS):
        luck = build_sd * random.standard_normal((builds, 1))
        table = np.exp(0.1 * (luck + random.standard_normal((builds, blocks))))
        found = median.interval(table.ravel().tolist()) if plain else hierarchy.interval(_builds(table))
        assert found
        hits += found[0] <= 1 <= found[1]
    return hits / RUNS


# The least that 400 runs show in 999 of 1000 cases where an interval covers 95 %: binom.ppf(0.001, 400, 0.95) / 400.
LEAST = 0.9125


@pytest.mark.parametrize("build_sd", [0, 1, 2])
@pytest.mark.parametrize(("builds", "blocks"), [(9, 1), (10, 1), (6, 2), (6, 4), (8, 2)])
def test_covers_the_truth_as_often_as_it_says(builds: int, blocks: int, build_sd: float) -> None:
    assert _covered(builds, blocks, build_sd) >= LEAST


def test_what_takes_blocks_for_independent_does_not() -> None:
    """The fault that the levels are there for: were this one right, nobody would need them."""
    assert _covered(6, 3, 2, plain=True) < 0.88


def test_each_build_has_one_voice() -> None:
    builds = [[exactly(value)] * number for value, number in ((1.0, 1), (2.0, 1), (3.0, 1), (4.0, 9), (5.0, 1), (6.0, 1))]
    assert hierarchy.middle(builds).number == 3.5
    assert hierarchy.interval(builds) == median.interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def test_one_block_a_build_is_the_interval_of_order_statistics() -> None:
    values = [3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0]
    assert hierarchy.interval([[exactly(value)] for value in values]) == median.interval(values)


def test_builds_without_a_trusted_block_do_not_count() -> None:
    values = [[exactly(value)] for value in (3.0, 1.0, 4.0, 1.5, 9.0, 2.0)]
    assert hierarchy.interval([*values, []]) == hierarchy.interval(values)


@pytest.mark.parametrize("builds", [[[1.0] * 5], [[1.0] * 9], [[1.0] * 4, [2.0] * 5], [[1.0] * 4] * 5, []])
def test_too_few(builds: list[list[float]]) -> None:
    assert hierarchy.interval([[exactly(value) for value in build] for build in builds]) is None


@pytest.mark.parametrize("blocks", [1, 2])
def test_failures_widen_the_interval_to_where_they_stand(blocks: int) -> None:
    """Three of eight builds failed: the truth may be that half of them do."""
    rates = [[exactly(10.0)] * blocks] * 5 + [[failed("higher")] * blocks] * 3
    times = [[exactly(10.0)] * blocks] * 5 + [[failed("lower")] * blocks] * 3
    assert hierarchy.interval(rates) == (0, 10)
    assert hierarchy.interval(times) == (10, math.inf)


def test_an_end_that_a_limit_hides_is_open() -> None:
    found = hierarchy.interval([[at_least(value)] for value in (10.0, 11.0, 12.0, 13.0, 14.0, 15.0)])
    assert found
    assert 10 <= found[0] < 12
    assert found[1] == math.inf
