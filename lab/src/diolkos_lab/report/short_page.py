# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report.html of a study that has one kind of load: an answer, how far to trust it, chapters, and what words mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from diolkos_lab.report import chapters, method, published
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.publish import publish
from diolkos_lab.report.read import Results


def write(
    results: Results,
    own: Iterable[Chapter],
    lead: str,
    trust: tuple[str, str, list[str]],
    words: Sequence[tuple[str, str]],
) -> Path:
    """Chapters of the study's `own` come first, those of every page last.

    `trust` is level, answer and reasons; `words` are the terms that the page uses, with what they mean.
    """
    body = [*published.with_published(list(own), results, method.chapter(results)), *chapters.last(results)]
    return publish(results, "short_page.html.j2", body, lead=lead, trust=trust, words=words)
