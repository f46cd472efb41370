# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapters of what an application notices: objects fetched by HTTP, names asked for by DNS."""

from __future__ import annotations

import functools

from diolkos_lab.metric import RowMetric
from diolkos_lab.report import by_block
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, levels
from diolkos_lab.report.charts import distribution as strips
from diolkos_lab.report.quantities import join_words, percent
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import load_label, short_label, variant
from diolkos_lab.report.tables import Table, distribution, ratios

METRICS: tuple[RowMetric, ...] = ("latency", "lookup", "rate", "cpu_answer", "busy")
ALL_BUSY = 0.9  # of one CPU: a resolver that works this much limits the rate itself
HTTP, DNS = ("http",), ("dns",)
POINTS = "Point: median of the trials; bar: 95 % interval; hollow: too few trials for one."
STRIPS = (
    "Strip: where single readings lie; the darker, the more of them. Point: median. Strokes: 95th and 99th percentile. Small "
    "point: the longest. These are single readings of all trials, thinned evenly."
)

HTTP_WORDS = (
    "curl fetches one object again and again, each time over a new connection; nginx serves it. The time is that of a whole "
    "fetch as an application sees it: the name lookup if there is one, connection set-up, request, the last byte.",
    "By literal the address is known. By name every fetch asks the path's resolver for a new name: "
    "a DNS64 where the client has IPv6 only and the server IPv4 only, a plain resolver elsewhere. The resolver asks the "
    "authority on the server, so a lookup by DNS64 takes two questions where a plain one takes one.",
    "The client's own part of a lookup differs between families, so a path whose application speaks IPv4 is best read beside "
    "native IPv4 too. Every fetch must bring the whole object, or the trial fails.",
)
DNS_WORDS = (
    "dnsperf asks the resolver on the router for IPv6 addresses. A plain resolver finds them; a DNS64 finds none, asks for "
    "the IPv4 address and makes the answer from it. Native is the plain resolver (unbound without its module for DNS64).",
    "New names are in no cache, so the authority is asked each time; known names were asked for before the trial. At a fixed "
    "low rate the time of each answer counts. With as many queries as are answered (100 without an answer "
    "at a time) the rate counts: of new names it is trusted only while the authority by itself gives 2.2 times as many "
    "(RFC 8219, section 9.2.1), or while the resolver is busy all the time.",
    "CPU time per answer is that of the resolver's process alone. One core would give as many answers per second as its "
    "inverse, whatever else was the limit.",
    "Every answer is compared with the address it must hold; one that is wrong fails the trial. A query counts as lost after "
    "a second.",
)


def http_chapter(results: Results) -> Chapter:
    if not results.loads("http"):
        return Chapter("http", "Fetching objects")
    times = levels.Shown("latency", "time of a fetch", HTTP)
    rates = levels.Shown("throughput", "rate of a fetch", HTTP)
    pictures = _levels(results, "http-latency", "Time to fetch a small object", times)
    pictures += _levels(results, "http-throughput", "Rate of fetching a large object", rates)
    pictures += _strips(results, "http", "time of a fetch")
    pictures += [*by_block.pictures(results, "latency", HTTP), *by_block.pictures(results, "throughput", HTTP)]
    tables = [
        ratios(
            results, "latency", "Time of a fetch: median of the trials' medians, and its ratio to native", HTTP, "http-latency"
        ),
        ratios(results, "lookup", "Of that, the name lookup", HTTP, "http-lookup"),
        ratios(
            results, "throughput", "Rate of fetching: median of the trials, and its share of native", HTTP, "http-throughput"
        ),
        ratios(results, "rate", "Fetches per second, one after the other", HTTP, "http-rate"),
        *_readings(results, "http", "single fetches of all trials"),
    ]
    return Chapter("http", "Fetching objects", list(HTTP_WORDS), pictures=pictures, tables=[t for t in tables if t])


def dns_chapter(results: Results) -> Chapter:
    if not results.loads("dns"):
        return Chapter("dns", "Asking for names")
    times, rates = levels.Shown("latency", "time of an answer", DNS), levels.Shown("rate", "answers per second", DNS)
    pictures = _levels(results, "dns-latency", "Time of an answer", times)
    pictures += _levels(results, "dns-rate", "Answers per second", rates)
    pictures += _levels(results, "dns-cpu", "CPU time of the resolver per answer", levels.Shown("cpu_answer", "CPU time", DNS))
    pictures += _strips(results, "dns", "time of an answer")
    pictures += [each for metric in ("latency", "rate", "cpu_answer") for each in by_block.pictures(results, metric, DNS)]
    tables = [
        ratios(
            results, "latency", "Time of an answer: median of the trials' medians, and its ratio to native", DNS, "dns-latency"
        ),
        ratios(results, "rate", "Answers per second: median of the trials, and their share of native", DNS, "dns-rate"),
        ratios(results, "cpu_answer", "CPU time of the resolver per answer, and its ratio to native's", DNS, "dns-cpu"),
        *_readings(results, "dns", "single answers of all trials"),
    ]
    said = [*DNS_WORDS, *_lower_bounds(results)]
    return Chapter("dns", "Asking for names", said, pictures=pictures, tables=[t for t in tables if t])


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


# ---- parts


def _levels(results: Results, name: str, title: str, what: levels.Shown) -> list[Picture]:
    if not levels.measured(results, what):
        return []
    return [Picture(name, title, POINTS, levels.alt(results, what), functools.partial(levels.draw, results, what))]


def _strips(results: Results, base: str, axis: str) -> list[Picture]:
    """A distribution for each variant of the load that has single readings."""
    pictures = []
    for number, load in enumerate(results.loads(base), start=1):
        if found := strips.singles(results, load, "latency"):
            title = f"Distribution, {load_label(load)}"
            pictures.append(
                Picture(
                    f"{base}-distribution-{number}",
                    title,
                    STRIPS,
                    strips.alt_text(found, axis.capitalize()),
                    functools.partial(strips.draw, found, axis),
                )
            )
    return pictures


def _readings(results: Results, base: str, what: str) -> list[Table | None]:
    name = "{}-readings".format
    return [
        distribution(results, load, "latency", f"{load_label(load)}: {what}", name(load.replace(" ", "-").replace("=", "-")))
        for load in results.loads(base)
        if strips.singles(results, load, "latency")
    ]
