# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Chapters of new flows (RFC 9693): each system beside NAT44, and how it scales."""

from __future__ import annotations

from collections.abc import Sequence

from diolkos_lab.metric import MetricName, RowMetric
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.quantities import NONE, Scale, percent, scale, with_interval
from diolkos_lab.report.systems import FAMILIES, title
from diolkos_lab.report.tables import Table
from diolkos_lab.stats.median import median
from diolkos_lab.stats.pairing import CellKey, Samples

REFERENCE = "nat44"
METRICS: dict[RowMetric, str] = {
    "rate": "New sessions a second",
    "established": "Packets a second over them",
    "teardown": "Sessions ended a second",
}
HOW = (
    "Each packet has another 4-tuple, so each opens a session. The rate is the highest at which all of them get through, all "
    "are in the system's table by its own count, and an answer to each gets back (RFC 9693, sections 4.5 and 4.6); it begins "
    "with as many as go. Over the open sessions packets then go in both directions at once, each session in its turn, as many "
    "as go (section 4.7). In the end all sessions are ended by one order, which is timed (section 4.8); unlike there, what the "
    "same order takes when there are none is left out. Conntrack is flushed, Diolkos switches to another pool.",
    "With few bindings one client sends from 2000 ports; with many, 256 clients, or as many nodes as stand there, use all of "
    "theirs. A NAT64 has a binding for each port of a client beside the sessions, so the second costs it more; conntrack has "
    "none. Generator, forwarding and sink share the last CPU, so the generator cannot send faster than sessions are opened "
    "there. A system that is a program beside the kernel has the first CPU for that, which NAT44 does not need; or, all on one "
    "CPU, has to share.",
)


def chapters(samples: Samples) -> list[Chapter]:
    """What a page about new flows has of its own."""
    return [_beside(samples), _scaling(samples)]


def loads(samples: Samples) -> list[tuple[tuple[str, object], ...]]:
    """The settings in which sessions were opened, each once."""
    return list(dict.fromkeys(key.factors for key in samples.cells()))


def _beside(samples: Samples) -> Chapter:
    tables = [_table(samples, factors, number) for number, factors in enumerate(loads(samples), start=1)]
    return Chapter("sessions", "Sessions opened, used and ended", list(HOW) if tables else [], tables=tables)


def _table(samples: Samples, factors: tuple[tuple[str, object], ...], number: int) -> Table:
    keys = [key for key in samples.cells() if key.factors == factors and key.replica == 1]
    reference = next((key for key in keys if key.subject.startswith(f"{REFERENCE}/")), None)
    units = {metric: _scale(samples, keys, metric) for metric in METRICS}
    heads = ["Path"]
    for metric, what in METRICS.items():
        heads += [f"{what}, {units[metric].unit}", "Of NAT44"]
    lines, raw = [], []
    for key in sorted(keys, key=lambda key: (not key.subject.startswith("native"), key != reference, key.subject)):
        line, raw_line = [name(key.subject)], [key.subject, *(value for _, value in factors)]
        for metric in METRICS:
            shown, values = _shown(samples, key, reference, metric, units[metric])
            line += shown
            raw_line += values
        trials = samples.trials(key)
        attempts = [each["metrics"]["attempts"] for each in trials if "attempts" in each["metrics"]]
        line += [f"{median(attempts):g}" if attempts else NONE, f"{sum(each['valid'] for each in trials)} of {len(trials)}"]
        lines.append(line)
        raw.append([*raw_line, len(trials), sum(each["valid"] for each in trials)])
    parts = ("median", "ci95_low", "ci95_high", "of_nat44", "of_nat44_low", "of_nat44_high", "distrusted")
    return Table(
        f"sessions-{number}",
        f"{_setting(factors)}. Median over the blocks [95 % interval]; in brackets: not trusted",
        [*heads, "Attempts", "Trusted trials"],
        lines,
        ["subject", *(name for name, _ in factors), *(f"{m}_{p}" for m in METRICS for p in parts), "trials", "valid_trials"],
        raw,
    )


def _shown(
    samples: Samples, key: CellKey, reference: CellKey | None, metric: MetricName, unit: Scale
) -> tuple[list[str], list[object]]:
    """A figure and its ratio to NAT44 within the blocks; of all trials, in brackets, where none is trusted."""
    doubtful = not samples.figures(key, metric)
    middle = samples.median(key, metric, include_untrusted=doubtful)
    if not middle:
        return [NONE, NONE], [None] * 7
    ci = None if doubtful else middle.ci95
    ratio = None
    if reference and reference != key:
        ratio = samples.ratio(key, reference, metric) or samples.ratio(key, reference, metric, include_untrusted=True)
    unsure = doubtful or bool(reference and not samples.figures(reference, metric))
    ends = ratio.ci95 if ratio and not unsure else None
    shown = [with_interval(middle.median.low, ci, unit), percent(ratio.median.low, ends) if ratio else NONE]
    marks = (doubtful, unsure and ratio is not None)
    bounds = (middle.median.number, *(ci or (None, None)), ratio.median.number if ratio else None, *(ends or (None, None)))
    raw = [*bounds, doubtful]
    return [f"({text})" if mark else text for text, mark in zip(shown, marks, strict=True)], raw


def _scale(samples: Samples, keys: Sequence[CellKey], metric: MetricName) -> Scale:
    return scale(
        metric, [v.low for key in keys for v in samples.figures(key, metric, include_untrusted=True).values() if v.finite]
    )


def _scaling(samples: Samples) -> Chapter:
    """By how much a figure changes with the number of sessions: (x_n − x_1)/x_1.

    RFC 8219 §10.2.1 turns the sign round for figures of which more is better, as all of these are. Here less is below zero.
    """
    groups: dict[tuple[object, ...], dict[int, CellKey]] = {}
    for key in samples.cells():
        if key.replica == 1:
            rest = tuple(factor for factor in key.factors if factor[0] != "sessions")
            groups.setdefault((key.subject, rest), {})[dict(key.factors)["sessions"]] = key
    lines, raw = [], []
    for by_sessions in groups.values():
        fewest = by_sessions[min(by_sessions)]
        for sessions, key in sorted(by_sessions.items()):
            if key == fewest:
                continue
            line, raw_line = [name(key.subject), _setting(key.factors)], [key.subject, min(by_sessions), sessions]
            for metric in METRICS:
                ratio = samples.ratio(key, fewest, metric)
                line.append(f"{ratio.median.low - 1:+.1%}" if ratio and ratio.median.number is not None else NONE)
                raw_line.append(ratio.median.low - 1 if ratio and ratio.median.number is not None else None)
            lines.append(line)
            raw.append(raw_line)
    text = (
        "By how much a figure changes from the fewest sessions of the run to more of them, (x_n − x_1)/x_1, the median over "
        "the blocks. −10 % is a tenth less, which RFC 8219 (section 10.2.1) calls a degradation of 10 %."
    )
    heads = ["Path", "Setting", *METRICS.values()]
    table = Table(
        "scaling", "Overload scalability", heads, lines, ["subject", "fewest", "sessions", *METRICS], raw, frozenset({0, 1})
    )
    return Chapter("scaling", "More sessions", [text] if lines else [], tables=[table] if lines else [])


def name(subject: str) -> str:
    """ "diolkos nat64-tc", "native IPv6", "NAT44"."""
    system, datapath, family, _ = subject.split("/")
    if system == "native":
        return f"native {FAMILIES[family]}, without state"
    return title(system) if system == REFERENCE else f"{title(system)} {datapath}"


def _setting(factors: Sequence[tuple[str, object]]) -> str:
    sessions = f"{dict(factors)['sessions']:,}".replace(",", " ")
    return f"{sessions} sessions, {where(factors)}"


def where(factors: Sequence[tuple[str, object]]) -> str:
    """ "few bindings, all on one CPU"."""
    level = dict(factors)
    words = {
        "one-cpu": "all on one CPU",
        "free": "CPUs as the scheduler likes",
        "beside": "programs on a CPU of their own",
        "apart": "the system on a CPU of its own",
    }
    nodes = f" of {level['nodes']:,} nodes".replace(",", " ") if level.get("nodes", 1) != 1 else ""
    return f"{level['bindings']} bindings{nodes}, {words.get(str(level['placement']), level['placement'])}"
