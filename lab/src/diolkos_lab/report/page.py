# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report.html of a study of several loads: the answer, all systems at a glance, and its chapters put in order."""

from __future__ import annotations

from pathlib import Path

from diolkos_lab.report import (
    chapters,
    clat,
    costs,
    grades,
    measured,
    method,
    parallel,
    paths,
    procedure_chapters,
    published,
    words,
)
from diolkos_lab.report.publish import publish
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import setting_label

# Studies with chapters of their own.
STUDIES = {"clat": clat.chapters, "nat64-parallel": parallel.chapters}


def write(results: Results) -> Path:
    own = STUDIES.get(results.name, measured.chapters)
    glance = chapters.at_a_glance(results)
    return publish(
        results,
        "page.html.j2",
        [
            paths.chapter(results),
            method.chapter(results),
            *published.with_published(own(results), results),
            *procedure_chapters.chapters_of_run(results),
            *chapters.last(results),
        ],
        ahead=[glance],
        headline=words.headline(results),
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
    )
