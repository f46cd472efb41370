# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All runs of some folders, as a search found them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab import open_folder
from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.serve import figures, find_runs, run_details
from diolkos_lab.serve.figures import Figure
from diolkos_lab.serve.find_runs import Place
from diolkos_lab.serve.run_details import Run

KEY_LENGTH = 16  # characters of a run's name in addresses


@dataclass(frozen=True)
class RunList:
    """The runs, the newest first, and what was left out of the search."""

    runs: tuple[Run, ...]
    remarks: tuple[str, ...]


class Index:
    """The runs below some folders, which stay open."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Searches the folders. Raises UsageFault for one that is not there or cannot be read."""
        self._places: dict[str, tuple[int, Place]] = {}  # where the folder of each run is
        self._figures: dict[str, tuple[Figure, ...]] = {}
        with ExitStack() as stack:
            self._roots = [stack.enter_context(open_folder.to_read(folder)) for folder in folders]
            for root in self._roots:
                root.entries()
            self.listing = self._search()
            self._stack = stack.pop_all()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def figures(self, run: Run) -> tuple[Figure, ...]:
        """What its summary.json says; nothing where it is not there or damaged, which the list says."""
        if run.key not in self._figures:
            try:
                with self.folder(run) as folder:
                    found = figures.read(folder.read("summary.json", run_details.MOST_BYTES) or b"")
            except UsageFault:
                found = ()
            self._figures[run.key] = found
        return self._figures[run.key]

    @contextmanager
    def folder(self, run: Run) -> Iterator[OpenFolder]:
        """Its folder, open. Raises UsageFault when it is gone, or a link stands in its place."""
        with self._within(*self._places[run.key]) as opened:
            yield opened

    def _search(self) -> RunList:
        runs: list[Run] = []
        remarks: list[str] = []
        for number, root in enumerate(self._roots):
            searched = find_runs.search(root)
            remarks += searched.remarks
            for place in searched.found[: find_runs.MOST_RUNS - len(runs)]:
                key = _key(number, place)
                try:
                    with self._within(number, place) as opened:
                        runs.append(run_details.read(opened, key, self._shown(number, place)))
                except UsageFault as fault:  # it went away meanwhile, or became a link
                    remarks.append(f"{fault}.")
                    continue
                self._places[key] = number, place
        return RunList(tuple(sorted(runs, key=lambda run: (run.started, run.place), reverse=True)), tuple(remarks))

    @contextmanager
    def _within(self, number: int, place: Place) -> Iterator[OpenFolder]:
        with ExitStack() as stack:
            opened = self._roots[number]
            for name in place:
                opened = stack.enter_context(opened.within(name))
            yield opened

    def _shown(self, number: int, place: Place) -> str:
        whole = place if len(self._roots) == 1 and place else (self._roots[number].path.resolve().name, *place)
        return run_details.short(os.fsencode("/".join(whole)).decode("utf-8", "replace"))


def _key(number: int, place: Place) -> str:
    path = b"/".join(os.fsencode(name) for name in place)
    return hashlib.sha256(b"%d/%b" % (number, path)).hexdigest()[:KEY_LENGTH]
