# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every way the lab can end other than well. One class per exit code; the message is the one sentence the user reads."""

import os
import signal

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Fault(Exception):
    """Something failed while the lab was running (exit code 1)."""

    exit_code = 1


class InstrumentFault(Fault):
    """What measures has failed: a program or a server of the lab, or the host. It says nothing of the system under test."""


class UsageFault(Fault):
    """Wrong usage or a wrong definition; for a file the message starts with `file:line:column` (exit code 2)."""

    exit_code = 2


class MissingFault(Fault):
    """A privilege, tool or kernel feature is missing; the message names it and says what to do (exit code 3)."""

    exit_code = 3


class Interrupted(BaseException):
    """A signal asked the lab to stop. Not an `Exception`, so that no handler for ordinary errors swallows it.

    exit_code is 128 + the signal's number, as shells report it: 130 for Ctrl-C, 143 for SIGTERM.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_code = 128 + signal_number


def printable(text: str) -> str:
    """One line that a terminal shows and does not obey: file names and other programs' words may hold anything."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in text)


def stop_on_signals() -> None:
    """From now on the first signal raises `Interrupted`; further ones are ignored while the lab cleans up."""
    owner = os.getpid()

    def stop(number: int, _: object) -> None:
        if os.getpid() != owner:  # a forked helper of a library has nothing to clean up
            os._exit(128 + number)
        for other in STOPPING:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(number)

    for number in STOPPING:
        signal.signal(number, stop)
