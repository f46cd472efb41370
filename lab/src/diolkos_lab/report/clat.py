# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapters of the study `clat`: what was measured, and the study's own blind spot."""

from __future__ import annotations

from diolkos_lab.report import measured
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.read import Results
from diolkos_lab.report.tables import kind

ONE_TRANSLATION = (
    "On a CLAT path there is one translation (the server answers on its translated address). A full 464XLAT path has a "
    "second one in the provider's network{here}."
)
BOTH = "; the paths called 464XLAT have both, with the NAT64 on the router"


def chapters(results: Results) -> list[Chapter]:
    """The study's own part of the page; a chapter without content is left out."""
    whole = any(kind(cell) == "464XLAT" for cell in results.cells)
    every = [
        *measured.load_chapters(results, ", in the form of the thesis' table 5.1"),
        measured.cannot_see(results, ONE_TRANSLATION.format(here=BOTH if whole else "")),
    ]
    return [chapter for chapter in every if not chapter.empty]
