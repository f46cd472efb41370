# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapters of what was measured, which every study has: throughput, round-trip time, CPU cost, and what it cannot see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from diolkos_lab.metric import RowMetric
from diolkos_lab.report import applications, blind_spots, by_block, streams
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, distribution, levels, over_time
from diolkos_lab.report.over_time import Panel
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import WORDS
from diolkos_lab.report.tables import Table, ratios
from diolkos_lab.report.tables import distribution as readings

HAVE_CHAPTERS = ("throughput", "rtt", "cpu_s_per_gb", *applications.METRICS, *streams.METRICS)
BANDS = (
    "Line: mean of a system's trials. Band: 95 % interval of that mean (Student's t over the trials); no band with a "
    "single trial, and a very wide one with two or three. Dashed: two hops. The warm-up block and untrusted trials are left "
    "out. Cross: trials failed; a throughput counts as 0 in the mean, a time that has no end is not in it."
)
CPU = levels.Shown("cpu_s_per_gb", "CPU time", unit="s per GB")
STRIPS = (
    "Strip: where single echoes lie; the darker, the more of them. Point: median. Strokes: 95th and 99th percentile. Small "
    "point: the longest echo; cross: trials failed, whose echoes have no end. Words at the right: median / 95th / 99th "
    "percentile. These are all echoes of all trials, not an interval."
)
LEAVES = " A spike may leave the frame; the logarithmic picture shows it whole."


def load_chapters(results: Results, form: str = "") -> list[Chapter]:
    """`form` says after whose pattern the tables of single readings are made. A chapter without content is left out."""
    of_packets = [throughput_chapter(results, form), rtt_chapter(results, form), cpu_chapter(results)]
    of_packets += [
        streams.udp_chapter(results),
        streams.forwarding_chapter(results),
        streams.loaded_latency_chapter(results),
        streams.delay_chapter(results),
        streams.cpu_role_chapter(results),
    ]
    every = [*of_packets, applications.http_chapter(results), applications.dns_chapter(results), *other_chapters(results)]
    return [chapter for chapter in every if not chapter.empty]


def cannot_see(results: Results, more: str | None = None) -> Chapter:
    """`more` is a limit of the study itself."""
    return Chapter("unseen-here", "What this run cannot see", bullets=blind_spots.run_limits(results, more))


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
    pictures += by_block.pictures(results, "throughput", streams.TCP)
    tables = [
        ratios(results, "throughput", "Throughput: median of the trials, and its share of native of the same hops", streams.TCP)
    ]
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
    pictures += by_block.pictures(results, "rtt", streams.PING if results.loads("ping-under-load") else ())
    tables = [
        ratios(
            results,
            "rtt",
            "Round-trip time: median of the trials' medians, and its ratio to native of the same hops",
            streams.PING,
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


def other_chapters(results: Results) -> list[Chapter]:
    """A table for each metric that has no chapter above; losses only where there are some."""
    metrics = dict.fromkeys(r.metric for r in results.rows if r.metric not in HAVE_CHAPTERS)
    bases = {_base(r.load) for r in results.rows} - {*streams.UDP, *streams.LOADED}
    lossless = {"loss"} if not any(r.median for r in results.rows if r.metric == "loss" and _base(r.load) in bases) else set()
    shown = [m for m in metrics if m not in lossless and bases]
    tables = {m: ratios(results, m, f"{m.capitalize()}, median of the valid trials", bases) for m in shown}
    return [
        Chapter(t.name, t.name.capitalize(), pictures=by_block.pictures(results, m), tables=[t]) for m, t in tables.items() if t
    ]


# ---- parts


def _base(load: str) -> str:
    return load.split(" ", maxsplit=1)[0]


def _readings(results: Results, load: str, quantity: str, what: str) -> Table | None:
    """How single readings are distributed."""
    name = f"{quantity}-{load.replace(' ', '-').replace('=', '-')}-readings"
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
