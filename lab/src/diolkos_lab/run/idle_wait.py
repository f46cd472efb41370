# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Delay a trial until no other program computes, for a bounded time.

Programs of a machine in use compute in bursts. A trial that begins right after a burst has the best chance to end before the
next one. Nothing is known of the trial when it waits, and every trial waits by the same rule, so no system gains by it.
"""

import time
from collections.abc import Callable
from pathlib import Path

MAX_WAIT_S = 0.4
POLL_INTERVAL_S = 0.005
IDLE_POLLS = 3  # in a row, without another running thread
MAX_SHARE = 0.1  # of the time of a run, at most: waiting does not help against a program that never pauses
MAX_SPARE_S = 2.0


class IdleWait:
    """The waiting time of one run. `others`: threads of other programs that do not count as a disturbance."""

    def __init__(self, others: int = 0, running: Callable[[], int] | None = None) -> None:
        self._others = others
        self._running = running or other_running_threads
        self._spare_s = MAX_SPARE_S
        self._since = time.monotonic()

    def wait(self) -> None:
        """Until the host is idle, but no longer than 0.4 s, and in all no longer than a tenth of the run so far and 2 s."""
        begun = time.monotonic()
        self._spare_s = min(MAX_SPARE_S, self._spare_s + MAX_SHARE * (begun - self._since))
        patience_s = min(MAX_WAIT_S, self._spare_s)
        idle = 0
        while time.monotonic() - begun < patience_s:
            idle = idle + 1 if self._running() <= self._others else 0
            if idle == IDLE_POLLS:
                break
            time.sleep(POLL_INTERVAL_S)
        self._since = time.monotonic()
        self._spare_s -= max(0.0, self._since - begun - IDLE_POLLS * POLL_INTERVAL_S)


def other_running_threads() -> int:
    """Threads that run or wait for a CPU, of all programs but this one: proc_loadavg(5)."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
