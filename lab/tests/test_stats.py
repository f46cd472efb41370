# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Medians, intervals, ratios, rows and comparisons."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import quantile_test

from diolkos_lab import studies
from diolkos_lab.stats import bounds, comparison, rows, untrusted
from diolkos_lab.stats.median import interval, median
from diolkos_lab.stats.pairing import CellKey, Samples
from diolkos_lab.verdict import verdicts

Make = Callable[..., dict[str, Any]]
FACTORS = (("offloads", "on"), ("seconds", 1), ("streams", 1))
NATIVE = CellKey("native/kernel/ipv4/1", "tcp-upload", FACTORS)
TC = CellKey("diolkos/tc/ipv4/1", "tcp-upload", FACTORS)
KEYS = [
    *("study", "system", "datapath", "family", "hops", "load", "metric", "unit", "trials", "valid_trials", "failed_trials"),
    "instrument_failed_trials",
    *("blocks", "median", "median_bounds", "ci95", "mean", "sd", "min", "max", "p95", "p99"),
    *("baseline", "ratio", "ratio_bounds", "ratio_ci95"),
]


values = st.lists(st.floats(1e-3, 1e6), min_size=6, max_size=60, unique=True)


@given(values)
def test_interval_lies_between_the_exact_ones_around_it(sample: list[float]) -> None:
    """The exact order-statistic interval of at least 95 % contains ours; ours contains the next narrower one."""
    low, high = interval(sample)
    exact = quantile_test(sample, p=0.5).confidence_interval(0.95)
    if not np.isnan(exact.low) and not np.isnan(exact.high):
        assert exact.low <= low * (1 + 1e-12)
        assert high <= exact.high * (1 + 1e-12)
    assert low <= median(sample) <= high


@given(values, st.floats(0.1, 10))
def test_interval_scales_and_ignores_order(sample: list[float], factor: float) -> None:
    assert interval(sample[::-1]) == interval(sample)
    assert interval([value * factor for value in sample]) == pytest.approx([bound * factor for bound in interval(sample)])


@pytest.mark.parametrize("size", [0, 1, 5])
def test_too_few_values_have_no_interval(size: int) -> None:
    assert interval(list(range(size))) is None


@pytest.mark.parametrize("size", [6, 9, 13, 30])
def test_interval_covers_the_median_as_often_as_it_says(size: int) -> None:
    """On a skewed distribution, whose median is known; seeded, so a failure replays."""
    generator = np.random.default_rng(1)
    truth = np.exp(0.0)
    hits = 0
    for _ in range(2000):
        low, high = interval(generator.lognormal(0.0, 0.5, size).tolist())
        hits += low <= truth <= high
    assert 0.935 <= hits / 2000 <= 0.985


def _blocks(make: Make, native: list[float], tc: list[float]) -> list[dict[str, Any]]:
    found = []
    for block, (a, b) in enumerate(zip(native, tc, strict=True)):
        found.append(make(block=block, family="ipv4", metrics={"throughput": a}))
        found.append(make(block=block, system="diolkos", datapath="tc", family="ipv4", metrics={"throughput": b}))
    return found


def test_ratio_is_taken_within_blocks_and_without_the_warm_up(record: Make) -> None:
    """The machine slows down to a tenth, both systems alike: the ratio does not move. The warm-up would spoil it."""
    native = [1.0, 10.0, 9.0, 8.0, 4.0, 2.0, 1.0]
    samples = Samples(_blocks(record, native, [100.0] + [value / 2 for value in native[1:]]))
    ratio = samples.ratio(TC, NATIVE, "throughput")
    assert ratio.median == bounds.exactly(0.5)
    assert ratio.ci95 == (0.5, 0.5)
    assert list(ratio.by_block) == [1, 2, 3, 4, 5, 6]


def test_distrusted_trials_give_no_ratio_and_failed_ones_the_worst(record: Make) -> None:
    lines = _blocks(record, [1.0] * 9, [1.0] * 9)
    lines[4] |= {"valid": False, "distrust": [{"guard": "steal", "detail": "…"}], "metrics": {"throughput": 99.0}}
    lines[7] |= {"valid": False, "error": "it died", "metrics": {}}
    samples = Samples(lines)
    ratio = samples.ratio(TC, NATIVE, "throughput")
    assert sorted(ratio.by_block) == [1, 3, 4, 5, 6, 7, 8]
    assert ratio.by_block[3] == bounds.failed("higher")
    assert ratio.median == bounds.exactly(1.0)
    study = studies.load("clat")
    by_key = {(row["system"], row["metric"]): row for row in rows.rows(study, samples)}
    native, tc = by_key["native", "throughput"], by_key["diolkos", "throughput"]
    assert (native["trials"], native["valid_trials"]) == (8, 7)
    assert (tc["trials"], tc["valid_trials"]) == (8, 7)
    assert (native["failed_trials"], tc["failed_trials"]) == (0, 1)
    assert native["max"] == 1.0


@pytest.mark.parametrize(("metric", "load", "worst"), [("throughput", "tcp-upload", 0.0), ("rtt", "ping", np.inf)])
def test_a_system_that_fails_most_of_the_time_has_the_worst_median(record: Make, metric: str, load: str, worst: float) -> None:
    lines = []
    for block in range(1, 10):
        lines.append(record(block=block, load=load, family="ipv4", metrics={metric: 1.0}))
        broken = {"valid": False, "error": "it died", "metrics": {}} if block > 4 else {"metrics": {metric: 1.0}}
        lines.append(record(block=block, load=load, system="diolkos", datapath="tc", family="ipv4", **broken))
    row = next(row for row in rows.rows(studies.load("clat"), Samples(lines)) if row["system"] == "diolkos")
    shown = [worst if np.isfinite(worst) else None] * 2
    assert row["median"] == shown[0] and row["median_bounds"] == shown and row["ratio_bounds"] == shown
    assert row["ci95"] == ([0.0, 1.0] if worst == 0 else [1.0, None])


def test_a_search_that_met_its_limit_is_a_range_and_not_left_out(record: Make) -> None:
    lines = []
    for block in range(1, 8):
        lines.append(record(block=block, load="mlrsearch", family="ipv4", metrics={"rate": 100.0}))
        met = {"metrics": {}, "bounds": {"rate": [150.0, None]}} if block < 5 else {"metrics": {"rate": 120.0}}
        lines.append(record(block=block, load="mlrsearch", system="diolkos", datapath="tc", family="ipv4", **met))
    row = next(row for row in rows.rows(studies.load("clat"), Samples(lines)) if row["system"] == "diolkos")
    assert (row["median"], row["median_bounds"]) == (None, [150.0, None])
    assert (row["ratio"], row["ratio_bounds"]) == (None, [1.5, None])
    assert row["ratio_ci95"][0] == pytest.approx(1.2, abs=0.01) and row["ratio_ci95"][1] is None


def test_the_first_trial_of_a_block_that_nobody_objects_to_counts(record: Make) -> None:
    """Who took the last would let a system be tried until it succeeds."""
    doubtful = {"valid": False, "distrust": [{"guard": "steal", "detail": "…"}], "metrics": {"throughput": 9.0}}
    failed = {"valid": False, "error": "it died", "metrics": {}}
    lines = [record(block=1, family="ipv4", **each) for each in (doubtful, failed, {"metrics": {"throughput": 5.0}})]
    assert Samples(lines).figures(NATIVE, "throughput") == {1: bounds.failed("higher")}


def test_blocks_of_one_build_are_no_independent_witnesses(record: Make) -> None:
    random = np.random.default_rng(3)
    lines = _blocks(record, [1.0] * 13, [1.0, *(1 + 0.1 * random.standard_normal(12)).tolist()])
    alone = Samples(lines).ratio(TC, NATIVE, "throughput")
    shared = Samples([{**line, "build": (line["block"] + 1) // 2} for line in lines]).ratio(TC, NATIVE, "throughput")
    one = Samples([{**line, "build": 1} for line in lines]).ratio(TC, NATIVE, "throughput")
    assert alone.ci95[0] > shared.ci95[0] and alone.ci95[1] < shared.ci95[1]
    assert one.ci95 is None and one.median == alone.median


def test_rows_have_the_keys_of_the_format_and_no_more(record: Make) -> None:
    study = studies.load("clat")
    lines = _blocks(record, [1.0] * 8, [2.0] * 8)
    (native, tc) = rows.rows(study, Samples(lines))
    assert list(native) == [*KEYS, "offloads", "seconds", "streams"]
    assert native["baseline"] == "native/kernel/ipv6/1" and native["ratio"] is None
    assert tc["baseline"] == NATIVE.subject, "of the family that the application speaks"
    assert (tc["other_baseline"], tc["other_ratio"]) == ("native/kernel/ipv6/1", None)
    assert tc["ratio"] == 2.0 and tc["ratio_ci95"] == [2.0, 2.0]
    assert tc["unit"] == "bit/s"


def test_a_cell_in_which_everything_failed_still_has_its_row(record: Make) -> None:
    lines = [record(block=block, valid=False, error="it died", metrics={}, load="ping") for block in range(3)]
    (row,) = rows.rows(studies.load("clat"), Samples(lines))
    assert (row["metric"], row["trials"], row["valid_trials"], row["failed_trials"]) == ("rtt", 2, 0, 2)
    assert row["median"] is None and row["median_bounds"] == [None, None], "a time without end"


def test_tails_of_rtt_are_those_of_packets(record: Make) -> None:
    lines = [
        record(
            block=block, load="ping", metrics={"rtt": 1e-5, "loss": 0.0}, series={"rtt": {"t": [0], "y": [1e-5] * 99 + [1e-3]}}
        )
        for block in range(1, 8)
    ]
    row = next(row for row in rows.rows(studies.load("clat"), Samples(lines)) if row["metric"] == "rtt")
    assert row["median"] == 1e-5
    assert row["max"] == 1e-3
    assert row["mean"] == pytest.approx(1.99e-5)


def test_noise_floor_is_the_twin_against_its_original(record: Make) -> None:
    lines = []
    for block in range(9):
        lines.append(record(block=block, metrics={"throughput": 10.0}))
        lines.append(record(block=block, replica=2, metrics={"throughput": 10.0 + (block % 2)}))
    (row,) = rows.noise_floor(studies.load("clat"), Samples(lines))["rows"]
    assert row["blocks"] == 8
    assert 1.0 <= row["ratio"] <= 1.1
    assert row["spread95"] == pytest.approx(0.1)
    assert [row["metric"] for row in rows.rows(studies.load("clat"), Samples(lines))] == ["throughput"], "no row of the twin"


def test_comparison_finds_a_change_and_no_other(record: Make) -> None:
    generator = np.random.default_rng(7)

    def run(speed: float, level: float) -> Samples:
        native = (level * generator.normal(1, 0.02, 13)).tolist()
        return Samples(_blocks(record, native, [speed * value * generator.normal(1, 0.02) for value in native]))

    baselines = {TC.subject: NATIVE.subject, NATIVE.subject: None}
    same = {change.cell: change for change in comparison.compare(run(0.9, 1e10), run(0.9, 1e10), baselines)}
    assert not same[TC].significant
    faster = {change.cell: change for change in comparison.compare(run(0.9, 1e10), run(0.99, 2e10), baselines)}
    assert faster[TC].relative and faster[TC].significant
    assert faster[TC].ci95[0] < 1.1 < faster[TC].ci95[1]
    assert faster[NATIVE].significant and faster[NATIVE].change == pytest.approx(2, rel=0.05)


def test_what_native_has_no_figure_of_is_compared_by_itself(record: Make) -> None:
    def run(sessions: float) -> Samples:
        lines = _blocks(record, [1e10] * 9, [9e9] * 9)
        held = [line for line in lines if line["system"] != "native"]
        return Samples([{**line, "metrics": {"capacity": sessions + line["block"]}} for line in held])

    baselines = {TC.subject: NATIVE.subject, NATIVE.subject: None}
    [change] = comparison.compare(run(300_000), run(150_000), baselines)
    assert (change.cell, change.metric, change.relative) == (TC, "capacity", False)
    assert change.significant and change.change == pytest.approx(0.5, rel=0.01)


def test_order_of_cells_does_not_depend_on_the_order_of_trials(record: Make) -> None:
    lines = _blocks(record, [1.0] * 3, [2.0] * 3)
    assert Samples(lines).cells() == Samples(lines[::-1]).cells()
    names = [key.subject for key in Samples(lines).cells()]
    assert all(a <= b for a, b in pairwise(names))


def _distrusted(line: dict[str, Any]) -> dict[str, Any]:
    return line | {"valid": False, "distrust": [{"guard": "foreign-cpu", "detail": "…"}]}


def test_what_has_no_trusted_figure_is_kept_apart_from_the_rows(record: Make) -> None:
    study = studies.load("clat")
    lines = [_distrusted(line) for line in _blocks(record, [99.0, 10.0, 20.0, 40.0], [1.0, 5.0, 12.0, 20.0])]
    samples = Samples(lines)
    native, tc = untrusted.entries(study, samples)[::-1]
    assert (native["trials"], native["median"], native["ratio"]) == (3, 20.0, None)
    assert (tc["trials"], tc["median"], tc["ratio"]) == (3, 12.0, 0.5), "the ratio is within blocks, the warm-up is not in it"
    for row, entry in zip(rows.rows(study, samples), (native, tc), strict=True):
        assert row["median"] is None and row["ratio"] is None and row["valid_trials"] == 0
        assert untrusted.beside([tc, native], row) == entry
    assert verdicts(study, samples, {})[0]["value"] is None, "no verdict is built on them"


def test_one_side_that_is_distrusted_leaves_a_trusted_median_and_no_ratio(record: Make) -> None:
    lines = _blocks(record, [10.0] * 4, [5.0] * 4)
    lines = [_distrusted(line) if line["system"] == "native" else line for line in lines]
    by_system = {entry["system"]: entry for entry in untrusted.entries(studies.load("clat"), Samples(lines))}
    assert by_system["diolkos"]["ratio"] == 0.5
    tc = next(row for row in rows.rows(studies.load("clat"), Samples(lines)) if row["system"] == "diolkos")
    assert tc["median"] == 5.0 and tc["ratio"] is None


def test_where_all_is_trusted_or_all_failed_nothing_is_marked(record: Make) -> None:
    study = studies.load("clat")
    assert untrusted.entries(study, Samples(_blocks(record, [1.0] * 8, [2.0] * 8))) == []
    failed = [record(block=block, valid=False, error="it died", metrics={}) for block in range(3)]
    assert untrusted.entries(study, Samples(failed)) == []
