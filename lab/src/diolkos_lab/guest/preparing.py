# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What has to be there before a guest boots: a study that makes sense, a kernel, Jool's modules where the study has Jool."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diolkos_lab import run_study
from diolkos_lab.experiment.definition import Study
from diolkos_lab.faults import MissingFault, UsageFault
from diolkos_lab.guest import jool, package
from diolkos_lab.guest.archive import Archive, Unavailable
from diolkos_lab.guest.machine import Acceleration
from diolkos_lab.samples import folder
from diolkos_lab.sut import definition
from diolkos_lab.sut.lookup import CLONE, tool

TOOLS = {
    "qemu-system-x86_64": "apt-get install qemu-system-x86",
    "depmod": "apt-get install kmod",
    "zstd": "apt-get install zstd",
    "setpriv": "apt-get install util-linux",
}


@dataclass(frozen=True)
class Prepared:
    """All that one run in a guest needs."""

    study: Study
    kernel: package.Kernel
    jool: jool.Jool | None
    reasons: Mapping[str, str]  # system to why it cannot run in this guest
    paths: Mapping[str, str]  # system to its program
    out: Path
    packages: Archive
    facts: Mapping[str, Any]

    def facts_for(self, acceleration: Acceleration) -> dict[str, Any]:
        """Facts for host.json that the guest cannot know."""
        return {**self.facts, "guest": {**self.facts["guest"], "acceleration": acceleration}}


def prepare(request: run_study.RunRequest, kernel: str, say: Callable[[str], None]) -> Prepared:
    """Raises UsageFault and MissingFault before anything is downloaded, where that is possible."""
    if platform.machine() != "x86_64":
        raise MissingFault(f"--kernel: guests are made for x86_64, and this host is {platform.machine()}")
    for name, how in TOOLS.items():
        if tool(name) is None:
            raise MissingFault(f"a guest needs the tool {name}, which is not on this host: {how}")
    study = run_study.asked_study(request)
    if request.length.hours is not None:
        raise UsageFault("--hours: a guest is slower than this host can foresee; use --blocks")
    known = definition.catalogue()
    systems, named = known.systems, {subject.system for subject in study.system}
    if own := next((name for name in known.own if name in named), None):
        raise UsageFault(f"--kernel: {own} is defined in {known.own[own]}, and a guest has the systems of the package only")
    packages = Archive(cache() / "packages")
    found = package.find(kernel, packages)
    built, reasons = None, {}
    if named & set(jool.SYSTEMS):
        say(f"Linux {found.release}: Jool's modules")
        try:
            built = jool.obtain(found, packages)
        except Unavailable as why:
            reasons = dict.fromkeys(jool.SYSTEMS, str(why))
    given = {name: path for name in systems if (path := os.environ.get(name.upper()))} | dict(request.paths)
    paths = {name: str(Path(path).absolute()) for name, path in given.items()} | (built.programs if built else {})
    facts = {
        "hostname": platform.node() or None,
        "command_line": sys.argv,
        "guest": {
            "kernel": kernel,
            "emulator": _version(),
            "jool": built.version if built else None,
            "host_kernel": platform.release(),
        },
    }
    return Prepared(study, found, built, reasons, paths, _claimed(request, study, found), packages, facts)


def cache() -> Path:
    """For packages, modules and what guests boot: in the clone, else in the user's own cache."""
    if (CLONE / "Cargo.toml").exists():
        return CLONE / "target/kernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diolkos-lab/kernels"


@contextlib.contextmanager
def work_folder(kernel: package.Kernel) -> Iterator[Path]:
    """For what one guest boots. Afterwards only its console stays, and that until another guest is started."""
    parent = cache() / "guests"
    for old in parent.glob("*-*"):
        if not Path("/proc", old.name.rpartition("-")[2]).exists():
            shutil.rmtree(old, ignore_errors=True)
    path = parent / f"{kernel.release}-{os.getpid()}"
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    finally:
        for name in ("vmlinux", "initramfs"):
            (path / name).unlink(missing_ok=True)


def _claimed(request: run_study.RunRequest, study: Study, kernel: package.Kernel) -> Path:
    """The result folder; an older result in it is moved aside."""
    date = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    out = (request.out or Path("results") / f"{study.name}-linux{kernel.release}-{date}").absolute()
    folder.claim(out).close()
    return out


def _version() -> str | None:
    done = subprocess.run(["qemu-system-x86_64", "--version"], check=False, capture_output=True, text=True)
    found = re.search(r"version (\S+)", done.stdout)
    return f"QEMU {found[1]}" if found else None
