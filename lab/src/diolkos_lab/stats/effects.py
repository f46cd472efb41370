# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Does a factor of a system matter, by how much, and is that more than chance?

Two levels of the factor are compared in cells that agree in everything else, block by block. The effect is the median over
the blocks of the ratio, with the interval that all ratios have. The test is by permutation within blocks: if the factor did
nothing, each ratio could as well have been its inverse, so signs are drawn anew, and the sum of signed ranks is compared
(Wilcoxon's statistic, which a failed trial cannot upset). What one build says of one pair of lanes counts once: cells that
share their lanes, as 1 and 50 streams through them do, share the luck of these, and counted each by itself they would find an
effect where there is none in up to half of all runs. The p-values of a run are corrected for their number
(Benjamini-Hochberg).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.metric import RowMetric
from diolkos_lab.stats import bounds, hierarchy
from diolkos_lab.stats.bounds import Bounds
from diolkos_lab.stats.median import Interval
from diolkos_lab.stats.pairing import CellKey, Figures, Samples

SIGNIFICANT = 0.05
FEWEST = 6  # pairs; with fewer not even the same sign in all of them is significant
RESAMPLES = 9999
SEED = 19451203  # the test is repeatable
Given = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Effect:
    """What becomes of a figure when a factor goes from one level to another. `given`: only where others have these levels."""

    subject: str
    load: LoadName
    metric: RowMetric
    factor: str
    levels: tuple[Any, Any]
    given: Given
    ratio: Bounds  # the second level's figure over the first's
    ci95: Interval | None
    blocks: int
    pairs: int  # that the test had
    p: float | None  # corrected; None for too few pairs

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < SIGNIFICANT


def effects(
    samples: Samples,
    factors: Mapping[str, Sequence[str]],
    metrics: Sequence[RowMetric],
    within: Mapping[str, Sequence[str]],
    order: Mapping[str, Sequence[Any]],
) -> list[Effect]:
    """Of each subject's `factors`. `within` says by which other factors an effect is looked at level by level, too; `order`
    has the levels of factors whose order is not that of numbers or names."""
    found = [
        effect
        for subject, names in factors.items()
        for load in dict.fromkeys(key.load for key in samples.cells() if key.subject == subject)
        for metric in metrics
        if (load, metric) != ("http", "rate")  # the inverse of the time
        for name in names
        for effect in _of_factor(samples, subject, load, metric, name, names, within.get(name, ()), order)
    ]
    tested = [effect.p for effect in found if effect.p is not None]
    if not tested:
        return found
    from scipy import stats as scipy_stats  # noqa: PLC0415  most of a second, which a report without factors need not wait

    corrected = iter(scipy_stats.false_discovery_control(tested))
    return [effect if effect.p is None else replace(effect, p=float(next(corrected))) for effect in found]


def _of_factor(
    samples: Samples,
    subject: str,
    load: LoadName,
    metric: RowMetric,
    name: str,
    of_lanes: Sequence[str],
    within: Sequence[str],
    order: Mapping[str, Sequence[Any]],
) -> Iterator[Effect]:
    strata: dict[Given, dict[Any, CellKey]] = defaultdict(dict)
    for key in samples.cells():
        level = dict(key.factors).get(name)
        if (key.subject, key.load, key.replica) == (subject, load, 1) and level is not None:
            strata[tuple(item for item in key.factors if item[0] != name)][level] = key
    levels = _sorted({level for stratum in strata.values() for level in stratum}, order.get(name))
    for second in levels[1:]:
        both = {rest: cells for rest, cells in strata.items() if levels[0] in cells and second in cells}
        # A level by itself says no more than the whole where there is one only.
        conditions: list[Given] = [()]
        for other in within:
            seen = _sorted({dict(rest).get(other) for rest in both} - {None}, order.get(other))
            conditions += [((other, level),) for level in seen] if len(seen) > 1 else []
        for given in conditions:
            pairs: dict[Given, list[tuple[CellKey, CellKey]]] = defaultdict(list)
            for rest, cells in both.items():
                if set(given) <= set(rest):
                    lanes = tuple(item for item in rest if item[0] in of_lanes)
                    pairs[lanes].append((cells[second], cells[levels[0]]))
            if effect := _effect(samples, metric, list(pairs.values())):
                median, ci95, blocks, count, p = effect
                yield Effect(subject, load, metric, name, (levels[0], second), given, median, ci95, blocks, count, p)


def _effect(
    samples: Samples, metric: RowMetric, lanes: Sequence[Sequence[tuple[CellKey, CellKey]]]
) -> tuple[Bounds, Interval | None, int, int, float | None] | None:
    """Of pairs of cells, those together that share their lanes."""
    of_lanes = [_by_block(ratios) for pairs in lanes if (ratios := _ratios(samples, metric, pairs))]
    if not of_lanes:
        return None
    whole = _by_block(of_lanes)
    builds = samples.by_build(whole)
    said = [_log(bounds.median(build)) for figures in of_lanes for build in samples.by_build(figures)]
    return hierarchy.middle(builds), hierarchy.interval(builds), len(whole), len(said), _chance(said)


def _ratios(samples: Samples, metric: RowMetric, pairs: Sequence[tuple[CellKey, CellKey]]) -> list[Figures]:
    return [middle.by_block for upper, lower in pairs if (middle := samples.ratio(upper, lower, metric))]


def _by_block(every: Sequence[Figures]) -> Figures:
    """What a block says in the middle of several figures."""
    by_block: dict[int, list[Bounds]] = defaultdict(list)
    for figures in every:
        for block, figure in figures.items():
            by_block[block].append(figure)
    return {block: bounds.median(each) for block, each in sorted(by_block.items())}


def _log(ratio: Bounds) -> float:
    """Of a range, the end that was measured; NaN where nothing was, as the lower level failed."""
    if ratio == bounds.UNKNOWN:
        return math.nan
    value = ratio.low or ratio.high
    return math.log(value) if value and math.isfinite(value) else math.copysign(math.inf, 1 if value else -1)


def _chance(logs: Sequence[float]) -> float | None:
    values = np.asarray([each for each in logs if not math.isnan(each)])
    if len(values) < FEWEST:
        return None
    if not values.any():
        return 1.0
    from scipy import stats as scipy_stats  # noqa: PLC0415

    # Only ranks count, so that what has no end stands behind all that has one.
    signed = scipy_stats.rankdata(np.abs(values)) * np.sign(values)
    found = scipy_stats.permutation_test(
        (signed,),
        lambda ranks, axis: np.sum(ranks, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(SEED),
    )
    return float(found.pvalue)


def _sorted(levels: set[Any], order: Sequence[Any] | None) -> list[Any]:
    if order:
        return [level for level in order if level in levels]
    return sorted(levels, key=lambda level: (isinstance(level, str), level))
