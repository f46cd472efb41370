# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which systems can run on this host, where their programs are, which version they have and, if not, what is missing.

A program is looked for in this order: --path NAME=PATH, the environment variable NAME, `bin/` beside the lab (the variable
DIOLKOS_PROGRAMS names another folder), PATH. One that belongs to an installation is also found by the root folder of another
one: it runs there, with that one's libraries.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.faults import UsageFault
from diolkos_lab.sut.definition import System, fill

SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"  # not in everyone's PATH
CLONE = Path(__file__).parents[4]  # the repository the lab is installed from
BESIDE = Path(os.environ.get("DIOLKOS_PROGRAMS", CLONE / "bin")).absolute()
PROGRAMS = Path(__file__).parent / "bpf"  # sources that systems compile
SCRIPTS = Path(__file__).parent / "scripts"
P4, P4_COMPILED, P4_PACKAGED = CLONE / "p4", CLONE / "target/p4", Path("/usr/share/diolkos-switch")
ROOT = Path("/")


@dataclass(frozen=True)
class Found:
    """A system that can run here. `binary` is None for those that need no program."""

    system: System
    binary: Path | None
    version: str | None
    controller: Path | None = None
    p4: Path | None = None
    # Over two machines: was it found on the router's, and the same system on this one, where it runs on both?
    on_router: bool = False
    here: "Found | None" = None

    @property
    def installation(self) -> Path:
        """Root folder of the installation that the program belongs to."""
        return installation(self.system, self.binary)


@dataclass(frozen=True)
class Missing:
    """A system, or a level of one, that cannot run here: why, and how to get it."""

    system: System
    reason: str
    how: str
    # Where it is only a level of a factor of one of its datapaths that is missing.
    datapath: str | None = None
    factor: str | None = None
    level: str | None = None


def find(system: System, given: Mapping[str, str]) -> Found | Missing:
    """Look for one system. `given` holds the paths of the command line; a path that does not exist is a UsageFault."""
    binary = None
    if system.binary:
        named = (given.get(system.system), os.environ.get(system.system.upper()))
        binary = program(system.binary, *(_within(system, each) for each in named))
        if binary is None:
            return Missing(system, f"the program {system.binary} is not on this host", system.how)
    if lack := _lack(system):
        return Missing(system, *lack)
    controller, p4 = _controller(system, given), _p4(system)
    if system.controller and controller is None:
        return Missing(system, f"the program {system.controller}, which controls it, is not on this host", system.how)
    if system.p4 and p4 is None:
        return Missing(system, f"its P4 program {Path(system.p4).name} is not on this host", system.how)
    version = _version(system, binary)
    if reason := too_old(system, version):
        return Missing(system, reason, system.how)
    return Found(system, binary, version, controller, p4)


def _lack(system: System) -> tuple[str, str] | None:
    """What else this host lacks, and how to get it."""
    if system.box:
        return "no box is named", system.how
    if any(path.container for path in system.datapath.values()) and program("podman", None, None) is None:
        return "podman is not on this host, and it runs in a container", "install podman"
    if system.programs and not (PROGRAMS / system.programs).is_dir():
        return f"the folder {PROGRAMS / system.programs} is missing", "install the lab again"
    if system.module and not Path(f"/sys/module/{system.module}").exists():
        return f"the kernel module {system.module} is not loaded", system.how
    if any(path.tun for path in system.datapath.values()) and not Path("/dev/net/tun").exists():
        return "/dev/net/tun does not exist", "load the module with `modprobe tun`"
    return None


def _controller(system: System, given: Mapping[str, str]) -> Path | None:
    name = system.controller
    return program(name, given.get(name), os.environ.get(name.upper())) if name else None


def _p4(system: System) -> Path | None:
    """The clone's, what a compiler was told to put there, or that of the package; the last two have one folder for all."""
    name = system.p4
    if name is None:
        return None
    found = (P4 / name, P4_COMPILED / Path(name).name, P4_PACKAGED / Path(name).name)
    return next((path for path in found if path.is_file()), None)


def installation(system: System, binary: Path | None) -> Path:
    """Root folder of the installation that a program belongs to; the host's own unless its path says otherwise."""
    depth = len(Path(system.installation).parts) if system.installation else 0
    if binary and depth and str(binary).endswith(f"/{system.installation}"):
        return binary.parents[depth - 1]
    return ROOT


def too_old(system: System, version: str | None) -> str | None:
    """Why a version will not do; None where it will."""
    if system.oldest is None:
        return None
    said = re.search(r"[0-9]+(\.[0-9]+)+", version or "")
    if said is None:
        return f"{system.binary} does not say its version (as root it would, where it belongs to another installation)"
    if _numbers(said[0]) < _numbers(system.oldest):
        return f"{system.binary} is version {said[0]} here; the lab needs {system.oldest} or later"
    return None


def program(name: str, given: str | None, environment: str | None) -> Path | None:
    """Path of a program, absolute, or None. What the user named must exist; the rest is searched for."""
    for named, origin in ((given, "the command line"), (environment, "the environment")):
        if named:
            path = Path(named).absolute()
            if not (path.is_file() and os.access(path, os.X_OK)):
                raise UsageFault(f"{path}: named by {origin} for {name}, but it is not a program")
            return path
    if os.access(BESIDE / name, os.X_OK):
        return BESIDE / name
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}")
    return Path(found) if found else None


def tool(name: str) -> Path | None:
    """Path of a program that the lab itself uses; the variable NAME names another one than the host's."""
    return program(name, None, os.environ.get(name.upper().replace("-", "_")))


def _within(system: System, named: str | None) -> str | None:
    """The program that a root folder stands for."""
    if named and system.installation and Path(named).is_dir():
        return str(Path(named) / system.installation)
    return named


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _version(system: System, binary: Path | None) -> str | None:
    """What the program says of itself; for one that says nothing, what its package says; None when neither does."""
    if system.version and binary:
        root = installation(system, binary)
        inside = ROOT / binary.relative_to(root)
        command = [fill(word, {"binary": str(inside)}) for word in system.version]
        if root != ROOT:
            command = ["chroot", str(root), *command]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
            if done.returncode == 0 and done.stdout.strip():
                return done.stdout.strip().splitlines()[0]
    query = program("dpkg-query", None, None)
    if system.package and query and binary and str(binary).startswith("/usr/"):
        done = subprocess.run(
            [query, "-W", "-f", "${Package} ${Version}", system.package], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return done.stdout.strip()
    return None
