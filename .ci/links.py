# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fails on a link in a Markdown file that leads to no file of the tree, or to no heading of it, and on a source file
that a page or a comment names and that does not exist.

files ─► links of each, names of source files in backticks ─► those that lead nowhere
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from itertools import product
from pathlib import Path, PurePosixPath

from tree import PROJECT, SOURCES, files

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
ELSEWHERE = ("http://", "https://", "mailto:")

CODE = SOURCES | {".p4"}
NAMED = re.compile(r"`([\w./{},*-]+\.(?:" + "|".join(sorted(suffix[1:] for suffix in CODE)) + r"))`")
COMMENT = re.compile(r"\s*(?://|/?\*|#|\"{3})")
# What stands here is text, whatever its first character: the docstring of a module, or a comment of C.
HEAD_LINES = 12
# Headers of Linux, and a tool of p4c.
OTHERS = re.compile(r"(?:include/)?(?:uapi/)?linux/[\w/]+\.h|bmv2stf\.py")


def anchors(text: str) -> set[str]:
    """What a link may name behind its `#`: the headings, as forges write them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}


def broken(file: Path, text: str) -> Iterator[str]:
    """The links of a file that lead nowhere, as ``path:line: sentence``."""
    for number, line in enumerate(text.splitlines(), 1):
        for link in LINK.findall(line):
            if link.startswith(ELSEWHERE):
                continue
            name, _, anchor = link.partition("#")
            target = file.parent / name if name else file
            if not target.exists():
                yield f"{file}:{number}: nothing is at {link}"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                yield f"{file}:{number}: {name or file.name} has no heading #{anchor}"


def spelled_out(name: str) -> Iterator[str]:
    """The names that braces stand for: ``{b,c}/`` is ``b/`` and ``c/``."""
    pieces = re.split(r"\{([^{}]*)\}", name)
    choices = (piece.split(",") if number % 2 else [piece] for number, piece in enumerate(pieces))
    yield from map("".join, product(*choices))


def tails(paths: Iterable[PurePosixPath]) -> set[str]:
    """Every way to name a file: its path, or the end of its path, from one of its folders on."""
    return {"/".join(path.parts[first:]) for path in paths for first in range(len(path.parts))}


def unknown(path: PurePosixPath, text: str, known: set[str]) -> Iterator[str]:
    """The source files that a page or the comments of a source name and that are not `known`, as ``path:line: sentence``."""
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix != ".md" and number > HEAD_LINES and not COMMENT.match(line):
            continue
        for name in (one.removeprefix("./") for names in NAMED.findall(line) for one in spelled_out(names)):
            is_known = any(fnmatch(tail, name) for tail in known) if "*" in name else name in known
            if not is_known and not OTHERS.fullmatch(name):
                yield f"{path}:{number}: no file is {name}"


def main() -> int:
    """Print every broken link and unknown file, or one line of praise."""
    there = [path for path in files() if (PROJECT / path).is_file()]
    texts = {path: (PROJECT / path).read_text() for path in there if path.suffix in CODE | {".md"}}
    known = tails(there)
    pages = [path for path in texts if path.suffix == ".md"]
    found = [complaint for page in pages for complaint in broken(PROJECT / page, texts[page])]
    found += [complaint for path, text in texts.items() for complaint in unknown(path, text, known)]
    print("\n".join(found) or f"All links of {len(pages)} pages lead somewhere, and so do the names in {len(texts)} files.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
