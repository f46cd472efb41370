# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every page by its path. `http` asks for the path of a request, `export` for all that it writes: both get the same.

A path holds keys and never names of files: a run's key leads to a folder that the search has found, or to nothing.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.serve import changes, pages, trends
from diolkos_lab.serve.figures import Kind
from diolkos_lab.serve.index import KEY_LENGTH, Index, RunList
from diolkos_lab.serve.pages import Extent
from diolkos_lab.serve.replicated import Repeated
from diolkos_lab.serve.reports import Reports
from diolkos_lab.serve.run_details import Run

Status = Literal[200, 404, 422]
KEY = rf"[0-9a-f]{{{KEY_LENGTH}}}"
COMPARE = re.compile(rf"compare/({KEY})-({KEY})\.html")
TREND = re.compile(rf"trend/({KEY})(?:-({KEY}))?\.html")
RUN = re.compile(rf"run/({KEY})/(.{{1,200}})")
TYPES = {
    "html": "text/html; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "jsonl": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
}
NOT_FOUND = "There is no such page."


@dataclass(frozen=True)
class Page:
    content: bytes
    status: Status = 200
    kind: str = "html"
    # It comes from a result folder, whose owner may have put anything there.
    foreign: bool = False

    @property
    def type(self) -> str:
        return TYPES[self.kind]


@dataclass
class Site:
    """All pages about the runs of an index. May be asked by several threads: one page is made at a time."""

    title: str
    index: Index
    extent: Extent = field(default_factory=Extent)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._reports = Reports(self.index)
        self._repeated = Repeated(self.index)

    def page(self, path: str) -> Page:
        """Never raises for what a request or a folder holds: then the page is one sentence."""
        try:
            with self._lock:
                return self._page(path)
        except Fault as fault:
            return _message("This cannot be shown", f"{str(fault).rstrip('.')}.", path, 422)

    def _page(self, path: str) -> Page:
        if path in ("", "index.html"):
            return self._list()
        if found := COMPARE.fullmatch(path):
            return self._compare(found[1], found[2], path)
        if found := TREND.fullmatch(path):
            return self._trend(path)
        if (found := RUN.fullmatch(path)) and (run := self._run(found[1])):
            content = self._reports.file(run, found[2])
            if content is not None:
                return Page(content, kind=found[2].rpartition(".")[2], foreign=True)
        return _message("Not found", NOT_FOUND, path, 404)

    def _list(self) -> Page:
        found = self.index.listing()
        addresses = {study: trend_path(study, None) for study in _studies(found) if _has_statistics(study, found)}
        return _html(pages.listing(self.title, found, addresses, self.extent, self._repeated.studies(found)))

    def _compare(self, first: str, second: str, path: str) -> Page:
        runs = [self._run(key) for key in (first, second)]
        if runs[0] is None or runs[1] is None:
            return _message("Not found", NOT_FOUND, path, 404)
        if first == second:
            raise UsageFault(f"{runs[0].place} is compared with itself; choose two runs")
        found = changes.compare(self.index, runs[0], runs[1])
        return _html(pages.comparison(found, root(path), self.extent))

    def _trend(self, path: str) -> Page:
        """Of the figure that the path names, or of the first one of its study."""
        found = self.index.listing()
        study = next((each for each in _studies(found) if path.startswith(_trend_stem(each))), None)
        runs = [run for run in found.runs if run.study == study]
        kinds = self.kinds(runs[: trends.MOST_RUNS])
        if study is None or not kinds:
            return _message("Not found", NOT_FOUND, path, 404)
        addresses = [(each, trend_path(study, each)) for each in kinds]
        first = trend_path(study, None)
        kind = next((each for each, address in addresses if path in (address, first)), None)
        if kind is None:
            return _message("Not found", NOT_FOUND, path, 404)
        return _html(pages.trend(study, trends.trend(kind, runs, self.index.figures), addresses, root(path)))

    def kinds(self, runs: Sequence[Run]) -> list[Kind]:
        """What there are trends of."""
        return trends.kinds(self.index.figures(run) for run in runs)

    def _run(self, key: str) -> Run | None:
        """Listed before, or found when the folders are searched again."""
        run = self.index.run(key)
        if run is None:
            self.index.listing()
            run = self.index.run(key)
        return run


def compare_path(first: Run, second: Run) -> str:
    return f"compare/{first.key}-{second.key}.html"


def trend_path(study: str, kind: Kind | None) -> str:
    """Of the page of one figure of a study; without a figure that of its first one."""
    return _trend_stem(study) + (f"-{_key(kind.load, kind.metric, kind.unit)}" if kind else "") + ".html"


def _trend_stem(study: str) -> str:
    return f"trend/{_key(study)}"


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:KEY_LENGTH]


def root(path: str) -> str:
    """From a page back to the folder of the list."""
    return "../" * path.count("/")


def _studies(found: RunList) -> list[str]:
    return sorted({run.study for run in found.runs})


def _has_statistics(study: str, found: RunList) -> bool:
    return any(run.study == study and run.trusted is not None for run in found.runs)


def _html(text: str, status: Status = 200) -> Page:
    return Page(text.encode(), status)


def _message(title: str, sentence: str, path: str, status: Status) -> Page:
    return _html(pages.message(title, sentence, root(path)), status)
