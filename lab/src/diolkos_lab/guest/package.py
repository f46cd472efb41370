# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Kernels: of the distribution's packages, or given as a package file or folder."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

from diolkos_lab.faults import UsageFault
from diolkos_lab.guest.archive import Archive, Unavailable, of_suite, output, unpack

PACKAGE = re.compile(r"linux-image-[\w.+-]+$")
VERSION = re.compile(r"\d+\.\d+$")
# Debian's names for what has the newest kernels.
SUITES = ("stable", "testing", "sid")
NEWEST = "linux-image-amd64"
# Of a kernel that is divided into packages, what holds the kernel itself and its modules.
PARTS = re.compile(r"linux-(?:base|binary|modules)-\d[\w.+-]*")


@dataclass(frozen=True)
class Kernel:
    """A kernel that a guest can boot."""

    release: str
    image: Path
    """A bzImage, or a vmlinux."""
    modules: Path | None
    """What is /lib/modules; None where everything is built in."""
    built: Path | None = None
    """The tree in which it was built, where modules can be built too."""
    archive: Archive | None = None
    """Where its package is from, if not from this host's own sources."""

    @property
    def version(self) -> tuple[int, int]:
        """Its first two numbers."""
        return numbers(self.release)


def numbers(release: str) -> tuple[int, int]:
    """The first two numbers of a release."""
    found = re.match(r"(\d+)\.(\d+)", release)
    if not found:
        raise Unavailable(f'"{release}" is no version of a kernel')
    return int(found[1]), int(found[2])


def find(text: str, archive: Archive) -> Kernel:
    """A version ("6.1"), a suite of Debian ("sid"), the name of a package, a package file, or a folder.

    Raises UsageFault or Unavailable.
    """
    path = Path(text)
    if path.is_dir():
        return in_folder(path.absolute())
    if path.is_file():
        if path.suffix != ".deb":
            raise UsageFault(f'--kernel "{text}": is a file, but no package (.deb); give the folder of an unpacked package')
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        folder = archive.cache / f"{path.stem}-{digest}"
        if not (folder / "complete").exists():
            unpack([path], folder)
        return in_folder(folder)
    if VERSION.match(text):
        return from_distribution(text, archive)
    if text in SUITES:
        return newest_of(of_suite(text, archive.cache))
    if PACKAGE.match(text):
        return in_folder(unpacked(archive, *archive.newest([text])))
    raise UsageFault(
        f'--kernel "{text}": neither a version such as 6.1, nor one of {", ".join(SUITES)}, nor a package linux-image-…, '
        "nor a folder or .deb file that exists"
    )


def in_folder(folder: Path) -> Kernel:
    """The kernel of an unpacked package, or of a source tree in which it was built."""
    images = sorted(folder.glob("boot/vmlinuz-*"))
    if images:
        release = images[0].name.removeprefix("vmlinuz-")
        trees = [tree for tree in (folder / "lib/modules", folder / "usr/lib/modules") if (tree / release).is_dir()]
        return Kernel(release, images[0], trees[0] if trees else None)
    # As Debian packs it since 7.0.
    if images := sorted(folder.glob("usr/lib/modules/*/vmlinuz")):
        return Kernel(images[0].parent.name, images[0], folder / "usr/lib/modules")
    image = folder / "vmlinux"
    named = folder / "include/config/kernel.release"
    if image.exists() and named.exists():
        return Kernel(named.read_text().strip(), image, None, folder)
    raise Unavailable(
        f'"{folder}" has neither boot/vmlinuz-* nor usr/lib/modules/*/vmlinuz (an unpacked package) '
        "nor vmlinux (a source tree that was built)"
    )


def from_distribution(version: str, archive: Archive) -> Kernel:
    """The newest kernel of a version, "6.1", among the distribution's packages."""
    kind = re.compile(rf"linux-image-{re.escape(version)}\.\d[\w.+]*(-\d+)?-amd64$")
    names = [name for name in output("apt-cache", "pkgnames", f"linux-image-{version}.").split() if kind.match(name)]
    if not names:
        raise Unavailable(f"the distribution has no package of Linux {version}; give the folder of an unpacked one")
    return in_folder(unpacked(archive, *archive.newest(names)))


def newest_of(archive: Archive) -> Kernel:
    """The newest kernel of a suite."""
    version = archive.newest([NEWEST])[1]
    images = [name for name in named(archive.field(NEWEST, version, "Depends")) if PACKAGE.match(name)]
    if not images:
        raise Unavailable(f"{NEWEST} {version} names no kernel")
    return replace(in_folder(unpacked(archive, *archive.newest(images[:1]))), archive=archive)


def unpacked(archive: Archive, name: str, version: str) -> Path:
    """The package of a kernel, with those into which it is divided."""
    parts = [each for each in named(archive.field(name, version, "Depends")) if PARTS.match(each)]
    return archive.unpacked(name, version, parts)


def named(relation: str) -> list[str]:
    """The packages of a field such as Depends."""
    return re.findall(r"(?:^|[,|])\s*([\w.+-]+)", relation)
