# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fails, by name, on a dependency that cannot be part of something under `Apache-2.0 OR MIT`. Needs no network.

    crates (cargo metadata) ─┐
                             ├─► name, version, licence expression ─► allowed? ─► list of failures
    Python (installed) ──────┘

Crates become part of the programs, so their licences have to be permissive. The lab's Python packages are imported
by it, and held to the same list. Test tools are only ever run beside the project; they may also be copyleft. Crates
that only fuzz/ needs are such tools.
What a Python wheel carries inside is its publisher's to license and is fetched from there by whoever installs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from spdx import NotSpdx, parse, satisfied

PROJECT = Path(__file__).resolve().parent.parent

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-CMU",
    "PSF-2.0",
    "Unicode-3.0",
    "Zlib",
}
FOR_TEST_TOOLS = PERMISSIVE | {"GPL-2.0-only", "MPL-2.0", "NCSA"}

# Foreign sources that a crate compiles into our programs and that its own licence field does not speak of.
INSIDE_CRATES = {"libbpf-sys": "LGPL-2.1-only OR BSD-2-Clause"}  # libbpf

# Before PEP 639 a package named its licence by a classifier. Not all classifiers say which of a family is meant;
# those stand here for the member that asks most.
CLASSIFIERS = {
    "Apache": "Apache-2.0",  # kubernetes-validate, whose text is that of 2.0
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


@dataclass(frozen=True)
class Dependency:
    """One crate or Python package; licence is an SPDX expression, or what it says instead of one."""

    kind: str
    name: str
    version: str
    licence: str
    allowed: frozenset[str]

    def complaint(self) -> str | None:
        """Why this dependency cannot stay, or None."""
        try:
            fits = satisfied(parse(self.licence), set(self.allowed))
        except NotSpdx as error:
            return f"{self.kind} {self.name} {self.version}: its licence is unknown ({error})"
        return None if fits else f"{self.kind} {self.name} {self.version}: {self.licence} is not allowed"


def crates(cargo_metadata: dict[str, Any]) -> Iterator[Dependency]:
    """All crates of the lock file that this platform builds, but for our own."""
    programs = of_programs(cargo_metadata)
    for package in cargo_metadata["packages"]:
        if package["id"].startswith("path+"):  # ours: it stands in this tree
            continue
        licence = package["license"] or ""
        if inside := INSIDE_CRATES.get(package["name"]):
            licence = f"({licence}) AND ({inside})"
        allowed = PERMISSIVE if package["id"] in programs else FOR_TEST_TOOLS
        yield Dependency("crate", package["name"], package["version"], licence, frozenset(allowed))


def of_programs(cargo_metadata: dict[str, Any]) -> set[str]:
    """The identities of our crates but those of fuzz/, and of all that they need to be built and tested."""
    needs = {node["id"]: node["dependencies"] for node in cargo_metadata["resolve"]["nodes"]}
    todo = [member for member in cargo_metadata["workspace_members"] if "/fuzz#" not in member]
    found: set[str] = set()
    while todo:
        if (crate := todo.pop()) not in found:
            found.add(crate)
            todo += needs[crate]
    return found


def python_packages(lab_requires: list[str]) -> Iterator[Dependency]:
    """All packages of the running Python environment, but for our own. lab_requires: what the lab itself imports."""
    imported = closure(lab_requires)
    seen = set()
    for package in metadata.distributions():
        name = canonicalize_name(package.name)
        if name == "diolkos-lab" or name in seen:
            continue
        seen.add(name)
        allowed = PERMISSIVE if name in imported else FOR_TEST_TOOLS
        yield Dependency(
            "Python package", name, package.version, licence_of(cast(Message, package.metadata)), frozenset(allowed)
        )


def closure(requirements: list[str]) -> set[str]:
    """Canonical names of the required packages and of all that they require in this environment."""
    found: set[str] = set()
    todo = [Requirement(text) for text in requirements]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        todo += [Requirement(text) for text in metadata.requires(name) or []]
    return found


def licence_of(package: Message) -> str:
    """The licence of a Python package: License-Expression (PEP 639), else classifiers, else a License of one line."""
    if expression := package.get("License-Expression"):
        return str(expression)
    titles = [line.rsplit(" :: ", 1)[1] for line in package.get_all("Classifier", []) if line.startswith("License :: ")]
    titles = [title for title in titles if title != "OSI Approved"]
    if titles:
        return " AND ".join(CLASSIFIERS.get(title, f'"{title}"') for title in titles)
    licence = str(package.get("License") or "")
    return CLASSIFIERS.get(licence, licence)


def cargo_metadata() -> dict[str, Any]:
    """What cargo knows of the workspace and all its dependencies on this platform, without the network."""
    version = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    host = next(line.removeprefix("host: ") for line in version.splitlines() if line.startswith("host: "))
    command = ["cargo", "metadata", "--offline", "--locked", "--format-version", "1", "--all-features"]
    command += ["--filter-platform", host]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=PROJECT).stdout)
    return found


def main() -> int:
    """Print every complaint, or one line of praise."""
    lab = tomllib.loads((PROJECT / "lab/pyproject.toml").read_text())["project"]
    dependencies = [*crates(cargo_metadata()), *python_packages(lab["dependencies"])]
    complaints = [complaint for dependency in dependencies if (complaint := dependency.complaint())]
    for complaint in complaints:
        print(complaint)
    if not complaints:
        print(f"The licences of all {len(dependencies)} dependencies are allowed.")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
