#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Has the pages of packages link what packages have: doc_links.py STAGE changes the Markdown files of that tree in place.

debian/*.docs, *.install ─► where each file of the tree will be ─► links of each page, as seen from there

A link to a file that no package has becomes its text and the name of the file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)")
WHOLE = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
ELSEWHERE = ("http://", "https://", "mailto:", "#")


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


def main() -> int:
    """Changes every page of a tree that has packaging/debian."""
    tree = Path(sys.argv[1])
    places = installed(tree, tree / "packaging/debian")
    for page in (page for page in places if page.suffix == ".md"):
        file = tree / page
        file.write_text(rewritten(page, file.read_text(), places))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
