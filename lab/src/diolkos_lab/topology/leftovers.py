# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a lab that was killed has left behind: namespaces whose owner no longer lives, and what still runs in them."""

from dataclasses import dataclass

from diolkos_lab.topology import namespace


@dataclass(frozen=True)
class Removed:
    """What `clean` took away."""

    namespaces: list[str]
    processes: list[int]


def find() -> list[str]:
    """Names of the namespaces that a dead lab owned. A running lab's are never listed."""
    return sorted(
        name
        for name in namespace.netns.listnetns(str(namespace.DIRECTORY))
        if (owner := namespace.owner_in_name(name)) and not owner.alive()
    )


def clean() -> Removed:
    """Remove every leftover. Doing it twice is harmless."""
    names = find()
    return Removed(names, namespace.remove(names))
