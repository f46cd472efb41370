# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapters of UDP, of latency under load and at half load, and of who was charged for the CPU time of streams."""

from __future__ import annotations

import functools

from diolkos_lab.metric import RowMetric
from diolkos_lab.report import by_block
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, levels
from diolkos_lab.report.quantities import NONE, count, percent
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import label, load_label, load_order, order
from diolkos_lab.report.tables import Table, distribution, ratios

TCP, PING, UDP, LOADED = ("tcp-upload", "tcp-download"), ("ping",), ("udp", "udp-gso"), ("ping-under-load",)
FORWARDED = ("forwarding-rate",)
DELAYS = ("latency",)
ROLES: tuple[RowMetric, ...] = ("generator_share", "system_share", "receiver_share", "rest_share")
METRICS: tuple[RowMetric, ...] = ("sent_rate", "socket_loss", "latency_worst", *ROLES)
SATURATED = "saturated"
POINTS = "Point: median of the trials; bar: 95 % interval; arrow: at least so much, because the generator was the limit."

FORWARDED_WORDS = (
    "The generator has a CPU of its own and offers more packets than any path forwards; what arrives at the sink counts "
    "(RFC 2285 §3.6.2, forwarding rate at maximum offered load). Router and sink share a CPU where there are only two."
)
UDP_WORDS = (
    "iperf3 sends datagrams from the client, whatever becomes of them. Throughput is what the receiver's program got: a rate "
    "of the sender says nothing of the path. Loss is that of the receiver's sequence numbers.",
    "The receiver has another CPU than the generator where there are two. Loss at the receiver's socket is part of all loss, "
    "but no loss of the path.",
)
GSO_WORDS = (
    "UDP with GSO: the client hands the kernel up to 64 KiB of datagrams with one system call, as servers of QUIC do, and the "
    "kernel keeps them in one piece for as long as what stands on the path lets it. The receiver reads what the kernel has "
    "joined (GRO). Throughput is what the receiver got.",
)
KNEE_WORDS = (
    "A knee is the highest rate at which the path, without the receiver's socket, loses at most the share that the study "
    "allows. Where the path loses less than that without a limit, the knee is at least what the generator can send."
)
LOADED_WORDS = (
    "ping runs beside TCP streams, from the end of their slow start until shortly before their end. So every echo is one of a "
    "busy path: the time that packets wait in queues is in it. What the streams carried meanwhile stands beside it.",
)
DELAY_WORDS = (
    "diolkos-pktgen sends packets one at a time, and stamps each when it is written; the sink reads the stamp when the packet "
    "arrives. The rate is a share of that at which the native path begins to lose packets, found before the first block. It is "
    "the same for every path that is compared with it.",
    "The delay of every packet counts (RFC 8219 section 7.2 takes 500 of a stream): typical latency is the median, worst case "
    "latency the 99.9th percentile. A lost packet never arrives: where more than one in a thousand is lost, the 99.9th "
    "percentile has no end.",
)
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


def udp_chapter(results: Results) -> Chapter:
    if not any(results.loads(load) for load in UDP):
        return Chapter("udp", "UDP")
    rates, losses = levels.Shown("throughput", "received rate", UDP), levels.Shown("loss", "loss", UDP)
    pictures = _levels(results, "udp-throughput", "UDP: received rate", rates)
    pictures += _levels(results, "udp-loss", "UDP: loss", losses) + by_block.pictures(results, "throughput", UDP)
    tables = [
        ratios(results, "throughput", "UDP received: median of the trials, and its share of native", UDP, "udp-throughput"),
        ratios(results, "loss", "UDP lost, as the receiver counts", UDP, "udp-loss"),
        ratios(results, "socket_loss", "Of the datagrams sent, lost at the receiver's socket", UDP, "udp-socket-loss"),
        ratios(results, "sent_rate", "UDP sent", UDP, "udp-sent"),
    ]
    said = [
        *(UDP_WORDS if results.loads("udp") else ()),
        *(GSO_WORDS if results.loads("udp-gso") else ()),
        *([KNEE_WORDS] if any("rate=knee" in load for load in results.loads("udp")) else ()),
    ]
    return Chapter("udp", "UDP", said, pictures=pictures, tables=[t for t in tables if t])


def forwarding_chapter(results: Results) -> Chapter:
    """Packets a second, where more are offered than any path forwards."""
    if not results.loads("forwarding-rate"):
        return Chapter("forwarding", "Packets a second")
    pictures = _levels(results, "forwarding-rate", "Forwarding rate", levels.Shown("rate", "packets a second", FORWARDED))
    pictures += by_block.pictures(results, "rate", FORWARDED)
    tables = [
        ratios(results, "rate", "Forwarding rate: median of the trials, and its share of native", FORWARDED, "forwarding-rate")
    ]
    return Chapter("forwarding", "Packets a second", [FORWARDED_WORDS], pictures=pictures, tables=[t for t in tables if t])


def loaded_latency_chapter(results: Results) -> Chapter:
    """Latency under load."""
    if not results.loads("ping-under-load"):
        return Chapter("loaded", "Latency under load")
    pictures = _levels(results, "rtt-under-load", "Round-trip time under load", levels.Shown("rtt", "round-trip time", LOADED))
    pictures += by_block.pictures(results, "rtt", LOADED)
    tables = [
        ratios(results, "rtt", "Round-trip time under load: median of the trials' medians", LOADED, "rtt-under-load"),
        *(
            distribution(results, load, "rtt", f"{load_label(load)}: single echoes of all trials", f"rtt-under-load-{number}")
            for number, load in enumerate(results.loads("ping-under-load"), start=1)
        ),
        ratios(results, "throughput", "What the streams carried meanwhile", LOADED, "throughput-beside-ping"),
        ratios(results, "loss", "Echoes lost under load", LOADED, "loss-under-load"),
    ]
    return Chapter("loaded", "Latency under load", list(LOADED_WORDS), pictures=pictures, tables=[t for t in tables if t])


def delay_chapter(results: Results) -> Chapter:
    """Latency at a share of what the native path carries."""
    if not results.loads("latency"):
        return Chapter("delays", "Latency at half load")
    shown: tuple[tuple[RowMetric, str, str], ...] = (
        ("latency", "delay-median", "Latency at half load: median"),
        ("latency_worst", "delay-worst", "Latency at half load: 99.9th percentile"),
    )
    pictures, tables = [], []
    for metric, name, title in shown:
        pictures += _levels(results, name, title, levels.Shown(metric, "one-way delay", DELAYS))
        pictures += by_block.pictures(results, metric, DELAYS)
        tables.append(ratios(results, metric, f"{title} of a trial's packets, median of the trials", DELAYS, name))
    tables.append(ratios(results, "rate", "Packets a second meanwhile", DELAYS, "delay-rate"))
    return Chapter("delays", "Latency at half load", list(DELAY_WORDS), pictures=pictures, tables=[t for t in tables if t])


def cpu_role_chapter(results: Results) -> Chapter:
    """Who was charged for the CPU time."""
    table = _roles(results)
    return Chapter("roles", "CPU of each role", list(ROLE_WORDS), tables=[table]) if table else Chapter("roles", "")


def saturated(results: Results, cell: Cell, load: str) -> tuple[int, int]:
    """Trials in which the generator had no CPU to spare, and all that tell."""
    flags = [t.metrics[SATURATED] for t in results.used(cell, load) if SATURATED in t.metrics]
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


def _levels(results: Results, name: str, title: str, what: levels.Shown) -> list[Picture]:
    if not levels.measured(results, what):
        return []
    return [Picture(name, title, POINTS, levels.alt(results, what), functools.partial(levels.draw, results, what))]
