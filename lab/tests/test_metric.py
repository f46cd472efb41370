# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The registry of metrics is whole: whatever a load gives has its words, unit and scale."""

from typing import get_args

import pytest

from diolkos_lab.metric import METRICS, ROW_METRICS, DetailMetric, RowMetric, named


def test_every_name_has_one_entry_and_rows_keep_their_order() -> None:
    assert set(METRICS) == {*get_args(RowMetric), *get_args(DetailMetric)}
    assert tuple(METRICS)[: len(ROW_METRICS)] == ROW_METRICS == get_args(RowMetric)
    assert all(metric.name == name and metric.words and metric.prefixes for name, metric in METRICS.items())


def test_units_are_those_of_the_files_and_scales_end_at_zero() -> None:
    for metric in METRICS.values():
        limits = [prefix.at_least for prefix in metric.prefixes]
        assert limits == sorted(limits, reverse=True) and limits[-1] == 0, metric.name


@pytest.mark.parametrize(
    ("name", "values", "unit"),
    [
        ("throughput", [3e9, None], "Gbit/s"),
        ("throughput", [3e6], "Mbit/s"),
        ("rtt", [2e-5, 3e-3], "ms"),
        ("loss", [], "%"),
        ("capacity", [2e6], "million sessions"),
    ],
)
def test_the_largest_value_decides_the_unit(name: str, values: list[float | None], unit: str) -> None:
    metric = named(name)
    assert metric and metric.prefix(values).unit == unit


def test_what_another_version_wrote_is_no_metric_here() -> None:
    assert named("jitter") is None
