# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The program on BMv2: what p4c-bm2-ss makes of it, and p4/bmv2/switch.py on wires and on a pipe.

The programs are found by the path, by P4C_PROGRAMS and by BMV2_PROGRAMS; without them, a test is skipped by name.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from control import ROOT, Control, Piped
from wires import Wires

SWITCH = ROOT / "p4/bmv2/switch.py"
FRAMES = str(Path(__file__).with_name("frames.py"))
LARGEST = "65535"  # MTU: no device of Linux carries more
NUMBER = itertools.count()


def found(name: str, folder: str) -> str:
    """A program of others, or the test is skipped."""
    at = shutil.which(name, path=os.environ.get(folder, "") + os.pathsep + os.environ["PATH"])
    if not at:
        pytest.skip(f"{name} is not installed: put it on the path, or name its folder in {folder}")
    return at


def compiled(folder: Path) -> Path:
    """The program as JSON."""
    made = folder / "nat64.json"
    subprocess.run([found("p4c-bm2-ss", "P4C_PROGRAMS"), "-o", made, ROOT / "p4/bmv2/nat64.p4"], check=True)
    return made


def command(program: Path) -> list[str | Path]:
    """What runs it."""
    for name in ("simple_switch", "simple_switch_CLI"):
        found(name, "BMV2_PROGRAMS")
    return [sys.executable, SWITCH, "--program", program]


@dataclass
class Bmv2Wires(Wires):
    """Two hosts, and simple_switch between them."""

    program: Path = field(default=Path())

    def build(self) -> None:
        """simple_switch gets frames of virtual Ethernets as they are: a sender has to finish its checksums itself."""
        super().build()
        for host in (self.four, self.six):
            self.run(host, "ethtool", "-K", "a0", "tx", "off")

    def switch(self) -> list[str | Path]:
        """The command that runs the program."""
        return command(self.program)


@contextmanager
def piped(folder: Path, program: Path) -> Iterator[Piped]:
    """simple_switch in a namespace of its own, with two pairs of ports whose other ends are pipes."""
    namespace = f"dio-p4-{os.getpid()}-bm{next(NUMBER)}"
    run = ["ip", "netns", "exec", namespace]
    control = folder / "switch.sock"
    start = [*run, *command(program), "--control", control, "--port", "w4=s4", "--port", "w6=s6"]
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        # Nobody but the test speaks.
        for name in ("all", "default"):
            subprocess.run([*run, "sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1"], check=True)
        subprocess.run([*run, "ip", "link", "set", "lo", "up"], check=True)
        for outer, inner in (("a4", "w4"), ("a6", "w6")):
            make = ["ip", "link", "add", outer, "mtu", LARGEST, "type", "veth", "peer", "name", inner, "mtu", LARGEST]
            subprocess.run([*run, *make], check=True)
            for device in (outer, inner):
                subprocess.run([*run, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off"], check=True)
                subprocess.run([*run, "ip", "link", "set", device, "up"], check=True)
        with ended(subprocess.Popen(start, stderr=subprocess.PIPE)) as switch:
            await_ready(switch, b"bmv2-switch: ready\n")
            frames = [*run, sys.executable, FRAMES, "a4", "s4", "a6", "s6"]
            pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            with ended(subprocess.Popen(frames, **pipe)) as process:
                await_ready(process, b"ready\n")
                connected = Control(control)
                with connected.socket:
                    yield Piped(process, connected, longest=14 + int(LARGEST))
    finally:
        subprocess.run(["ip", "netns", "del", namespace], check=False)


@contextmanager
def ended(process: subprocess.Popen) -> Iterator[subprocess.Popen]:
    """Whatever happens."""
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def await_ready(process: subprocess.Popen, wanted: bytes) -> None:
    """Its first line."""
    assert process.stderr
    said = process.stderr.readline()
    assert said == wanted, said + process.stderr.read()
