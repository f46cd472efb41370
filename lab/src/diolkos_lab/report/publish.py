# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A page as files: pictures and tables beside it, and all of it set into one self-contained HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from diolkos_lab.report import facts
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.pictures import COLOURS, Inline, save
from diolkos_lab.report.read import Results


def publish(
    results: Results, template: str, chapters: Iterable[Chapter], ahead: Iterable[Chapter] = (), **content: object
) -> Path:
    """Write report.html, pictures/ and tables/ into the result folder; return the page's path.

    Empty chapters are left out. `ahead` are chapters to which the template gives a place of their own, `content` is
    what else it names.
    """
    chapters = [chapter for chapter in chapters if not chapter.empty]
    text = (
        environment("diolkos_lab.report")
        .get_template(template)
        .render(
            results=results,
            machine=facts.machine(results.host),
            chapters=chapters,
            inline=_exhibits([*ahead, *chapters], results.folder),
            style=Markup(style()),
            Markup=Markup,
            **content,
        )
    )
    return _whole(text, results.folder / "report.html")


def environment(package: str) -> Environment:
    """The templates in the folder of a package."""
    found = Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["code"] = _code
    return found


def style() -> str:
    """The style sheet with the pictures' colours put in."""
    sheet = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    light = " ".join(f"--{name}: {light};" for name, light, _ in COLOURS)
    dark = " ".join(f"--{name}: {dark};" for name, _, dark in COLOURS)
    return sheet.replace("/*light*/", light).replace("/*dark*/", dark)


def _exhibits(chapters: Sequence[Chapter], folder: Path) -> dict[str, Inline]:
    """Write what the chapters show; the pictures, by name, as the page takes them."""
    pictures, tables = (folder / name for name in ("pictures", "tables"))
    for each in (pictures, tables):
        each.mkdir(exist_ok=True)
    inline = {p.name: save(p, pictures) for chapter in chapters for p in chapter.pictures}
    for chapter in chapters:
        for table in chapter.tables:
            table.write(tables)
    return inline


def _whole(text: str, path: Path) -> Path:
    """Write a file whole or not at all."""
    partial = path.with_suffix(".html.part")
    partial.write_text(text, encoding="utf-8")
    return partial.replace(path)


def _code(text: str) -> Markup:
    """Text of the files with its `commands` set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
