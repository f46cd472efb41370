# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A running QEMU and the lines of its serial port. It ends with the program that started it."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from pathlib import Path


class Console:
    """Use as a context manager: leaving it ends QEMU."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log.open("w")
        self.process = subprocess.Popen(
            # QEMU dies with the lab, even with one that is killed.
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C in the terminal reaches the lab alone
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        """What the guest says, line by line, until it ends."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.log.write(line)
            self.log.flush()
            self.lines.put(line.rstrip())
        self.lines.put(None)

    def next(self, patience: float) -> str | None:
        """The next line; None if there is none in time, or none any more."""
        try:
            return self.lines.get(timeout=max(patience, 0))
        except queue.Empty:
            return None

    def until(self, beginning: str, patience: float) -> str | None:
        """The next line that begins like this."""
        end = time.monotonic() + patience
        while (line := self.next(end - time.monotonic())) is not None:
            if line.startswith(beginning):
                return line
        return None

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.log.close()
