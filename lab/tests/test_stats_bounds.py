# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Ranges instead of numbers: what failed and what met a limit counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diolkos_lab.stats import bounds
from diolkos_lab.stats.bounds import UNKNOWN, Bounds, at_least, at_most, exactly, failed

numbers = st.floats(0, 1e9)


@st.composite
def figures(draw: st.DrawFn) -> tuple[Bounds, float]:
    """A range and a number within it, which may be what it hides."""
    low, inside, high = sorted(draw(st.lists(numbers, min_size=3, max_size=3)))
    return Bounds(low, draw(st.sampled_from([high, math.inf]))), inside


def test_a_failed_rate_is_nothing_and_a_failed_time_has_no_end() -> None:
    assert failed("higher") == exactly(0)
    assert failed("lower") == exactly(math.inf)


@pytest.mark.parametrize(
    ("upper", "lower", "ratio"),
    [
        (exactly(6), exactly(3), exactly(2)),
        (failed("higher"), exactly(3), exactly(0)),
        (exactly(6), failed("higher"), UNKNOWN),  # a baseline that failed: nobody knows by how much more
        (failed("higher"), failed("higher"), None),
        (failed("lower"), failed("lower"), None),
        (failed("lower"), exactly(3), exactly(math.inf)),
        (exactly(6), failed("lower"), UNKNOWN),
        (at_least(6), failed("higher"), UNKNOWN),
        (at_least(6), exactly(3), at_least(2)),
        (exactly(6), at_least(3), at_most(2)),
        (at_most(6), exactly(3), at_most(2)),
        (exactly(6), at_most(3), at_least(2)),
        (at_least(6), at_least(3), at_least(0)),
        (failed("higher"), at_least(3), exactly(0)),
    ],
)
def test_ratios(upper: Bounds, lower: Bounds, ratio: Bounds | None) -> None:
    assert upper.ratio_to(lower) == ratio


@given(figures(), figures())
def test_a_ratio_holds_the_ratio_of_all_that_is_hidden(upper: tuple[Bounds, float], lower: tuple[Bounds, float]) -> None:
    ratio = upper[0].ratio_to(lower[0])
    if ratio and lower[1] > 1e-6:  # tiny divisors overflow
        assert ratio.low <= upper[1] / lower[1] * (1 + 1e-12)
        assert upper[1] / lower[1] <= ratio.high * (1 + 1e-12)


@given(st.lists(figures(), min_size=1, max_size=12))
def test_a_median_holds_the_median_of_all_that_is_hidden(sample: list[tuple[Bounds, float]]) -> None:
    found = bounds.median([each for each, _ in sample])
    hidden = bounds.median([exactly(inside) for _, inside in sample])
    assert found.low <= hidden.low <= found.high


@pytest.mark.parametrize(("low", "high"), [(2, 1), (-1, 1), (math.nan, 1), (0, math.nan)])
def test_no_figure(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="no figure"):
        Bounds(low, high)
