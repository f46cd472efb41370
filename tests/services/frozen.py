# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One thread of a process stands still while all others run: a real hang, made from outside by ptrace(2)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# linux/ptrace.h, linux/wait.h
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def trace(request: int, thread: int) -> None:
    """A request of ptrace(2) about a thread."""
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def threads(pid: int) -> dict[str, int]:
    """The threads of a process by their names; a name that ends in a number has it."""
    return {(task / "comm").read_text().strip(): int(task.name) for task in sorted(Path(f"/proc/{pid}/task").iterdir())}


@contextmanager
def frozen(pid: int, name: str) -> Iterator[None]:
    """The first thread whose name begins with this stands still."""
    thread = next(number for known, number in threads(pid).items() if known.startswith(name))
    trace(PTRACE_SEIZE, thread)
    trace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        try:
            trace(PTRACE_DETACH, thread)
        except ProcessLookupError:
            # It has been killed meanwhile. Its process ends when its tracer has seen that.
            os.waitpid(thread, WALL)
