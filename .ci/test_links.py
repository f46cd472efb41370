# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which links of Markdown files, and which names of source files, are told to lead nowhere."""

from pathlib import Path, PurePosixPath

import pytest
from links import broken, tails, unknown

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


TREE = tails(map(PurePosixPath, ["bpf/tc/gso.h", "crates/a/src/b.rs", "crates/a/src/c.rs"]))


@pytest.mark.parametrize(
    "name",
    [
        "bpf/tc/gso.h",
        "gso.h",
        "src/{b,c}.rs",
        "src/*.rs",
        "include/linux/skbuff.h",
        "config.toml",
        "b",
    ],
)
@pytest.mark.parametrize("file", ["page.md", "d.rs"])
def test_names_a_file(file: str, name: str) -> None:
    assert list(unknown(PurePosixPath(file), f"// See `{name}`.\n", TREE)) == []


@pytest.mark.parametrize("name", ["bpf/gso.h", "so.h", "src/d.rs", "src/{b,d}.rs", "src/*.py", "a/b.rs"])
@pytest.mark.parametrize("file", ["page.md", "d.rs"])
def test_names_no_file(file: str, name: str) -> None:
    [complaint] = unknown(PurePosixPath(file), f"// See `b.rs` and\n// `{name}`.\n", TREE)
    assert complaint.startswith(f"{file}:2: ")


def test_strings_of_a_program_name_what_they_like() -> None:
    text = "// A program.\n" + "\n" * 20 + 'let a = "`none.rs`";\n'
    assert list(unknown(PurePosixPath("d.rs"), text, TREE)) == []
    assert len(list(unknown(PurePosixPath("page.md"), text, TREE))) == 1
