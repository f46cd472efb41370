# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapters of the study `clat`: throughput, round-trip time, CPU, the published figures, and blind spots."""

from __future__ import annotations

from diolkos_lab.report import clat_blind_spots as blind
from diolkos_lab.report import clat_published as beside
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.pictures import Picture, cpu, rtt, throughput
from diolkos_lab.report.read import Results
from diolkos_lab.report.tables import Table, distribution, ratios

BANDS = (
    "Line: mean of a system's trials. Band: 95 % interval of that mean (Student's t over the trials); no band with a "
    "single trial. Dashed: two hops. The warm-up block and distrusted trials are left out."
)


LEAVES = " A spike may leave the frame; the logarithmic picture shows it whole."


def chapters(results: Results) -> list[Chapter]:
    """The study's own part of the page; a chapter without content is left out."""
    every = [
        of_throughput(results),
        of_rtt(results),
        of_cpu(results),
        beside.chapter(results),
        Chapter(
            "unseen-there",
            "What the published study could not see",
            ["Each of its limits, and what this run does about it."],
            pairs=blind.of_the_published_study(results),
        ),
        Chapter("unseen-here", "What this run cannot see", bullets=blind.of_this_run(results)),
    ]
    return [chapter for chapter in every if not chapter.empty]


def of_throughput(results: Results) -> Chapter:
    pictures = []
    if throughput.measured(results):
        alt = throughput.alt(results)
        for name, log in (("linear", False), ("log", True)):
            title = f"Throughput over time, one scale, {'logarithmic' if log else 'linear'}"
            caption = BANDS if not log else "The same on a logarithmic scale: equal distances are equal ratios. " + BANDS
            pictures.append(Picture(f"throughput-{name}", title, caption, alt, _bind(throughput.draw, results, log)))
        if throughput.two_scales(results):
            share = f"{100 * throughput.NEAR_NATIVE:.0f} %"
            pictures.append(
                Picture(
                    "throughput-two-scales",
                    "Throughput over time, two scales",
                    f"Two scales, so heights must not be compared across them. Left: native, and every system that "
                    f"reaches {share} of it. Right: the others. Bands as above.",
                    alt,
                    lambda layout: throughput.draw_two_scales(results, layout),
                )
            )
    tables = [ratios(results, "throughput", "Throughput: median of the trials, and its share of native of the same hops")]
    loads = [*results.loads("tcp-upload"), *results.loads("tcp-download")]
    tables += [_readings(results, load, "throughput", "single iperf3 intervals of all trials") for load in loads]
    return Chapter("throughput", "Throughput", pictures=pictures, tables=[t for t in tables if t])


def of_rtt(results: Results) -> Chapter:
    pictures = []
    if rtt.measured(results):
        alt = rtt.alt(results)
        for name, log in (("linear", False), ("log", True)):
            title = f"Round-trip time over time, {'logarithmic' if log else 'linear'}"
            caption = "Each point of a line stands for the median echo of a short span. " + BANDS + LEAVES
            if log:
                caption = "The same on a logarithmic scale. Bands as above."
            pictures.append(Picture(f"rtt-{name}", title, caption, alt, _bind(rtt.draw, results, log)))
    if rtt.echoes(results):
        pictures.append(
            Picture(
                "rtt-distribution",
                "Distribution of round-trip times",
                "Hill: how often an echo took that long, each system to its own height. Big point: median. Thick line: "
                "up to the 95th percentile. Stroke: 99th percentile. Small point: the longest echo. Numbers at the right: "
                "median / 95th / 99th percentile. These are all echoes of all trials, not an interval.",
                rtt.alt(results),
                lambda layout: rtt.draw_distribution(results, layout),
            )
        )
    tables = [
        ratios(results, "rtt", "Round-trip time: median of the trials' medians, and its ratio to native of the same hops")
    ]
    tables += [_readings(results, load, "rtt", "single echoes of all trials") for load in results.loads("ping")]
    return Chapter("rtt", "Round-trip time", pictures=pictures, tables=[t for t in tables if t])


def of_cpu(results: Results) -> Chapter:
    if not cpu.measured(results):
        return Chapter("cpu", "CPU cost")
    picture = Picture(
        "cpu",
        "CPU time per gigabyte",
        "CPU time of the whole host (generator, translator, server, kernel) per gigabyte that arrived. Point: median; "
        "bar: 95 % interval.",
        cpu.alt(results),
        lambda layout: cpu.draw(results, layout),
    )
    table = ratios(results, "cpu", "CPU time per gigabyte: median of the trials, and its ratio to native of the same hops")
    return Chapter("cpu", "CPU cost", pictures=[picture], tables=[table] if table else [])


# ---- parts


def _readings(results: Results, load: str, quantity: str, what: str) -> Table | None:
    """A table in the form of the thesis' table 5.1."""
    name = f"{quantity}-{load.replace(' ', '-').replace('=', '-')}-readings"
    from_the_load = {"tcp-upload": "TCP upload", "tcp-download": "TCP download", "ping": "Ping"}
    base, *variant = load.split(" ")
    title = ", ".join([from_the_load.get(base, base), *variant])
    return distribution(results, load, quantity, f"{title}: {what}, in the form of the thesis' table 5.1", name)


def _bind(draw, results: Results, log: bool):
    return lambda layout: draw(results, layout, log)
