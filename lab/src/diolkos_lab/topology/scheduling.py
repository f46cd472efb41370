# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Scheduling priority: threads that carry packets run before other programs of the host.

Its nice value gives a thread the larger share of a CPU, but not the CPU at once: another one that is running may end its
slice first, milliseconds, and a ring of 256 packets does not last that long. A thread with a shorter slice takes the CPU away
from it when it wakes up (Linux 6.12; older kernels do so for the nice value alone, or not at all).
"""

import ctypes
import os
import platform
import struct

FIRST = -20  # nice value: others get what is left
SLICE_NS = 100_000  # the shortest that there is

# sched_setattr(2) has no wrapper in Python, nor in the C libraries of most hosts.
_SET = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355, "s390x": 345}
_GET = {machine: number + 1 for machine, number in _SET.items()}
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, deadline, period


def prioritize(thread: int) -> None:
    """Give a thread, by its number, the largest share of its CPU and the shortest slice. Raises OSError if it has ended."""
    os.setpriority(os.PRIO_PROCESS, thread, FIRST)
    number = _SET.get(platform.machine())
    if number is None or os.sched_getscheduler(thread) != os.SCHED_OTHER:
        return
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, FIRST, 0, SLICE_NS, 0, 0)
    # Where the kernel refuses, the nice value has to do.
    ctypes.CDLL(None).syscall(number, thread, attributes, 0)


def slice_ns(thread: int) -> int | None:
    """A thread's slice; 0: this process's. None where the kernel has none to give, or does not tell."""
    number = _GET.get(platform.machine())
    told = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if number is None or ctypes.CDLL(None).syscall(number, thread, told, _ATTRIBUTES.size, 0):
        return None
    *_, runtime, _, _ = _ATTRIBUTES.unpack(told.raw)
    return runtime or None
