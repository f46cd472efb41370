# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a lab that was killed has left behind: namespaces whose owner no longer lives, what still runs in them, its scratch, and
settings of the host that it has changed."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import netns

from diolkos_lab.topology import borrowed, namespace, scratch


@dataclass(frozen=True)
class Leftovers:
    """What a dead lab owned. A running lab's things are never listed."""

    namespaces: list[str]
    folders: list[Path]
    loans: list[tuple[Path, borrowed.Loan | None]]  # settings of the host

    def __bool__(self) -> bool:
        return bool(self.namespaces or self.folders or self.loans)


@dataclass(frozen=True)
class Removed(Leftovers):
    """What `clean` took away, and the process numbers of what still ran in the namespaces."""

    processes: list[int]
    given_back: list[str]  # settings of the host, in words


def find() -> Leftovers:
    names = [
        name
        for name in netns.listnetns(str(namespace.DIRECTORY))
        if (owner := namespace.owner_in_name(name)) and not owner.alive()
    ]
    return Leftovers(sorted(names), scratch.abandoned(), borrowed.abandoned())


def clean() -> Removed:
    """Remove every leftover. Doing it twice is harmless."""
    found = find()
    try:
        given_back = borrowed.restore(found.loans)  # while the devices are still where the notes say
    finally:
        processes = namespace.remove(found.namespaces)
        for folder in found.folders:
            shutil.rmtree(folder, ignore_errors=True)
    return Removed(found.namespaces, found.folders, found.loans, processes, given_back)
