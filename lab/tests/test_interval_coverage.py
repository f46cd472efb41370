# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every interval that the lab prints contains the truth as often as it says, while the machine drifts.

The full table is that of `benchmarks/interval_coverage.py`, in docs/accuracy.md; here each entry has few draws, which finds
what covers two thirds or less in every case, and what covers 0.85 in most.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import interval_coverage as coverage

DRIFTS = [drift for drift in coverage.DRIFTS if drift.name in ("10 %", "5 %, slow", "5 %, builds 5 %")]


@pytest.mark.parametrize("case", coverage.CASES, ids=lambda case: case.name)
def test_an_interval_contains_the_truth_as_often_as_it_says(case: coverage.Case) -> None:
    runs = 25 if case.dear else 150
    for drift in DRIFTS:
        random = np.random.default_rng(5)
        line = coverage.Line(case, drift, sum(case.covers(random, drift) for _ in range(runs)) / runs, runs)
        assert not line.fails, f"{drift.name}: {line.covered}"


def test_an_entry_that_covers_too_little_fails() -> None:
    case = coverage.Case("never", lambda _random, _drift: False)
    assert coverage.Line(case, coverage.Drift("none"), 0.6, 25).fails
    assert not coverage.Line(case, coverage.Drift("none"), 0.92, 25).fails
    assert coverage.Line(case, coverage.Drift("none"), 0.9, 2000).fails


def test_what_is_not_claimed_does_not_fail() -> None:
    slow = coverage.Drift("slow", 0.05, memory=0.8)
    assert not coverage.Line(coverage.Case("median", lambda _random, _drift: False, claims_slow=False), slow, 0.6, 2000).fails
