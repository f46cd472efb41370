# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Commands inside a namespace, which die with the lab and whose output is kept.

Stages: start (enter control group and namespace, tie to the lab's life) → wait for the first of several to end → stop →
last words.

`nsenter --net=` is used rather than `ip netns exec`: the latter mounts a fresh /sys, which hides the BPF file system from
the system under test. `setpriv --pdeathsig` makes the kernel kill the command when the lab dies, even by SIGKILL.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from diolkos_lab.topology import control_group, namespace
from diolkos_lab.topology.processes import cpu_time_s

# An emulated processor is slow: where one runs the lab, all waits for programs are so many times as long.
SLOWNESS = float(os.environ.get("DIOLKOS_LAB_SLOWNESS", "1"))
SLEEP_S = 1.0  # at a time, while something is waited for
LATE_S = 0.5 * SLOWNESS  # a sleep that ends this much later than it should: the sleeper was stopped


class Process:
    """A running command. Its standard output and error go to files, so that no full pipe can stall it."""

    def __init__(self, where: str, command: Sequence[str], output: Path, errors: Path, *, cpu: int | None = None) -> None:
        """Start `command` in the namespace named `where`, on one CPU if given. Raises OSError when that is impossible."""
        self.command = list(command)
        self.output = output
        self.errors = errors
        pinned = [] if cpu is None else ["taskset", "--cpu-list", str(cpu)]
        entered = ["nsenter", f"--net={namespace.DIRECTORY / where}"]
        wrapped = [*entered, "setpriv", "--pdeathsig", "KILL", "--", *pinned, *command]
        if group := control_group.current():
            wrapped = group.entering(wrapped)
        with output.open("ab") as out, errors.open("ab") as err:
            self._child = subprocess.Popen(
                wrapped,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                # Its own session: Ctrl-C in the terminal reaches the lab alone, which then stops the rest in order.
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        self._pidfd = os.pidfd_open(self._child.pid)
        self.usage_s = 0.0
        if group:
            group.adopt(self)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative for the number of the signal that killed it."""
        self._reap(os.WNOHANG)
        return self._child.returncode

    @property
    def is_stopped(self) -> bool:
        """Has a signal stopped it (SIGSTOP)? It may go on later."""
        with contextlib.suppress(OSError):
            # The name before the state may hold anything, a bracket too.
            return Path(f"/proc/{self.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "Tt"
        return False

    def fileno(self) -> int:
        """A descriptor that becomes readable when the process ends (pidfd_open(2))."""
        return self._pidfd

    def stop(self, patience_s: float = 2.0) -> None:
        """SIGTERM, then SIGKILL when that does not help. The process is gone when this returns."""
        if self.exit_status is None:
            self._signal(signal.SIGTERM)
            first_to_end([self], patience_s)
        self.kill()

    def kill(self) -> None:
        if self.exit_status is None:
            self._signal(signal.SIGKILL)
            self._reap(0)
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def last_words(self, lines: int = 5) -> list[str]:
        """The last lines it printed, its errors before its output; empty when it said nothing."""
        for file in (self.errors, self.output):
            with contextlib.suppress(FileNotFoundError):
                text = file.read_bytes()[-4096:].decode(errors="replace")
                if said := [line.strip() for line in text.splitlines() if line.strip()]:
                    return said[-lines:]
        return []

    def has_printed(self, text: str) -> bool:
        """Has it printed `text` on standard error or output?"""
        return any(text.encode() in file.read_bytes() for file in {self.errors, self.output})

    def cpu_s(self) -> float:
        """CPU time with all its threads, dead ones included, without its children; 0 when it is gone."""
        return cpu_time_s(self.pid)

    def how_it_ended(self) -> str:
        """Half a sentence for a report: `was killed by SIGKILL`, `ended with exit code 1`."""
        status = self.exit_status
        if status is None:
            return "is still running"
        return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit code {status}"

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def _reap(self, flags: int) -> None:
        """wait4 rather than Popen.wait: it also says how much CPU time the process and its children took."""
        if self._child.returncode is not None:
            return
        pid, status, usage = os.wait4(self._child.pid, flags)
        if pid:
            self._child.returncode = os.waitstatus_to_exitcode(status)
            self.usage_s = usage.ru_utime + usage.ru_stime


def first_to_end(processes: Sequence[Process], patience_s: float) -> Process | None:
    """Sleep until one of the processes ends, at most `patience_s` seconds; None when none did."""
    return first_to_end_and_stopped_s(processes, patience_s)[0]


def first_to_end_and_stopped_s(processes: Sequence[Process], patience_s: float) -> tuple[Process | None, float]:
    """The same, and how many seconds the lab itself stood still meanwhile, as when it was stopped (SIGSTOP, Ctrl-Z).

    Patience counts the time only in which the lab ran: who stood still cannot say that nothing came. Sleeps a second at a time,
    which costs a measurement next to it nothing.
    """
    for process in processes:
        if process.exit_status is not None:
            return process, 0.0
    poll = select.poll()
    for process in processes:
        poll.register(process, select.POLLIN)
    left_s, still_s = max(0.0, patience_s), 0.0
    while True:
        slept_s = min(left_s, SLEEP_S)
        begun = time.monotonic()
        ready = {descriptor for descriptor, _ in poll.poll(slept_s * 1000)}
        late_s = time.monotonic() - begun - slept_s
        still_s += late_s if late_s > LATE_S else 0.0
        left_s -= slept_s
        if ready or left_s <= 0:
            return next((process for process in processes if process.fileno() in ready), None), still_s


def run_to_end(where: str, command: Sequence[str], log: Path, patience_s: float = 10.0) -> tuple[int, str]:
    """Run a short command in a namespace. Returns its exit status and everything it printed.

    Raises TimeoutError when it does not end in time (it is killed then), OSError when it cannot be started.
    """
    start = log.stat().st_size if log.exists() else 0
    process = Process(where, command, log, log)
    try:
        if first_to_end([process], patience_s * SLOWNESS) is None:
            raise TimeoutError(f"{command[0]} did not end within {patience_s * SLOWNESS:g} s")
        status = process.exit_status
        assert status is not None
    finally:
        process.kill()
    return status, log.read_bytes()[start:].decode(errors="replace")


def wait_for_text(process: Process, text: str, patience_s: float) -> bool:
    """Wait until the process has printed `text` on standard error or output. False when it ended or time ran out first."""
    deadline = time.monotonic() + patience_s * SLOWNESS
    while True:
        ended = process.exit_status is not None
        if process.has_printed(text):
            return True
        if ended or time.monotonic() > deadline:
            return False
        first_to_end([process], 0.02)
