# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A bare installation of a distribution, booted as a host of a test's network.

mmdebstrap ─► target/machines/RELEASE (kept) ─┐
DIOLKOS_SYSTEM_RELEASE, a folder ─────────────┴► boot.sh ─► systemd as process 1 of its own namespaces
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from network import Network

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SERIAL = itertools.count()
# Seconds. Only a hang reaches it.
PATIENCE = 120
# What the packages need, so that no test needs a mirror, and what a test looks with. Releases since Debian 13 and Ubuntu 24.04
# have another name for a library whose interface has times of 64 bits.
INCLUDED = ("systemd", "systemd-sysv", "init-system-helpers", "passwd", "iproute2", "zlib1g", "python3-minimal", "procps")
LIBELF = {"bookworm": "libelf1"}
LIBELF_SINCE = "libelf1t64"
# Places that packages have nothing to do with, or where dpkg and systemd keep books.
PASSING = (
    "proc",
    "sys",
    "dev",
    "run/systemd",
    "run/log",
    "var/log",
    "var/cache",
    "var/lib/dpkg",
    "var/lib/apt",
    "tmp",
    "packages",
)


def system(release: str, further: tuple[str, ...] = ()) -> Path:
    """A bare installation of a release with further packages, which stays as it is.

    It is the folder that DIOLKOS_SYSTEM_RELEASE names. Without that, it is made the first time, from this machine's mirror.
    """
    wanted = (*INCLUDED, LIBELF.get(release, LIBELF_SINCE), *further)
    variable = f"DIOLKOS_SYSTEM_{release.upper()}"
    if given := os.environ.get(variable):
        folder = Path(given).resolve()
        lacks = sorted(set(wanted) - installed(folder))
        assert not lacks, f'{variable}="{given}" lacks {" ".join(lacks)}: make it with mmdebstrap --include={",".join(wanted)}'
        return folder
    folder = ROOT / "target" / "machines" / "+".join((release, *further))
    if not (folder / "etc" / "os-release").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        find = ("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages")
        mirror = subprocess.run(find, check=True, capture_output=True, text=True).stdout.splitlines()[0]
        # What changes every day is valid for a week, and a mirror may be older.
        stale = ("--aptopt=Acquire::Check-Valid-Until false",) if release == "sid" else ()
        make = ("mmdebstrap", "--quiet", *as_here(), *stale, "--variant=minbase", f"--include={','.join(wanted)}")
        # What is cut off in the midst of it is not taken for an installation.
        half = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(half, ignore_errors=True)
        subprocess.run((*make, release, str(half), mirror), check=True)
        half.rename(folder)
    return folder


def as_here() -> list[str]:
    """How this machine's apt judges the age of lists, which mmdebstrap does not ask: some mirrors show those of a past day."""
    keys = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")
    asked = (("apt-config", "shell", "value", key) for key in keys)
    said = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() for command in asked]
    return [
        f"--aptopt={key} {text.partition('=')[2].replace(chr(39), chr(34))}"
        for key, text in zip(keys, said, strict=True)
        if text
    ]


def installed(folder: Path) -> set[str]:
    """The names of the packages that an installation in a folder has."""
    look = ("dpkg-query", f"--admindir={folder}/var/lib/dpkg", "--show", "--showformat=${db:Status-Abbrev}${Package}\n")
    listed = subprocess.run(look, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line[3:] for line in listed if line.startswith("ii ")}


@dataclass
class Host:
    """One of a network's hosts, with a service manager and packages."""

    network: Network
    name: str
    release: str
    packages: Path
    further: tuple[str, ...] = ()
    process: subprocess.Popen | None = None

    def boot(self) -> None:
        """Start systemd and wait until it is there."""
        number = next(SERIAL)
        folder = self.network.scratch / f"host-{number}"
        folder.mkdir()
        look = ("findmnt", "--noheadings", "--output", "TARGET", "--types", "cgroup2")
        groups = subprocess.run(look, check=True, capture_output=True, text=True).stdout.splitlines()[0]
        self.group = Path(groups) / f"diolkos-packages-{os.getpid()}-{number}"
        self.group.mkdir()
        spaces = (
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--propagation=private",
            "--cgroup",
            "--uts",
            "--ipc",
        )
        enter = f'echo $$ >{self.group}/cgroup.procs && exec "$@"'
        boot = (str(HERE / "boot.sh"), str(system(self.release, self.further)), str(folder), str(self.packages))
        net = ("nsenter", f"--net=/run/netns/{self.name}")
        self.console = folder.with_suffix(".console")
        with self.console.open("w") as console:
            command = ("sh", "-c", enter, "sh", *net, *spaces, *boot)
            self.process = subprocess.Popen(command, stdout=console, stderr=console, stdin=subprocess.DEVNULL)
        self.until(self.is_up, self.console.read_text)

    def is_up(self) -> bool:
        """Whether systemd has started what belongs to it."""
        assert self.process is not None
        assert self.process.poll() is None, self.console.read_text()
        if self.pid() is None:
            return False
        return self.run("systemctl", "is-active", "multi-user.target", check=False).stdout.strip() == "active"

    def pid(self) -> int | None:
        """Process 1 of the host, by its number here."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next((int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "systemd"), None)

    def run(self, *command: str, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess:
        """Run a command on the host; a failure shows what it printed."""
        spaces = ("--mount", "--pid", "--cgroup", "--uts", "--ipc", "--net", "--root", "--wd=/")
        settings = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
        inside = ("nsenter", "--target", str(self.pid()), *spaces, "--", *settings, *command)
        done = subprocess.run(inside, check=False, capture_output=True, text=True, input=text)
        assert not check or done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
        return done

    def write(self, path: str, text: str) -> None:
        """Write a file of the host."""
        self.run("tee", path, text=text)

    def install(self, package: Path) -> str:
        """What apt says when it installs or upgrades a package."""
        done = self.run("apt-get", "install", "-y", "--no-install-recommends", f"/packages/{package.name}")
        return done.stdout + done.stderr

    def shown(self, unit: str, key: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", "--property", key, unit).stdout.strip()

    def journal(self, unit: str) -> str:
        """What a unit has logged."""
        self.run("journalctl", "--sync", check=False)
        return self.run("journalctl", "--no-pager", "--output=cat", "--unit", unit, check=False).stdout

    def files(self) -> set[str]:
        """Everything that a package could leave."""
        skip = [word for place in PASSING for word in ("-path", f"/{place}", "-prune", "-o")]
        return set(self.run("find", "/", *skip, "-print").stdout.splitlines())

    def remove(self) -> None:
        """End everything and leave nothing."""
        if self.process is None:
            return
        if (pid := self.pid()) is not None:
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.until(self.is_gone)

    def is_gone(self) -> bool:
        """Remove its control groups, which have to be empty, the inner ones first."""
        try:
            for group in [*sorted(self.group.rglob("*/"), reverse=True), self.group]:
                group.rmdir()
        except OSError:
            return False
        return True

    @staticmethod
    def until(condition: Callable[[], bool], otherwise: Callable[[], str] = lambda: "") -> None:
        """Wait for something to become true."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"it did not happen in time\n{otherwise()}"
            time.sleep(0.05)
