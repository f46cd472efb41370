# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the site of the pages with MkDocs, below target/site. Fails on a link or heading that is not there, on a page that
the site does not list, and on whatever a page would load from another server.

pages that git knows ─► as MkDocs reads them ─► target/site/pages ─► MkDocs ─► target/site/html ─► index as a script ─► look
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from links import ELSEWHERE, LINK, anchors
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort
from tree import PROJECT, files

SITE = PROJECT / "target" / "site"
CONFIG = PROJECT / "docs" / "site.yml"
SEARCH = PROJECT / ".ci" / "site_search.js"

FENCE = re.compile(r"( *)```(.*)")
INDENTED = re.compile(r"( {2,})(?=\S)")
# What a browser fetches for a page. A link that a reader follows is another matter.
LOADED = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=["']((?:https?:)?//[^"']+)""")


def as_mkdocs_reads(text: str) -> str:
    """A page of GitHub's Markdown as one of Python-Markdown's, which wants four spaces where a line belongs to a list.

    It knows no fences in lists, which become indented code, and no words behind the language of a fence (```sh BOX).
    """
    lines: list[str] = []
    fence: str | None = None  # how far the fence around a line is indented
    for line in text.splitlines():
        if found := FENCE.match(line):
            indent = found[1]
            if fence is None:
                fence = indent
                lines.append("" if indent else f"```{found[2].split(' ')[0]}")
            else:
                fence = None
                lines.append("" if indent else "```")
        elif fence is not None:
            lines.append(f"        {line.removeprefix(fence)}" if fence else line)
        else:
            lines.append(INDENTED.sub(lambda found: " " * (4 if len(found[1]) < 4 else 8), line, count=1))
    return "\n".join(lines) + "\n"


def linked(page: PurePosixPath, text: str) -> Iterator[PurePosixPath]:
    """The files, other than pages, to which a page links."""
    for link in LINK.findall(text):
        name = link.partition("#")[0]
        if name and not name.endswith(".md") and not link.startswith(ELSEWHERE):
            file = (PROJECT / page.parent / name).resolve()
            if file.is_file():
                yield PurePosixPath(file.relative_to(PROJECT))


def copy_pages(folder: Path) -> int:
    """Put the pages, and the files that they link, into a new folder, as they lie in the tree; the number of pages."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = [path for path in files() if path.suffix == ".md" and (PROJECT / path).is_file()]
    for page in pages:
        text = (PROJECT / page).read_text()
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(as_mkdocs_reads(text))
        for file in linked(page, text):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT / file, folder / file)
    shutil.copy(SEARCH, folder)
    return len(pages)


def slug(heading: str, separator: str) -> str:
    """The anchor of a heading, as forges write it: links of the tree name it so."""
    return next(iter(anchors(f"# {heading}")), separator)


def loaded_from_elsewhere(folder: Path) -> Iterator[str]:
    """What pages of a built site would load from other servers."""
    for page in sorted(folder.rglob("*.html")):
        for address in LOADED.findall(page.read_text()):
            yield f"{page.relative_to(folder)}: loads {address}"


def build_in(folder: Path) -> Iterator[str]:
    """Build the site in a folder; what is wrong with it. MkDocs logs the lines that are."""
    extensions: list[Any] = [{"toc": {"slugify": slug}}, "tables", "fenced_code", "sane_lists"]
    html = folder / "html"
    places = {"docs_dir": str(folder / "pages"), "site_dir": str(html)}
    try:
        build(load_config(str(CONFIG), strict=True, markdown_extensions=extensions, **places))
    except Abort as error:
        yield f"The site cannot be built: {error}"
        return
    index = html / "search" / "search_index.json"
    index.with_name("index.js").write_text(f"const search_index = {index.read_text()};\n")
    yield from loaded_from_elsewhere(html)


def main() -> int:
    """Build it; print what is wrong, or where it is."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    count = copy_pages(SITE / "pages")
    found = list(build_in(SITE))
    print("\n".join(found) or f"The site of {count} pages has no dead links: {SITE / 'html' / 'index.html'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
