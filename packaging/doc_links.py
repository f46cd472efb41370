#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Has the pages of packages, and those of `make install`, link what is installed with them.

    doc_links.py STAGE              changes the Markdown files of that tree in place
    doc_links.py --install PREFIX   installs what the packages of the programs have of the pages and of what they link

debian/*.docs, *.install ─► where each file of the tree will be ─► links of each page, as seen from there

A link to a file that is not installed becomes its text and the name of the file.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)")
WHOLE = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
ELSEWHERE = ("http://", "https://", "mailto:", "#")
USR = Path("usr")
# Of `make install`, which does not install the lab.
BY_MAKE = tuple(USR / "share" / name for name in ("doc/diolkos", "doc/diolkos-pktgen", "varlink"))


def installed(tree: Path, debian: Path) -> dict[Path, Path]:
    """Where each file is installed that a package takes from the tree. Both are relative; programs are not built yet."""
    found: dict[Path, Path] = {}
    for docs in sorted(debian.glob("*.docs")):
        folder = Path("usr/share/doc") / docs.stem
        for pattern in docs.read_text().split():
            found.update(below(tree, pattern, folder))
    for install in sorted(debian.glob("*.install")):
        for line in install.read_text().splitlines():
            pattern, place = line.split()
            found.update(below(tree, pattern, Path(place)))
    return found


def below(tree: Path, pattern: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """The files that a pattern names, or that are in a folder that it names, and their places."""
    for named in sorted(tree.glob(pattern)):
        for file in [named] if named.is_file() else sorted(named.rglob("*")):
            if file.is_file():
                yield file.relative_to(tree), folder / file.relative_to(named.parent)


def by_make(places: dict[Path, Path]) -> dict[Path, Path]:
    """Those that `make install` installs, seen from its PREFIX."""
    return {
        file: place.relative_to(USR)
        for file, place in places.items()
        if any(place.is_relative_to(folder) for folder in BY_MAKE)
    }


def target(page: Path, link: str) -> Path:
    """What a link of a page names, in the tree."""
    return Path(os.path.normpath(page.parent / link.partition("#")[0]))


def rewritten(page: Path, text: str, places: dict[Path, Path]) -> str:
    """The text of a page as it is installed."""

    def whole(found: re.Match[str]) -> str:
        mark, words, link = found.groups()
        if link.startswith(ELSEWHERE):
            return found[0]
        file = target(page, link)
        anchor = link[len(link.partition("#")[0]) :]
        if file in places:
            seen = os.path.relpath(places[file], places[page].parent)
            return f"{mark}[{words}]({seen}{anchor})"
        return f"{words} ({file}, in the sources)"

    return WHOLE.sub(whole, text)


def install(tree: Path, prefix: Path) -> None:
    """Installs the pages of a tree, and what they link."""
    os.umask(0o022)
    places = by_make(installed(tree, tree / "packaging/debian"))
    for file, place in places.items():
        there = prefix / place
        there.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            there.write_text(rewritten(file, (tree / file).read_text(), places))
        else:
            shutil.copyfile(tree / file, there)
        there.chmod(0o755 if os.access(tree / file, os.X_OK) else 0o644)


def main() -> int:
    """Changes every page of a tree that has packaging/debian, or installs those of this one."""
    if sys.argv[1] == "--install":
        install(Path(__file__).resolve().parents[1], Path(sys.argv[2]))
        return 0
    tree = Path(sys.argv[1])
    places = installed(tree, tree / "packaging/debian")
    for page in (page for page in places if page.suffix == ".md"):
        file = tree / page
        file.write_text(rewritten(page, file.read_text(), places))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
