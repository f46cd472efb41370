# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pages about the runs of an index as files that need no server: `export` keeps them, `serve` shows them.

Comparisons are made for a bounded number of pairs: the statistics of two runs need their samples, and there is one
implementation of them. Reports are made anew, since what stands in a folder may be anybody's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.report.quantities import count
from diolkos_lab.serve import changes, pages, reports, trends
from diolkos_lab.serve.figures import Kind
from diolkos_lab.serve.index import KEY_LENGTH, Index, RunList
from diolkos_lab.serve.pages import Extent
from diolkos_lab.serve.run_details import Run

MOST_TRENDS = 300
MOST_PAIRS, MOST_REPORTS = 50, 20  # unless more are asked for
ROOT = "../"  # from a page of a trend or a comparison to the folder of the list
Write = Callable[[str, bytes], None]
Say = Callable[[str], None]


def write(title: str, index: Index, most_pairs: int, most_reports: int, write: Write, say: Say) -> None:
    """All pages of the runs of an index. The list is written first, and again when there is more that it leads to."""
    found = index.listing
    addresses = {
        study: trend_path(study, None) for study in sorted({run.study for run in found.runs if run.trusted is not None})
    }

    def listing(extent: Extent) -> None:
        write("index.html", pages.listing(title, found, addresses, extent).encode())

    _trends(index, write, say)
    listing(Extent(note="Reports and comparisons are being made: load this page again."))
    reported = frozenset(_reports(index, found.runs[:most_reports], write, say))
    listing(Extent(reports=reported, note="Comparisons are being made: load this page again."))
    compared = list(_comparisons(index, most_pairs, reported, write, say))
    listing(Extent(compared, reported, _note(found, len(compared), len(reported))))


def _reports(index: Index, runs: Sequence[Run], write: Write, say: Say) -> Iterator[str]:
    for number, run in enumerate(runs, start=1):
        say(f"Report {number} of {len(runs)}: {run.place}")
        try:
            for name, content in reports.made(index, run).items():
                write(f"run/{run.key}/{name}", content)
        except Fault as fault:
            say(f"No report: {fault}")
            continue
        yield run.key


def _comparisons(index: Index, most: int, reported: frozenset[str], write: Write, say: Say) -> Iterator[tuple[Run, Run]]:
    wanted = nearest(index.listing.runs, most)
    for number, (first, second) in enumerate(wanted, start=1):
        say(f"Comparison {number} of {len(wanted)}: {first.place} and {second.place}")
        try:
            found = changes.compare(index, first, second)
        except UsageFault as fault:
            say(f"No comparison: {fault}")
            continue
        write(f"compare/{first.key}-{second.key}.html", pages.comparison(found, ROOT, reported).encode())
        yield first, second


def nearest(runs: Sequence[Run], most: int) -> list[tuple[Run, Run]]:
    """Pairs of runs of a study, the older one first: neighbours in time before those that are further apart."""
    studies: dict[str, list[Run]] = {}
    for run in reversed(runs):
        if run.whole:
            studies.setdefault(run.study, []).append(run)
    pairs: list[tuple[Run, Run]] = []
    for apart in range(1, max(map(len, studies.values()), default=0)):
        for each in studies.values():
            pairs += reversed(list(zip(each, each[apart:], strict=False)))  # the newest first
            if len(pairs) >= most:
                return pairs[:most]
    return pairs


def _trends(index: Index, write: Write, say: Say) -> None:
    """A page for each figure of each study; the study's own address leads to the first."""
    wanted: list[tuple[str, list[Run], Kind, list[tuple[Kind, str]], str]] = []
    for study in sorted({run.study for run in index.listing.runs}):
        runs = [run for run in index.listing.runs if run.study == study]
        kinds = trends.kinds(index.figures(run) for run in runs[: trends.MOST_RUNS])
        addresses = [(each, trend_path(study, each)) for each in kinds]
        wanted += [(study, runs, kind, addresses, trend_path(study, None)) for kind in kinds[:1]]
        wanted += [(study, runs, kind, addresses, path) for kind, path in addresses]
    for number, (study, runs, kind, addresses, path) in enumerate(wanted[:MOST_TRENDS], start=1):
        say(f"Trend {number} of {min(len(wanted), MOST_TRENDS)}")
        write(path, pages.trend(study, trends.trend(kind, runs, index.figures), addresses, ROOT).encode())


def trend_path(study: str, kind: Kind | None) -> str:
    """Of the page of one figure of a study; without a figure that of its first one."""
    return f"trend/{_key(study)}" + (f"-{_key(kind.load, kind.metric, kind.unit)}" if kind else "") + ".html"


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:KEY_LENGTH]


def _note(found: RunList, compared: int, reported: int) -> str:
    possible = len(nearest(found.runs, 10**9)) if len(found.runs) <= 1000 else None
    said = []
    if possible is None or compared < possible:
        said.append(f"{count(compared, 'comparison is', 'comparisons are')} in these files, of runs that are near in time.")
    if reported < len(found.runs):
        said.append(f"{count(reported, 'run has', 'runs have')} a report here.")
    return " ".join(said)
