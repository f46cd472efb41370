# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How pages of docs/networks are read, and that each of them is run by a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import FENCE, FOLDER, Page, matcher, plain

INDEX = "README.md"
LINES = 120
PAGES = sorted(path.name for path in FOLDER.glob("*.md") if path.name != INDEX)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a\n", "a\n"),
        ("a b\n", "a     b  \n"),
        ("", ""),
        ("time=… ms\n", "time=0.4 ms\n"),
        ("…\nb\n…\n", "b\n"),
        ("…\nb\n…\n", "a\na\nb\nc\n"),
        ("1.2.3.…\n", "1.2.3.4\n"),
    ],
)
def test_what_matches(expected: str, printed: str) -> None:
    """Spaces do not count, and `…` is a part of a line, or any lines."""
    assert matcher(expected).fullmatch(plain(printed))


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a\n", "b\n"),
        ("a\n", "a\nb\n"),
        ("", "a\n"),
        ("a\n", ""),
        ("time=… ms\n", "time=\n0.4 ms\n"),
        ("…\nb\n", "a\n"),
        ("1.2.3.…\n", "1.2.3.\n"),
        ("1.2.3.4\n", "192.3.4\n"),
    ],
)
def test_what_does_not(expected: str, printed: str) -> None:
    """A line too many is as wrong as another one."""
    assert not matcher(expected).fullmatch(plain(printed))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_run_and_found(name: str) -> None:
    """It has a test of its own, a line in the index, a picture, a last chapter, and is not long."""
    text = (FOLDER / name).read_text()
    assert f"]({name})" in (FOLDER / INDEX).read_text()
    runs = f'Page("{name}", '
    assert any(runs in path.read_text() for path in Path(__file__).parent.glob("test_page_*.py"))
    for step in Page(name, {}).steps():
        # Who reads the page sees no more than this of where commands run.
        assert step.box is None or step.heading.lower().startswith(step.box), step
        assert step.box is not None or list(step.shown())
    assert re.search(r"^```\n[^`]*─", text, re.MULTILINE), "no picture"
    assert "\n## What now\n" in text
    assert len(text.splitlines()) <= LINES


def test_the_index_has_no_commands_of_its_own() -> None:
    """Nobody would run them."""
    assert not FENCE.search((FOLDER / INDEX).read_text())
