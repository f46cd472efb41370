# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report.html: one page for every kind of run. A kind says what its chapters are; all else is the same.

the answer ─► all systems in one picture ─► the table ─► what is undecided ─► verdicts ─► trust ─► chapters
"""

from __future__ import annotations

from pathlib import Path

from diolkos_lab.report import (
    answer,
    chapters,
    costs,
    factor_page,
    facts,
    failover_page,
    guest_page,
    method,
    paths,
    published,
    undecided,
    usual_page,
    words,
)
from diolkos_lab.report.chapters import Chapter, Content
from diolkos_lab.report.publish import publish
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import setting_label

MOST_OPEN = 4  # chapters; the rest are folded
MOST_UNDECIDED = 6  # sentences in sight
FOLDED = frozenset(("measured-how", "paths", "runs", "missing", "doubtful", "host", "repeat", "unseen-there", "unseen-here"))


def write(results: Results) -> Path:
    found = content(results)
    own = [paths.chapter(results), *published.with_published(list(found.chapters), results, method.chapter(results))]
    body = [each for each in (*own, *chapters.last(results)) if not each.empty]
    unfolded = [each.anchor for each in body if each.anchor not in FOLDED and (each.pictures or each.tables)]
    first, lead = answer_of(results, found)
    settings = [] if facts.emulated(results.host) else results.settings  # an emulated processor's own speed says nothing
    tables = [(setting_label(each), table) for each in settings if (table := costs.table(results, each))]
    open_questions, claims = undecided.sentences(results), chapters.verdicts(results)
    glance = chapters.at_a_glance(results) if not found.leads or chapters.compares(results) else Chapter("glance", "")
    front = [("answer", "The answer"), *([("costs", "What each system costs")] if tables else [])]
    front += [("undecided", "What is undecided")] if open_questions else []
    front += [*([("verdicts", "Verdicts")] if claims else []), ("trust", "Trust")]
    return publish(
        results,
        body,
        ahead=[glance],
        headline=first,
        lead=lead,
        glance=glance,
        tables=tables,
        untrusted=words.untrusted(results),
        not_measured=words.not_measured(results),
        undecided=open_questions,
        most_undecided=MOST_UNDECIDED,
        again=found.again or undecided.AGAIN,
        claims=claims,
        tally=words.verdict_count(results.verdicts),
        decides=found.decides,
        trust=found.trust,
        words=found.words,
        open=frozenset(unfolded[:MOST_OPEN]),
        contents=[*front, *((each.anchor, each.title) for each in body), ("words", "Words")],
    )


def content(results: Results) -> Content:
    if failover_page.applies_to(results):
        return failover_page.content(results)
    if guest_page.applies_to(results):
        return guest_page.content(results)
    return factor_page.content(results) if factor_page.applies_to(results) else usual_page.content(results)


def answer_of(results: Results, found: Content | None = None) -> tuple[str, str]:
    """The first sentence of the page, and what stands under it. Raises UsageFault for a folder of which no page can be made."""
    found = found or content(results)
    if found.leads:
        return found.lead, ""
    first = answer.headline(results, otherwise=found.lead)
    return first, found.lead if first != found.lead else ""
