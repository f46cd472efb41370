# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page: chapters are put in order, their files written, and all of it set into one self-contained HTML file."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from diolkos_lab.report import chapters, clat, costs, facts, grades, measured, paths, procedure_chapters, words
from diolkos_lab.report.pictures import COLOURS, save
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import setting_label

# Studies with chapters of their own.
STUDIES = {"clat": clat.chapters}


def write(results: Results) -> Path:
    own = STUDIES.get(results.name, measured.chapters)
    body = [paths.chapter(results), *own(results), *procedure_chapters.of_run(results)]
    body += [chapters.missing(results), chapters.failures(results)]
    body += [chapters.host(results), chapters.repeat(results)]
    body = [chapter for chapter in body if not chapter.empty]
    glance = chapters.at_a_glance(results)

    pictures, tables = (results.folder / name for name in ("pictures", "tables"))
    for folder in (pictures, tables):
        folder.mkdir(exist_ok=True)
    inline = {p.name: save(p, pictures) for chapter in (glance, *body) for p in chapter.pictures}
    for chapter in body:
        for table in chapter.tables:
            table.write(tables)

    text = (
        environment()
        .get_template("page.html.j2")
        .render(
            results=results,
            headline=words.headline(results),
            machine=facts.machine(results.host),
            lead=words.lead(results),
            not_measured=words.not_measured(results),
            untrusted=words.untrusted(results),
            plain=costs.table(results, results.settings[0]),
            others=[(setting_label(s), each) for s in results.settings[1:] if (each := costs.table(results, s))],
            answers=words.answers(results),
            grades=grades.GRADES,
            trust=words.trust(results),
            claims=chapters.verdicts(results),
            glance=glance,
            chapters=body,
            inline=inline,
            style=Markup(style()),
            Markup=Markup,
        )
    )
    return publish(text, results.folder)


def publish(text: str, folder: Path) -> Path:
    """Put the page into a result folder, whole or not at all."""
    path = folder / "report.html"
    partial = path.with_suffix(".html.part")
    partial.write_text(text, encoding="utf-8")
    return partial.replace(path)


def environment() -> Environment:
    """The templates of this folder."""
    found = Environment(
        loader=PackageLoader("diolkos_lab.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["code"] = _code
    return found


def _code(text: str) -> Markup:
    """Text of the files with its `commands` set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def style() -> str:
    """The style sheet with the pictures' colours put in."""
    sheet = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    light = " ".join(f"--{name}: {light};" for name, light, _ in COLOURS)
    dark = " ".join(f"--{name}: {dark};" for name, _, dark in COLOURS)
    return sheet.replace("/*light*/", light).replace("/*dark*/", dark)
