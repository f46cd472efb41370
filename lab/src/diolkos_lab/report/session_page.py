# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kind of page of a study of what keeps state: new flows and capacities."""

from __future__ import annotations

from functools import partial

from diolkos_lab.report import capacity_chapter, chapters, session_chapters, trust
from diolkos_lab.report.chapters import Content
from diolkos_lab.report.charts import Picture, levels
from diolkos_lab.report.read import Results
from diolkos_lab.stats.pairing import Samples

NEW_FLOWS, CAPACITY = "new-flows", "capacity"
HELD = levels.Shown("capacity", "sessions held", (CAPACITY,))
POINTS = "Point: median of the blocks; bar: 95 % interval. Arrow: at least so many, because the search met its limit."
WORDS = (
    ("session", "what the translator remembers of one 4-tuple: addresses and ports of both ends"),
    ("binding", "of a NAT64: the port that it lends to one port of a client, for all its sessions"),
    ("attempt", "one try at a rate or a number of sessions, from an empty table; as many as the search takes"),
    (
        "distrusted",
        "a guard found a reason to doubt the trial: another program took CPU time, the generator did not keep its rate…",
    ),
)


def applies_to(results: Results) -> bool:
    """Does the run open sessions and do nothing else?"""
    return bool(results.trials) and _loads(results) <= {NEW_FLOWS, CAPACITY}


def content(results: Results) -> Content:
    trials = results.contents.trials
    new_flows, capacities = (Samples(t for t in trials if t["load"] == load) for load in (NEW_FLOWS, CAPACITY))
    held = capacity_chapter.chapter(capacities)
    if levels.measured(results, HELD):
        alt = levels.alt(results, HELD)
        held.pictures.append(Picture("capacity", "Sessions held at once", POINTS, alt, partial(levels.draw, results, HELD)))
    body = [*session_chapters.chapters(new_flows), held, chapters.by_blocks(results)]
    lead = capacity_chapter.lead(capacities) if CAPACITY in _loads(results) else ""
    return Content(body, trust.of(results), WORDS, lead)


def _loads(results: Results) -> set[str]:
    return {trial.load.split(" ", maxsplit=1)[0] for trial in results.trials}
