# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A page as files: pictures and tables beside it, and all of it set into one self-contained HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from diolkos_lab import open_folder
from diolkos_lab.open_folder import OpenFolder
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
    with open_folder.to_write(results.folder) as folder:
        inline = _exhibits([*ahead, *chapters], folder)
        text = _text(results, template, chapters, inline, content)
        return folder.write("report.html", text)


def _text(
    results: Results, template: str, chapters: Sequence[Chapter], inline: Mapping[str, Inline], content: Mapping[str, object]
) -> str:
    return (
        environment("diolkos_lab.report")
        .get_template(template)
        .render(
            results=results,
            machine=facts.machine(results.host),
            chapters=chapters,
            inline=inline,
            style=Markup(style()),
            Markup=Markup,
            **content,
        )
    )


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


def _exhibits(chapters: Sequence[Chapter], folder: OpenFolder) -> dict[str, Inline]:
    """Write what the chapters show; the pictures, by name, as the page takes them."""
    with folder.inside("pictures") as pictures, folder.inside("tables") as tables:
        inline = {p.name: save(p, pictures) for chapter in chapters for p in chapter.pictures}
        for chapter in chapters:
            for table in chapter.tables:
                table.write(tables)
    return inline


def _code(text: str) -> Markup:
    """Text of the files with its `commands` set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
