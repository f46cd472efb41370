# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Short sentences that several parts of a page share: outcomes of rules, trials that do not count, systems that are missing.

Nothing here looks at which system it speaks of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from diolkos_lab.report.quantities import count, join_words
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import HEADLINE, missing_label

OUTCOMES = {"met": ("✓", "met"), "not met": ("✗", "not met"), "undecided": ("?", "undecided")}


def outcome(verdict: dict[str, Any]) -> tuple[str, str]:
    """(sign, words) of a verdict."""
    raw = str(verdict.get("outcome") or "undecided")
    return OUTCOMES.get(raw, ("?", raw))


def decided(verdicts: Sequence[dict[str, Any]]) -> bool:
    """Was any rule decided?"""
    return any(outcome(verdict)[1] in ("met", "not met") for verdict in verdicts)


def verdict_count(verdicts: Sequence[dict[str, Any]]) -> str:
    if not verdicts:
        return "The study has no rule to decide."
    tally = Counter(str(v.get("outcome")) for v in verdicts)
    parts = [f"{n} {_are(n)} {word}" for word in OUTCOMES if (n := tally.pop(word, 0))]
    parts += [f"{n} {_are(n)} {word}" for word, n in tally.items()]
    return f"Of {count(len(verdicts), 'rule')} fixed before the run, {join_words(parts)}."


def carries(results: Results, cell: Cell) -> bool:
    """Whether packets of the headline's loads were sent through it; through a resolver there are none."""
    bases = {base for base, _ in HEADLINE}
    loads = {r.load for r in results.rows if r.cell == cell} | {t.load for t in results.trials if t.cell == cell}
    return not loads or any(load.split(" ", maxsplit=1)[0] in bases for load in loads)


def why_nothing(results: Results, cell: Cell) -> str:
    """Why a cell has no ratio."""
    trials = [t for t in results.measured if t.cell == cell]
    errors = Counter(t.error for t in trials if t.error)
    if not trials:
        return "Was never measured: the run ended before its turn."
    if errors:
        reason, n = errors.most_common(1)[0]
        return f"No usable figure: {n} of {count(len(trials), 'trial')} failed. {_sentence(reason)}"
    if not any(t.counts for t in trials):
        guards = join_words(sorted({g for t in trials for g, _ in t.objections}))
        return f"No usable figure: every trial is untrusted ({guards})."
    return "No ratio to native: the two have no trusted trial in the same block, or native was not measured at the same hops."


def untrusted(results: Results) -> str | None:
    """What the figures in brackets are, above the table that has them; None when all are trusted."""
    if not any((r.load.split(" ", maxsplit=1)[0], r.metric) in HEADLINE for r in results.untrusted):
        return None
    said = Counter(guard for t in results.measured for guard, _ in t.objections)
    why = f" (mostly by the guard “{said.most_common(1)[0][0]}”)" if said else ""
    return (
        f"In brackets: not trusted. These are medians of all trials of a path, since guards rejected too many of them{why}. "
        "They show that the path works, not what it costs; no verdict rests on them."
    )


def not_measured(results: Results) -> str | None:
    """The systems that the run lacks, in one sentence."""
    names = list(dict.fromkeys(missing_label(m) for m in results.missing))
    return f"Not measured: {join_words(names)}. The chapter “What is missing” says why, and how to get them." if names else None


def trial_counts(results: Results) -> tuple[int, int, int]:
    """(untrusted, failed, all) trials after the warm-up."""
    trials = results.measured
    return sum(bool(t.objections) for t in trials), sum(t.error is not None for t in trials), len(trials)


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."
