# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapters of what the loads of a run measured, and of what the run cannot see."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from diolkos_lab.metric import RowMetric
from diolkos_lab.report import blind_spots, by_block
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, distribution, levels, over_time
from diolkos_lab.report.load_entries import PING, TCP, Entry, entries
from diolkos_lab.report.over_time import Panel
from diolkos_lab.report.quantities import NONE, count, join_words, percent
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import WORDS, label, load_label, load_order, order, short_label, variant
from diolkos_lab.report.tables import Table, ratios
from diolkos_lab.report.tables import distribution as readings

ROLES: tuple[RowMetric, ...] = ("generator_share", "system_share", "receiver_share", "rest_share")
NOT_ALONE = frozenset((*ROLES, "busy", "cpu_s_per_gb"))  # metrics that stand in chapters of their own, or in a sentence
ALL_BUSY = 0.9  # of one CPU: a resolver that works this much limits the rate itself
BANDS = (
    "Line: mean of a system's trials. Band: 95 % interval of that mean (Student's t over the trials); no band with a "
    "single trial, and a very wide one with two or three. Dashed: two hops. The warm-up block and untrusted trials are left "
    "out. Cross: trials failed; a throughput counts as 0 in the mean, a time that has no end is not in it."
)
CPU = levels.Shown("cpu_s_per_gb", "CPU time", unit="s per GB")
POINTS = (
    "Point: median of the trials; bar: 95 % interval; hollow: too few trials for one; arrow: at least so much, because the "
    "generator was the limit."
)
STRIPS = (
    "Strip: where single echoes lie; the darker, the more of them. Point: median. Strokes: 95th and 99th percentile. Small "
    "point: the longest echo; cross: trials failed, whose echoes have no end. Words at the right: median / 95th / 99th "
    "percentile. These are all echoes of all trials, not an interval."
)
SINGLES = (
    "Strip: where single readings lie; the darker, the more of them. Point: median. Strokes: 95th and 99th percentile. Small "
    "point: the longest. These are single readings of all trials, thinned evenly."
)
LEAVES = " A spike may leave the frame; the logarithmic picture shows it whole."
ROLE_WORDS = (
    "CPU time as shares of one CPU. Generator: the process that sends the data. Receiver: the one that gets it. System: the "
    "processes of the system under test. Rest: interrupts and kernel threads, the lab, and other programs.",
    "The kernel charges a packet's way to the running process. What the generator writes is routed, and translated in the "
    "kernel, within its own system call; acknowledgements are, within the receiver's. So a translator in the kernel is charged "
    "to the generator and to the receiver, never to a process of its own. What it costs is the last column: CPU time of all "
    "CPUs per gigabyte, less that of the native path it is compared with.",
    "A generator is saturated where it uses 97 % of one CPU or more, or, where both ends share a CPU, both together do. "
    "The rate is then what this CPU can do with that path, and not what the path could carry. No guard asks for it, since it "
    "depends on what a trial brings: such trials count, and are marked here.",
)


def chapters(results: Results, without: Collection[str] = (), form: str = "") -> list[Chapter]:
    """Of all loads but those `without`, which have chapters elsewhere; one without content is left out.

    `form` says after whose pattern the tables of single readings are made.
    """
    every = [throughput_chapter(results, form), rtt_chapter(results, form), cpu_chapter(results)]
    every += [_of_entry(results, entry) for entry in entries()] + [cpu_role_chapter(results), *_others(results, without)]
    return [chapter for chapter in every if not chapter.empty]


def cannot_see(results: Results, more: str | None = None) -> Chapter:
    """`more` is a limit of the study itself."""
    return Chapter("unseen-here", "What this run cannot see", bullets=blind_spots.run_limits(results, more))


def _of_entry(results: Results, entry: Entry) -> Chapter:
    loads = [load for base in entry.loads for load in results.loads(base)]
    if not loads:
        return Chapter(entry.anchor, entry.title)
    words = [text for key, said in entry.words.items() if any(key in f"{load} " for load in loads) for text in said]
    pictures, tables = [], []
    for figure in entry.figures:
        shown = levels.Shown(figure.metric, figure.axis, entry.loads)
        if figure.title and levels.measured(results, shown):
            alt, draw = levels.alt(results, shown), partial(levels.draw, results, shown)
            pictures.append(Picture(figure.name, figure.title, POINTS, alt, draw))
        tables.append(ratios(results, figure.metric, figure.caption, entry.loads, figure.name))
    for number, load in enumerate(loads if entry.readings else [], start=1):
        assert entry.readings
        metric, what, axis = entry.readings.metric, entry.readings.what, entry.readings.axis
        if found := distribution.singles(results, load, metric):
            name, title = f"{entry.anchor}-distribution-{number}", f"Distribution, {load_label(load)}"
            alt, draw = distribution.alt_text(found, axis.capitalize()), partial(distribution.draw, found, axis)
            pictures += [Picture(name, title, SINGLES, alt, draw)] if axis else []
            tables.append(readings(results, load, metric, f"{load_label(load)}: {what}", f"{_file(load)}-readings"))
    pictures += [picture for metric in entry.blocks for picture in by_block.pictures(results, metric, entry.loads)]
    if entry.anchor == "dns":
        words += _lower_bounds(results)
    return Chapter(entry.anchor, entry.title, words, pictures=pictures, tables=[table for table in tables if table])


def throughput_chapter(results: Results, form: str) -> Chapter:
    pictures = []
    if shown := over_time.measured(results, "throughput"):
        pictures += _over_time(shown, "throughput", "Throughput over time, one scale", BANDS)
        if both := over_time.two_scales(shown):
            alt = over_time.alt_text(both, "throughput")
            share = f"{100 * over_time.NEAR_NATIVE:.0f} %"
            caption = (
                f"Two scales, so heights must not be compared across them. Left: native, and every system that reaches {share} "
                "of it. Right: the others. Bands as above."
            )
            for name, log in (("", False), ("-log", True)):
                title = f"Throughput over time, two scales, {'logarithmic' if log else 'linear'}"
                draw = partial(over_time.draw_two_scales, both, log)
                pictures.append(Picture(f"throughput-two-scales{name}", title, caption, alt, draw))
    pictures += by_block.pictures(results, "throughput", TCP)
    tables = [ratios(results, "throughput", "Throughput: median of the trials, and its share of native of the same hops", TCP)]
    loads = [*results.loads("tcp-upload"), *results.loads("tcp-download")]
    tables += [_readings(results, load, "throughput", f"single iperf3 intervals of all trials{form}") for load in loads]
    return Chapter("throughput", "Throughput", pictures=pictures, tables=[t for t in tables if t])


def rtt_chapter(results: Results, form: str) -> Chapter:
    pictures = []
    if shown := over_time.measured(results, "rtt"):
        said = "Each point of a line stands for the median echo of a short span. " + BANDS + LEAVES
        pictures += _over_time(shown, "rtt", "Round-trip time over time", said)
    if found := distribution.echoes(results):
        alt = distribution.alt_text(found)
        draw = partial(distribution.draw, found)
        pictures.append(Picture("rtt-distribution", "Distribution of round-trip times", STRIPS, alt, draw))
    pictures += by_block.pictures(results, "rtt", PING if results.loads("ping-under-load") else ())
    tables = [
        ratios(
            results,
            "rtt",
            "Round-trip time: median of the trials' medians, and its ratio to native of the same hops",
            PING,
        )
    ]
    tables += [_readings(results, load, "rtt", f"single echoes of all trials{form}") for load in results.loads("ping")]
    return Chapter("rtt", "Round-trip time", pictures=pictures, tables=[t for t in tables if t])


def cpu_chapter(results: Results) -> Chapter:
    if not levels.measured(results, CPU):
        return Chapter("cpu", "CPU cost")
    picture = Picture(
        "cpu",
        "CPU time per gigabyte",
        "CPU time of the path (generator, translator, server, kernel) per gigabyte that arrived, without that of other "
        "programs. Point: median; bar: 95 % interval.",
        levels.alt(results, CPU),
        partial(levels.draw, results, CPU),
    )
    table = ratios(
        results, "cpu_s_per_gb", "CPU time per gigabyte: median of the trials, and its ratio to native of the same hops"
    )
    pictures = [picture, *by_block.pictures(results, "cpu_s_per_gb")]
    return Chapter("cpu", "CPU cost", pictures=pictures, tables=[table] if table else [])


def cpu_role_chapter(results: Results) -> Chapter:
    """Who was charged for the CPU time."""
    table = _roles(results)
    return Chapter("roles", "CPU of each role", list(ROLE_WORDS), tables=[table]) if table else Chapter("roles", "")


def saturated(results: Results, cell: Cell, load: str) -> tuple[int, int]:
    """Trials in which the generator had no CPU to spare, and all that tell."""
    flags = [t.metrics["saturated"] for t in results.used(cell, load) if "saturated" in t.metrics]
    return sum(flag > 0 for flag in flags), len(flags)


def _roles(results: Results) -> Table | None:
    found = {(r.cell, r.load) for r in results.rows if r.metric == "generator_share" and r.median is not None}
    lines, raw = [], []
    for cell, load in sorted(found, key=lambda key: (load_order(key[1]), order(key[0]))):
        rows = [results.shown(cell, load, metric) for metric in ROLES]
        medians = [row.median if row else None for row in rows]
        marked, told = saturated(results, cell, load)
        cpu = results.shown(cell, load, "cpu_s_per_gb")
        more = cpu.median * (1 - 1 / cpu.ratio) if cpu and cpu.median and cpu.ratio else None
        lines.append(
            [
                label(cell),
                load_label(load),
                *(NONE if median is None else percent(median) for median in medians),
                f"saturated in {marked} of {told}" if marked else f"no ({count(told, 'trial')})",
                NONE if cpu is None or cpu.median is None else f"{cpu.median:.2f}",
                NONE if more is None else f"{more:+.2f}".replace("-", "\N{MINUS SIGN}"),
            ]
        )
        raw.append([label(cell), load, *medians, marked, told, cpu and cpu.median, more])
    if not lines:
        return None
    heads = ["Generator", "System", "Receiver", "Rest", "Generator saturated", "All, s/GB", "More than native, s/GB"]
    raw_heads = [*ROLES, "saturated_trials", "trials", "cpu (s/GB)", "cpu_more_than_native (s/GB)"]
    caption = "CPU time by role, medians of the trials, of one CPU; and of all CPUs per gigabyte"
    return Table("roles", caption, ["System", "Load", *heads], lines, ["system", "load", *raw_heads], raw, frozenset({0, 1, 6}))


def _lower_bounds(results: Results) -> list[str]:
    """Rates that say nothing of the resolver, since it had time to spare."""
    found: dict[str, list[str]] = {}
    for row in results.rows:
        if (
            row.metric == "busy"
            and row.median is not None
            and row.median < ALL_BUSY
            and variant(row.load).get("cache") == "warm"
        ):
            found.setdefault(load_label(row.load), []).append(f"{short_label(row.cell)} {percent(row.median)}")
    return [
        f"{load}: the generator was the limit, not the resolver (busy: {join_words(names)}). These rates are lower bounds, "
        "and do not tell which resolver is faster; the CPU time of an answer does."
        for load, names in found.items()
    ]


def _others(results: Results, without: Collection[str]) -> list[Chapter]:
    """A table for each metric of loads that no chapter above has; losses only where there are some."""
    named = {(base, figure.metric) for entry in entries() for base in entry.loads for figure in entry.figures}
    named |= {(base, "throughput") for base in TCP} | {(base, "rtt") for base in PING}
    loads: dict[str, dict[str, None]] = {}
    for row in results.rows:
        base = row.load.split(" ", maxsplit=1)[0]
        if (
            base not in without
            and (base, row.metric) not in named
            and row.metric not in NOT_ALONE
            and (row.metric != "loss" or row.median)
        ):
            loads.setdefault(row.metric, {})[base] = None
    found = []
    for metric, bases in loads.items():
        if table := ratios(results, metric, f"{metric.capitalize()}, median of the valid trials", tuple(bases)):
            pictures = by_block.pictures(results, metric, tuple(bases))
            found.append(Chapter(metric, metric.capitalize(), pictures=pictures, tables=[table]))
    return found


def _file(load: str) -> str:
    return load.replace(" ", "-").replace("=", "-")


def _readings(results: Results, load: str, quantity: str, what: str) -> Table | None:
    """How single readings are distributed."""
    name = f"{quantity}-{_file(load)}-readings"
    base, *variant = load.split(" ")
    title = ", ".join([WORDS.get(base, base), *variant])
    return readings(results, load, quantity, f"{title[:1].upper()}{title[1:]}: {what}", name)


def _over_time(shown: Sequence[Panel], quantity: RowMetric, title: str, caption: str) -> list[Picture]:
    """Linear and logarithmic."""
    alt, found = over_time.alt_text(shown, quantity), []
    for name, log in (("linear", False), ("log", True)):
        said = caption if not log else f"The same on a logarithmic scale: equal distances are equal ratios. {BANDS}"
        draw = partial(over_time.draw, shown, quantity, log)
        found.append(Picture(f"{quantity}-{name}", f"{title}, {'logarithmic' if log else 'linear'}", said, alt, draw))
    return found
