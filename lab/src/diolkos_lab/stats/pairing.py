# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures by cell and block, and the ratio of two cells within the same blocks.

The machine's mood drifts; what two systems did in the same block they did in the same mood. So the statistic is the ratio
within a block, and its median over the blocks. A block in which guards object to either trial, or an instrument failed, gives
no ratio. One in which the system failed does: the worst that there is, as a system that fails now and then is worse than one
that does not. Where it is the baseline that failed, the ratio may be anything, which is a range like others (`stats.bounds`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.metric import METRICS, MetricName
from diolkos_lab.outcome import outcome
from diolkos_lab.stats import bounds, hierarchy
from diolkos_lab.stats import hosts as of_hosts
from diolkos_lab.stats.bounds import Bounds
from diolkos_lab.stats.median import CONFIDENCE, Interval

Record = Mapping[str, Any]  # one line of samples.jsonl
Origin = tuple[str, str]
Figures = dict[int, Bounds]  # block to what it says
WARM_UP = 0
SOURCED: MetricName = "rate"


@dataclass(frozen=True)
class CellKey:
    """Names one cell in the samples. `subject` is `system/datapath/family/hops`."""

    subject: str
    load: LoadName
    factors: tuple[tuple[str, Any], ...]
    replica: int = 1

    @classmethod
    def from_record(cls, record: Record) -> "CellKey":
        subject = f"{record['system']}/{record['datapath']}/{record['family']}/{record['hops']}"
        return cls(subject, record["load"], tuple(sorted(record["factors"].items())), record.get("replica", 1))


@dataclass(frozen=True)
class MedianOfBlocks:
    """Median over blocks, its 95 % interval (None where there are too few blocks or builds), and what each block says."""

    median: Bounds
    ci95: Interval | None
    by_block: Figures


class Source(Protocol):
    """A cell whose figures are made of many trials each, as the PDR of a block's curve is."""

    @property
    def key(self) -> CellKey: ...
    @property
    def records(self) -> Sequence[Record]: ...
    def figures(self, *, include_untrusted: bool = False) -> Figures: ...


class Samples:
    """The trials of a run without the warm-up block, looked up by cell."""

    def __init__(self, records: Iterable[Record], sources: Iterable[Source] = ()) -> None:
        """`sources` are the cells whose figures do not stand in single records; their one metric is `rate`."""
        self._sources = {source.key: source for source in sources}
        self._cells: dict[CellKey, list[Record]] = defaultdict(list)
        self._builds: dict[int, int] = {}
        self._by_subject: dict[tuple[str, LoadName, int], list[CellKey]] | None = None
        self._origins: dict[int, Origin] = {}
        for source in self._sources.values():
            self._builds |= {record["block"]: build_of(record) for record in source.records}
            self._origins |= {record["block"]: origin_of(record) for record in source.records}
        for record in records:
            block = record["block"]
            if block != WARM_UP:
                self._cells[CellKey.from_record(record)].append(record)
                self._builds[block] = build_of(record)
                self._origins[block] = origin_of(record)

    def cells(self) -> list[CellKey]:
        """All cells in the order of their first trial after sorting by name, so that output does not depend on the seed."""
        return list(self._in_order)

    @cached_property
    def _in_order(self) -> list[CellKey]:
        return sorted((*self._cells, *self._sources), key=lambda key: (key.subject, key.load, repr(key.factors), key.replica))

    def counterpart(self, key: CellKey, subject: str) -> CellKey:
        """The cell of another subject that was measured as this one was: the same load, and the same levels of all factors
        that it has. A system's factors are not those of the path that it is compared with."""
        mine = set(key.factors)
        found = (each for each in self._of(subject, key.load, key.replica) if set(each.factors) <= mine)
        return max(found, key=lambda each: len(each.factors), default=replace(key, subject=subject))

    def _of(self, subject: str, load: LoadName, replica: int) -> list[CellKey]:
        if self._by_subject is None:
            self._by_subject = defaultdict(list)
            for each in (*self._cells, *self._sources):
                self._by_subject[each.subject, each.load, each.replica].append(each)
        return self._by_subject.get((subject, load, replica), [])

    def trials(self, key: CellKey) -> Sequence[Record]:
        return self._sources[key].records if key in self._sources else self._cells.get(key, [])

    def figures(self, key: CellKey, metric: MetricName, *, include_untrusted: bool = False) -> Figures:
        """What each block says of the metric: the first trial that no guard objects to, or else, where untrusted trials
        are wanted too, the last."""
        if key in self._sources:
            return self._sources[key].figures(include_untrusted=include_untrusted) if metric == SOURCED else {}
        found: Figures = {}
        for record in self.trials(key):
            block = record["block"]
            wanted = include_untrusted or (outcome(record).counts and block not in found)
            if wanted and (figure := _figure(record, metric)):
                found[block] = figure
        return found

    def median(self, key: CellKey, metric: MetricName, *, include_untrusted: bool = False) -> MedianOfBlocks | None:
        """None when no block says anything."""
        return self._median(self.figures(key, metric, include_untrusted=include_untrusted))

    def ratio(
        self, key: CellKey, against: CellKey, metric: MetricName, *, include_untrusted: bool = False
    ) -> MedianOfBlocks | None:
        """None when no block has both, or both failed in all that have."""
        upper, lower = (self.figures(cell, metric, include_untrusted=include_untrusted) for cell in (key, against))
        both = sorted(upper.keys() & lower.keys())
        return self._median({block: ratio for block in both if (ratio := upper[block].ratio_to(lower[block]))})

    @property
    def hosts(self) -> list[str]:
        """Those that the runs were on; one without a name where there is one run."""
        return list(dict.fromkeys(host for host, _ in self._origins.values()))

    @property
    def runs(self) -> int:
        return len(set(self._origins.values()))

    def of_host(self, figures: Figures, host: str) -> Figures:
        return {block: figure for block, figure in figures.items() if self._origins[block][0] == host}

    def by_host(self, figures: Figures) -> list[of_hosts.Host]:
        """The blocks by host, run and build."""
        runs: dict[Origin, Figures] = defaultdict(dict)
        for block, figure in figures.items():
            runs[self._origins[block]][block] = figure
        found: dict[str, list[of_hosts.Run]] = defaultdict(list)
        for (host, _), run in runs.items():
            found[host].append(self.by_build(run))
        return list(found.values())

    def by_build(self, figures: Figures) -> list[list[Bounds]]:
        """The same, the blocks of one build of the lanes together."""
        builds: dict[int, list[Bounds]] = defaultdict(list)
        for block, figure in figures.items():
            builds[self._builds[block]].append(figure)
        return list(builds.values())

    def said_by_build(self, figures: Figures) -> Figures:
        """The first block of each build, and the median of the build's blocks."""
        builds: dict[int, Figures] = defaultdict(dict)
        for block, figure in figures.items():
            builds[self._builds[block]][block] = figure
        first = {build: min(block for block, of in self._builds.items() if of == build) for build in builds}
        return {first[build]: bounds.median(list(blocks.values())) for build, blocks in builds.items()}

    def interval(self, figures: Figures, confidence: float = CONFIDENCE) -> Interval | None:
        """Of their median, at another confidence than 95 %, too."""
        hosts = self._several(figures)
        if hosts:
            return of_hosts.interval(hosts, confidence)
        return hierarchy.interval(self.by_build(figures), confidence)

    def _median(self, figures: Figures) -> MedianOfBlocks | None:
        if not figures:
            return None
        hosts = self._several(figures)
        middle = of_hosts.median_over_hosts(hosts) if hosts else hierarchy.middle(self.by_build(figures))
        return MedianOfBlocks(middle, self.interval(figures), figures)

    def _several(self, figures: Figures) -> list[of_hosts.Host]:
        """The hosts and runs that have these blocks; none where there is one run."""
        hosts = self.by_host(figures) if self.runs > 1 else []
        return hosts if len(hosts) > 1 or (hosts and len(hosts[0]) > 1) else []


def origin_of(record: Record) -> Origin:
    """Host and run; both without a name where the folder holds a single run."""
    return record.get("host", ""), record.get("run", "")


def build_of(record: Record) -> int:
    """The build of the lanes that a trial was made on. Where a folder does not say it, each block counts as one of its own."""
    build: int = record.get("build", record["block"])
    return build


def _figure(record: Record, metric: MetricName) -> Bounds | None:
    """What one trial says; None where it says nothing of this metric."""
    if record.get("error") is not None:
        better = METRICS[metric].better
        return bounds.failed(better) if better else None
    if metric in record.get("bounds", {}):
        low, high = record["bounds"][metric]
        return Bounds(low, float("inf") if high is None else high)
    return bounds.exactly(record["metrics"][metric]) if metric in record["metrics"] else None
