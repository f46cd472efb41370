# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fails on a file that should not be committed as it is: no licence line, a leftover, an address that only works here.

files that git knows or would add ─► text ─► complaints of one file ─► list of failures
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).resolve().parent.parent

SOURCES = {".c", ".h", ".py", ".rs", ".sh"}
HEAD_LINES = 3  # the licence line stands here: after a #! line and its comment sign

# Written so that this file does not complain about itself.
FORBIDDEN = {
    "a leftover mark": re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b|^(?:<{7}|>{7}) "),
    "a folder of one machine": re.compile(r"(?<![\w.~*-])/(?:work|root|home|Users)/"),
    "the address of a package registry": re.compile(
        r"\b(?:pypi\.[o]rg|pythonhosted\.[o]rg|crates\.[i]o/|npmjs\.[o]rg|proxy\.golang\.[o]rg|deb\.debian\.[o]rg"
        r"|archive\.ubuntu\.[c]om|maven\.[o]rg)|--(?:extra-)?index-[u]rl|--find-[l]inks"
    ),
}


def complaints(path: PurePosixPath, text: str) -> Iterator[str]:
    """What is wrong with one file, as ``path:line: sentence``."""
    lines = text.splitlines()
    wanted = licence_line(path, lines)
    if wanted and not any(wanted in line for line in lines[:HEAD_LINES]):
        yield f"{path}:1: the first {HEAD_LINES} lines lack '{wanted}'"
    for number, line in enumerate(lines, 1):
        for what, pattern in FORBIDDEN.items():
            if found := pattern.search(line):
                yield f"{path}:{number}: {what}: {found[0].strip()}"


def licence_line(path: PurePosixPath, lines: list[str]) -> str | None:
    """The line that a file has to carry, or None if it is no source."""
    is_source = path.suffix in SOURCES or path.name == "Makefile" or (lines and lines[0].startswith("#!"))
    if not is_source:
        return None
    licence = "(GPL-2.0-only OR BSD-2-Clause)" if "bpf" in path.parts else "Apache-2.0 OR MIT"
    return f"SPDX-License-Identifier: {licence}"


def files() -> Iterator[PurePosixPath]:
    """The files that git tracks or would add, relative to the project."""
    # The clone may be another user's than root, which git refuses unless told.
    command = ["git", "-c", f"safe.directory={PROJECT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd=PROJECT, text=True)
    if listed.returncode:
        sys.exit("This check asks git which files there are, so it needs git and a clone.")
    yield from (PurePosixPath(name) for name in listed.stdout.split("\0") if name)


def main() -> int:
    """Print every complaint, or one line of praise."""
    found: list[str] = []
    count = 0
    for path in files():
        file = PROJECT / path
        if file.is_symlink() or not file.is_file():
            continue
        content = file.read_bytes()
        if b"\0" in content:  # captures and pictures
            continue
        count += 1
        found += complaints(path, content.decode(errors="replace"))
    print("\n".join(found) or f"All {count} text files of the tree are as they should be.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
