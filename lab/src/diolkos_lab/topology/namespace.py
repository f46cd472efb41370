# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Network namespaces that can be recognised as ours, entered, listened to and removed.

Stages: name (who owns it) → create → enter → remove (with whatever still runs inside).
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute, netns

from diolkos_lab.topology.remote import cleanup

DIRECTORY = Path("/run/netns")
PREFIX = "dklab"
SELF = "/proc/thread-self/ns/net"


@dataclass(frozen=True)
class Owner:
    """The lab process a namespace belongs to. The start time tells a living owner from a reused process number."""

    pid: int
    started: int  # clock ticks since boot, field 22 of /proc/PID/stat (proc(5))

    @classmethod
    def of(cls, pid: int) -> "Owner | None":
        """The owner record of a process, or None when no such process lives (a zombie counts as dead)."""
        try:
            # The command in field 2 may hold blanks and brackets; the fields after the last bracket are plain.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @classmethod
    def me(cls) -> "Owner":
        owner = cls.of(os.getpid())
        assert owner is not None
        return owner

    def alive(self) -> bool:
        return Owner.of(self.pid) == self


def full_name(owner: Owner, lane: str, role: str) -> str:
    return f"{PREFIX}-{owner.pid}-{owner.started}-{lane}-{role}"


def owner_in_name(name: str) -> Owner | None:
    """The owner that a namespace's name carries, or None when the namespace is not one of the lab's."""
    parts = name.split("-", 4)
    if len(parts) != 5 or parts[0] != PREFIX or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return Owner(int(parts[1]), int(parts[2]))


def create(name: str) -> None:
    """Make the namespace in this process: a forked helper would share our signal handlers and could clean up for us."""
    with _back_home():
        netns.setns(name, flags=os.O_CREAT | os.O_EXCL, fork=False)


@contextlib.contextmanager
def entered(name: str) -> Iterator[None]:
    """The calling thread is inside the namespace for the length of a `with` block."""
    with _back_home():
        netns.setns(name, flags=0)
        yield


@contextlib.contextmanager
def netlink(name: str) -> Iterator[IPRoute]:
    """rtnetlink of the namespace, without a helper process."""
    with entered(name), IPRoute() as route:
        yield route


@contextlib.contextmanager
def _back_home() -> Iterator[None]:
    home = os.open(SELF, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        netns.setns(home)
        os.close(home)


def processes_inside(names: Collection[str]) -> list[int]:
    """Process numbers of everything that runs in any of the namespaces."""
    return cleanup.processes_in(names)


def remove(names: list[str], patience_s: float = 3.0) -> list[int]:
    """Kill what runs inside the namespaces, then remove them; their devices, routes and programs go with them.

    Returns the process numbers that had to be killed. A name that is already gone is no error.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + patience_s
    while (inside := processes_inside(set(names))) and time.monotonic() < deadline:
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.update(inside)
        time.sleep(0.02)
    for name in names:
        if (DIRECTORY / name).exists():
            if name.endswith(f"-{cleanup.NICS}-{cleanup.NICS}"):
                cleanup.return_nics(name)
            # Two runs that begin at once remove what a third one has left.
            with contextlib.suppress(FileNotFoundError):
                netns.remove(name)
    return sorted(killed)


def remove_own() -> None:
    """Remove whatever this process still has: a signal can come between the making of a namespace and its noting down."""
    me = Owner.me()
    remove([name for name in netns.listnetns(str(DIRECTORY)) if owner_in_name(name) == me])
