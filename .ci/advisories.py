# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fails, by name, on a crate of the lock file that a security advisory is about. Needs no network.

    Cargo.lock ──────────────────► name, version ─┐
                                                  ├─► affected? ─► accepted, with a reason? ─► list of failures
    advisories.txt (RustSec, as of a day) ────────┘

    advisories.py                     checks
    advisories.py --from FOLDER       writes advisories.txt anew from a clone of RustSec's advisory database

A line of advisories.txt is `ID crate | patched | unaffected`, with version requirements separated by `;`. Advisories about
crates that are merely unmaintained are left out, and so are those that were withdrawn.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from semantic_version import SimpleSpec, Version

PROJECT = Path(__file__).resolve().parent.parent
KNOWN = Path(__file__).with_name("advisories.txt")
HEAD = "# As of {day}: written by advisories.py; lines below the mark are added by hand and stay.\n"
MARK = "# --- added by hand\n"

# Why an advisory does not concern us. One that no crate needs any more fails, so that this list stays true.
ACCEPTED: dict[str, str] = {}


@dataclass(frozen=True)
class Advisory:
    """What RustSec says of a crate."""

    name: str
    crate: str
    patched: tuple[str, ...]
    unaffected: tuple[str, ...]

    def concerns(self, crate: str, version: str) -> bool:
        """Is this version affected? RustSec: unless a requirement for patched or unaffected ones matches."""
        if crate != self.crate:
            return False
        return not any(matches(requirement, version) for requirement in (*self.patched, *self.unaffected))

    def line(self) -> str:
        """As it stands in advisories.txt."""
        return f"{self.name} {self.crate} | {'; '.join(self.patched)} | {'; '.join(self.unaffected)}\n"


def matches(requirement: str, version: str) -> bool:
    """Cargo's version requirement; its parts are separated by commas and must all hold."""
    return Version(version) in SimpleSpec(requirement.replace(" ", ""))


def read(text: str) -> Iterator[Advisory]:
    """The lines of advisories.txt."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            head, patched, unaffected = line.split("|")
            name, crate = head.split()
            requirements = [tuple(r.strip() for r in part.split(";") if r.strip()) for part in (patched, unaffected)]
            yield Advisory(name, crate, *requirements)


def locked(lock: str) -> Iterator[tuple[str, str]]:
    """Name and version of each crate from a registry."""
    for package in tomllib.loads(lock)["package"]:
        if "source" in package:
            yield package["name"], package["version"]


def complaints(crates: Iterable[tuple[str, str]], known: list[Advisory], accepted: dict[str, str]) -> Iterator[str]:
    """What is affected and not accepted, and what is accepted in vain."""
    needed = set()
    for crate, version in sorted(set(crates)):
        for advisory in known:
            if advisory.concerns(crate, version):
                needed.add(advisory.name)
                if advisory.name not in accepted:
                    patched = " or ".join(advisory.patched) or "no version"
                    yield f"crate {crate} {version}: {advisory.name}; patched: {patched}"
    for name in sorted(accepted.keys() - needed):
        yield f"{name} is accepted, but concerns no crate: remove it from ACCEPTED"


def from_database(folder: Path) -> str:
    """advisories.txt from a clone, which may be bare."""

    def git(*command: str) -> str:
        return subprocess.run(["git", "-C", folder, *command], check=True, capture_output=True, text=True).stdout

    lines = [HEAD.format(day=git("log", "-1", "--format=%cs").strip())]
    for path in git("ls-tree", "-r", "--name-only", "HEAD", "crates/").splitlines():
        if "/RUSTSEC-" not in path or not path.endswith(".md"):
            continue
        front = tomllib.loads(git("show", f"HEAD:{path}").split("```toml")[1].split("```")[0])
        about = front["advisory"]
        if "withdrawn" in about or about.get("informational") in ("unmaintained", "notice"):
            continue
        versions = front["versions"]
        parts = [tuple(versions.get(key, [])) for key in ("patched", "unaffected")]
        lines.append(Advisory(about["id"], about["package"], *parts).line())
    by_hand = KNOWN.read_text().partition(MARK)[2] if KNOWN.exists() else ""
    return "".join(lines) + MARK + by_hand


def main() -> int:
    """Print every complaint, or one line of praise."""
    match sys.argv[1:]:
        case ["--from", folder]:
            KNOWN.write_text(from_database(Path(folder)))
            return 0
        case [_, *_]:
            print("usage: advisories.py [--from FOLDER]")
            return 2
    text = KNOWN.read_text()
    crates = set(locked((PROJECT / "Cargo.lock").read_text()))
    known = list(read(text))
    found = list(complaints(crates, known, ACCEPTED))
    for complaint in found:
        print(complaint)
    if not found:
        day = text.split()[3].rstrip(":")
        print(f"No advisory of {len(known)} concerns the {len(crates)} crates. They are as known on {day}.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
