# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which systems can run on this host, where their programs are, which version they have and, if not, what is missing.

A program is looked for in this order: --path NAME=PATH, the environment variable NAME, `bin/` beside the lab, PATH.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.faults import UsageFault
from diolkos_lab.sut.definition import System, fill

SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"  # not in everyone's PATH
CLONE = Path(__file__).parents[4]  # the repository the lab is installed from
BESIDE = CLONE / "bin"
PROGRAMS = Path(__file__).parent / "bpf"  # sources that systems compile


@dataclass(frozen=True)
class Found:
    """A system that can run here. `binary` is None for those that need no program."""

    system: System
    binary: Path | None
    version: str | None


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
        binary = program(system.binary, given.get(system.system), os.environ.get(system.system.upper()))
        if binary is None:
            return Missing(system, f"the program {system.binary} is not on this host", system.how)
    if system.programs and not (PROGRAMS / system.programs).is_dir():
        return Missing(system, f"the folder {PROGRAMS / system.programs} is missing", "install the lab again")
    if system.module and not Path(f"/sys/module/{system.module}").exists():
        return Missing(system, f"the kernel module {system.module} is not loaded", system.how)
    if any(path.tun for path in system.datapath.values()) and not Path("/dev/net/tun").exists():
        return Missing(system, "/dev/net/tun does not exist", "load the module with `modprobe tun`")
    return Found(system, binary, _version(system, binary))


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


def _version(system: System, binary: Path | None) -> str | None:
    """What the program says of itself; for one that says nothing, what its package says; None when neither does."""
    if system.version and binary:
        command = [fill(word, {"binary": str(binary)}) for word in system.version]
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
