# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a command that forks into the background, and stays until everything that it started has ended.

Orphans become children of this process (prctl(2), PR_SET_CHILD_SUBREAPER). SIGTERM is passed on to all of them; SIGKILL follows
after a second and a half. For Python 3.8, on either machine.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import List, Set

PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 1.5


def main(command: List[str]) -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, stop)
    first = subprocess.Popen(command)
    status = 0
    while True:
        try:
            pid, ended = os.wait()
        except ChildProcessError:
            return status
        if pid == first.pid:
            status = os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else 128 + os.WTERMSIG(ended)
            if status:  # it failed, whatever it left
                stop(0, None)


def stop(number: int, _: object) -> None:
    end = time.monotonic() + PATIENCE_S
    signals = [signal.SIGTERM] if number else []
    while True:
        pids = descendants(os.getpid())
        if not pids:
            sys.exit(0 if number else 1)
        chosen = signals.pop() if signals else signal.SIGKILL if not number or time.monotonic() > end else 0
        for pid in pids if chosen else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, chosen)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def descendants(root: int) -> Set[int]:
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    parents[int(entry)] = int(fields[1])
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {root}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
