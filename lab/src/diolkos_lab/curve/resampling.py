# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The bootstrap: what else the same trials could have shown.

Where the trials of all loads were made in blocks, blocks are drawn with replacement: what slows a machine for a while slows
all loads of that block, and drawing each load by itself would make that into noise that a curve does not have (of TIR, the
difference of two loads) and hide what it has (of a PDR). Two curves of one run are drawn by the same blocks, so that their
ratio keeps what they have in common. Without blocks, trials of a load are drawn, independently for each load. Every draw
is a whole curve, from which follow a throughput increase ratio, a rate at a loss and a verdict; percentiles of these are
intervals. Plain percentiles are too narrow for few trials, by the factor √((K−1)/K) and by the missing tails of Student's
t; Hesterberg (2015, "What Teachers Should Know About the Bootstrap", The American Statistician 69) widens the percentiles
by just that, and so do we.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.curve.loss import CONFIDENCE, Array, Curve
from diolkos_lab.stats.quantiles import normal_below, student

DRAWS = 2000
SEED = 1
FEWEST = 6  # with fewer trials of a load, draws repeat each other and percentiles are an illusion


@dataclass(frozen=True)
class Plan:
    """The blocks of a run, and which of them share a build of the lanes."""

    builds: tuple[tuple[int, ...], ...]  # the blocks of each build

    @classmethod
    def from_curve(cls, curve: Curve, build_of: Mapping[int, int] | None = None) -> "Plan | None":
        """Of the blocks that the curve has trials of; each a build of its own, unless `build_of` names the build of each."""
        if curve.blocks is None:
            return None
        builds: dict[int, list[int]] = {}
        for block in np.unique(curve.blocks[curve.blocks >= 0]).tolist():
            builds.setdefault(build_of[block] if build_of else block, []).append(block)
        return cls(tuple(map(tuple, builds.values())))

    def __or__(self, other: "Plan") -> "Plan":
        """Of the blocks of both. Builds that have a block in common are one."""
        builds: list[set[int]] = []
        for build in map(set, (*self.builds, *other.builds)):
            same = [each for each in builds if each & build]
            builds = [each for each in builds if not each & build] + [build.union(*same)]
        return Plan(tuple(tuple(sorted(build)) for build in sorted(builds, key=min)))

    def weights(self, seed: int, number: int) -> dict[int, Array]:
        """Block to how often each of `number` draws has it: builds are drawn, then blocks of each."""
        random = np.random.default_rng(seed)
        count = len(self.builds)
        drawn = random.multinomial(count, np.full(count, 1 / count), size=number)
        found: dict[int, Array] = {}
        for build, times in zip(self.builds, drawn.T, strict=True):
            size = len(build)
            share = random.multinomial(times * size, np.full(size, 1 / size))
            found |= dict(zip(build, share.T.astype(float), strict=True))
        return found


def draws(curve: Curve, seed: int = SEED, number: int = DRAWS, plan: Plan | None = None) -> Array:
    """`number` × n mean loss ratios, each row a curve that the same trials could have shown.

    With a plan and a seed, draws of two curves have the same blocks in the same rows."""
    if curve.blocks is not None:
        return _of_blocks(curve, curve.blocks, (plan or Plan.from_curve(curve) or Plan(())).weights(seed, number), number)
    random = np.random.default_rng(seed)
    means = np.empty((number, len(curve.runs)))
    for load, runs in enumerate(curve.runs.tolist()):  # one load at a time, so that memory does not grow with their number
        chosen = random.integers(runs, size=(number, runs), dtype=np.int32)
        means[:, load] = curve.trials[load][chosen].mean(axis=1)
    return means


def _of_blocks(curve: Curve, blocks: NDArray[np.int64], weights: Mapping[int, Array], number: int) -> Array:
    """A draw without any block that has a trial of a load takes that load's own mean: it says nothing else of it."""
    means = np.empty((number, len(curve.runs)))
    for load, runs in enumerate(curve.runs.tolist()):
        chosen = np.stack([weights[block] for block in blocks[load, :runs].tolist()], axis=1)
        total = chosen.sum(axis=1)
        sums = chosen @ curve.trials[load, :runs]
        means[:, load] = np.divide(sums, total, out=np.full(number, curve.plr[load]), where=total > 0)
    return means


def interval(values: Array, runs: NDArray[np.int64] | int, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
    """Lower and upper end of the interval of each column of `values` (draws × columns), from `runs` trials each.

    NaN where there are fewer than FEWEST trials. Draws may be infinite ("beyond the highest load"); so is then an end
    that falls among them.
    """
    fewest = np.broadcast_to(np.asarray(runs), values.shape[1:]).astype(float)
    enough = np.maximum(fewest, FEWEST)
    tail = normal_below(-np.sqrt(enough / (enough - 1)) * student((1 + confidence) / 2, enough - 1))
    ordered = np.sort(values, axis=0)
    last = len(ordered) - 1
    columns = np.arange(values.shape[1])
    low = ordered[np.floor(tail * last).astype(int), columns]
    high = ordered[np.ceil((1 - tail) * last).astype(int), columns]
    return np.where(fewest >= FEWEST, low, np.nan), np.where(fewest >= FEWEST, high, np.nan)
