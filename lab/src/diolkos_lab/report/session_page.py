# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report.html of a study of what keeps state, new flows and capacities: the answer, how far to trust it, then its chapters."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from diolkos_lab.report import capacity_chapter, chapters, session_chapters, short_page
from diolkos_lab.report.charts import Picture, levels
from diolkos_lab.report.quantities import count, join_words, percent
from diolkos_lab.report.read import Results
from diolkos_lab.report.words import outcome, trial_counts
from diolkos_lab.stats.pairing import Samples

NEW_FLOWS, CAPACITY = "new-flows", "capacity"
HELD = levels.Shown("capacity", "sessions held", (CAPACITY,))
POINTS = "Point: median of the blocks; bar: 95 % interval. Arrow: at least so many, because the search met its limit."
FEW_TRUSTED = 0.5  # share of the trials, below which nothing is sure
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


def write(results: Results) -> Path:
    trials = results.contents.trials
    new_flows, capacities = (Samples(t for t in trials if t["load"] == load) for load in (NEW_FLOWS, CAPACITY))
    asked = _loads(results)
    body = [
        chapters.glance_with_blocks(results),
        *session_chapters.chapters(results, new_flows),
        capacity_chapter.chapter(capacities),
    ]
    if levels.measured(results, HELD):
        alt = levels.alt(results, HELD)
        picture = Picture("capacity", "Sessions held at once", POINTS, alt, partial(levels.draw, results, HELD))
        body[-1].pictures.append(picture)
    claims = [lead(results)] if NEW_FLOWS in asked or results.verdicts else []
    answer = [*claims, *([capacity_chapter.lead(capacities)] if CAPACITY in asked else [])]
    return short_page.write(results, body, " ".join(answer), trust(results), WORDS)


def lead(results: Results) -> str:
    """How much of what was asked is met."""
    found = Counter(outcome(raw)[1] for raw in results.verdicts)
    if not found:
        return "Nothing was asked that could be met; the table says what was measured."
    parts = [f"{found[word]} {'is' if found[word] == 1 else 'are'} {word}" for word in found]
    return f"Of {count(sum(found.values()), 'thing')} that were asked, {join_words(parts)}."


def trust(results: Results) -> tuple[str, str, list[str]]:
    """Level, answer and reasons."""
    untrusted, failed, total = trial_counts(results)
    reasons = [f"{untrusted} of {total} trials are untrusted, {failed} failed."]
    for floor in results.noise_floor:
        if floor.metric == "rate" and floor.ratio_ci95:
            same = percent(floor.ratio, floor.ratio_ci95)
            reasons.append(f"NAT44's twin opens {same} of the sessions that it does: the noise floor, {floor.load}.")
    sure = sum(t.counts for t in results.measured if not t.twin)
    if not total or (total - untrusted - failed) < FEW_TRUSTED * total:
        show = "that the paths work, not what they cost" if NEW_FLOWS in _loads(results) else "what is held at least"
        return "poor", f"No: too many trials are untrusted. The figures show {show}.", reasons
    # A rate needs a noise floor; a count is a count.
    if untrusted or failed or (NEW_FLOWS in _loads(results) and not results.noise_floor):
        return "limited", f"With care: {count(sure, 'trial')} can be trusted.", reasons
    return "good", "Yes.", reasons


def _loads(results: Results) -> set[str]:
    return {trial.load.split(" ", maxsplit=1)[0] for trial in results.trials}
