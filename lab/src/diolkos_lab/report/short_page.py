# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report.html of a study that has one kind of load: an answer, how far to trust it, chapters, and what words mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from markupsafe import Markup

from diolkos_lab.report import facts
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.page import environment, publish, style
from diolkos_lab.report.pictures import save
from diolkos_lab.report.read import Results


def write(
    results: Results,
    body: Iterable[Chapter],
    lead: str,
    trust: tuple[str, str, list[str]],
    words: Sequence[tuple[str, str]],
) -> Path:
    """`trust` is level, answer and reasons; `words` are the terms that the page uses, with what they mean."""
    body = [chapter for chapter in body if not chapter.empty]
    pictures, tables = (results.folder / name for name in ("pictures", "tables"))
    for folder in (pictures, tables):
        folder.mkdir(exist_ok=True)
    inline = {p.name: save(p, pictures) for chapter in body for p in chapter.pictures}
    for chapter in body:
        for table in chapter.tables:
            table.write(tables)
    text = (
        environment()
        .get_template("curve_page.html.j2")
        .render(
            results=results,
            machine=facts.machine(results.host),
            lead=lead,
            trust=trust,
            chapters=body,
            words=words,
            inline=inline,
            style=Markup(style()),
            Markup=Markup,
        )
    )
    return publish(text, results.folder)
