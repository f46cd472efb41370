# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Did the gateways' own programs take the CPUs from what measures them? Then what came late is their result.

Their control group knows their CPU time. It is read once a second, since a burst makes a generator late and is little on the
average of a trial.
"""

import os
import threading
import time
from types import TracebackType
from typing import Self

from diolkos_lab.topology.control_group import Group

EVERY_S = 1.0
MOST = 0.5  # of all CPUs: below this, as much was left for all else as the gateways had


class Watch:
    """Use as a context manager. `share` is the largest share of all CPUs that the group used in a second."""

    def __init__(self, group: Group, cpus: int | None = None) -> None:
        self.share = 0.0
        self._group, self._cpus = group, cpus or len(os.sched_getaffinity(0))
        self._last: tuple[float, float] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def blames_gateways(self) -> bool:
        return self.share > MOST

    def note(self, at_s: float, used_s: float) -> None:
        """The CPU time of the group at a moment."""
        if self._last and at_s > self._last[0]:
            self.share = max(self.share, (used_s - self._last[1]) / (at_s - self._last[0]) / self._cpus)
        self._last = at_s, used_s

    def _run(self) -> None:
        while not self._ended.is_set():
            self.note(time.monotonic(), self._group.usage_s())
            self._ended.wait(EVERY_S)
