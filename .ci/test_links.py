# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which links of Markdown files are told to lead nowhere."""

from pathlib import Path

import pytest
from links import broken

PAGE = "# A page\n\n## Shares: no node, `all`\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with two headings, another page beside it, and a picture in a folder."""
    (tmp_path / "other.md").write_text(PAGE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/picture.svg").write_text("<svg/>")
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path / "page.md"


@pytest.mark.parametrize(
    "link",
    [
        "other.md",
        "other.md#a-page",
        "#shares-no-node-all",
        "docs/",
        "docs/picture.svg#anything",
        "https://example.net/x.md#y",
    ],
)
def test_leads_somewhere(page: Path, link: str) -> None:
    assert list(broken(page, f"# A page\n## Shares: no node, `all`\nSee [this]({link}).\n")) == []


@pytest.mark.parametrize("link", ["none.md", "other.md#b", "#b", "docs/other.md", "../page.md"])
def test_leads_nowhere(page: Path, link: str) -> None:
    [complaint] = broken(page, f"# A page\n\nSee [this]({link}) and [that](other.md).\n")
    assert complaint.startswith(f"{page}:3: ")
