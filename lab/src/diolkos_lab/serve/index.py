# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All runs of some folders. What was read stays in memory, and is read again when its files have changed."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from diolkos_lab import open_folder
from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.serve import figures, find_runs, run_details
from diolkos_lab.serve.figures import Figure
from diolkos_lab.serve.find_runs import Found, Place, Signature
from diolkos_lab.serve.run_details import Run

KEY_LENGTH = 16  # characters of a run's name in addresses


@dataclass(frozen=True)
class RunList:
    """The runs, the newest first, and what was left out of the search."""

    runs: tuple[Run, ...]
    remarks: tuple[str, ...]


class Index:
    """The runs below some folders, which stay open. May be asked by several threads."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises UsageFault for a folder that is not there or cannot be read."""
        with ExitStack() as stack:
            self._roots = [stack.enter_context(open_folder.to_read(folder)) for folder in folders]
            for root in self._roots:
                root.entries()
            self._stack = stack.pop_all()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Signature, Run]] = {}
        self._places: dict[str, tuple[int, Place]] = {}  # where the folder of each run is
        self._figures: dict[str, tuple[Run, tuple[Figure, ...]]] = {}

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def listing(self) -> RunList:
        """Searches the folders again, and reads what is new or has changed."""
        with self._lock:
            runs: list[Run] = []
            remarks: list[str] = []
            known: dict[str, tuple[Signature, Run]] = {}
            places: dict[str, tuple[int, Place]] = {}
            for number, root in enumerate(self._roots):
                searched = find_runs.search(root)
                remarks += searched.remarks
                for found in searched.found[: find_runs.MOST_RUNS - len(runs)]:
                    key = _key(number, found.place)
                    try:
                        run = self._run(root, number, found, key)
                    except UsageFault as fault:  # it went away meanwhile, or became a link
                        remarks.append(f"{fault}.")
                        continue
                    known[key], places[key] = (found.signature, run), (number, found.place)
                    runs.append(run)
            self._known, self._places = known, places
            self._figures = {key: kept for key, kept in self._figures.items() if key in known}
        return RunList(tuple(sorted(runs, key=lambda run: (run.started, run.place), reverse=True)), tuple(remarks))

    def run(self, key: str) -> Run | None:
        """A run that was listed. A key is an address and never a path: nothing but what the search found has one."""
        with self._lock:
            found = self._known.get(key)
        return found[1] if found else None

    def figures(self, run: Run) -> tuple[Figure, ...]:
        """What its summary.json says; nothing where it is not there or damaged, which the list says."""
        kept = self._figures.get(run.key)
        if kept and kept[0] is run:
            return kept[1]
        try:
            with self.folder(run) as folder:
                found = figures.read(folder.read("summary.json", run_details.MOST_BYTES) or b"")
        except UsageFault:
            found = ()
        self._figures[run.key] = run, found
        return found

    @contextmanager
    def folder(self, run: Run) -> Iterator[OpenFolder]:
        """Its folder, open. Raises UsageFault when it is gone, or a link stands in its place."""
        with self._lock:
            if run.key not in self._places:
                raise UsageFault(f"{run.place}: is not there any more")
            number, place = self._places[run.key]
        with ExitStack() as stack:
            opened = self._roots[number]
            for name in place:
                opened = stack.enter_context(opened.within(name))
            yield opened

    def _run(self, root: OpenFolder, number: int, found: Found, key: str) -> Run:
        signature, run = self._known.get(key, (None, None))
        if run and signature == found.signature:
            return replace(run, reported=found.reported) if run.reported != found.reported else run
        with ExitStack() as stack:
            opened = root
            for name in found.place:
                opened = stack.enter_context(opened.within(name))
            return run_details.read(opened, key, self._shown(number, found.place), found.reported)

    def _shown(self, number: int, place: Place) -> str:
        whole = place if len(self._roots) == 1 and place else (self._roots[number].path.resolve().name, *place)
        return run_details.short(os.fsencode("/".join(whole)).decode("utf-8", "replace"))


def _key(number: int, place: Place) -> str:
    path = b"/".join(os.fsencode(name) for name in place)
    return hashlib.sha256(b"%d/%b" % (number, path)).hexdigest()[:KEY_LENGTH]
