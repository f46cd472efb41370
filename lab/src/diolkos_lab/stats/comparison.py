# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two runs of a study against each other: what changed, and is it more than chance?

Where a cell has a native baseline, its ratio within each block is compared rather than the raw figure: two runs on two days
or two machines differ in speed, which the ratio cancels. The test is Mann-Whitney's, which assumes no distribution, and the
interval holds the changes that it does not reject (`rank_test`); the one value that a build of the lanes gives is the median of
its blocks, since these have the build's luck in common. The p-values are corrected for the number of comparisons
(Benjamini-Hochberg), since one in twenty would differ by chance.

Where runs of several hosts were merged, each host is compared with itself (van Elteren's test, which joins Mann-Whitney's of
all hosts), and the change is the median of the hosts' changes. It is a statement on these hosts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from diolkos_lab.metric import METRICS, ROW_METRICS, RowMetric
from diolkos_lab.stats import bounds, rank_test
from diolkos_lab.stats.median import Interval, median
from diolkos_lab.stats.pairing import CellKey, Samples
from diolkos_lab.stats.rank_test import Strata

SIGNIFICANT = 0.05
FEWEST = 4  # values on each side; below, not even the most extreme order is significant


@dataclass(frozen=True)
class Change:
    """One cell and metric in both runs. `change` is how many times as large the second's values are, 1 when nothing changed:
    the median of the ratios of each to each, which lies within its interval."""

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
    first, second = (median([median(pair[side]) for pair in strata]) for side in (0, 1))
    change, ci95 = rank_test.ratio(strata)
    return Change(
        cell=cell,
        metric=metric,
        relative=relative,
        medians=(first, second),
        change=change,
        ci95=ci95,
        p=rank_test.chance(strata),
    )
