# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Forty quick runs against a router whose loss is the paper's formula, each packet lost by chance: are the answers right?

From the search for the knee to the verdict; only the packets are drawn instead of sent.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diolkos_lab import curves
from diolkos_lab.curve.judge import DEFAULT_RULE, GOOD
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.run.sweep import Sweep

sys.path.insert(0, str(Path(__file__).parent / "curve"))
import paper_curves

RUNS, BLOCKS, SECONDS = 40, 7, 0.2
ENOUGH = 34  # of 40, which intervals of 95 % reach in 99 of 100 cases: binom.ppf(0.01, 40, 0.95)
TRUE_PDR = paper_curves.SATURATION * (np.log10(0.005) + 8) / 6  # where 10 ** (-8 + 6x) is 0.5 %


Router = Callable[[np.ndarray], np.ndarray]


def _trial(load: PpsLoad, block: int, scale: float, draw: np.random.Generator, router: Router) -> dict[str, Any]:
    assert load.offered
    sent = round(load.offered * load.seconds)
    lost = int(draw.binomial(sent, float(router(np.array([load.offered / scale]))[0])))
    where = {"system": "native", "datapath": "kernel", "family": "ipv6", "hops": 1, "replica": 1}
    metrics = {"sent": float(sent), "received": float(sent - lost), "loss": lost / sent}
    factors = {"offloads": "on", **load.factors}
    return {**where, "load": "pps", "block": block, "factors": factors, "valid": True, "metrics": metrics}


def _run(seed: int, scale: float, router: Router = paper_curves.realistic) -> curves.Measured:
    draw, order = np.random.default_rng(seed), random.Random(seed)
    sweep, trials = Sweep(PpsLoad(name="pps", seconds=SECONDS), BLOCKS), []
    for probe in sweep.probes():
        sweep.record(probe, 0, _trial(probe, 0, scale, draw, router)["metrics"]["loss"])
    for block in range(1, BLOCKS):
        loads = sweep.rates(block)
        for load in order.sample(loads, len(loads)):
            trials.append(_trial(load, block, scale, draw, router))
            sweep.record(load, block, trials[-1]["metrics"]["loss"])
    [curve] = curves.gather(trials, [])
    return curve


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_pdr_saturation_and_verdict_are_right_in_95_percent_of_runs(scale: float) -> None:
    found = [_run(seed, scale).found for seed in range(RUNS)]
    pdr, saturation = TRUE_PDR * scale, 0.99 * paper_curves.SATURATION * scale
    assert sum(each.verdict[DEFAULT_RULE] == GOOD for each in found) >= ENOUGH
    # Not only the rate that is interpolated: the PDR itself.
    assert sum(bool(each.pdr_ci95) and each.pdr_ci95[0] <= pdr <= each.pdr_ci95[1] for each in found) >= ENOUGH
    assert (
        sum(bool(each.saturated_ci95) and each.saturated_ci95[0] <= saturation <= each.saturated_ci95[1] for each in found)
        >= ENOUGH
    )
    rates = np.array([each.pdr.rate for each in found])
    assert abs(np.mean(rates) / pdr - 1) < 0.002, "no bias of the interpolation that matters"
    # Beyond saturation, and before throughput declines, T(O) is T_sat.
    near = [
        curve.throughput[(curve.rates > saturation * 1.02) & (curve.rates < 1.45 * saturation)]
        for curve in (each.curve for each in found)
    ]
    assert sum(np.abs(values / saturation - 1).max() < 0.01 for values in near) >= ENOUGH


@pytest.mark.parametrize("scale", [0.05, 0.1, 1.0])
def test_the_pdr_has_no_bias_where_loss_begins_at_a_load(scale: float) -> None:
    """Equation 3: the curve with the sharpest bend there is."""
    found = [_run(seed, scale, paper_curves.ideal).found for seed in range(RUNS)]
    pdr = paper_curves.SATURATION / 0.995 * scale
    rates = np.array([each.pdr.rate for each in found])
    assert abs(np.mean(rates) / pdr - 1) < 0.001
    assert np.abs(rates / pdr - 1).max() < 0.01
    assert all(each.verdict[DEFAULT_RULE] == GOOD for each in found)
