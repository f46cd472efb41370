# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Waiting for something that no descriptor tells of."""

import time
from collections.abc import Callable

from diolkos_lab.topology.process import SLOWNESS

STEP_S = 0.05


def wait_until(condition: Callable[[], bool], patience_s: float) -> bool:
    """Ask again and again. False when it did not come true in time."""
    deadline = time.monotonic() + patience_s * SLOWNESS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(STEP_S)
    return True
