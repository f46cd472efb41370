# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pages of `serve` as files that open without a server.

Comparisons are made here for a bounded number of pairs: the statistics of two runs need their samples, and there is one
implementation of them. Reports are made anew, since what stands in a folder may be anybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from diolkos_lab.faults import Fault
from diolkos_lab.report.quantities import count
from diolkos_lab.serve import replicated
from diolkos_lab.serve.index import Index, RunList
from diolkos_lab.serve.pages import Extent
from diolkos_lab.serve.reports import PAGE, SAMPLES, Reports
from diolkos_lab.serve.run_details import Run
from diolkos_lab.serve.site import Site, compare_path, trend_path
from diolkos_lab.serve.trends import MOST_RUNS

MOST_TRENDS = 300
Write = Callable[[str, bytes], None]
Say = Callable[[str], None]


def write(title: str, index: Index, pairs: int, reports: int, write: Write, say: Say) -> None:
    """All pages of the runs of an index."""
    found = index.listing()
    written = frozenset(_reports(index, chosen(found, reports), write, say))
    extent = Extent(reports=written, note="")
    compared = frozenset(_comparisons(Site(title, index, extent), found, pairs, write, say))
    site = Site(title, index, Extent(compared, written, _note(found, len(compared), len(written))))
    _trends(site, found, write, say)
    write("index.html", site.page("index.html").content)


def _reports(index: Index, runs: Sequence[Run], write: Write, say: Say) -> Iterator[str]:
    made = Reports(index)
    for number, run in enumerate(runs, start=1):
        say(f"Report {number} of {len(runs)}: {run.place}")
        try:
            for name, content in made.made(run).items():
                if name == PAGE or name.endswith((".pdf", ".csv")):
                    write(f"run/{run.key}/{name}", content)
            if (samples := made.file(run, SAMPLES)) is not None:
                write(f"run/{run.key}/{SAMPLES}", samples)
        except Fault as fault:
            say(f"No report: {fault}")
            continue
        yield run.key


def chosen(found: RunList, most: int) -> list[Run]:
    """The runs that get a report: the latest of each published study, to which the first page leads, then the newest."""
    first = [run for study in replicated.names() if (run := replicated.latest(found, study))]
    return [*first, *(run for run in found.runs if run not in first)][:most]


def _comparisons(site: Site, found: RunList, most: int, write: Write, say: Say) -> Iterator[str]:
    wanted = nearest(found.runs, most)
    for number, (first, second) in enumerate(wanted, start=1):
        say(f"Comparison {number} of {len(wanted)}: {first.place} and {second.place}")
        path = compare_path(first, second)
        page = site.page(path)
        if page.status == 200:
            write(path, page.content)
            yield f"{first.key}-{second.key}"


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


def _trends(site: Site, found: RunList, write: Write, say: Say) -> None:
    paths: dict[str, None] = {}
    for study in sorted({run.study for run in found.runs}):
        runs = [run for run in found.runs if run.study == study][:MOST_RUNS]
        paths |= dict.fromkeys([trend_path(study, None), *(trend_path(study, kind) for kind in site.kinds(runs))])
    for number, path in enumerate(list(paths)[:MOST_TRENDS], start=1):
        say(f"Trend {number} of {min(len(paths), MOST_TRENDS)}")
        page = site.page(path)
        if page.status == 200:
            write(path, page.content)


def _note(found: RunList, compared: int, reported: int) -> str:
    possible = len(nearest(found.runs, 10**9)) if len(found.runs) <= 1000 else None
    said = []
    if possible is None or compared < possible:
        said.append(f"{count(compared, 'comparison is', 'comparisons are')} in these files, of runs that are near in time.")
    if reported < len(found.runs):
        said.append(f"{count(reported, 'run has', 'runs have')} a report here.")
    return " ".join(said)
