# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pages of docs/networks do what they say: each box of the page is a machine, and runs what the page tells it, in its order.

    page ─► blocks ─► run on a box ("sh BOX"), or run each command until it prints what the page shows ("console", with `BOX# `)

In what a page shows, `…` stands for what differs: a part of a line, or, alone on its line, any number of lines. How many spaces
stand between two words does not count.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from machine import Machine
from network import PATIENCE, UNLIKE, Network

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "networks"
BLOCK = re.compile(r"^```(?:sh (\w+)|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(?:sh|console)\b.*$", re.MULTILINE)
PROMPT = re.compile(r"^(\w+)# ", re.MULTILINE)
HEADING = re.compile(r"^##+ (.*)$", re.MULTILINE)
# As Debian's package dnsmasq starts it. Set-up installs dnsmasq-base, which has no unit, so that none starts on this host.
DNSMASQ = """
[Unit]
After=network.target
[Service]
Type=forking
PIDFile=/run/dnsmasq.pid
# Debian's base-files makes it.
ExecStartPre=mkdir -p /var/lib/misc
ExecStart=/usr/sbin/dnsmasq --pid-file=/run/dnsmasq.pid --conf-dir=/etc/dnsmasq.d --local-service --user=root
ExecReload=/bin/kill -HUP $MAINPID
[Install]
WantedBy=multi-user.target
"""


class Wires(Network):
    """Namespaces and the links between them, and nothing else: addresses and routes are the page's."""

    def lay(self, *wires: tuple[str, str, str, str]) -> None:
        """Make links: box, interface, box, interface. A box that the wires name for the first time is made."""
        boxes = dict.fromkeys(box for wire in wires for box in wire[::2])
        self.further = [self.of(box) for box in boxes]
        self.add_namespaces(*self.further)
        for name in self.further:
            self.batch(name, "link set lo up")
            # As on any host: whoever follows a page waits for Duplicate Address Detection, or says that it is not wanted.
            for key in ("dad_transmits", "accept_dad"):
                self.sysctl(name, f"net.ipv6.conf.default.{key}", "1")
        for at, (box, interface, other, far) in enumerate(wires):
            near = f"{interface} netns {self.of(box)} index {UNLIKE + at}"
            self.batch(None, f"link add name {near} type veth peer name {far} netns {self.of(other)}")
            self.batch(self.of(box), f"link set dev {interface} up")
            self.batch(self.of(other), f"link set dev {far} up")

    def join(self, box: str, *interfaces: str) -> None:
        """A box is a switch."""
        self.batch(self.of(box), "link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0", "link set br0 up")
        self.batch(self.of(box), *(f"link set {interface} master br0" for interface in interfaces))

    def of(self, box: str) -> str:
        """The namespace of a box."""
        return f"{self.tag}-{box}"

    @property
    def v4(self) -> str:
        """Where `servers` runs what an IPv4 host offers."""
        return self.of("server")


@dataclass
class Bare:
    """A box that needs no services: a namespace."""

    network: Wires
    name: str

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run a command in it and wait for it."""
        return self.network.run(self.name, *command, check=check)

    def journal(self) -> str:
        """It has none."""
        return ""


@dataclass
class Step:
    """A block of a page: commands of a box, or, without a box, commands of any and what they print. Its heading above it."""

    box: str | None
    text: str
    heading: str

    def shown(self) -> Iterator[tuple[str, str, str]]:
        """Box, command and output of each command that shows what it prints."""
        before, *parts = PROMPT.split(self.text)
        assert before == "" and parts, self.text
        for box, rest in zip(parts[::2], parts[1::2], strict=True):
            command, _, output = rest.partition("\n")
            yield box, command, output


@dataclass
class Page:
    """A page, and the machines that are its boxes."""

    name: str
    boxes: dict[str, Machine | Bare]

    def __post_init__(self) -> None:
        self.text = (FOLDER / self.name).read_text()

    def steps(self) -> list[Step]:
        """Its blocks, of which none may have another form: nobody would run it."""
        found = [
            Step(match[1], match[2], HEADING.findall(self.text, 0, match.start())[-1]) for match in BLOCK.finditer(self.text)
        ]
        assert len(found) == len(FENCE.findall(self.text)) > 0, f"{self.name} has a block that names no box"
        return found

    def follow(self) -> None:
        """Do what it says."""
        for step in self.steps():
            if step.box is not None:
                self.boxes[step.box].run("sh", "-e", "-c", step.text)
            else:
                for box, command, output in step.shown():
                    self.until_shown(box, command, output)

    def until_shown(self, box: str, command: str, expected: str) -> None:
        """Run a command until it prints what the page shows."""
        pattern = matcher(expected)
        end = time.monotonic() + 4 * PATIENCE
        while True:
            is_last = time.monotonic() >= end
            done = self.boxes[box].run("sh", "-c", f"{command} 2>&1", check=False)
            if pattern.fullmatch(plain(done.stdout)):
                return
            if is_last:
                difference = "\n".join(difflib.ndiff(expected.splitlines(), done.stdout.splitlines()))
                logs = "\n".join(f"--- {name}\n{each.journal()[-4000:]}" for name, each in self.boxes.items())
                raise AssertionError(f"{self.name}: {box}# {command}\n{difference}\n{logs}")
            time.sleep(0.1)


def settings_of_package(machine: Machine, name: str) -> None:
    """Give a machine that has not booted a package's files of /etc, as they are on this host."""
    subprocess.run(("cp", "-a", f"/etc/{name}", machine.folder / "etc"), check=True)


def radvd_of_environment(machine: Machine) -> None:
    """Give a machine that has not booted the radvd that RADVD names, such as one that knows PREF64."""
    if found := os.environ.get("RADVD"):
        folder = machine.folder / "usr" / "sbin"
        folder.mkdir(exist_ok=True)
        shutil.copy(found, folder / "radvd")


def libtorrent_of_environment(machine: Machine) -> None:
    """Give a machine that has not booted the python3-libtorrent that LIBTORRENT names: a folder with its packages unpacked."""
    if found := os.environ.get("LIBTORRENT"):
        shutil.copytree(f"{found}/usr", machine.folder / "usr", symlinks=True, dirs_exist_ok=True)


def plain(text: str) -> str:
    """Without what differs for the eye only: several spaces, and spaces at the ends of lines."""
    return "".join(f"{' '.join(line.split())}\n" for line in text.splitlines())


def matcher(expected: str) -> re.Pattern[str]:
    """Of what a command prints, where the page shows `expected`."""
    pattern = ""
    for line in plain(expected).splitlines():
        if line == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]+".join(re.escape(part) for part in line.split("…")) + "\n"
    return re.compile(pattern)
