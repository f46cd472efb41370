# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program that runs on the router's machine, as `topology.process.Process` is one that runs here.

It counts as ended when the machine is gone: whoever waits for it wakes up, and is told why.
"""

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from diolkos_lab.faults import Fault
from diolkos_lab.topology import control_group
from diolkos_lab.topology.control_group import Group, ProcessTree
from diolkos_lab.topology.process import Process, first_to_end
from diolkos_lab.topology.remote.connection import Connection

UNREACHABLE = 255


class RemoteProcess(Process):
    """`_pidfd` is an event descriptor here, readable from the end on."""

    def __init__(self, connection: Connection, where: str, command: Sequence[str], log: Path) -> None:
        self.command, self.output, self.errors = list(command), log, log
        self.usage_s = 0.0
        self._connection = connection
        self._status: int | None = None
        self._pidfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        path = str(log)
        self._number: int = connection.call("start", command=self.command, where=where, output=path, errors=path)
        if group := control_group.current():
            group.adopt(self)

    @property
    def pid(self) -> int:
        return self._number

    @property
    def exit_status(self) -> int | None:
        return UNREACHABLE if self._status is None and self._connection.gone else self._status

    def has_ended(self, status: int, usage_s: float) -> None:
        self._status, self.usage_s = status, usage_s
        self.wake_waiters()

    def wake_waiters(self) -> None:
        """Whoever waits for its end looks again."""
        if self._pidfd >= 0:
            os.eventfd_write(self._pidfd, 1)

    def how_it_ended(self) -> str:
        if self._status is None and self._connection.gone:
            return f"cannot be reached: {self._connection.host} went away ({self._connection.gone})"
        return super().how_it_ended()

    def kill(self) -> None:
        if self.exit_status is None:
            self._signal(signal.SIGKILL)
            first_to_end([self], 2.0)
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def last_words(self, lines: int = 5) -> list[str]:
        with contextlib.suppress(Fault, OSError):
            text: str = self._connection.call("tail", path=str(self.output))
            return [line.strip() for line in text.splitlines() if line.strip()][-lines:]
        return []

    def has_printed(self, text: str) -> bool:
        return bool(self._connection.call("contains", path=str(self.output), text=text))

    def cpu_s(self) -> float:
        """With its descendants."""
        return float(self._connection.call("cpu", pids=[self._number]))

    def _signal(self, number: int) -> None:
        with contextlib.suppress(Fault, OSError):
            self._connection.call("signal", pid=self._number, number=int(number))


class SplitGroup(Group):
    """Programs of one role on two machines: here in a group, there as process trees."""

    def __init__(self, here: Group, *, one_kernel: bool) -> None:
        """With `one_kernel` a namespace of this machine plays the other one, and has the same CPUs."""
        self._here, self._one_kernel = here, one_kernel
        self._there = ProcessTree() if one_kernel else _TreeElsewhere()

    def usage_s(self) -> float:
        return self._here.usage_s() + self._there.usage_s()

    def here_s(self) -> float:
        return self.usage_s() if self._one_kernel else self._here.usage_s()

    def members(self) -> set[int]:
        return self._here.members() | self._there.members()

    def entering(self, command: Sequence[str]) -> list[str]:
        return self._here.entering(command)

    def adopt(self, process: Process) -> None:
        (self._there if isinstance(process, RemoteProcess) else self._here).adopt(process)

    def remove(self) -> None:
        self._here.remove()


class _TreeElsewhere(ProcessTree):
    def _living_s(self, living: Sequence[Process]) -> float:
        return sum(process.cpu_s() for process in living)

    def members(self) -> set[int]:
        return set()
