# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The usual kind of page: chapters by what the loads of a run measured."""

from __future__ import annotations

from diolkos_lab.report import measured, parallel, procedure_chapters, trust
from diolkos_lab.report.chapters import Chapter, Content
from diolkos_lab.report.read import Results
from diolkos_lab.report.tables import kind

ONE_TRANSLATION = (
    "On a CLAT path there is one translation (the server answers on its translated address). A full 464XLAT path has a "
    "second one in the provider's network{here}."
)
BOTH = "; the paths called 464XLAT have both, with the NAT64 on the router"
WORDS = (
    ("up, down", "client to server, server to client, as the client sees it"),
    ("hop", "a link between the client's namespace and the router; the server's link is not counted"),
    ("untrusted", "a guard found a reason to doubt the trial (for instance steal time, or drops outside the system)"),
)


def applies_to(_: Results) -> bool:
    """It takes every run that no other kind takes."""
    return True


def content(results: Results) -> Content:
    every = [*_chapters(results), *procedure_chapters.chapters_of_run(results)]
    return Content([chapter for chapter in every if not chapter.empty], trust.of(results), WORDS)


def _chapters(results: Results) -> list[Chapter]:
    if results.name == "nat64-parallel":
        return parallel.chapters(results)
    if results.name != "clat":
        return [*measured.load_chapters(results), measured.cannot_see(results)]
    both = any(kind(cell) == "464XLAT" for cell in results.cells)
    limit = measured.cannot_see(results, ONE_TRANSLATION.format(here=BOTH if both else ""))
    return [*measured.load_chapters(results, ", in the form of the thesis' table 5.1"), limit]
