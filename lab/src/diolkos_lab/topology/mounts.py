# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Mounts of a program's own, which nobody else sees: the host's files stay as they are.

A new mount namespace may still share what is mounted with the one it comes from, so that has to be ended first, at `/`. In
a chroot `/` is no mount, and whatever it lies on cannot be named; there the program gets the same files once more, by a
mount below /proc, which can be.
"""

from collections.abc import Sequence

_PRIVATE = """
mount --make-rprivate / 2>/dev/null && exec "$@"
mount --make-private /proc && mount --rbind / /proc/fs && mount --make-rprivate /proc/fs || exit
exec chroot /proc/fs env --chdir "$PWD" "$@"
"""


def own(command: Sequence[str]) -> list[str]:
    """The command, whose mounts are its own. It ends with mount(8)'s code where that cannot be had."""
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", _PRIVATE, "sh", *command]
