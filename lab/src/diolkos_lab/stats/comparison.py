# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two runs of a study against each other: what changed, and is it more than chance?

Where a cell has a native baseline, its ratio within each block is compared rather than the raw figure: two runs on two days
or two machines differ in speed, which the ratio cancels. The test is Mann-Whitney's, which assumes no distribution; the
one value that a build of the lanes gives is the median of its blocks, since these have the build's luck in common. The
p-values are corrected for the number of comparisons (Benjamini-Hochberg), since one in twenty would differ by chance.

Where runs of several hosts were merged, each host is compared with itself (van Elteren's test, which joins Mann-Whitney's of
all hosts), and the change is the median of the hosts' changes. It is a statement on these hosts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diolkos_lab.metric import METRICS, ROW_METRICS, RowMetric
from diolkos_lab.stats import bounds
from diolkos_lab.stats.median import CONFIDENCE, Interval, median
from diolkos_lab.stats.pairing import CellKey, Samples

SIGNIFICANT = 0.05
FEWEST = 4  # values on each side; below, not even the most extreme order is significant
RESAMPLES = 5000
SEED = 20110901  # the bootstrap is repeatable

Strata = Sequence[tuple[list[float], list[float]]]  # by host: the values of both runs


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


def compare(
    first: Samples,
    second: Samples,
    baselines: Mapping[str, str | None],
    pairs: Sequence[tuple[str, str]] = (("", ""),),
) -> list[Change]:
    """Every cell and metric that both runs have enough trusted values of. `baselines` maps subjects to native ones, `pairs` are
    the hosts that are compared, as both name them; without a name: the only one."""
    found = []
    for cell in first.cells():
        if cell.replica != 1:
            continue
        baseline = baselines.get(cell.subject)
        natives = [samples.counterpart(cell, baseline) for samples in (first, second)] if baseline else []
        for metric in (name for name in ROW_METRICS if METRICS[name].compared):
            # Where the native path has no such figure, as of sessions, the figures themselves are compared.
            beside = natives and all(
                samples.figures(native, metric, include_untrusted=True)
                for samples, native in zip((first, second), natives, strict=True)
            )
            against = natives[0] if beside else None
            values = [
                (_values(first, cell, against, metric, one), _values(second, cell, against, metric, two)) for one, two in pairs
            ]
            strata = [(a, b) for a, b in values if min(len(a), len(b)) >= FEWEST and median(a) > 0]
            if strata:
                found.append(_change(cell, metric, against is not None, strata))
    if not found:
        return []
    return [replace(change, p=p) for change, p in zip(found, corrected([change.p for change in found]), strict=True)]


def corrected(p: Sequence[float]) -> list[float]:
    """For their number, by Benjamini-Hochberg."""
    from scipy import stats as scipy_stats  # noqa: PLC0415  most of a second, which a report need not wait

    return [float(each) for each in scipy_stats.false_discovery_control(p)] if p else []


def _values(samples: Samples, cell: CellKey, native: CellKey | None, metric: RowMetric, host: str) -> list[float]:
    """One for each build. Of a range, the end that was measured: a search that met its limit says that limit in both runs."""
    middle = samples.ratio(cell, native, metric) if native else samples.median(cell, metric)
    figures = samples.of_host(middle.by_block, host) if middle else {}
    return [each.low or each.high for each in map(bounds.median, samples.by_build(figures)) if each != bounds.UNKNOWN]


def _change(cell: CellKey, metric: RowMetric, relative: bool, strata: Strata) -> Change:
    generator = np.random.default_rng(SEED)
    drawn, changes = [], []
    for pair in strata:
        resampled = [np.median(generator.choice(each, (RESAMPLES, len(each))), axis=1) for each in map(np.asarray, pair)]
        with np.errstate(divide="ignore", invalid="ignore"):
            # Of two failures: no change.
            drawn.append(np.nan_to_num(resampled[1] / resampled[0], nan=1.0, posinf=np.inf))
        before, after = map(median, pair)
        changes.append(after / before if math.isfinite(before) else 0.0 if math.isfinite(after) else 1.0)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.sort(np.median(drawn, axis=0)), [tail, 1 - tail], method="nearest")
    first, second = (median([median(pair[side]) for pair in strata]) for side in (0, 1))
    return Change(
        cell=cell,
        metric=metric,
        relative=relative,
        medians=(first, second),
        change=median(changes),
        ci95=(float(low), float(high)),
        p=chance(strata),
    )


def chance(strata: Strata) -> float:
    """Mann-Whitney's p; of several hosts, van Elteren's: rank sums weighted by 1/(n + m + 1), as normal deviate."""
    from scipy import stats as scipy_stats  # noqa: PLC0415

    tests = [scipy_stats.mannwhitneyu(a, b) for a, b in strata]
    if len(strata) == 1:
        return float(tests[0].pvalue)
    beyond, variance = 0.0, 0.0
    for (a, b), test in zip(strata, tests, strict=True):
        n, m = len(a), len(b)
        ties = scipy_stats.tiecorrect(scipy_stats.rankdata([*a, *b]))
        beyond += (test.statistic - n * m / 2) / (n + m + 1)
        variance += ties * n * m / 12 / (n + m + 1)
    return float(2 * scipy_stats.norm.sf(abs(beyond) / math.sqrt(variance))) if variance else 1.0
