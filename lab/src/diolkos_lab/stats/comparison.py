# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two runs of a study against each other: what changed, and is it more than chance?

Where a cell has a native baseline, its ratio within each block is compared rather than the raw figure: two runs on two days
or two machines differ in speed, which the ratio cancels. The test is Mann-Whitney's, which assumes no distribution; the
one value that a build of the lanes gives is the median of its blocks, since these have the build's luck in common. The
p-values are corrected for the number of comparisons (Benjamini-Hochberg), since one in twenty would differ by chance.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats as scipy_stats

from diolkos_lab.metric import METRICS, ROW_METRICS, RowMetric
from diolkos_lab.stats import bounds
from diolkos_lab.stats.median import CONFIDENCE, Interval, median
from diolkos_lab.stats.pairing import CellKey, Samples

SIGNIFICANT = 0.05
FEWEST = 4  # values on each side; below, not even the most extreme order is significant
RESAMPLES = 5000
SEED = 20110901  # the bootstrap is repeatable


@dataclass(frozen=True)
class Change:
    """One cell and metric in both runs. `change` is the second's median over the first's, 1 when nothing changed."""

    cell: CellKey
    metric: RowMetric
    relative: bool  # the medians are ratios to native
    medians: tuple[float, float]
    change: float
    ci95: Interval
    p: float  # corrected

    @property
    def significant(self) -> bool:
        return self.p < SIGNIFICANT


def compare(first: Samples, second: Samples, baselines: Mapping[str, str | None]) -> list[Change]:
    """Every cell and metric that both runs have enough trusted values of. `baselines` maps subjects to native ones."""
    found = []
    for cell in first.cells():
        if cell.replica != 1:
            continue
        baseline = baselines.get(cell.subject)
        natives = [samples.counterpart(cell, baseline) for samples in (first, second)] if baseline else []
        for metric in (name for name in ROW_METRICS if METRICS[name].compared):
            # Where the native path has no such figure, as of sessions, the figures themselves are compared.
            beside = natives and all(
                samples.figures(native, metric, distrusted_too=True)
                for samples, native in zip((first, second), natives, strict=True)
            )
            against = natives[0] if beside else None
            a, b = (_values(samples, cell, against, metric) for samples in (first, second))
            if min(len(a), len(b)) >= FEWEST and median(a) > 0:
                found.append(_change(cell, metric, against is not None, a, b))
    if not found:
        return []
    corrected = scipy_stats.false_discovery_control([change.p for change in found])
    return [replace(change, p=float(p)) for change, p in zip(found, corrected, strict=True)]


def _values(samples: Samples, cell: CellKey, native: CellKey | None, metric: RowMetric) -> list[float]:
    """One for each build. Of a range, the end that was measured: a search that met its limit says that limit in both runs."""
    middle = samples.ratio(cell, native, metric) if native else samples.middle(cell, metric)
    medians = [bounds.median(build) for build in samples.by_build(middle.by_block)] if middle else []
    return [each.low or each.high for each in medians]


def _change(cell: CellKey, metric: RowMetric, relative: bool, a: list[float], b: list[float]) -> Change:
    generator = np.random.default_rng(SEED)
    resampled = [
        np.median(generator.choice(values, (RESAMPLES, len(values))), axis=1) for values in (np.asarray(a), np.asarray(b))
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = np.sort(np.nan_to_num(resampled[1] / resampled[0], nan=1.0, posinf=np.inf))  # of two failures: no change
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(changes, [tail, 1 - tail], method="nearest")
    return Change(
        cell=cell,
        metric=metric,
        relative=relative,
        medians=(median(a), median(b)),
        change=median(b) / median(a) if math.isfinite(median(a)) else 0.0 if math.isfinite(median(b)) else 1.0,
        ci95=(float(low), float(high)),
        p=float(scipy_stats.mannwhitneyu(a, b).pvalue),
    )
