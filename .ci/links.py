# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fails on a link in a Markdown file that leads to no file of the tree, or to no heading of it.

files ─► links of each ─► those that lead nowhere
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tree import PROJECT, files

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
ELSEWHERE = ("http://", "https://", "mailto:")


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


def main() -> int:
    """Print every broken link, or one line of praise."""
    pages = [PROJECT / path for path in files() if path.suffix == ".md" and (PROJECT / path).is_file()]
    found = [complaint for page in pages for complaint in broken(page, page.read_text())]
    print("\n".join(found) or f"All links of {len(pages)} pages lead somewhere.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
