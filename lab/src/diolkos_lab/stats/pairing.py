# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Trials by cell and block, and the ratio of two cells within the same blocks.

The machine's mood drifts; what two systems did in the same block they did in the same mood. So the statistic is the ratio
within a block, and its median over the blocks. A block in which either trial is missing or distrusted gives no ratio.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.stats.median import Interval, interval, median

Record = Mapping[str, Any]  # one line of samples.jsonl
WARM_UP = 0


@dataclass(frozen=True)
class CellKey:
    """Names one cell in the samples. `subject` is `system/datapath/family/hops`."""

    subject: str
    load: LoadName
    factors: tuple[tuple[str, Any], ...]
    replica: int = 1

    @classmethod
    def of(cls, record: Record) -> "CellKey":
        subject = f"{record['system']}/{record['datapath']}/{record['family']}/{record['hops']}"
        return cls(subject, record["load"], tuple(sorted(record["factors"].items())), record.get("replica", 1))


@dataclass(frozen=True)
class Ratio:
    """Median over blocks of a ratio within the block, its 95 % interval (None below 6 blocks) and the single ratios."""

    median: float
    ci95: Interval | None
    by_block: dict[int, float]


class Samples:
    """The trials of a run without the warm-up block, looked up by cell."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._cells: dict[CellKey, list[Record]] = defaultdict(list)
        for record in records:
            if record["block"] != WARM_UP:
                self._cells[CellKey.of(record)].append(record)

    def cells(self) -> list[CellKey]:
        """All cells in the order of their first trial after sorting by name, so that output does not depend on the seed."""
        return sorted(self._cells, key=lambda key: (key.subject, key.load, repr(key.factors), key.replica))

    def trials(self, key: CellKey) -> list[Record]:
        return self._cells.get(key, [])

    def values(self, key: CellKey, metric: str, *, distrusted_too: bool = False) -> dict[int, float]:
        """Block to value, of the valid trials that have the metric; or of all that have it."""
        return {
            record["block"]: record["metrics"][metric]
            for record in self.trials(key)
            if (record["valid"] or distrusted_too) and metric in record["metrics"]
        }

    def ratio(self, key: CellKey, against: CellKey, metric: str, *, distrusted_too: bool = False) -> Ratio | None:
        """None when no block has both, or when what it is compared with is zero everywhere."""
        upper, lower = (self.values(cell, metric, distrusted_too=distrusted_too) for cell in (key, against))
        by_block = {block: upper[block] / lower[block] for block in sorted(upper.keys() & lower.keys()) if lower[block]}
        if not by_block:
            return None
        ratios = list(by_block.values())
        return Ratio(median(ratios), interval(ratios), by_block)
