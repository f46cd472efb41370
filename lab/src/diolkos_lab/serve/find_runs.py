# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Result folders below a folder, found within bounds. No link is followed, so that nothing outside is found."""

from __future__ import annotations

from dataclasses import dataclass, field

from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder

DEEPEST = 8  # levels below the folder
MOST_FOLDERS = 20_000
MOST_RUNS = 5_000
MOST_REMARKS = 20
MARKS = ("samples.jsonl", "summary.json")  # a folder that has one of them holds a run
EXPORT = "export.json"  # marks what `export` has written, which holds copies of samples

Place = tuple[str, ...]  # names of folders, from the root on


@dataclass
class FolderSearch:
    """One search. `remarks` say what was left out, a sentence each."""

    found: list[Place] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    folders: int = 0

    def note(self, sentence: str) -> None:
        if sentence not in self.remarks and len(self.remarks) < MOST_REMARKS:
            self.remarks.append(sentence)

    def full(self) -> bool:
        for count, most, what in ((self.folders, MOST_FOLDERS, "folders"), (len(self.found), MOST_RUNS, "runs")):
            if count >= most:
                self.note(f"The search ended after {most} {what}: name a folder that holds fewer.")
                return True
        return False


def search(root: OpenFolder) -> FolderSearch:
    """All result folders in `root`, itself included. A result folder is not searched for others."""
    walk = FolderSearch()
    _search(root, (), walk)
    return walk


def _search(folder: OpenFolder, place: Place, walk: FolderSearch) -> None:
    walk.folders += 1
    try:
        entries = {entry.name: entry for entry in folder.entries()}
        if EXPORT in entries:
            return
        if any(name in entries for name in MARKS):
            walk.found.append(place)
            return
        inner = [name for name, entry in entries.items() if not name.startswith(".") and entry.is_dir(follow_symlinks=False)]
    except (UsageFault, OSError) as error:
        walk.note(f"{folder.path} was left out: {error}.")
        return
    if inner and len(place) >= DEEPEST:
        walk.note(f"The folders in {folder.path} were not searched: they are more than {DEEPEST} levels deep.")
        return
    for name in inner:
        if walk.full():
            return
        try:
            with folder.within(name) as opened:
                _search(opened, (*place, name), walk)
        except UsageFault as fault:
            walk.note(f"{fault}.")
