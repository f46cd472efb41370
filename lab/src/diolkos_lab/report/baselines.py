# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A figure against the native path of each family, and against the one that asks more of it."""

from __future__ import annotations

from dataclasses import dataclass

from diolkos_lab.metric import named
from diolkos_lab.report.read import Results, Row
from diolkos_lab.report.systems import FAMILIES
from diolkos_lab.report.values import Ends, Interval, interval, number
from diolkos_lab.stats.pairing import CellKey, MedianOfBlocks


@dataclass(frozen=True)
class Against:
    """A ratio to one native path."""

    baseline: str  # as summary.json names it
    ratio: float
    ci: Interval | None

    @property
    def family(self) -> str:
        """ "IPv6"."""
        parts = self.baseline.split("/")
        return FAMILIES.get(parts[2], parts[2]) if len(parts) == 4 else "native"


def key_of(results: Results, row: Row) -> CellKey | None:
    """The row's cell among the samples; None where the trials are not there."""
    raw = row.raw
    subject = f"{raw.get('system')}/{raw.get('datapath')}/{raw.get('family')}/{raw.get('hops')}"
    for key in results.samples.cells():
        same = (key.subject, key.load, key.replica) == (subject, raw.get("load"), 1)
        if same and all(raw.get(name) == value for name, value in key.factors):
            return key
    return None


def in_blocks(results: Results, row: Row, baseline: str | None = None) -> MedianOfBlocks | None:
    """The ratio of a row within each block, to its own baseline or to another one."""
    metric, baseline = named(row.metric), baseline or row.baseline
    key = key_of(results, row) if metric and baseline else None
    if key is None or metric is None or baseline is None:
        return None
    return results.samples.ratio(key, results.samples.counterpart(key, baseline), metric.name)


def by_block(results: Results, row: Row) -> dict[int, Ends]:
    """What each block says of a row's ratio. Equal ends are a number."""
    found = in_blocks(results, row)
    return {block: (each.low, each.high) for block, each in found.by_block.items()} if found else {}


def families(results: Results, row: Row) -> list[Against]:
    """A trusted ratio to the native path of either family over as many hops; first the one that asks more of the system.

    One alone where the system is compared with one path only.
    """
    if row.ratio is None or not row.baseline or "ratio" in row.untrusted:
        return []
    found = [Against(row.baseline, row.ratio, row.ratio_ci95)]
    other, ratio = row.raw.get("other_baseline"), number(row.raw.get("other_ratio"))
    if isinstance(other, str) and ratio is not None and not row.cell.native:
        found.append(Against(other, ratio, interval(row.raw.get("other_ratio_ci95"))))
    return sorted(found, key=lambda each: each.ratio, reverse=not more_is_better(row))


def more_is_better(row: Row) -> bool:
    known = named(row.metric)
    return known is not None and known.ratio_is_share


def widened(results: Results, row: Row, ci: Interval) -> Interval:
    """The interval as rules take it: wider by what a path differs from its own twin, where that is more than chance."""
    floors = [f for f in results.noise_floor if (f.load, f.metric, f.cell.factors) == (row.load, row.metric, row.cell.factors)]
    bias = max((f.bias for f in floors), default=0.0)
    return ci[0] * (1 - bias), ci[1] * (1 + bias)
