# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Chapters of a report. This file has those that every study shares; a study's own are in a file of its name.

Order in the page: the answer, the picture, the table, what is undecided, the verdicts, trust; then the study's own chapters,
what is missing, doubtful trials, the host, how to repeat it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from diolkos_lab.outcome import INSTRUMENT
from diolkos_lab.report import by_block, facts, merged, rejected
from diolkos_lab.report.charts import Picture, glance
from diolkos_lab.report.quantities import count, digits, join_words
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import label, load_label, missing_label
from diolkos_lab.report.tables import Table, doubtful
from diolkos_lab.report.trust import Trust
from diolkos_lab.report.values import interval, number
from diolkos_lab.report.words import outcome


@dataclass(frozen=True)
class Chapter:
    anchor: str
    title: str
    paragraphs: list[str] = field(default_factory=list)
    bullets: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)  # (name, value), printed as a list of definitions
    code: str | None = None

    @property
    def rest(self) -> str:
        """What is folded of an open chapter."""
        pictures, tables = (len(each[1:]) for each in (self.pictures, self.tables))
        said = [count(pictures, "more picture")] if pictures else []
        return join_words([*said, *([count(tables, "more table")] if tables else [])])

    @property
    def empty(self) -> bool:
        return not (self.paragraphs or self.bullets or self.pictures or self.tables or self.pairs or self.code)


BY_INTERVAL = (
    "A rule is met when its whole interval lies on the right side of its limit, and undecided when the interval spans the "
    "limit."
)


@dataclass(frozen=True)
class Content:
    """What a kind of run adds to what every page has.

    `lead` stands under the first sentence. With `leads` it is that sentence: what was measured is no ratio to native.
    """

    chapters: Sequence[Chapter]
    trust: Trust
    words: Sequence[tuple[str, str]]
    lead: str = ""
    leads: bool = False
    decides: str = BY_INTERVAL  # when a rule is met
    again: str = ""  # how to get what is missing, where it is not more blocks


# ---- first


@dataclass(frozen=True)
class Verdict:
    sign: str
    outcome: str
    sentence: str
    rule: str


def verdicts(results: Results) -> list[tuple[str, list[Verdict]]]:
    """The verdicts of summary.json by claim; the outcome, which has a column of its own, is taken off the sentence."""
    found: dict[str, list[Verdict]] = {}
    for raw in results.verdicts:
        sign, word = outcome(raw)
        sentence = str(raw.get("sentence") or "").removeprefix(f"{word.capitalize()}. ")
        rule = str(raw.get("rule") or "not recorded")
        found.setdefault(str(raw.get("claim") or "A claim"), []).append(Verdict(sign, word, sentence or _value(raw), rule))
    return list(found.items())


def _value(raw: dict[str, Any]) -> str:
    value, ci = number(raw.get("value")), interval(raw.get("ci95"))
    if value is None:
        return "No value."
    ends = f" (95 % interval {digits(ci[0])} to {digits(ci[1])})" if ci else ""
    return f"The value is {digits(value)}{ends}."


def compares(results: Results) -> bool:
    """Is there a ratio to draw?"""
    return bool(glance.panels(results))


def at_a_glance(results: Results) -> Chapter:
    """All systems in one picture."""
    if not compares(results):
        return Chapter("glance", "At a glance", ["No ratio to native can be drawn from this folder."])
    every = [row for panel in glance.panels(results) for row in glance.rows(results, *panel)]
    caption = "Point: median of the ratio to native. Bar: its 95 % interval. Black line: native. Hollow: no interval, or the "
    caption += "ratio to the native family that asks less of the system."
    caption += " Grey band: how far a path strays from itself, where that was measured."
    caption += " Grey ring, in brackets: not trusted." * bool(results.untrusted)
    caption += " Arrow: the value or its interval goes on beyond the edge."
    caption += " Cross: trials failed; each counts as the worst that there is." * any(map(glance.failures, every))
    picture = Picture("glance", "Ratio to native, all systems", caption, glance.alt(results), partial(glance.draw, results))
    return Chapter("glance", "At a glance", pictures=[picture])


def by_blocks(results: Results, bases: Collection[str] = ()) -> Chapter:
    """Ratios of loads without a chapter for each metric; of `bases` only, where some are given. Empty where there are none."""
    panels, pictures = glance.panels(results), []
    for metric in dict.fromkeys(metric for _, metric in panels):
        mine = dict.fromkeys(load.split(" ", maxsplit=1)[0] for load, m in panels if m == metric)
        if kept := tuple(base for base in mine if not bases or base in bases):
            pictures.extend(by_block.pictures(results, metric, kept))
    return Chapter("blocks", "Block by block", pictures=pictures)


# ---- last


def last(results: Results) -> list[Chapter]:
    """What every page ends with."""
    runs = Chapter("runs", "Hosts and runs", merged.paragraphs(results), tables=merged.tables(results))
    return [runs, missing(results), failures(results), host(results), repeat(results)]


def missing(results: Results) -> Chapter:
    """What was not measured, and how to get it."""
    names: dict[tuple[str, str], list[str]] = {}
    for entry in results.missing:
        reason, how = (str(entry.get(key) or "").strip().rstrip(".") for key in ("reason", "how"))
        name = missing_label(entry)
        names.setdefault((reason or "reason unknown", how), []).append(name)
    bullets = [
        f"{join_words(each)}: {reason}." + (f" To get it: {how}." if how else "") for (reason, how), each in names.items()
    ]
    for entry in results.host.get("skipped") or []:
        bullets.append(f"{str(entry['factor']).capitalize()} {entry['value']}: {entry['reason']}.")
    for entry in results.host.get("left_out") or []:
        bullets.append(f"{entry['what']}: {entry['reason']}.")
    return Chapter("missing", "What is missing", list(results.gaps), bullets)


def failures(results: Results) -> Chapter:
    """Failed and untrusted trials: how many for each reason, then each of them."""
    table, by_path = doubtful(results), rejected.table(results)
    bullets = [text for f in results.failures if (text := _failure(f))]
    broken = results.contents.summary.get("instrument_failures") or []
    bullets += [f"An instrument of the lab failed, which is nobody’s result: {_failure(f)}" for f in broken]
    tally: Counter[tuple[str, str]] = Counter()
    for trial in results.measured:
        for guard in {guard for guard, _ in trial.objections} - {INSTRUMENT}:
            tally[(guard, f"{label(trial.cell)}, {load_label(trial.load)}")] += 1
    by_guard: dict[str, list[str]] = {}
    for (guard, where), n in tally.most_common():
        by_guard.setdefault(guard, []).append(f"{where} ({n})")
    bullets += [f"Guard “{guard}” rejects {join_words(places)}." for guard, places in by_guard.items()]
    if table is None and not bullets:
        nothing = ["No trial failed, and no guard rejects one."]
        return Chapter("doubtful", "Failed and untrusted trials", nothing, tables=[by_path] if by_path else [])
    intro = "A guard that doubts a trial marks it. Marked trials stay in the files; the table says which of them count."
    tables = [each for each in (by_path, table) if each]
    return Chapter("doubtful", "Failed and untrusted trials", [intro], bullets, tables=tables)


def _failure(raw: object) -> str:
    if not isinstance(raw, dict):
        return str(raw)
    where = " ".join(str(raw[k]) for k in ("system", "datapath", "load") if raw.get(k))
    what = raw.get("sentence") or raw.get("error") or raw.get("reason") or raw.get("detail") or ""
    n = number(raw.get("trials") or raw.get("count"))
    times = f" ({count(int(n), 'trial')})" if n else ""
    return f"{where}{times}: {what}" if where else str(what)


def host(results: Results) -> Chapter:
    hidden = {"format"}
    alone = {name: value for name, value in results.host.items() if name != "merged"}
    pairs = [(k, v) for k, v in facts.flat(alone) if k not in hidden]
    return Chapter("host", "The host", [] if pairs else ["host.json is missing, so nothing is known of it."], pairs=pairs)


def repeat(results: Results) -> Chapter:
    """The command and the seed; where the raw data are."""
    command, seed = facts.command(results.host), facts.seed(results.host)
    lines = ["# the same study again"]
    fallback = f"diolkos-lab run {results.name}" + ("" if results.form == "full" else f" --form {results.form}")
    again = command or fallback
    if seed is not None and "--seed" not in again:
        again += f" --seed {seed}"
    lines.append(again)
    lines += ["# this page again, from the files", "diolkos-lab report FOLDER"]
    text = [
        "The report is made from the files of its folder alone: study.toml (the plan as it was run), host.json (the "
        "host), samples.jsonl (every trial), summary.json (the statistics)."
    ]
    if seed is not None:
        text.append(f"The order of the trials in each block was drawn with seed {seed}.")
    text.append("Pictures are in pictures/ (PNG, SVG and PDF), all tables with raw values in tables/ (CSV).")
    return Chapter("repeat", "How to repeat it", text, code="\n".join(lines))
