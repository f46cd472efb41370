# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two runs of a study against each other: what changed, and is it more than chance?

Where a cell has a native baseline, its ratio within each block is compared rather than the raw figure: two runs on two days
or two machines differ in speed, which the ratio cancels. The test is Mann-Whitney's, which assumes no distribution; the
p-values are corrected for the number of comparisons (Benjamini-Hochberg), since one in twenty would differ by chance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from diolkos_lab.metric import METRICS, ROW_METRICS, RowMetric
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
        native = replace(cell, subject=baseline) if baseline else None
        for metric in (name for name in ROW_METRICS if METRICS[name].compared):
            # Where the native path has no such figure, as of sessions, the figures themselves are compared.
            beside = native and all(samples.values(native, metric, distrusted_too=True) for samples in (first, second))
            against = native if beside else None
            a, b = (_values(samples, cell, against, metric) for samples in (first, second))
            if min(len(a), len(b)) >= FEWEST and median(a) > 0:
                found.append(_change(cell, metric, against is not None, a, b))
    if not found:
        return []
    corrected = stats.false_discovery_control([change.p for change in found])
    return [replace(change, p=float(p)) for change, p in zip(found, corrected, strict=True)]


def _values(samples: Samples, cell: CellKey, native: CellKey | None, metric: RowMetric) -> list[float]:
    if native is None:
        return list(samples.values(cell, metric).values())
    ratio = samples.ratio(cell, native, metric)
    return list(ratio.by_block.values()) if ratio else []


def _change(cell: CellKey, metric: RowMetric, relative: bool, a: list[float], b: list[float]) -> Change:
    generator = np.random.default_rng(SEED)
    resampled = [
        np.median(generator.choice(values, (RESAMPLES, len(values))), axis=1) for values in (np.asarray(a), np.asarray(b))
    ]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled[1] / resampled[0], [tail, 1 - tail])
    return Change(
        cell=cell,
        metric=metric,
        relative=relative,
        medians=(median(a), median(b)),
        change=median(b) / median(a),
        ci95=(float(low), float(high)),
        p=float(stats.mannwhitneyu(a, b).pvalue),
    )
