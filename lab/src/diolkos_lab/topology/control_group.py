# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One control group (cgroups(7), version 2) for each role of a lane: the kernel counts the CPU time of all that runs in it,
children, daemons that leave their parents and ended processes included.

Stages: find where groups can be made → make → programs enter before they start → read `cpu.stat` → kill → remove.
Every group has `cpu.stat`, with or without controllers, so nothing here changes how CPU time is shared out. A group is made
below that of the lab itself. Where the host has no version 2, or it cannot be written, the process tree is walked instead: it
loses daemons that leave their parents.
"""

import contextlib
import functools
import os
import re
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from diolkos_lab.topology import namespace, processes

if TYPE_CHECKING:
    from diolkos_lab.topology.process import Process

Role = Literal["client", "system", "server"]
ROLES: tuple[Role, ...] = ("client", "system", "server")
PROCS = "cgroup.procs"
PATIENCE_S = 3.0
_ENTER = 'echo 0 >"$0" && exec "$@"'
_current: ContextVar["Group | None"] = ContextVar("group of the programs that are started", default=None)


class Group(ABC):
    """What one role of a lane runs."""

    @abstractmethod
    def usage_s(self) -> float:
        """CPU time of all that runs or ran in it, in seconds."""

    def here_s(self) -> float:
        """The part of it that CPUs of this machine spent."""
        return self.usage_s()

    @abstractmethod
    def members(self) -> set[int]:
        """Process numbers of what runs in it now, on this machine."""

    def entering(self, command: Sequence[str]) -> list[str]:
        """The command, which enters the group first."""
        return list(command)

    def adopt(self, process: "Process") -> None:  # noqa: B027  # a control group knows what is in it
        """A process of the role was started."""

    def kill(self) -> None:
        """Everything that runs in it. Returns when nothing does, or after three seconds."""
        deadline = time.monotonic() + PATIENCE_S
        while (inside := self.members()) and time.monotonic() < deadline:
            for pid in inside:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def remove(self) -> None:
        """Kill what runs in it, and take it away."""
        self.kill()


class ControlGroup(Group):
    def __init__(self, path: Path) -> None:
        """Make it. Raises OSError."""
        self.path = path
        path.mkdir()

    def usage_s(self) -> float:
        return _usage_s((self.path / "cpu.stat").read_text())

    def members(self) -> set[int]:
        return _members(self.path)

    def entering(self, command: Sequence[str]) -> list[str]:
        # Whoever starts the command might be late: it could have children already.
        return ["sh", "-c", _ENTER, str(self.path / PROCS), *command]

    def remove(self) -> None:
        remove([self.path])


class ProcessTree(Group):
    """The processes of a role with their descendants, as /proc has them."""

    def __init__(self) -> None:
        self._running: list[Process] = []
        self._ended_s = 0.0

    def adopt(self, process: "Process") -> None:
        self._running.append(process)

    def usage_s(self) -> float:
        living = []
        for process in self._running:
            if process.exit_status is None:
                living.append(process)
            else:
                self._ended_s += process.usage_s  # with the children that it waited for
        self._running = living
        return self._ended_s + self._living_s(living)

    def _living_s(self, living: Sequence["Process"]) -> float:
        table = processes.read()
        tree = processes.family(table, [process.pid for process in living])
        return sum(table[key].cpu_s + table[key].children_s for key in tree)

    def members(self) -> set[int]:
        living = [process.pid for process in self._running if process.exit_status is None]
        return {pid for pid, _ in processes.family(processes.read(), living)} if living else set()


def make(lane: str, role: Role) -> Group:
    """A control group of the lane's role where one can be made, otherwise the process tree."""
    if not (parent := writable()):
        return ProcessTree()
    return ControlGroup(parent / namespace.full_name(namespace.Owner.me(), lane, role))


@contextlib.contextmanager
def entered(group: Group | None) -> Iterator[None]:
    """Programs that are started here within a `with` block belong to the group."""
    token = _current.set(group)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Group | None:
    return _current.get()


def root() -> Path | None:
    """Where control groups of version 2 are mounted; None where they are not."""
    with contextlib.suppress(OSError):
        # proc_pid_mountinfo(5): … mount point, options … - type, source, options
        found = re.search(r"^(?:\S+ ){4}(\S+) .* - cgroup2 ", Path("/proc/self/mountinfo").read_text(), re.MULTILINE)
        return Path(found[1]) if found else None
    return None


@functools.cache
def writable() -> Path | None:
    """The lab's own group if groups can be made and entered below it; None where they cannot. Tried once."""
    with contextlib.suppress(OSError):
        own = re.search(r"^0::(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
        if (mounted := root()) and own:
            parent = mounted / own[1].lstrip("/")
            path = parent / namespace.full_name(namespace.Owner.me(), "try", "client")
            path.mkdir()
            try:
                _usage_s((path / "cpu.stat").read_text())
                entered_it = subprocess.run(
                    ["sh", "-c", _ENTER, str(path / PROCS), "true"], stderr=subprocess.DEVNULL, check=False
                )
            finally:
                remove([path])
            return None if entered_it.returncode else parent
    return None


def abandoned() -> list[Path]:
    """Groups of labs that no longer run, wherever they were made."""
    mounted = root()
    if not mounted:
        return []
    named = (Path(folder, name) for folder, names, _ in os.walk(mounted) for name in names if name.startswith(namespace.PREFIX))
    return sorted(path for path in named if (owner := namespace.owner_in_name(path.name)) and not owner.alive())


def remove_own() -> None:
    """Remove whatever this process still has: a signal can come between the making of a group and its noting down."""
    if parent := writable():
        me = namespace.Owner.me()
        remove([path for path in parent.glob(f"{namespace.PREFIX}-*") if namespace.owner_in_name(path.name) == me])


def remove(paths: Sequence[Path]) -> list[int]:
    """Kill what runs in the groups, then take them away; one that is gone is no error. Returns the numbers of the killed."""
    killed: set[int] = set()
    for path in paths:
        deadline = time.monotonic() + PATIENCE_S
        while path.exists() and time.monotonic() < deadline:
            for pid in _members(path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            try:
                for folder, _, _ in os.walk(path, topdown=False):  # what runs in it may have made groups of its own
                    Path(folder).rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # busy until the last one is gone
                time.sleep(0.005)
    return sorted(killed)


def _usage_s(stat: str) -> float:
    return int(re.search(r"^usage_usec (\d+)$", stat, re.MULTILINE)[1]) / 1e6  # type: ignore[index]


def _members(path: Path) -> set[int]:
    found: set[int] = set()
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            found.update(int(line) for line in Path(folder, PROCS).read_text().split())
    return found
