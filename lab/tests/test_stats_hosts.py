# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Intervals of several hosts: how often do they cover the truth, and which truth is it?"""

import numpy as np
import pytest

from diolkos_lab.stats import hosts, median
from diolkos_lab.stats.bounds import Bounds, exactly, failed

RUNS = 100
# The least that 100 runs show in 999 of 1000 cases where an interval covers 95 %: binom.ppf(0.001, 100, 0.95) / 100.
LEAST = 0.87


def _host(values: list[float]) -> hosts.Host:
    """One run, with a build for each block."""
    return [[[exactly(value)] for value in values]]


def _covered(number: int, host_sd: float, *, of_these: bool, blocks: int = 8) -> float:
    """Share of runs whose interval holds the truth: of these hosts, or of all that there could be. Seeded."""
    random = np.random.default_rng(number * 10 + int(host_sd * 10))
    hits = 0
    for _ in range(RUNS):
        luck = host_sd * random.standard_normal((number, 1))
        table = np.exp(0.05 * (luck + random.standard_normal((number, blocks))))
        found = hosts.interval([_host(row.tolist()) for row in table])
        assert found
        truth = float(np.median(np.exp(0.05 * luck))) if of_these else 1.0
        hits += found[0] <= truth <= found[1]
    return hits / RUNS


@pytest.mark.parametrize(("number", "host_sd"), [(6, 1), (6, 5), (9, 5)])
def test_many_hosts_speak_for_others(number: int, host_sd: float) -> None:
    assert _covered(number, host_sd, of_these=False) >= LEAST


@pytest.mark.parametrize("number", [2, 3, 5])
def test_few_hosts_speak_for_themselves(number: int) -> None:
    assert _covered(number, 5, of_these=True) >= LEAST
    assert _covered(number, 5, of_these=False) < LEAST, "and for nobody else, which is why the report says so"


def test_the_plain_interval_would_be_too_sure_of_many_hosts() -> None:
    """All blocks in one heap, as if they were of one host."""
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(RUNS):
        table = np.exp(0.05 * (5 * random.standard_normal((6, 1)) + random.standard_normal((6, 8))))
        heap = hosts.interval([_host(table.ravel().tolist())])
        assert heap
        hits += heap[0] <= 1 <= heap[1]
    assert hits / RUNS < LEAST


def test_each_host_has_one_voice() -> None:
    many, few = _host([2.0] * 40), _host([1.0] * 6)
    assert hosts.median_over_hosts([many, few, few]).number == 1.0
    assert hosts.median_over_hosts([many, few]).number == 1.5


def test_runs_of_one_host_are_what_is_drawn() -> None:
    runs = [[[exactly(level)] for _ in range(6)] for level in (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)]
    assert hosts.are_drawn([runs]) and not hosts.are_drawn([runs[:5]])
    assert hosts.interval([runs]) == median.interval([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    assert hosts.interval([runs[:5]]) == (1.2, 1.2), "of these five the median is known"


def test_a_run_with_too_few_blocks_or_builds_has_no_interval() -> None:
    good = _host([1.0] * 6)
    assert hosts.interval([good, _host([1.0] * 5)]) is None
    two_builds = [[[exactly(1.0)] * 3] * 2]
    assert hosts.interval([good, two_builds]) is None


def test_a_host_on_which_all_fails_counts() -> None:
    broken: hosts.Host = [[[failed("higher")] for _ in range(6)]]
    found = hosts.interval([_host([1.0] * 6), broken])
    assert found == (0.5, 0.5)
    assert hosts.median_over_hosts([_host([1.0] * 6), broken, broken]) == Bounds(0.0, 0.0)
