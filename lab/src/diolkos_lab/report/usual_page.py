# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The usual page: chapters by what the loads of a run measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from diolkos_lab import curves, procedures, summary
from diolkos_lab.report import (
    capacity_chapter,
    chapters,
    curve_chapters,
    load_chapters,
    parallel,
    procedure_chapters,
    searches,
    session_chapters,
    trust,
)
from diolkos_lab.report.chapters import Chapter, Content
from diolkos_lab.report.charts import Picture, levels
from diolkos_lab.report.read import Results
from diolkos_lab.report.tables import kind
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.stats.pairing import Samples

SEARCHES = frozenset((curves.LOAD, *procedures.LOADS))
NEW_FLOWS, CAPACITY = "new-flows", "capacity"
OWN = SEARCHES | {NEW_FLOWS, CAPACITY}  # loads with chapters of their own
HELD = levels.Shown("capacity", "sessions held", (CAPACITY,))
POINTS = "Point: median of the blocks; bar: 95 % interval. Arrow: at least so many, because the search met its limit."
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
SESSION_WORDS = (
    ("session", "what the translator remembers of one 4-tuple: addresses and ports of both ends"),
    ("binding", "of a NAT64: the port that it lends to one port of a client, for all its sessions"),
    ("attempt", "one try at a rate or a number of sessions, from an empty table; as many as the search takes"),
)


def content(results: Results) -> Content:
    loads = {trial.load.split(" ", maxsplit=1)[0] for trial in results.trials}
    usual, words = not loads or bool(loads - OWN), [*WORDS]
    body = _of_loads(results) if usual else []
    if loads & {NEW_FLOWS, CAPACITY}:
        body += _of_sessions(results)
        words += SESSION_WORDS
    lead, trusted = "", trust.of(results)
    if loads & SEARCHES:
        result = samples_folder.of_lanes(results.contents)
        measured, found = summary.in_order(results.curves, result.study), summary.gathered_procedures(result)
        body += [*procedure_chapters.chapters(found), *(curve_chapters.chapters(results, measured) if measured else [])]
        words += curve_chapters.MEANINGS
        if loads <= SEARCHES:
            lead, trusted = searches.answer(measured, found), searches.trust(measured, found)
    elif CAPACITY in loads and not usual:
        lead = capacity_chapter.lead(_samples(results, CAPACITY))
    every = [*body, chapters.by_blocks(results, OWN), *([_cannot_see(results)] if usual else [])]
    return Content([chapter for chapter in every if not chapter.empty], trusted, words, lead)


def _of_loads(results: Results) -> list[Chapter]:
    form = ", in the form of the thesis' table 5.1" if results.name == "clat" else ""
    return [*parallel.chapters(results), *load_chapters.chapters(results, OWN, form)]


def _cannot_see(results: Results) -> Chapter:
    both = BOTH if any(kind(cell) == "464XLAT" for cell in results.cells) else ""
    return load_chapters.cannot_see(results, ONE_TRANSLATION.format(here=both) if results.name == "clat" else None)


def _of_sessions(results: Results) -> Sequence[Chapter]:
    held = capacity_chapter.chapter(_samples(results, CAPACITY))
    if levels.measured(results, HELD):
        alt, draw = levels.alt(results, HELD), partial(levels.draw, results, HELD)
        held.pictures.append(Picture("capacity", "Sessions held at once", POINTS, alt, draw))
    return [*session_chapters.chapters(_samples(results, NEW_FLOWS)), held]


def _samples(results: Results, load: str) -> Samples:
    return Samples(trial for trial in results.contents.trials if trial["load"] == load)
