# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the terminal shows of any result, and of what changed from one to another.

That of a guest has no absolute figures, or counts of instructions; that of a study of faults has no paths beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from diolkos_lab import comparing, json_output, screen
from diolkos_lab.experiment.definition import PACKETS
from diolkos_lab.failover import comparing as of_faults
from diolkos_lab.report import facts, failover_page, helpers
from diolkos_lab.report.tables import Table as ReportTable
from diolkos_lab.samples import folder

EMULATED = "The processor was emulated (TCG): only ratios within this run say something, and no absolute figure does."


def evaluate(console: Console, result: folder.AnyResult) -> None:
    """Evaluate a result folder again and show what was found; a report follows."""
    helpers.bundle()  # is made while the rest is loaded and evaluated
    from diolkos_lab import summary  # noqa: PLC0415

    results(console, result, summary.write(result))


def results(console: Console, result: folder.AnyResult, summary: Mapping[str, Any]) -> None:
    """Of any result folder."""
    if isinstance(result, folder.FailoverResult):
        table(console, failover_page.table(result.trials))
    counted, emulated = summary.get("instructions"), facts.emulated(result.host)
    if not counted and not emulated:
        screen.results(console, summary)
        return
    if counted:
        console.print(_counts(counted))
    elif facts.counts_instructions(result.host):
        console.print("No path was counted.")
    else:
        console.print(f"[yellow]{EMULATED}[/]")
        console.print(_ratios(summary["rows"]))
    screen.results(console, {**summary, "rows": [], "untrusted": [], "curves": [], "procedures": []})


@dataclass(frozen=True)
class Compared:
    """Two runs of any study: what changed, as JSON and as it is shown."""

    study: str
    facts: Mapping[str, tuple[Any, Any]]
    entries: Sequence[Mapping[str, Any]]
    show: Callable[[Console], None]


def compared(first: folder.AnyResult, second: folder.AnyResult) -> Compared:
    """Raises UsageFault where these two cannot be compared."""
    facts = folder.differing_facts(first, second)
    if isinstance(first, folder.FailoverResult) or isinstance(second, folder.FailoverResult):
        found = of_faults.compare(first, second)

        def show(console: Console) -> None:
            table(console, of_faults.table(found))
            console.print(found.sentence)

        return Compared(found.study, facts, [each.as_json for each in found.figures], show)
    changes = comparing.compare(first, second)
    entries = [json_output.change_entry(change) for change in changes]
    return Compared(first.study.name, facts, entries, lambda console: screen.changes(console, changes))


def changes(console: Console, found: Compared) -> None:
    for differs in comparing.facts_in_words(found.facts):
        console.print(f"[yellow]host differs[/] {escape(differs)}")
    found.show(console)


def table(console: Console, of: ReportTable) -> None:
    """A table of the report."""
    shown = Table(caption=of.caption)
    for number, heading in enumerate(of.heads):
        shown.add_column(heading.lower(), justify="left" if number in of.text_columns else "right")
    for number, line in enumerate(of.lines):
        shown.add_row(*map(escape, line), style="bold" if number in of.strong else "")
    console.print(shown)


def _counts(entries: list[Mapping[str, Any]]) -> Table:
    kernels = list(dict.fromkeys(str(entry["kernel"]) for entry in entries))
    caption = f"instructions per packet of 1500 bytes over one TCP stream, Linux {', '.join(kernels)}; +: over the native path"
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, caption=caption)
    table.add_column("path")
    for heading in ("up", "+", "down", "+"):
        table.add_column(heading, justify="right", no_wrap=True)
    for entry in entries:
        cells = [text for way in ("up", "down") for text in (_number(entry.get(way)), _more(entry.get(f"{way}_over_native")))]
        table.add_row(_path(entry) + (f", Linux {entry['kernel']}" if len(kernels) > 1 else ""), *cells)
    return table


def _ratios(rows: list[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, caption="ratio to native of the same hops")
    table.add_column("path")
    for heading in ("upload", "download", "RTT"):
        table.add_column(heading, justify="right", no_wrap=True)
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["load"] in PACKETS and row["metric"] in ("throughput", "rtt") and row["baseline"]:
            off = ", offloads off" if row.get("offloads") == "off" else ""
            lines.setdefault(_path(row) + off, {}).setdefault(row["load"], row)
    for path, cells in lines.items():
        table.add_row(path, *(_ratio(cells.get(load)) for load in PACKETS))
    return table


def _path(row: Mapping[str, Any]) -> str:
    family = {"ipv6": "IPv6", "ipv4": "IPv4"}[row["family"]]
    name = f"native {family}" if row["system"] == "native" else f"{row['system']} {row['datapath']}"
    levels = "".join(f", {level}" for level in (row.get("levels") or {}).values())
    return f"{name}{levels}, {row['hops']} hop{'s' if row['hops'] != 1 else ''}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _more(value: float | None) -> str:
    return "" if value is None else f"{value:+.0f}"


def _ratio(row: Mapping[str, Any] | None) -> str:
    if row is None or row["ratio"] is None:
        return "–"
    ends = row["ratio_ci95"]
    return f"{row['ratio']:.3f}" + (f" ({ends[0]:.3f}–{ends[1]:.3f})" if ends and None not in ends else "")
