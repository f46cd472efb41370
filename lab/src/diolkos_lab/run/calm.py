# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A trial begins when nobody else computes, if that moment comes soon.

Programs of a machine in use compute in bursts. A trial that begins right after a burst has the best chance to end before the
next one. Nothing is known of the trial when it waits, and every trial waits by the same rule, so no system gains by it.
"""

import time
from collections.abc import Callable
from pathlib import Path

MOST_S = 0.4
LOOK_S = 0.005
LOOKS = 3  # in a row, without anybody else
SHARE = 0.1  # of the time of a run, at most: where somebody computes for ever, waiting is no use
SAVED_S = 2.0


class Calm:
    """Of one run. `others` is how many programs may compute meanwhile."""

    def __init__(self, others: int = 0, running: Callable[[], int] | None = None) -> None:
        self._others = others
        self._running = running or others_running
        self._spare_s = SAVED_S
        self._since = time.monotonic()

    def wait(self) -> None:
        """Until calm, but no longer than 0.4 s, and in all no longer than a tenth of the run so far and 2 s."""
        begun = time.monotonic()
        self._spare_s = min(SAVED_S, self._spare_s + SHARE * (begun - self._since))
        patience_s = min(MOST_S, self._spare_s)
        calm = 0
        while time.monotonic() - begun < patience_s:
            calm = calm + 1 if self._running() <= self._others else 0
            if calm == LOOKS:
                break
            time.sleep(LOOK_S)
        self._since = time.monotonic()
        self._spare_s -= max(0.0, self._since - begun - LOOKS * LOOK_S)


def others_running() -> int:
    """Threads that run or wait for a CPU, of all programs but this one: proc_loadavg(5)."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
