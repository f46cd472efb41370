# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapter of table capacities (RFC 9693 §4.9): how many sessions each system holds, and whether it says so itself."""

from __future__ import annotations

from dataclasses import dataclass

from diolkos_lab.metric import MetricName
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.quantities import NONE, THIN, TO
from diolkos_lab.report.session_chapters import name, where
from diolkos_lab.report.tables import Table
from diolkos_lab.run.session_rate import STRAY
from diolkos_lab.stats.median import Interval
from diolkos_lab.stats.pairing import CellKey, Samples

METRICS: tuple[MetricName, ...] = ("capacity", "too_many", "held_of_too_many", "lost_of_too_many", "limit")
# How what a system holds compares with what it says: in a column of its own, and in a sentence.
YES, FEWER, MORE = ("yes", "as many as it says"), ("no, fewer", "fewer than it says"), ("no, more", "more than it says")
NOT_REACHED, SILENT = ("not reached", "its limit was not reached"), (NONE, "it says no limit")
HEADS = ["Path", "Held", "Too many", "Then in it", "When full", "Its limit", "As it says?", "Trusted trials"]
TEXTS = frozenset({0, 4, 6})  # columns that are no numbers
HOW = (
    "From an empty table sessions are opened, one by each packet, at a rate that the study gives; then an answer is sent in "
    "each. So many are held if every packet gets through, every answer gets back, and the table has all of them by its own "
    "count. The number doubles from one that every system holds until some are missing; what lies between is then halved "
    "(RFC 9693, section 4.9). All sessions are ended after each attempt. A number is too many if some were missing twice, the "
    "second time at half of the rate. Packets that get through prove nothing: a full table may forget other sessions for them, "
    "as the kernel's conntrack does.",
    "The RFC looks for the highest rate at which each number of sessions can be opened, and takes the number for too many "
    "where that rate drops by more than a factor of the tester's choice. Here the rate is given, and that factor is two.",
)


@dataclass(frozen=True)
class Capacity:
    """What was found of one system: medians over the blocks, in sessions, of trusted trials or else of all."""

    subject: str
    held: float
    ci95: Interval | None
    too_many: float | None  # None: at least as many are held
    held_of_too_many: float | None
    lost_of_too_many: float | None  # share of those that did not get through
    limit: float | None  # what the system says
    doubtful: bool

    @property
    def as_it_says(self) -> tuple[str, str]:
        """One of the pairs above. What others have in the table, STRAY at most, takes room of its own."""
        if self.limit is None:
            return SILENT
        if self.held > self.limit:
            return MORE
        if self.too_many is None:
            return YES if self.held == self.limit else NOT_REACHED
        return FEWER if self.too_many + STRAY <= self.limit else YES

    @property
    def when_full(self) -> str:
        """What becomes of sessions that are too many: are as many not let through as are missing?"""
        if self.too_many is None or self.held_of_too_many is None or self.lost_of_too_many is None:
            return NONE
        missing, refused = self.too_many - self.held_of_too_many, self.lost_of_too_many * self.too_many
        if missing <= 0 and not refused:
            return "loses answers"
        return "refuses new" if refused >= missing / 2 else "forgets others"

    @property
    def shown(self) -> str:
        text = grouped(self.held) if self.too_many else f"≥ {grouped(self.held)}"
        if self.ci95 and self.ci95[0] < self.ci95[1]:
            text += f" [{grouped(self.ci95[0])}{TO}{grouped(self.ci95[1])}]"
        return f"({text})" if self.doubtful else text

    @property
    def sentence(self) -> str:
        limit = "" if self.limit is None else f" ({grouped(self.limit)})"
        if self.doubtful or self.too_many is None:
            judged = "" if self.doubtful else f": {self.as_it_says[1]}{limit}"
            return f"{name(self.subject)} holds at least {grouped(self.held)} sessions{judged}."
        held, too_many = grouped(self.held), grouped(self.too_many)
        return f"{name(self.subject)} holds {held} sessions and not {too_many}: {self.as_it_says[1]}{limit}."


def found(samples: Samples, key: CellKey) -> Capacity | None:
    """None where no trial came to its end."""
    doubtful = not samples.figures(key, "capacity")
    found = {metric: samples.median(key, metric, include_untrusted=doubtful) for metric in METRICS}
    held, too_many = found["capacity"], found["too_many"]
    if not held:
        return None
    middle = {metric: each.median.low if each else None for metric, each in found.items()}
    if not too_many or len(too_many.by_block) < len(held.by_block) / 2:
        # Most searches came to their end before the table was full.
        middle |= dict.fromkeys(("too_many", "held_of_too_many", "lost_of_too_many"))
    return Capacity(
        subject=key.subject,
        held=held.median.low,
        ci95=None if doubtful else held.ci95,
        too_many=middle["too_many"],
        held_of_too_many=middle["held_of_too_many"],
        lost_of_too_many=middle["lost_of_too_many"],
        limit=middle["limit"],
        doubtful=doubtful,
    )


def chapter(samples: Samples) -> Chapter:
    """Empty where no capacity was asked for."""
    groups: dict[str, list[CellKey]] = {}
    for key in samples.cells():
        if key.replica == 1:
            groups.setdefault(where(key.factors), []).append(key)
    tables = [_table(samples, keys, setting, number) for number, (setting, keys) in enumerate(groups.items(), start=1)]
    return Chapter("capacity", "How many sessions fit", list(HOW) if tables else [], tables=tables)


def lead(samples: Samples) -> str:
    """A sentence for each system, in the first of its settings."""
    said: dict[str, str] = {}
    for key in samples.cells():
        each = found(samples, key) if key.replica == 1 else None
        if each and each.subject not in said:
            said[each.subject] = each.sentence
    return " ".join(said.values()) or "No capacity could be measured."


def _table(samples: Samples, keys: list[CellKey], setting: str, number: int) -> Table:
    lines, raw = [], []
    for key in keys:
        trials = samples.trials(key)
        trusted = sum(each["valid"] for each in trials)
        shown, values = _shown(found(samples, key))
        lines.append([name(key.subject), *shown, f"{trusted} of {len(trials)}"])
        raw.append([key.subject, *(value for _, value in key.factors), *values, len(trials), trusted])
    caption = f"{setting[0].upper()}{setting[1:]}. Sessions, median over the blocks [95 % interval]"
    caption += "; in brackets: so many at least, for what was too many is not trusted"
    ends = ("capacity_ci95_low", "capacity_ci95_high")
    return Table(
        f"capacity-{number}",
        caption,
        HEADS,
        lines,
        ["subject", *(factor for factor, _ in keys[0].factors), *METRICS, *ends, "distrusted", "trials", "valid_trials"],
        raw,
        TEXTS,
    )


def _shown(each: Capacity | None) -> tuple[list[str], list[object]]:
    """What stands in the page, and what in the file."""
    if each is None:
        return [NONE] * 6, [None] * (len(METRICS) + 3)
    numbers = (each.too_many, each.held_of_too_many, each.limit)
    too_many, held_of_it, limit = (NONE if value is None else grouped(value) for value in numbers)
    doubted = [f"({text})" if each.doubtful and text != NONE else text for text in (too_many, held_of_it, each.when_full)]
    as_it_says = f"({each.as_it_says[0]})" if each.doubtful else each.as_it_says[0]
    shown = [each.shown, *doubted, limit, as_it_says]
    values = (each.held, each.too_many, each.held_of_too_many, each.lost_of_too_many, each.limit)
    return shown, [*values, *(each.ci95 or (None, None)), each.doubtful]


def grouped(count: float) -> str:
    """200000 → "200 000", which does not break."""
    return f"{round(count):,}".replace(",", THIN)
