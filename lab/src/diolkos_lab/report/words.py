# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sentences made from numbers by rule. Every outcome has its words, the bad ones too.

Stages: one system in words, the whole run in a headline, and how far to trust it. A single ratio in words is in
`ratio_words.py`.
Nothing here looks at which system it speaks of.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from diolkos_lab import verdict
from diolkos_lab.metric import RowMetric
from diolkos_lab.report.grades import FAIR, grade, half_width
from diolkos_lab.report.quantities import count, join_words, percent, times
from diolkos_lab.report.ratio_words import application_words, rtt_words, share, throughput_words
from diolkos_lab.report.read import Cell, Floor, Results, Row
from diolkos_lab.report.systems import FAMILIES, HEADLINE, label, load_label, missing_label, order, short_label, variant
from diolkos_lab.samples import counting

# A run with more untrusted trials than this share is a run on a disturbed host.
UNTRUSTED_NOTED, UNTRUSTED_TOO_MUCH = 0.05, 0.25
# A system that strays this far from itself was measured on a host that was busy with something else.
NOISE_TOO_MUCH = 0.25
# Fewer blocks than this make an interval that leans on very few differences.
FEW_BLOCKS = 8


def carries(results: Results, cell: Cell) -> bool:
    """Whether packets of the headline's loads were sent through it; through a resolver there are none."""
    bases = {base for base, _ in HEADLINE}
    loads = {r.load for r in results.rows if r.cell == cell} | {t.load for t in results.trials if t.cell == cell}
    return not loads or any(load.split(" ", maxsplit=1)[0] in bases for load in loads)


# ---- one system


@dataclass(frozen=True)
class Answer:
    """What one system costs, in words."""

    cell: Cell
    name: str
    cost: str
    grade: str  # a key of GRADES
    precision: str  # the grade and the widest half interval: "firm (± 2 %)"
    basis: str  # how many trials stand behind it

    @property
    def failed(self) -> bool:
        return self.grade == "nothing"


def answers(results: Results) -> list[Answer]:
    """One answer for each translated cell, in the order of `systems.order`."""
    return [_answer(results, cell) for cell in sorted(results.cells, key=order) if not cell.native]


def _answer(results: Results, cell: Cell) -> Answer:
    rows = [plainest(results, cell, load, metric) for load, metric in HEADLINE]
    parts = [p for p in (throughput_words(*rows[:2]), rtt_words(rows[2])) if p]
    of_names, said = _applications(results, cell)
    rows, parts = [*rows, *of_names], [*parts, *said]
    if not parts:
        return Answer(cell, label(cell), _why_nothing(results, cell), "nothing", "nothing", basis(results, cell))
    cost = "; ".join(parts)
    widest, found = half_width(rows), grade(rows)
    precision = found if widest is None else f"{found} (± {percent(widest)})"
    return Answer(cell, label(cell), cost[0].upper() + cost[1:] + ".", found, precision, basis(results, cell))


def _applications(results: Results, cell: Cell) -> tuple[list[Row], list[str]]:
    """What fetches by name and queries take, with the rows it is read from."""
    rows, said = [], []
    for load in (*results.loads("http"), *results.loads("dns")):
        levels = variant(load)
        # The rate of known names may be the generator's own, the CPU time of an answer is not.
        wanted: tuple[RowMetric, ...] = ("latency", "cpu_answer" if levels.get("cache") == "warm" else "rate")
        if load.startswith("http"):
            if levels.get("by", "name") != "name":
                continue
            wanted = ("latency",)
        for row in (r for metric in wanted if (r := results.row(cell, load, metric))):
            if row.ratio is not None:
                rows.append(row)
                said.append(application_words(row, row.ratio, levels))
    return rows, said


def plainest(results: Results, cell: Cell, base: str, metric: str, ratio: bool = True) -> Row | None:
    """The row of the plainest variant of a load, of those that have a ratio unless `ratio` is false."""
    rows = (results.row(cell, load, metric) for load in results.loads(base))
    return next((row for row in rows if row and (row.ratio is not None or not ratio)), None)


def _why_nothing(results: Results, cell: Cell) -> str:
    trials = [t for t in results.measured if t.cell == cell]
    errors = Counter(t.error for t in trials if t.error)
    if not trials:
        return "Was never measured: the run ended before its turn."
    if errors:
        reason, n = errors.most_common(1)[0]
        return f"No usable figure: {n} of {count(len(trials), 'trial')} failed. {_sentence(reason)}"
    if not any(t.counts for t in trials):
        guards = join_words(sorted({g for t in trials for g, _ in t.objections}))
        return f"No usable figure: every trial is untrusted ({guards}).{_doubtful(results, cell)}"
    if said := _doubtful(results, cell):
        return f"No usable ratio: its trials and those of native are never trusted in the same block.{said}"
    return "No ratio to native: the statistics are missing, or native was not measured at the same hops."


def _doubtful(results: Results, cell: Cell) -> str:
    """What untrusted trials show, marked as such."""
    rows = [
        next((r for load in results.loads(b) if (r := results.shown(cell, load, m)) and r.ratio), None) for b, m in HEADLINE
    ]
    said = "; ".join(part for part in (throughput_words(*rows[:2]), rtt_words(rows[2])) if part)
    return f" Not trusted: {said}." if said else ""


def untrusted(results: Results) -> str | None:
    """What the figures in brackets are, above the table that has them; None when all are trusted."""
    if not any((r.load.split(" ", maxsplit=1)[0], r.metric) in HEADLINE for r in results.untrusted):
        return None
    said = Counter(guard for t in results.measured for guard, _ in t.objections)
    why = f" (mostly by the guard “{said.most_common(1)[0][0]}”)" if said else ""
    return (
        f"In brackets: not trusted. These are medians of all trials of a path, since too few are left that no guard "
        f"rejects{why}. They show that the path works, not what it costs; no verdict rests on them."
    )


def basis(results: Results, cell: Cell) -> str:
    """The trials behind a cell: "30 trials, all used" or "30 trials: 27 used, 2 untrusted, 1 failed"."""
    trials = [t for t in results.measured if t.cell == cell and not t.twin]
    if not trials:
        rows = [r for r in results.rows if r.cell == cell]
        total = sum({r.load: r.trials for r in rows}.values())
        return count(total, "trial") if total else "no trials"
    used = sum(t.counts for t in trials)
    failed = sum(t.error is not None for t in trials)
    untrusted_count = sum(bool(t.objections) for t in trials)
    parts = [f"{used} used"]
    parts += [f"{untrusted_count} untrusted"] if untrusted_count else []
    parts += [f"{failed} failed"] if failed else []
    every = count(len(trials), "trial")
    return f"{every}, all used" if used == len(trials) and len(parts) == 1 else f"{every}: {', '.join(parts)}"


# ---- the run in one line


def headline(results: Results) -> str:
    """The span of what translators keep of native TCP throughput, unless the run does not deserve trust."""
    found = throughput_kept(results)
    if not found or trust(results).level == "poor":
        return "This run cannot say what translation costs on this machine"
    best, worst = max(found, key=found.__getitem__), min(found, key=found.__getitem__)
    if best == worst:
        return f"Translation by {short_label(best)} keeps {percent(found[best])} of native TCP throughput on this machine"
    return (
        f"Translation keeps from {percent(found[worst])} ({short_label(worst)}) to {percent(found[best])} "
        f"({short_label(best)}) of native TCP throughput on this machine"
    )


def throughput_kept(results: Results) -> dict[Cell, float]:
    """What each translator keeps of native TCP throughput, in the plainest setting; the worse direction counts."""
    found: dict[Cell, float] = {}
    loads = {load for base, _ in HEADLINE for load in results.loads(base)[:1]}
    for row in results.rows:
        translated = not row.cell.native and row.cell.system != "nat44"
        plain = row.load in loads and row.cell.factors == results.settings[0]
        if translated and plain and row.metric == "throughput" and row.ratio is not None:
            found[row.cell] = min(row.ratio, found.get(row.cell, row.ratio))
    return found


def lead(results: Results) -> str:
    """The answer for the translator that keeps the most throughput, in one sentence."""
    found = [a for a in answers(results) if not a.failed and a.cell.factors == results.settings[0]]
    best = max(throughput_kept(results).items(), key=lambda item: item[1], default=(None, 0))[0]
    chosen = next((a for a in found if a.cell == best), found[0] if found else None)
    if chosen is None:
        return "No translator has a figure that can be compared with native. Why is said below."
    start = "As measured, through" if trust(results).level == "poor" else "Through"
    return f"{start} {chosen.name}, {chosen.cost[0].lower()}{chosen.cost[1:]}{_faster_family(results, chosen.cell)}"


def _faster_family(results: Results, cell: Cell) -> str:
    """Why a translator can be faster than its baseline: what its application speaks may itself be the faster family."""
    natives = [c for c in results.cells if c.native and (c.family, c.hops, c.factors) == (cell.family, cell.hops, cell.factors)]
    for native in natives:
        row, own = (plainest(results, c, *HEADLINE[0]) for c in (native, cell))
        if row and own and row.ratio_ci95 and own.ratio and row.ratio_ci95[0] > 1 and own.ratio > 1:
            return f" Native {FAMILIES[cell.family]} itself gets {share(row)} of that baseline here."
    return ""


def not_measured(results: Results) -> str | None:
    """The systems that the run lacks, in one sentence."""
    names = [missing_label(m) for m in results.missing]
    return (
        f"Not measured: {join_words(list(dict.fromkeys(names)))}; why, and how to get them, is said below." if names else None
    )


# ---- trust


@dataclass(frozen=True)
class Trust:
    level: str  # good, limited, poor
    answer: str
    reasons: list[str]


def trust(results: Results) -> Trust:
    """How far to trust the run, with every reason that speaks for or against it."""
    intervals = [r for r in results.rows if r.ratio_ci95 is not None and not r.cell.native]
    found = plain_floors(results)
    untrusted_count, failed, total = trial_counts(results)
    doubtful = untrusted_count / total if total else 0
    reasons = [
        _interval_sentence(results, bool(intervals)),
        noise_sentence(found, twins=any(t.twin for t in results.measured)),
        _untrusted_sentence(untrusted_count, failed, total),
        verdict_count(results.verdicts),
        *([family] if (family := verdict.family_in_words(results.contents.summary.get("family"))) else []),
    ]
    if results.quick:
        reasons.append("This is the quick form: short trials, few blocks. The full study narrows the intervals.")
    smallest = max((f.deviation for f in found), default=None)
    fatal = [
        text
        for text, holds in (
            ("there is no interval to judge by", not intervals),
            ("too many trials are untrusted", doubtful > UNTRUSTED_TOO_MUCH),
            ("the host was too restless", smallest is not None and smallest > NOISE_TOO_MUCH),
        )
        if holds
    ]
    if fatal:
        because = f"No: {join_words(fatal)}."
        if smallest is not None and smallest > NOISE_TOO_MUCH:
            because += f" Only what differs by much more than {times(1 + smallest)} means anything."
        else:
            because += " The figures show that the paths work, not what they cost."
        return Trust("poor", because, reasons)
    above = f", for differences above {percent(smallest)}" if smallest is not None else ""
    weak = [
        text
        for text, holds in (
            ("few blocks", results.blocks < FEW_BLOCKS),
            ("some trials are untrusted", doubtful > UNTRUSTED_NOTED),
            ("no noise floor was measured", not found),
            ("a system differs from itself by more than chance", any(f.biased for f in found)),
            ("the noise floor is high", smallest is not None and smallest > FAIR),
        )
        if holds
    ]
    if weak:
        return Trust("limited", f"With care{above}: {join_words(weak)}.", reasons)
    return Trust("good", f"Yes{above}.", reasons)


def trial_counts(results: Results) -> tuple[int, int, int]:
    """(untrusted, failed, all) trials after the warm-up."""
    counts = counting.counted(results.contents.trials)
    return counts["untrusted"], counts["failed"], counts["measured"]


def _interval_sentence(results: Results, any_interval: bool) -> str:
    blocks = count(results.blocks, "block")
    if not any_interval:
        return f"No ratio has an interval ({blocks} after the warm-up)."
    return (
        f"Brackets hold the 95 % confidence interval of the ratio to native, from {blocks} in which all systems "
        "were measured in random order. The warm-up block is not used."
    )


def noise_sentence(found: list[Floor], twins: bool = False) -> str:
    """`twins`: a system was measured against itself, with or without a trusted result."""
    if not found and twins:
        return "A system was measured against itself, but no trial of it is trusted, so the noise floor is unknown."
    if not found:
        return "No A/A comparison (a system against itself) is in this folder, so the noise floor is unknown."
    highest: dict[str, float] = {}
    for floor in found:
        name = load_label(floor.load.split(" ", maxsplit=1)[0])
        highest[name] = max(floor.deviation, highest.get(name, 0.0))
    parts = join_words([f"{percent(deviation)} in {name}" for name, deviation in highest.items()])
    text = f"Noise floor: a system compared with itself differs by up to {parts}. Smaller differences mean nothing."
    biased = sorted({load_label(f.load) for f in found if f.biased})
    if biased:
        text += f" In {join_words(biased)} the two differ by more than chance: something besides the system moves the figures."
    return text


def plain_floors(results: Results) -> list[Floor]:
    """The floors of the plainest setting and the plainest variant of each load, those the answers rest on."""
    plain = {load for base, _ in HEADLINE for load in results.loads(base)[:1]}
    return [f for f in results.noise_floor if f.load in plain and f.cell.factors == results.settings[0]]


def _untrusted_sentence(untrusted_count: int, failed: int, total: int) -> str:
    if not total:
        return "The single trials are not in this folder."
    if not untrusted_count and not failed:
        return f"No trial is untrusted and none failed ({total} in all)."
    counts = {"measured": total, "untrusted": untrusted_count, "failed": failed}
    return f"{counting.in_words(counts)} Each is listed below with its reason."


def verdict_count(verdicts: list[dict[str, Any]]) -> str:
    if not verdicts:
        return "No verdict was reached in this run."
    tally = Counter(str(v.get("outcome")) for v in verdicts)
    parts = [f"{n} {_are(n)} {word}" for word in OUTCOMES if (n := tally.pop(word, 0))]
    parts += [f"{n} {_are(n)} {word}" for word, n in tally.items()]
    return f"Of the rules fixed before the run, {join_words(parts)}."


# ---- small words for tables


OUTCOMES = {"met": ("✓", "met"), "not met": ("✗", "not met"), "undecided": ("?", "undecided")}


def outcome(verdict: dict[str, Any]) -> tuple[str, str]:
    """(sign, words) of a verdict."""
    raw = str(verdict.get("outcome") or "undecided")
    return OUTCOMES.get(raw, ("?", raw))


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."
