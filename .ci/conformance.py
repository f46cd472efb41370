#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks that the table at the head of CONFORMANCE.md counts what its sections say, and that README shows the same rows.

A section belongs to the row that names the first RFC or draft of its heading.
"""

import re
import sys
from collections import Counter
from pathlib import Path

CLONE = Path(__file__).resolve().parents[1]
MARKS = "✓◐✗–"
DOCUMENT = r"\d{3,4}|draft-[a-z0-9-]+"


def rows(text: str) -> dict[tuple[str, ...], list[str]]:
    """The cells of each row of the table below the heading "in short", by the documents that the row names."""
    chapter = re.search(r"^## .*\bin short$(.*?)(?=^## |\Z)", text, flags=re.I | re.M | re.S)
    table = chapter[1].partition("\n\n|")[2].partition("\n\n")[0] if chapter else ""
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:])
    return {tuple(re.findall(DOCUMENT, row[0])): row for row in cells}


def counts(text: str) -> dict[str, Counter[str]]:
    """How many requirements of each section have which mark, by the first document of the heading."""
    found: dict[str, Counter[str]] = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        document = re.search(DOCUMENT, section.splitlines()[0])
        marks = Counter(re.findall(rf"^\|[^|]*\|[^|]*\| ([{MARKS}]) \|", section, flags=re.M))
        if document and marks:
            found[document[0]] = found.get(document[0], Counter()) + marks
    return found


def faults(conformance: str, readme: str) -> list[str]:
    """One sentence for each row that is wrong, each section that no row counts, and each row that README lacks."""
    wrong = []
    table, sections = rows(conformance), counts(conformance)
    for documents, row in table.items():
        right = sum((sections.pop(document, Counter()) for document in documents), Counter())
        said = {mark: int(cell or 0) for mark, cell in zip(MARKS, row[2:6], strict=True)}
        if said != {mark: right[mark] for mark in MARKS}:
            wrong.append(f"CONFORMANCE.md: the row {row[0]!r} should have {' '.join(f'{m} {right[m]}' for m in MARKS)}")
    wrong += [f"CONFORMANCE.md: no row counts the section about {document}" for document in sections]
    shown = rows(readme)
    differ = (row[0] for documents, row in table.items() if shown.get(documents) != row)
    wrong += [f"README.md: the row {name!r} differs from that of CONFORMANCE.md" for name in differ]
    return wrong


if __name__ == "__main__":
    found = faults((CLONE / "CONFORMANCE.md").read_text(), (CLONE / "README.md").read_text())
    print("\n".join(found) or "Conformance: the tables count what the sections say.")
    sys.exit(bool(found))
