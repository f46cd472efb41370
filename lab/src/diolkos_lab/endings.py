# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How the program ends: every fault is one sentence on standard error and an exit code."""

import sys
from collections.abc import Callable
from typing import Any, cast

import typer

from diolkos_lab.faults import Fault, Interrupted, UsageFault, printable

WRONG_USAGE = cast(type[Exception], typer.BadParameter.__mro__[1])  # `UsageError`, of which typer itself has no name


def call(app: Callable[..., Any]) -> None:
    """Run the command line and end the program."""
    try:
        sys.exit(app(prog_name="diolkos-lab", standalone_mode=False))
    except WRONG_USAGE as error:
        _wrong_usage(error)
    except Fault as fault:
        _end(str(fault), fault.exit_code)
    except Interrupted as interrupted:
        _end(" ".join(getattr(interrupted, "__notes__", ["Stopped."])), interrupted.exit_code)
    except OSError as error:
        _end(f"{error.filename or 'the system'}: {error.strerror or error}", Fault.exit_code)


def _wrong_usage(error: Exception) -> None:
    """Of an option or an argument. Typer would draw a box of several lines."""
    message: str = getattr(error, "format_message", error.__str__)()
    if not message or "\n" in message:  # no command at all: the help is what it says
        print(message, end="")
        sys.exit(UsageFault.exit_code)
    context = getattr(error, "ctx", None)
    _end(f"{message.rstrip('.')}; see `{context.command_path if context else 'diolkos-lab'} --help`", UsageFault.exit_code)


def _end(message: str, code: int) -> None:
    print(f"diolkos-lab: {printable(message)}", file=sys.stderr)
    sys.exit(code)
