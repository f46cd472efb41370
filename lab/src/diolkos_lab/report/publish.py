# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A page as files: pictures and tables beside it, and all of it set into one self-contained HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from diolkos_lab import open_folder
from diolkos_lab.report import charts, facts, live, trials
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import RenderedPicture
from diolkos_lab.report.charts.theme import COLOURS
from diolkos_lab.report.read import Results

MOST = 1_950_000  # bytes of a page


def publish(results: Results, chapters: Iterable[Chapter], ahead: Iterable[Chapter] = (), **content: object) -> Path:
    """Write report.html, pictures/ and tables/ into the result folder; return the page's path.

    Empty chapters are left out. `ahead` are chapters to which the template gives a place of their own, `content` is
    what else it names.
    """
    chapters = [chapter for chapter in chapters if not chapter.empty]
    every = [*ahead, *chapters]
    with open_folder.to_write(results.folder) as folder:
        with folder.inside("pictures") as pictures, folder.inside("tables") as tables:
            stills = charts.save((picture for chapter in every for picture in chapter.pictures), pictures)
            shown = [table for chapter in every for table in chapter.tables]
            for table in shown:
                table.write(tables)
        files = {f"tables/{table.name}.csv": table.csv for table in shown}
        if results.trials:
            files["trials.csv"] = trials.as_csv(results)
        content |= {"results": results, "machine": facts.machine(results.host), "chapters": chapters}
        return folder.write("report.html", page("page.html.j2", stills, files, content))


def plain(
    title: str,
    chapters: Sequence[Chapter],
    lead: Sequence[str] = (),
    over: str = "",
    stills: Mapping[str, RenderedPicture] | None = None,
) -> str:
    """A page that is about no run, or about several: a title, what it says first, and chapters. Tables are in it as CSV."""
    shown = [chapter for chapter in chapters if not chapter.empty]
    tables = [table for chapter in shown for table in chapter.tables]
    files = {f"tables/{table.name}.csv": table.csv for table in tables if table.raw_heads}
    if stills is None:
        pictures = [picture for chapter in shown for picture in chapter.pictures]
        stills = {picture.name: charts.still(picture) for picture in pictures}
    return page("plain.html.j2", stills, files, {"title": title, "chapters": shown, "lead": lead, "over": over})


def page(
    template: str, stills: Mapping[str, RenderedPicture], files: Mapping[str, str | bytes], content: Mapping[str, object]
) -> str:
    """The page as text. PDFs are in it as far as there is room, the smallest first; the page links to the file of any other."""
    found = _environment().get_template(template)
    specs = {name: still.spec for name, still in stills.items()}
    policy, library = live.policy(charts=bool(stills)), [live.library()] if stills else []
    parts = {"stills": stills, "style": Markup(style()), "policy": policy, "script": Markup(live.script()), **content}

    def made(carried: Mapping[str, str | bytes]) -> str:
        data = [live.specifications(specs), live.listed(carried), live.downloads(carried), *library]
        return found.render(data=Markup("\n").join(data), Markup=Markup, **parts)

    text = made(files)
    room = MOST - len(text.encode())
    carried = dict(files)
    for name, still in sorted(stills.items(), key=lambda each: len(each[1].pdf)):
        file = {f"pictures/{name}.pdf": still.pdf}
        room -= len(live.downloads(file))
        if room > 0:
            carried |= file
    return made(carried) if len(carried) > len(files) else text


@cache
def _environment() -> Environment:
    loader = PackageLoader("diolkos_lab.report", ".")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters["code"] = _code
    return found


def style() -> str:
    """The style sheet with the pictures' colours put in."""
    sheet = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    light = " ".join(f"--{name}: {light};" for name, light, _ in COLOURS)
    dark = " ".join(f"--{name}: {dark};" for name, _, dark in COLOURS)
    return sheet.replace("/*light*/", light).replace("/*dark*/", dark)


def _code(text: str) -> Markup:
    """Text of the files with its `commands` set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
