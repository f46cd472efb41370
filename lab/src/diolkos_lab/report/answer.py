# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a run answers, in the words with which its page begins."""

from __future__ import annotations

from diolkos_lab import summary
from diolkos_lab.report import curve_page, effect_chapter, factor_page, session_page, words
from diolkos_lab.report.read import Results
from diolkos_lab.samples import folder as samples_folder


def answer_of(results: Results) -> str:
    """Raises UsageFault for a folder of which no page can be made."""
    if curve_page.applies_to(results):
        result = samples_folder.whole(results.contents)
        return curve_page.answer(summary.in_order(results.curves, result.study), summary.gathered_procedures(result))
    if session_page.applies_to(results):
        return session_page.lead(results)
    if factor_page.applies_to(results):
        return factor_page.lead(results, effect_chapter.found(results))
    return f"{words.headline(results)}."
