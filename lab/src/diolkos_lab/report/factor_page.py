# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kind of page of a study whose systems have factors: does each of them matter, then pictures and tables of all cells."""

from __future__ import annotations

from collections.abc import Sequence

from diolkos_lab.report import effect_chapter, load_chapters, nat_rules, trust, words
from diolkos_lab.report.chapters import Chapter, Content
from diolkos_lab.report.quantities import count, join_words
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import load_label
from diolkos_lab.report.tables import ratios
from diolkos_lab.stats.effects import Effect

WORDS = (
    ("factor", "what varies in a system from cell to cell; a level is one value of it"),
    ("flow that lasts", "one connection, measured after it was opened"),
    ("flow that begins", "the first packet of a flow, which has to pass the list of rules"),
    ("conntrack", "the kernel's memory of connections, without which there is no NAT; it is emptied before each trial"),
    ("twin", "the same path measured twice in each block: by how much the two differ is the noise floor"),
)
TABLES = {
    "throughput": "Throughput: median of the trials, and its share of the path without NAT",
    "rtt": "Round-trip time: median of the trials' medians, and its ratio to the path without NAT",
    "latency": "Time of a fetch over a new connection: median of the trials' medians, and its ratio to the path without NAT",
    "rate": "Rate of new flows (or fetches): median of the trials, and its share of the path without NAT",
    "cpu_s_per_gb": "CPU time of the path per gigabyte: median of the trials, and its ratio to the path without NAT",
}
BLIND = (
    "The generator of new flows puts packets on the client's device, past the client's own rules. What these cost a flow that "
    "begins shows in fetches over new connections alone, where most of the time is the server's and the client's."
)


def applies_to(results: Results) -> bool:
    """Have systems of the run factors?"""
    return bool(effect_chapter.factors_of(results)) and bool(results.samples.cells())


def content(results: Results) -> Content:
    every = effect_chapter.found(results)
    own = nat_rules.chapters(results) if nat_rules.applies_to(results) else []
    limits = load_chapters.cannot_see(results, BLIND if own else None)
    body = [effect_chapter.chapter(every), *own, *_tables(results), limits]
    return Content(body, trust.of(results), WORDS, lead(results, every), leads=True)


def lead(results: Results, every: Sequence[Effect]) -> str:
    """Which factors matter for which figure, over all other levels or under some."""
    parts = []
    for name in dict.fromkeys(effect.factor for effect in every):
        mine = [effect for effect in every if effect.factor == name and effect.p is not None]
        figures = {each: any(e.significant for e in mine if e.load == each) for each in dict.fromkeys(e.load for e in mine)}
        matters = [load_label(load) for load, yes in figures.items() if yes]
        nowhere = [load_label(load) for load, yes in figures.items() if not yes]
        what = effect_chapter.NAMES.get(name, f"the {name}")
        said = [f"matters for {join_words(matters)}"] if matters else []
        said += [f"makes no difference that could be seen for {join_words(nowhere)}"] if nowhere else []
        if said:
            parts.append(f"{what[:1].upper()}{what[1:]} {', and '.join(said)}.")
    if not parts and words.decided(results.verdicts):
        return words.verdict_count(results.verdicts)
    if not parts:
        blocks = count(results.blocks, "block")
        return f"This run cannot say whether any factor matters: it has too few trusted pairs ({blocks})."
    return " ".join(parts)


def _tables(results: Results) -> list[Chapter]:
    tables = [table for metric, caption in TABLES.items() if (table := ratios(results, metric, caption))]
    return [Chapter("cells", "All cells", tables=tables)]
