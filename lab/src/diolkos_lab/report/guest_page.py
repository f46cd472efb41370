# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kind of page of a run on an emulated processor: ratios to native, or instructions per packet, no absolute figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diolkos_lab import instructions
from diolkos_lab.report import chapters, facts
from diolkos_lab.report.chapters import Chapter, Content
from diolkos_lab.report.quantities import MINUS, NONE, count, join_words, percent
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import baseline_label, label, order
from diolkos_lab.report.tables import Table, ratios
from diolkos_lab.report.trust import Trust
from diolkos_lab.report.words import trial_counts

TIMES = ("throughput", "rtt", "latency", "lookup", "rate", "cpu_answer", "busy")
WORDS = (
    ("guest", "a virtual machine with a kernel of its own; the lab's namespaces are in it"),
    ("TCG", "QEMU's emulation of a processor in software, where the host cannot lend its own (KVM)"),
    ("instruction", "one step of the emulated processor; its clock goes on by a nanosecond with each"),
    ("native", "the kernel forwards what the client sends, over as many hops and without translation"),
)
UNSEEN = (
    "Instructions are not time: caches, waiting for memory, and work on several processors at once are not in them.",
    "TCP has no super-packets here: each packet crosses the path by itself. With them, who carries super-packets gains.",
    "All instructions of the guest are counted: those of both ends and of the kernel are in the native figure too.",
)


def applies_to(results: Results) -> bool:
    """Was the processor emulated?"""
    return facts.emulated(results.host)


def content(results: Results) -> Content:
    entries = instructions.entries([row.raw for row in results.rows])
    if facts.counts_instructions(results.host) and not entries:
        nothing = Trust("poor", "No: every trial failed.", ["The chapter on failed trials says why."])
        return Content([], nothing, WORDS, "No path was counted.", leads=True)
    if entries:
        own = [instruction_chapter(results, entries), Chapter("unseen", "What this count cannot see", bullets=list(UNSEEN))]
        return Content(own, _trust_in_counts(results, entries), WORDS, _lead_of_counts(entries), leads=True)
    lead = "Only ratios to native within this run are shown, since the absolute speed of an emulated processor says nothing."
    return Content([*_ratios(results), chapters.by_blocks(results)], _trust(results), WORDS, lead)


def instruction_chapter(results: Results, entries: list[dict[str, Any]]) -> Chapter:
    """The table; `+` is what a path takes more than native."""
    named = {_kind(row.raw): row.cell for row in results.rows if row.metric == instructions.METRIC}
    kernels = list(dict.fromkeys(str(entry["kernel"] or "unknown") for entry in entries))
    found = sorted(entries, key=lambda entry: order(named[(*instructions.subject(entry), entry["packets"])]))
    heads = ["System", "Up", "Up, over native", "Down", "Down, over native", "Native", "Repetitions differ by"]
    tables = []
    for number, packets in enumerate(dict.fromkeys(entry["packets"] for entry in found)):
        mine = [entry for entry in found if entry["packets"] == packets]
        table = Table(
            name="instructions" if not number else f"instructions-{number + 1}",
            caption=f"Instructions per packet: {packets}, Linux {', '.join(kernels)}",
            heads=heads,
            lines=[_line(named[(*instructions.subject(entry), packets)], entry) for entry in mine],
            raw_heads=list(_RAW),
            raw_lines=[[entry[key] or None if key == "levels" else entry.get(key) for key in _RAW] for entry in mine],
            text_columns=frozenset({0, 5}),
        )
        tables.append(table)
    said = (
        "The processor's clock counts the instructions of everything in the guest, divided by the packets that arrived. "
        "Up is from the client to the server."
    )
    return Chapter("instructions", "Instructions per packet", [said], tables=tables)


def _kind(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    return (*instructions.subject(row), instructions.packets(row))


def _line(cell: Cell, entry: Mapping[str, Any]) -> list[str]:
    spreads = [entry[key] for key in ("up_spread", "down_spread") if entry.get(key) is not None]
    return [
        label(cell),
        *(text for way in ("up", "down") for text in (_whole(entry.get(way)), _more(entry.get(f"{way}_over_native")))),
        baseline_label(entry["baseline"]).removeprefix("native ") if entry["baseline"] else NONE,
        percent(max(spreads)) if spreads else NONE,
    ]


def _ratios(results: Results) -> list[Chapter]:
    """A table for each metric, without the medians that the ratios are made of."""
    found = []
    for metric in dict.fromkeys(row.metric for row in results.rows if row.metric in TIMES):
        table = ratios(results, metric, f"{metric[:1].upper()}{metric[1:]}: ratio to native of the same hops")
        if table:
            kept = Table(
                table.name,
                table.caption,
                [*table.heads[:2], *table.heads[3:]],
                [[*line[:2], *line[3:]] for line in table.lines if line[3] != NONE],
                table.raw_heads,
                table.raw_lines,
                frozenset({0, 1, 3}),
            )
            found.append(Chapter(f"ratio-{metric}", f"Ratios: {metric}", tables=[kept]))
    return found


def _lead_of_counts(entries: list[dict[str, Any]]) -> str:
    packets = entries[0]["packets"]
    extra = {
        " ".join([entry["system"], entry["datapath"], *map(str, entry["levels"].values())]): entry["up_over_native"]
        for entry in entries
        if entry["system"] != "native" and entry.get("up_over_native") is not None and entry["packets"] == packets
    }
    if not extra:
        return "Instructions per packet were counted; no path has a native one to compare with."
    least, most = (pick(extra, key=lambda name: extra[name]) for pick in (min, max))
    return (
        f"Of {count(len(extra), 'path')}, {least} adds fewest instructions to a packet from the client "
        f"({_more(extra[least])}), and {most} adds most ({_more(extra[most])})."
    )


def _trust_in_counts(results: Results, entries: list[dict[str, Any]]) -> Trust:
    spreads = [entry[key] for entry in entries for key in ("up_spread", "down_spread") if entry.get(key) is not None]
    failed = sum(trial.error is not None for trial in results.measured)
    reasons = [f"Repetitions of one path differ by {percent(max(spreads))} at most."] if spreads else []
    reasons.append("Nothing else runs in the guest, and its clock does not wait for the host.")
    if failed:
        return Trust("limited", f"Yes, save for {count(failed, 'trial')} that failed.", reasons)
    return Trust("good", "Yes.", reasons)


def _trust(results: Results) -> Trust:
    untrusted, failed, total = trial_counts(results)
    guest = results.host.get("guest") or {}
    reasons = [
        f"The processor was emulated ({guest.get('emulator') or 'QEMU'}, TCG), and shares the host's with all that runs there.",
        f"{untrusted} of {total} trials are untrusted, {failed} failed.",
    ]
    made = [f"Linux {facts.kernel(results.host)}"] if facts.kernel(results.host) else []
    made += [f"Jool {guest['jool']}"] if guest.get("jool") else []
    return Trust("limited", f"With care: ratios only{f', of {join_words(made)}' if made else ''}.", reasons)


def _whole(value: float | None) -> str:
    return NONE if value is None else f"{value:.0f}"


def _more(value: float | None) -> str:
    return NONE if value is None else f"{value:+.0f}".replace("-", MINUS)


_RAW = (
    *("system", "datapath", "family", "hops", "levels", "packets", "kernel", "up", "up_over_native", "up_spread"),
    *("down", "down_over_native", "down_spread", "baseline"),
)
