# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Kernels: found among the distribution's packages, downloaded and unpacked without root, or given as a folder."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


class Unavailable(Exception):
    """There is no such kernel here; it says why."""


@dataclass
class Kernel:
    """A kernel that a guest can boot."""

    release: str
    image: Path
    """A bzImage, or a vmlinux."""
    modules: Path | None
    """What is /lib/modules; None where everything is built in."""

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


def in_folder(folder: Path) -> Kernel:
    """The kernel of an unpacked package, or of a source tree in which it was built."""
    images = sorted(folder.glob("boot/vmlinuz-*"))
    if images:
        release = images[0].name.removeprefix("vmlinuz-")
        trees = [tree for tree in (folder / "lib/modules", folder / "usr/lib/modules") if (tree / release).is_dir()]
        return Kernel(release, images[0], trees[0] if trees else None)
    built = folder / "vmlinux"
    release = folder / "include/config/kernel.release"
    if built.exists() and release.exists():
        return Kernel(release.read_text().strip(), built, None)
    raise Unavailable(f'"{folder}" has neither boot/vmlinuz-* (an unpacked package) nor vmlinux (a source tree that was built)')


def from_distribution(version: str, cache: Path) -> Kernel:
    """The newest kernel of a version, "6.1", among the distribution's packages."""
    kind = re.compile(rf"linux-image-{re.escape(version)}\.\d[\w.+]*(-\d+)?-amd64$")
    names = [name for name in output("apt-cache", "pkgnames", f"linux-image-{version}.").split() if kind.match(name)]
    return in_folder(unpacked(*newest(names), cache))


def newest(names: list[str]) -> tuple[str, str]:
    """Of packages that may not all be there, the one with the highest version, and that version."""
    best = None
    for name in names:
        found = re.search(r"Candidate: (\d\S*)", output("apt-cache", "policy", name))
        if found and (not best or is_newer(found[1], best[1])):
            best = (name, found[1])
    if not best:
        raise Unavailable("the distribution has no package of it; give an unpacked one by KERNEL_DIR")
    return best


def is_newer(one: str, other: str) -> bool:
    """Whether a version of a package is higher than another one."""
    return subprocess.run(["dpkg", "--compare-versions", one, "gt", other], check=False).returncode == 0


def unpacked(name: str, version: str, cache: Path) -> Path:
    """A package of the distribution, downloaded and unpacked once for each of its versions."""
    folder = cache / f"{name}_{version.replace(':', '%3a')}"
    if (folder / "complete").exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    output("apt-get", "download", "-q", f"{name}={version}", cwd=cache)
    # apt-get names the file by name, version and architecture.
    (archive,) = cache.glob(f"{name}_{version.replace(':', '%3a')}_*.deb")
    output("dpkg-deb", "-x", str(archive), str(folder))
    archive.unlink()
    for modules in folder.glob("lib/modules/*"):
        # What a package's own script does when it is installed.
        output("depmod", "-b", str(folder), modules.name)
    (folder / "complete").touch()
    return folder


def output(*command: str, cwd: Path | None = None) -> str:
    """What a command prints."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd)
    if done.returncode != 0:
        raise Unavailable(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
