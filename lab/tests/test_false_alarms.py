# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A/A: a system against itself, drawn instead of measured. Whatever the lab would report as a difference is a false alarm.

An interval of 95 % is wrong once in twenty times; the bounds allow for the chance in so many comparisons, and for no more.
"""

import math
from typing import Any

import numpy as np

from diolkos_lab.stats import comparison
from diolkos_lab.stats.pairing import CellKey, Samples
from test_known_answers import _run

ALLOWED = 0.05
BLOCKS = 12
FACTORS = {"offloads": "on", "streams": 1, "seconds": 1}
KEYS = [CellKey("native/kernel/ipv6/1", "tcp-upload", tuple(sorted(FACTORS.items())), replica) for replica in (1, 2)]


def _most(comparisons: int) -> float:
    """False alarms that 5 % may come to: three standard errors above."""
    return comparisons * ALLOWED + 3 * math.sqrt(comparisons * ALLOWED * (1 - ALLOWED))


def _twins(draw: np.random.Generator) -> Samples:
    """A machine whose mood drifts and whose trials have a long tail on one side, the same for both."""
    mood = 1e10 * np.exp(np.cumsum(draw.normal(0, 0.05, BLOCKS)))
    values = mood * np.exp(-draw.exponential(0.03, (2, BLOCKS)))
    return Samples(
        {
            "system": "native",
            "datapath": "kernel",
            "family": "ipv6",
            "hops": 1,
            "replica": replica + 1,
            "load": "tcp-upload",
            "factors": FACTORS,
            "block": block + 1,
            "valid": True,
            "metrics": {"throughput": float(values[replica, block])},
            "series": {},
        }
        for replica in range(2)
        for block in range(BLOCKS)
    )


def test_a_ratio_to_itself_has_one_in_its_interval() -> None:
    draw, comparisons = np.random.default_rng(11), 1000
    alarms = 0
    for _ in range(comparisons):
        ratio = _twins(draw).ratio(KEYS[1], KEYS[0], "throughput")
        assert ratio and ratio.ci95
        alarms += not ratio.ci95[0] <= 1 <= ratio.ci95[1]
    assert 0 < alarms <= _most(comparisons)


def test_two_runs_of_the_same_differ_in_nothing() -> None:
    draw, comparisons = np.random.default_rng(12), 200
    alarms = 0
    for _ in range(comparisons):
        changes = comparison.compare(_steady(draw), _steady(draw), {})
        alarms += any(change.significant for change in changes)
    assert alarms <= _most(comparisons)


def _steady(draw: np.random.Generator) -> Samples:
    """Several cells, each of which could give an alarm."""
    records: list[dict[str, Any]] = []
    for streams in (1, 2, 4, 8):
        for block in range(1, BLOCKS + 1):
            records.append(
                {
                    "system": "native",
                    "datapath": "kernel",
                    "family": "ipv6",
                    "hops": 1,
                    "load": "tcp-upload",
                    "factors": {**FACTORS, "streams": streams},
                    "block": block,
                    "valid": True,
                    "metrics": {"throughput": float(1e10 * math.exp(-draw.exponential(0.03)))},
                    "series": {},
                }
            )
    return Samples(records)


def test_two_curves_of_the_same_router_have_pdrs_within_each_other() -> None:
    pairs = 40
    ends = [_run(seed, 0.1).found.pdr_ci95 for seed in range(100, 100 + 2 * pairs)]
    assert all(ends)
    alarms = sum(a[1] < b[0] or b[1] < a[0] for a, b in zip(ends[::2], ends[1::2], strict=True) if a and b)
    assert alarms <= ALLOWED * pairs
