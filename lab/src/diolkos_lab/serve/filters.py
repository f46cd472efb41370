# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a list of runs can be filtered by: the values that its runs have, the most frequent ones first.

The browser does the filtering, over the rows of the page. So a page that is served and one in a file are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diolkos_lab.serve.run_details import Run

MOST = 200  # values of one filter


@dataclass(frozen=True)
class Filter:
    name: str
    title: str
    values: list[tuple[str, int]]  # with how many runs have them


def of_runs(runs: Sequence[Run], *, with_study: bool = True) -> list[Filter]:
    """One for each property that runs are told apart by."""
    study = [_filter("study", "Study", (run.study for run in runs))] if with_study else []
    return [
        *study,
        _filter("host", "Host", (run.host for run in runs)),
        _filter("kernel", "Kernel", (run.kernel for run in runs)),
        _filter("version", "Version of a system", (version for run in runs for version in run.versions)),
    ]


def _filter(name: str, title: str, values: Iterable[str]) -> Filter:
    return Filter(name, title, sorted(Counter(values).most_common(MOST)))
