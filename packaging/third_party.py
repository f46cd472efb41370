#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the licences of all crates that are linked into the programs: third_party.py [--target TRIPLE] PROGRAM...

cargo's metadata ─► crates that a program is built of ─► name, version, licence, and the texts that the crate ships
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
TEXTS = ("licen", "copying", "notice", "copyright", "unlicense")


def metadata(target: str | None) -> dict[str, Any]:
    """What cargo knows of the workspace, for one platform."""
    command = ["cargo", "metadata", "--format-version=1", "--locked"]
    command += ["--filter-platform", target] if target else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=PROJECT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def linked(known: dict[str, Any], programs: list[str]) -> list[dict[str, Any]]:
    """The packages of others that normal dependencies lead to, by name and version."""
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    packages = {package["id"]: package for package in known["packages"]}
    ours = set(known["workspace_members"])
    waiting = [id for id in ours if packages[id]["name"] in programs]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((packages[id] for id in seen - ours), key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> list[Path]:
    """The files of a crate that say who allows what; those of C libraries inside it, too."""
    folder = Path(package["manifest_path"]).parent
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.name.lower().startswith(TEXTS))


def main() -> int:
    """Print the notices."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target")
    parser.add_argument("programs", nargs="+")
    asked = parser.parse_args()
    shown: dict[str, str] = {}
    for package in linked(metadata(asked.target), asked.programs):
        name = f"{package['name']} {package['version']}"
        print(f"{'=' * 100}\n{name}: {package['license']}")
        print(f"by {', '.join(package['authors'])}" if package["authors"] else f"of {package['repository'] or 'its authors'}")
        for file in texts(package):
            text = file.read_text(errors="replace").strip()
            where = f"{name}, {file.relative_to(Path(package['manifest_path']).parent)}"
            if text in shown:
                print(f"\n-- {where}: the same text as {shown[text]}")
            else:
                shown[text] = where
                print(f"\n-- {where}:\n\n{text}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
