# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos behind the switch: it writes the tables, and translates what the switch declines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from control import COUNT, ROOT, Change
from wires import PREF64, V6, V6_MAPPED, Wires

# Only a hang reaches it.
PATIENCE = 120
STREAM = str(Path(__file__).with_name("stream.py"))

TRANSLATOR = f"""
[translator]
mode = "{{mode}}"
pref64 = ["{PREF64}"]
datapath = "p4"
switch = "{{socket}}"
switch_ports = ["s4", "s6"]
"""
NAT64 = TRANSLATOR + '[[nat64.pool4]]\naddress = "192.0.2.1/32"\n'
SIIT = TRANSLATOR + f'[siit]\nroutes4 = ["192.0.2.0/24"]\n[[eam]]\nv4 = "{V6_MAPPED}/32"\nv6 = "{V6}/128"\n'


def diolkos() -> str:
    """The program under test."""
    return str((Path(os.environ.get("DIOLKOS_PROGRAMS", ROOT / "bin")) / "diolkos").absolute())


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Wait for it."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.1)


@dataclass
class Router:
    """diolkos in the namespace of the switch."""

    wires: Wires
    process: subprocess.Popen | None = None
    logs: list[Path] = field(default_factory=list)

    def start(self, mode: str, *options: str, more: str = "") -> None:
        """Start it, and wait until it is ready. more: of the configuration."""
        text = {"nat64": NAT64, "siit": SIIT}[mode]
        config = self.wires.folder / "diolkos.toml"
        config.write_text(text.format(mode=mode, socket=self.wires.folder / "switch.sock") + more)
        self.logs.append(self.wires.folder / f"log-{len(self.logs)}")
        with self.logs[-1].open("w") as sink:
            command = ["ip", "netns", "exec", self.wires.router, diolkos(), mode, "--config", str(config), *options]
            self.process = subprocess.Popen(command, stdout=sink, stderr=sink)
        until("diolkos is ready", lambda: " ready: " in self.log() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log()

    def log(self) -> str:
        """Of the last run."""
        return self.logs[-1].read_text()

    def end(self, how: int = signal.SIGTERM) -> int:
        """Its exit code."""
        assert self.process
        self.process.send_signal(how)
        code = self.process.wait()
        self.process = None
        return code

    def counters(self) -> dict[str, int]:
        """Packets by fate."""
        return json.loads(self.wires.run(self.wires.router, diolkos(), "show", "counters", "--json"))["counters"]

    def troubles(self) -> list[str]:
        """Sentences of the findings whose reason is the switch."""
        command = ["ip", "netns", "exec", self.wires.router, diolkos(), "show", "status", "--json"]
        status = json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout)
        return [finding["text"] for finding in status["findings"] if finding["reason"] == "switch"]

    def sessions(self) -> list[dict]:
        """Of the NAT64."""
        return json.loads(self.wires.run(self.wires.router, diolkos(), "show", "sessions", "--json"))["entries"]

    def count(self, table: str) -> int:
        """Entries that the switch has."""
        assert self.wires.control
        return int.from_bytes(self.wires.control.ask(Change(COUNT, table))[0].payload[:8], "big")


@dataclass
class Talk:
    """A UDP socket of a host that stays open, and asks the echo server at the other end."""

    process: subprocess.Popen

    def ask(self) -> bool:
        """Whether an answer came within a second."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("ask\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        assert said in ("yes\n", "no\n"), said
        return said == "yes\n"

    def ask_often(self, count: int) -> int:
        """How many answers came."""
        return sum(self.ask() for _ in range(count))


@contextmanager
def talking(wires: Wires, namespace: str, address: str, port: int) -> Iterator[Talk]:
    """A client there."""
    command = ["ip", "netns", "exec", namespace, sys.executable, STREAM, "talk", address, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Talk(process)
        finally:
            process.kill()
