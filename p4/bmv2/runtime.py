# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A running simple_switch_CLI, which speaks Thrift with simple_switch: commands in, what it says of each out."""

from __future__ import annotations

import os
import subprocess

# Answered by one line that no other command has.
MARK, MARKED = "greet", "hello"
PROMPT = "RuntimeCmd: "
# Commands that are written before their answers are read. With less than 128 bytes each, they fit into a pipe (64 kB): so the
# CLI may wait until we read, and we never until it does.
AT_ONCE = 256


class Lost(Exception):
    """simple_switch or its CLI has ended."""


class Refused(Exception):
    """What the CLI says of a command that has failed."""


class Runtime:
    """One of them, until `end`."""

    def __init__(self, command: list[str]) -> None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,
        )
        try:
            self.said()  # its greeting
        except Lost:
            self.end()
            raise

    def ask(self, *commands: str) -> list[str]:
        """Lines that answer them. Of many, each has less than 128 bytes. Raises Refused, if one has failed, Lost."""
        assert self.process.stdin
        lines = []
        try:
            for at in range(0, len(commands), AT_ONCE):
                self.process.stdin.write("".join(f"{command}\n" for command in commands[at : at + AT_ONCE]))
                lines += self.said()
        except BrokenPipeError as error:
            raise Lost from error
        for line in lines:
            if line.startswith(("Invalid ", "Error: ", "*** ")):
                raise Refused(line)
        return lines

    def said(self) -> list[str]:
        """Everything up to the mark."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(f"{MARK}\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Lost from error
        lines = []
        while text := self.process.stdout.readline():
            line = text.rstrip("\n")
            while line.startswith(PROMPT):
                line = line.removeprefix(PROMPT)
            if line == MARKED:
                return lines
            if line:
                lines.append(line)
        raise Lost

    def end(self) -> None:
        """Whatever it is doing."""
        self.process.kill()
        self.process.communicate()
