# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packages of the distribution: found by apt, downloaded and unpacked without root. Nothing is installed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.faults import MissingFault

INDEXES = ("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT) $(ORIGIN)", "Created-By: Packages")


class Unavailable(MissingFault):
    """There is no such thing here; it says why."""


@dataclass(frozen=True)
class Archive:
    """Where packages come from: this host's own sources or, with `options` for apt, those of another suite."""

    cache: Path
    options: tuple[str, ...] = ()

    def newest(self, names: list[str]) -> tuple[str, str]:
        """Of packages that may not all be there, the one with the highest version, and that version."""
        best: tuple[str, str] | None = None
        said = output("apt-cache", *self.options, "policy", *names)
        for name, version in re.findall(r"^(\S+):\n(?:  .*\n)*?  Candidate: (\d\S*)", said, re.MULTILINE):
            if not best or is_newer(version, best[1]):
                best = (name, version)
        if not best:
            raise Unavailable(f"the distribution has no package {names[0] if len(names) == 1 else 'of it'}")
        return best

    def field(self, name: str, version: str, field: str) -> str:
        """What the distribution says of a package, such as its checksum or what it depends on."""
        text = output("apt-cache", *self.options, "show", f"{name}={version}")
        found = re.search(rf"^{field}: (.*)$", text, re.MULTILINE)
        return found[1] if found else ""

    def unpacked(self, name: str, version: str, parts: Iterable[str] = ()) -> Path:
        """A package, downloaded and unpacked once for each of its versions. `parts` are packages of the same version that are
        unpacked into the same folder."""
        folder = self.cache / f"{name}_{version.replace(':', '%3a')}"
        if (folder / "complete").exists():
            return folder
        self.cache.mkdir(parents=True, exist_ok=True)
        names = (name, *parts)
        output("apt-get", *self.options, "download", "-q", *(f"{each}={version}" for each in names), cwd=self.cache)
        # apt-get names the file by name, version and architecture.
        archives = [next(self.cache.glob(f"{each}_{version.replace(':', '%3a')}_*.deb")) for each in names]
        unpack(archives, folder)
        for archive in archives:
            archive.unlink()
        return folder


def unpack(archives: Iterable[Path], folder: Path) -> None:
    """Package files, into one folder."""
    for archive in archives:
        output("dpkg-deb", "-x", str(archive), str(folder))
    for base in (folder, folder / "usr"):
        for modules in base.glob("lib/modules/*"):
            # What a package's own script does when it is installed.
            output("depmod", "-b", str(base), modules.name)
    (folder / "complete").touch()


def of_suite(suite: str, cache: Path) -> Archive:
    """Debian's `suite`, such as `stable`, from the servers of this host's own sources. The host's lists stay as they are."""
    for line in output(*INDEXES).splitlines():
        uri, codename, component, origin = (*line.split(), "", "", "", "")[:4]
        if origin == "Debian" and component == "main" and "-" not in codename:
            break
    else:
        raise Unavailable("this host's package sources have no release of Debian")
    folder = cache / f"apt-{suite}"
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    sources.write_text(f"deb [signed-by={keys}] {uri} {suite} main\n")
    options = {
        "Dir::Etc::SourceList": str(sources),
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": str(folder / "lists"),
        "Dir::Cache": str(folder / "cache"),
        # Some machines are told to keep none, and apt would read all lists for each question.
        "Dir::Cache::pkgcache": "pkgcache.bin",
        "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    archive = Archive(cache, tuple(word for key, value in options.items() for word in ("-o", f"{key}={value}")))
    output("apt-get", *archive.options, "update", "-q")
    return archive


def is_newer(one: str, other: str) -> bool:
    """Whether a version of a package is higher than another one."""
    return subprocess.run(["dpkg", "--compare-versions", one, "gt", other], check=False).returncode == 0


def output(*command: str, cwd: Path | None = None) -> str:
    """What a command prints."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd)
    except FileNotFoundError as error:
        raise Unavailable(f'the program "{command[0]}" is not on this host; packages need a distribution with apt') from error
    if done.returncode != 0:
        raise Unavailable(f"`{' '.join(command)}` failed: {' '.join((done.stderr or done.stdout).split()[-40:])}")
    return done.stdout
