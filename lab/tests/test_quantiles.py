# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Quantiles without scipy.stats: the same numbers, and a report that does not wait for what it does not need."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from diolkos_lab.stats.quantiles import binomial_at_most, normal_below, student


def test_they_are_those_of_scipy():
    freedom = np.array([1, 2, 5, 29, 1000])
    for level in (0.5, 0.9, 0.975, 0.999):
        assert student(level, freedom) == pytest.approx(stats.t.ppf(level, freedom), rel=1e-9)
    for value in (-3.0, 0.0, 1.96):
        assert normal_below(value) == pytest.approx(stats.norm.cdf(value), rel=1e-12)
    for successes in (-1, 0, 3, 20):
        assert binomial_at_most(successes, 20, 0.5) == pytest.approx(stats.binom.cdf(successes, 20, 0.5), abs=1e-15)


def test_a_report_loads_neither_the_whole_of_scipy_nor_the_package_that_searches():
    modules = ("report.terminal", "summary", "samples.folder", "report.page", "report.searches")  # those of the command
    command = f"import sys, {', '.join(f'diolkos_lab.{each}' for each in modules)}"
    command += "; print([each for each in ('scipy.stats', 'MLRsearch') if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
