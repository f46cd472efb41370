# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rules of a study as one family: how sure has each to be, so that few of those that are decided are decided wrongly?

Judged each by its own 95 % interval, one in twenty rules that lie at their thresholds is decided by chance; and rules that
share a native path share its luck, so that some runs decide a third of them. So a rule is decided by an interval of
1 − 0.05 R/m, of m rules of which R are decided by such intervals: the largest R for which that holds. This is the procedure of
Benjamini and Hochberg (1995, "Controlling the False Discovery Rate", Journal of the Royal Statistical Society B 57), and the
intervals are those of Benjamini and Yekutieli (2005, "False Discovery Rate-Adjusted Multiple Confidence Intervals", Journal of
the American Statistical Association 100). Of the decided rules, one in twenty is expected to be wrong at most; where no rule
differs from its threshold, one run in twenty decides any.

What that is worth in a run is simulated with its own trials: each ratio is moved to its threshold, and the sign of each block
is drawn anew, for all rules at once. So what rules have in common stays.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.stats import median
from diolkos_lab.stats.median import CONFIDENCE

DRAWS = 1000
SEED = 19950101
ENDLESS = 10.0  # what stands for a ratio of 0 or without end, as logarithm

Decides = Callable[[float], bool]  # whether the interval of that confidence lies on one side of the threshold


@dataclass(frozen=True)
class ByChance:
    """How many rules a lab in which nothing differs decides: the mean, and what 95 % of its runs do not exceed."""

    mean: float
    most: int


def confidence(rules: Sequence[Decides]) -> float:
    """What each of these rules needs. 95 % of a rule by itself."""
    number = len(rules)
    for decided in range(number, 0, -1):
        if sum(decides(needed(decided, number)) for decides in rules) >= decided:
            return needed(decided, number)
    return needed(1, max(1, number))


def needed(decided: int, rules: int) -> float:
    return 1 - (1 - CONFIDENCE) * decided / rules


def by_chance(rules: Sequence[Mapping[int, float]], draws: int = DRAWS) -> tuple[ByChance, ByChance]:
    """Each judged by itself, and all as a family. A rule is what each build of the lanes says: its ratio."""
    random = np.random.default_rng(SEED)
    builds = sorted({build for rule in rules for build in rule})
    signs = dict(zip(builds, random.choice((-1.0, 1.0), (len(builds), draws)), strict=True))
    decided = np.zeros((len(rules), draws), dtype=int)  # rules by how many are decided, less one
    for rule in rules:
        logs = np.clip([math.log(ratio) if ratio > 0 else -ENDLESS for ratio in rule.values()], -ENDLESS, ENDLESS)
        drawn = np.sort((logs - np.median(logs))[:, None] * np.stack([signs[build] for build in rule]), axis=0)
        for number in range(1, len(rules) + 1):
            if found := median.depth(len(rule), needed(number, len(rules))):
                depth, weight = found
                low = (1 - weight) * drawn[depth - 1] + weight * drawn[depth]
                high = (1 - weight) * drawn[-depth] + weight * drawn[-depth - 1]
                decided[number - 1] += (low > 0) | (high < 0)
    together = np.max(np.where(decided >= np.arange(1, len(rules) + 1)[:, None], decided, 0), axis=0, initial=0)
    return _of(decided[-1] if rules else np.zeros(1, dtype=int)), _of(together)


def _of(counts: NDArray[np.int64]) -> ByChance:
    return ByChance(float(counts.mean()), int(np.quantile(counts, 0.95, method="higher")))
