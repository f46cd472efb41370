# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a lab that was killed has left behind: namespaces and control groups whose owner no longer lives, what still runs in
them, its scratch, and settings of the host that it has changed."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import netns

from diolkos_lab.topology import control_group, namespace, saved_settings, scratch


@dataclass(frozen=True)
class Leftovers:
    """What a dead lab owned. A running lab's things are never listed."""

    namespaces: list[str]
    folders: list[Path]
    saved_settings: list[tuple[Path, saved_settings.SavedSetting | None]]  # settings of the host
    groups: list[Path]  # control groups

    def __bool__(self) -> bool:
        return bool(self.namespaces or self.folders or self.saved_settings or self.groups)


@dataclass(frozen=True)
class Removed(Leftovers):
    """What `clean` took away, and the process numbers of what still ran in namespaces and groups."""

    processes: list[int]
    restored: list[str]  # settings of the host, in words


def find() -> Leftovers:
    names = [
        name
        for name in netns.listnetns(str(namespace.DIRECTORY))
        if (owner := namespace.owner_in_name(name)) and not owner.alive()
    ]
    return Leftovers(sorted(names), scratch.abandoned(), saved_settings.abandoned(), control_group.abandoned())


def clean() -> Removed:
    """Remove every leftover. Doing it twice is harmless."""
    found = find()
    try:
        restored = saved_settings.restore_all(found.saved_settings)  # while the devices are still where the notes say
    finally:
        processes = sorted({*namespace.remove(found.namespaces), *control_group.remove(found.groups)})
        for folder in found.folders:
            shutil.rmtree(folder, ignore_errors=True)
    return Removed(found.namespaces, found.folders, found.saved_settings, found.groups, processes, restored)
