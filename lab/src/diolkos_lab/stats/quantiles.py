# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Distributions as functions of scipy.special: scipy.stats has the same ones and takes most of a second to import."""

from typing import Any

from scipy import special


def student(level: float, freedom: Any) -> Any:
    """The quantile of Student's t; `freedom` is a number or an array of degrees of freedom."""
    return special.stdtrit(freedom, level)


def normal_below(value: Any) -> Any:
    """The share of a standard normal distribution below a value."""
    return special.ndtr(value)


def binomial_at_most(successes: int, trials: int, chance: float) -> float:
    """The probability of so many successes or fewer."""
    return float(special.bdtr(successes, trials, chance)) if successes >= 0 else 0.0
