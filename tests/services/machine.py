# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A systemd as process 1 of its own namespaces, in the network namespace of one of a test's hosts.

    network ─► Machine: boot.sh ─► systemd ─► units of packaging/systemd, with the program under test

No container runtime is needed. The machine has this one's programs and its own /etc, /var, /run and control groups.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from network import PATIENCE, Network

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
UNITS = ROOT / "packaging" / "systemd"
SERIAL = itertools.count()


def cgroups() -> Path:
    """Where this host has control groups of version 2."""
    look = ("findmnt", "--noheadings", "--output", "TARGET", "--types", "cgroup2")
    found = subprocess.run(look, check=False, capture_output=True, text=True).stdout
    if not found:
        raise AssertionError("systemd needs control groups of version 2, and none are mounted here: mount -t cgroup2")
    return Path(found.splitlines()[0])


@dataclass
class Machine:
    """A host with a service manager."""

    network: Network
    name: str
    process: subprocess.Popen | None = None

    def __post_init__(self) -> None:
        self.folder = self.network.scratch / f"machine-{next(SERIAL)}"
        self.group = cgroups() / f"diolkos-test-{os.getpid()}-{next(SERIAL)}"
        (self.folder / "etc" / "diolkos").mkdir(parents=True)
        self.install()

    def install(self) -> None:
        """Put the program and its units into the layer above /usr, as a package would."""
        usr = self.folder / "usr"
        for folder in ("bin", "lib/diolkos", "lib/systemd/system"):
            (usr / folder).mkdir(parents=True)
        shutil.copy(self.network.program, usr / "bin" / "diolkos")
        for script in ("after-stop", "option108"):
            shutil.copy(UNITS / script, usr / "lib" / "diolkos" / script)
        for unit in UNITS.glob("*.service"):
            shutil.copy(unit, usr / "lib" / "systemd" / "system")

    def file(self, path: str, text: str) -> None:
        """Write a file of the machine below /etc, before it boots or while it runs."""
        if self.process is None:
            target = self.folder / "etc" / path.removeprefix("/etc/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        else:
            self.run("mkdir", "-p", str(Path(path).parent))
            self.run("tee", path, input=text)

    def boot(self) -> None:
        """Start systemd and wait until it is there."""
        self.group.mkdir()
        spaces = (
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--propagation",
            "private",
            "--cgroup",
            "--uts",
            "--ipc",
        )
        enter = f'echo $$ > {self.group}/cgroup.procs && exec "$@"'
        net = ("nsenter", f"--net=/run/netns/{self.name}")
        with (self.folder / "console").open("w") as console:
            command = ("sh", "-c", enter, "sh", *net, *spaces, str(HERE / "boot.sh"), str(self.folder))
            self.process = subprocess.Popen(command, stdout=console, stderr=console, stdin=subprocess.DEVNULL)
        self.until(self.is_up, (self.folder / "console").read_text)

    def is_up(self) -> bool:
        """Whether systemd has started what belongs to every machine."""
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "console").read_text()
        if self.pid() is None:
            return False
        state = self.run("systemctl", "is-active", "test.target", check=False)
        return state.stdout.strip() == "active"

    def pid(self) -> int | None:
        """Process 1 of the machine, by its number here."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        return None

    def remove(self) -> None:
        """End everything and leave nothing."""
        if self.process is not None:
            pid = self.pid()
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        if self.group.exists():
            end = time.monotonic() + PATIENCE
            while not self.remove_groups() and time.monotonic() < end:
                time.sleep(0.05)

    def remove_groups(self) -> bool:
        """Remove the control groups; False while a process is still on its way out."""
        for path, _, _ in os.walk(self.group, topdown=False):
            try:
                Path(path).rmdir()
            except OSError:
                return False
        return True

    # --- doing things in it

    def run(self, *command: str, check: bool = True, **options) -> subprocess.CompletedProcess:
        """Run a command in the machine and wait for it."""
        options = {"capture_output": True, "text": True, "timeout": 120, **options}
        enter = ("nsenter", f"--target={self.pid()}", "--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd")
        clean = ("env", "-i", "PATH=/usr/sbin:/usr/bin", "LC_ALL=C.UTF-8", "SYSTEMD_PAGER=")
        done = subprocess.run([*enter, *clean, *command], check=False, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}\n{self.journal()}")
        return done

    def systemctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run systemctl(1)."""
        return self.run("systemctl", "--no-ask-password", *arguments, check=check)

    def shown(self, unit: str, key: str) -> str:
        """A property of a unit."""
        return self.systemctl("show", "--value", "--property", key, unit).stdout.strip()

    def main(self, unit: str) -> int:
        """The number of a unit's main process, as this host knows it."""
        inside = self.shown(unit, "MainPID")
        assert inside != "0", self.journal(unit)
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                found = re.search(r"^NSpid:\s+(\d+)\s+(\d+)$", status.read_text(), re.MULTILINE)
            except OSError:
                continue
            if found and found[2] == inside and self.is_here(found[1]):
                return int(found[1])
        raise AssertionError(f"no process {inside} of {unit}")

    def is_here(self, pid: str) -> bool:
        """Whether a process is one of this machine."""
        try:
            return Path(f"/proc/{pid}/ns/pid").readlink() == Path(f"/proc/{self.pid()}/ns/pid").readlink()
        except OSError:
            return False

    def journal(self, unit: str | None = None) -> str:
        """What the journal has, of all units or of one."""
        of = ["--unit", unit] if unit else []
        self.run("journalctl", "--sync", check=False)
        return self.run("journalctl", "--no-pager", "--output=cat", *of, check=False).stdout

    @staticmethod
    def until(condition: Callable[[], bool], otherwise: Callable[[], str] = lambda: "", patience: float = 4 * PATIENCE) -> None:
        """Wait for something to become true."""
        end = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < end, f"it did not happen in time\n{otherwise()}"
            time.sleep(0.05)
