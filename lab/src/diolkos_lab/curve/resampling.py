# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The bootstrap: what else the same trials could have shown.

Trials of a load are drawn with replacement, independently for each load; every draw is a whole curve, from which follow a
throughput increase ratio, a rate at a loss and a verdict. Percentiles of these are intervals. Plain percentiles are too
narrow for few trials, by the factor √((K−1)/K) and by the missing tails of Student's t; Hesterberg (2015, "What
Teachers Should Know About the Bootstrap", The American Statistician 69) widens the percentiles by just that, and so do we.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from diolkos_lab.curve.loss import CONFIDENCE, Array, Curve

DRAWS = 2000
SEED = 1
FEWEST = 5  # with fewer trials of a load, draws repeat each other and percentiles are an illusion


def draws(curve: Curve, seed: int = SEED, number: int = DRAWS) -> Array:
    """`number` × n mean loss ratios, each row a curve that the same trials could have shown."""
    random = np.random.default_rng(seed)
    means = np.empty((number, len(curve.runs)))
    for load, runs in enumerate(curve.runs.tolist()):  # one load at a time, so that memory does not grow with their number
        chosen = random.integers(runs, size=(number, runs), dtype=np.int32)
        means[:, load] = curve.trials[load][chosen].mean(axis=1)
    return means


def interval(values: Array, runs: NDArray[np.int64] | int) -> tuple[Array, Array]:
    """Lower and upper end of the 95 % interval of each column of `values` (draws × columns), from `runs` trials each.

    NaN where there are fewer than FEWEST trials. Draws may be infinite ("beyond the highest load"); so is then an end
    that falls among them.
    """
    fewest = np.broadcast_to(np.asarray(runs), values.shape[1:]).astype(float)
    enough = np.maximum(fewest, FEWEST)
    tail = norm.cdf(-np.sqrt(enough / (enough - 1)) * student.ppf((1 + CONFIDENCE) / 2, enough - 1))
    ordered = np.sort(values, axis=0)
    last = len(ordered) - 1
    columns = np.arange(values.shape[1])
    low = ordered[np.floor(tail * last).astype(int), columns]
    high = ordered[np.ceil((1 - tail) * last).astype(int), columns]
    return np.where(fewest >= FEWEST, low, np.nan), np.where(fewest >= FEWEST, high, np.nan)
