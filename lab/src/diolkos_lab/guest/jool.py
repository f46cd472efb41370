# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Jool for a guest: its modules built for the guest's kernel, its programs with libraries of their own.

    newest package ─► headers of the kernel ─► make ─► modules, programs        cached by the checksums of all packages

The version of this host's release comes first. Where that does not compile, a newer release of Debian may have one that does.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.guest.archive import Archive, Unavailable, of_suite, output
from diolkos_lab.guest.package import Kernel

SYSTEMS = {"jool": "jool_siit", "jool64": "jool"}  # of the lab, and their programs
SUITES = ("stable", "testing")
PARTS = {"common": "jool_common", "nat64": "jool", "siit": "jool_siit"}  # in the order in which they are loaded
LIBRARIES = ("libnl-3-200", "libnl-genl-3-200", "libc6")
LOADER = "ld-linux-x86-64.so.2"
ERROR = re.compile(r"\berror: |: not found$|\*\*\* ")
LOADED = re.compile(r"(lib(nl-|c\.so|m\.so|pthread|dl\.so)|ld-linux)")


@dataclass(frozen=True)
class Jool:
    """Modules and programs of one version."""

    folder: Path

    @property
    def version(self) -> str:
        return (self.folder / "version").read_text().strip()

    @property
    def modules(self) -> list[Path]:
        """In the order in which they are loaded."""
        return [self.folder / f"{name}.ko" for name in PARTS.values()]

    @property
    def needs(self) -> list[str]:
        """Modules of the kernel that have to be there before."""
        names = (name for file in self.modules for name in output("modinfo", "-F", "depends", str(file)).strip().split(","))
        return sorted({name for name in names if name} - set(PARTS.values()))

    @property
    def programs(self) -> dict[str, str]:
        """Each system's program."""
        return {system: str(self.folder / "bin" / name) for system, name in SYSTEMS.items()}

    @property
    def files(self) -> list[Path]:
        """All that a guest needs."""
        return [
            file for file in sorted(self.folder.rglob("*")) if file.is_file() and file.name not in ("log", "begun", "complete")
        ]


def obtain(kernel: Kernel, here: Archive) -> Jool:
    """Modules and programs for this kernel, built where the cache has none. Raises Unavailable with what was in the way."""
    reasons: list[str] = []
    seen: set[str] = set()
    for archive in _archives(here, reasons):
        try:
            version = archive.newest(["jool-dkms"])[1]
            if version not in seen:
                seen.add(version)
                return _obtain(kernel, here, archive, version)
        except Unavailable as why:
            reasons.append(str(why))
    raise Unavailable("; ".join(dict.fromkeys(reasons)))


def _archives(here: Archive, reasons: list[str]) -> Iterator[Archive]:
    yield here
    for suite in SUITES:
        try:
            yield of_suite(suite, here.cache)
        except Unavailable as why:
            reasons.append(str(why))


def _obtain(kernel: Kernel, here: Archive, archive: Archive, version: str) -> Jool:
    tools = archive.newest(["jool-tools"])[1]
    if tools != version:
        raise Unavailable(f"jool-dkms is {version} and jool-tools {tools}: they have to be one version")
    source = kernel.archive or here
    headers = [] if kernel.built else list(_headers(kernel, source))
    mine = [("jool-dkms", version), ("jool-tools", version), *(archive.newest([name]) for name in LIBRARIES)]
    sums = [source.field(*each, "SHA256") for each in headers] + [archive.field(*each, "SHA256") for each in mine]
    digest = hashlib.sha256("\n".join([kernel.release, str(kernel.built or ""), *sums]).encode()).hexdigest()[:16]
    folder = here.cache.parent / "jool" / digest
    if (folder / "failed").exists():
        raise Unavailable((folder / "failed").read_text())
    if not (folder / "complete").exists():
        _build(kernel, [source.unpacked(*each) for each in headers], archive.unpacked("jool-dkms", version), folder)
        _programs(archive.unpacked("jool-tools", version), [archive.unpacked(*each) for each in mine[2:]], folder)
        (folder / "version").write_text(version)
        (folder / "complete").touch()
    return Jool(folder)


def _headers(kernel: Kernel, here: Archive) -> Iterator[tuple[str, str]]:
    """The packages with which modules of this kernel are built."""
    name, version = here.newest([f"linux-headers-{kernel.release}"])
    yield name, version
    for needed in re.findall(r"linux-(?:headers|kbuild)-[\w.+-]+", here.field(name, version, "Depends")):
        yield here.newest([needed])


def _build(kernel: Kernel, headers: list[Path], dkms: Path, folder: Path) -> None:
    (source,) = dkms.glob("usr/src/jool*")
    work, begun = folder / "build", folder / "begun"
    # A build that was stopped goes on where it was.
    if not begun.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, work)
        if not kernel.built:
            _assemble(kernel, headers, folder / "headers")
        begun.touch()
    tree = kernel.built or folder / f"headers/usr/src/linux-headers-{kernel.release}"
    log = folder / "log"
    with log.open("w") as said:
        for part in PARTS:
            # Type information of the modules is for BPF programs, and making it needs one more program.
            types = "CONFIG_DEBUG_INFO_BTF_MODULES="
            command = ["make", "-j2", "-C", str(tree), f"M={work}/src/mod/{part}", types, "modules"]
            if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False).returncode:
                break
    missing = [part for part, name in PARTS.items() if not (work / f"src/mod/{part}/{name}.ko").exists()]
    if missing:
        version = source.name.rpartition("-")[2]
        first = first_error(log.read_text(errors="replace"))
        reason = f"Jool {version} does not compile for Linux {kernel.release} ({first.rpartition('/')[2][:120]}; {log})"
        (folder / "failed").write_text(reason)
        raise Unavailable(reason)
    for part, name in PARTS.items():
        shutil.copy(work / f"src/mod/{part}/{name}.ko", folder)
    for used in (work, folder / "headers"):
        shutil.rmtree(used, ignore_errors=True)


def first_error(log: str) -> str:
    """What a compiler, a shell or make says of it; names of files may hold the word, too."""
    return next((line for line in log.splitlines() if ERROR.search(line)), "see the log")


def _assemble(kernel: Kernel, headers: list[Path], folder: Path) -> None:
    """The packages over each other, as if they were installed; absolute paths lead there."""
    for package in headers:
        shutil.copytree(package, folder, symlinks=True, dirs_exist_ok=True)
    tree = folder / f"usr/src/linux-headers-{kernel.release}"
    for makefile in (tree / "Makefile", *tree.parent.glob("linux-headers-*-common/Makefile")):
        text = makefile.read_text()
        makefile.write_text(re.sub(r"(?<![\w)])/usr/(?=src/linux-|lib/linux-)", f"{folder}/usr/", text))


def _programs(tools: Path, libraries: list[Path], folder: Path) -> None:
    """With their own C library: that of another release may be newer than this host's."""
    for name in ("bin", "lib", "programs"):
        (folder / name).mkdir(exist_ok=True)
    for package in libraries:
        for file in package.glob("**/lib/x86_64-linux-gnu/*.so*"):
            if file.parent.name == "x86_64-linux-gnu" and LOADED.match(file.name):
                shutil.copy(file.resolve() if file.is_symlink() else file, folder / "lib" / file.name)
    for name in SYSTEMS.values():
        (program,) = (each for each in tools.rglob(name) if each.is_file() and each.parent.name == "bin")
        shutil.copy(program, folder / "programs" / name)
        wrapper = folder / "bin" / name
        # Relative to itself: the same cache may be reached over several paths.
        wrapper.write_text(
            f'#!/bin/sh\nhere=${{0%/*}}/..\nexec "$here/lib/{LOADER}" --library-path "$here/lib" "$here/programs/{name}" "$@"\n'
        )
        wrapper.chmod(0o755)
