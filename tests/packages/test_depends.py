# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a package depends on is in every release for which docs/install.md has it: the one that built it, and later ones.

Nothing is installed here. The versions are those with which a release came out, or rather less.
"""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BUILT

# Since Ubuntu 24.04 and Debian 13 libelf1t64 provides libelf1 in its own version: where times have always had 64 bits, both
# have the same interface.
RELEASES = {
    "bookworm": {"libc6": "2.36", "libelf1": "0.188", "libgcc-s1": "12.2", "zlib1g": "1:1.2.13", "systemd": "252"},
    "noble": {"libc6": "2.39", "libelf1": "0.190", "libgcc-s1": "14", "zlib1g": "1:1.3", "systemd": "255"},
    "trixie": {"libc6": "2.41", "libelf1": "0.192", "libgcc-s1": "14.2", "zlib1g": "1:1.3", "systemd": "257"},
}
PROGRAMS = ("diolkos", "diolkos-pktgen")


def later() -> list[str]:
    """The release whose C library is this machine's, and those with a newer one."""
    own = platform.libc_ver()[1]
    return [name for name, has in RELEASES.items() if satisfies(has["libc6"], "ge", own)]


def satisfies(version: str, relation: str, wanted: str) -> bool:
    """Whether a version is as wanted, by dpkg's order and in its words."""
    return subprocess.run(("dpkg", "--compare-versions", version, relation, wanted), check=False).returncode == 0


def package(name: str) -> Path:
    """The built one of this machine's architecture."""
    own = subprocess.run(("dpkg", "--print-architecture"), check=True, capture_output=True, text=True).stdout.strip()
    (found,) = BUILT.glob(f"{name}_*_{own}.deb")
    return found


def lacking(depends: str, has: dict[str, str]) -> list[str]:
    """The dependencies that no alternative satisfies."""
    groups = [group.strip() for group in depends.split(",")]
    return [group for group in groups if not any(is_met(one.strip(), has) for one in group.split("|"))]


def is_met(dependency: str, has: dict[str, str]) -> bool:
    """Whether a release has one alternative: NAME, or NAME (>= VERSION)."""
    parts = re.fullmatch(r"(\S+?)(?::any)?(?: \(([<=>]+) (\S+)\))?", dependency)
    assert parts, dependency
    name, relation, wanted = parts.groups()
    return name in has and (relation is None or satisfies(has[name], relation, wanted))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_release_has_what_a_package_depends_on(name: str) -> None:
    """Its control file names nothing else."""
    show = ("dpkg-deb", "--field", package(name), "Depends")
    depends = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    assert "libc6" in depends
    assert "libelf1" in depends
    lacks = {release: lacking(depends, RELEASES[release]) for release in later()}
    assert not any(lacks.values()), lacks


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_release_has_what_a_program_links(name: str, tmp_path: Path) -> None:
    """Symbols of the C library, and libraries: what the control file leaves out is missing only when the program starts."""
    subprocess.run(("dpkg-deb", "--extract", package(name), tmp_path), check=True)
    read = ("objdump", "--private-headers", tmp_path / "usr" / "bin" / name)
    headers = subprocess.run(read, check=True, capture_output=True, text=True).stdout
    libraries = set(re.findall(r"NEEDED +(\S+)", headers))
    others = {library for library in libraries if not library.startswith("ld-linux-")}
    assert others <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libelf.so.1", "libz.so.1"}
    symbols = set(re.findall(r" GLIBC_([0-9.]+)$", headers, re.MULTILINE))
    assert symbols
    for release in later():
        assert all(satisfies(RELEASES[release]["libc6"], "ge", symbol) for symbol in symbols), (release, sorted(symbols))


def test_what_a_release_lacks_is_found() -> None:
    """An older library, a missing one, and alternatives of which one is there."""
    noble = RELEASES["noble"]
    depends = "libc6 (>= 2.40), libelf1 (>= 0.144) | libelf1t64 (>= 0.144), libbpf1 | libbpf0, systemd | systemd-sysusers"
    assert lacking(depends, noble) == ["libc6 (>= 2.40)", "libbpf1 | libbpf0"]
