# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the terminal shows of a run: tables of its page, how far to trust it, what was untrusted or failed, and the verdicts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from diolkos_lab.experiment.definition import PACKETS
from diolkos_lab.faults import printable
from diolkos_lab.load.registry import LOADS
from diolkos_lab.metric import named
from diolkos_lab.report import costs, facts, helpers, page, tables
from diolkos_lab.report.chapters import Content
from diolkos_lab.report.read import Results, Row, read
from diolkos_lab.report.systems import load_label, load_order, setting_label
from diolkos_lab.samples import counting

OF_SEARCHES = ("curves", "rates", "figures")  # tables of chapters: of searches, and of faults
IN_TABLES = ("pps", "mlrsearch", "rfc8219")  # loads whose figures these have
BESIDE = ("latency_worst", "established", "teardown", "cpu_answer")  # metrics that are shown as well as the main one
UNTRUSTED = (
    "Not trusted: a figure in brackets is the median of all trials, since no trusted one is left. It shows that the path "
    "works, not what it costs. No verdict rests on it."
)
MARK = {"met": "[green]✓ met[/]", "not met": "[red]✗ not met[/]", "undecided": "[yellow]? undecided[/]"}


def evaluate(console: Console, folder: Path) -> None:
    """Show what a result folder says, and write its page. Raises UnreadableFolder."""
    helpers.bundle()  # is made while the rest of the page is, which takes as long
    results = read(folder)
    show(console, results)
    written, answer = page.write(results), page.answer_of(results)[0]
    console.print(printable(" ".join(answer.split())), style="bold", highlight=False, markup=False)
    console.print(f"Report: {printable(str(written))}", soft_wrap=True, markup=False)


def show(console: Console, results: Results) -> None:
    summary, content = results.contents.summary, page.content(results)
    if results.untrusted:
        console.print(f"[yellow]{UNTRUSTED}[/]")
    for each in _tables(results, content):
        console.print(each)
    said = (counting.in_words(summary["trials"]), f"Does this deserve trust? {content.trust.answer}", *content.trust.reasons)
    console.print(*(escape(each) for each in said), sep="\n", highlight=False)
    for entry in summary["distrusted"]:
        console.print(f"[yellow]{_trials(entry)} untrusted[/] ({escape(entry['guard'])}): {escape(entry['example'])}")
    for entry in summary["failures"]:
        name = f"{entry['system']} {entry['datapath']}"
        console.print(f"[red]{escape(name)} failed[/] ({_trials(entry)}): {escape(entry['reason'])}", highlight=False)
    for verdict in summary["verdicts"]:
        outcome = verdict["outcome"]
        sentence = verdict["sentence"].removeprefix(f"{outcome.capitalize()}. ")
        console.print(f"{MARK[outcome]}  {escape(sentence)}", highlight=False)


def _tables(results: Results, content: Content) -> Iterator[Table]:
    """What each system costs, then the figures of other loads and what searches found; of an emulated processor its own."""
    own = [each for chapter in content.chapters for each in chapter.tables]
    if facts.emulated(results.host):
        yield from map(table, own)
        return
    for setting in results.settings:
        if (found := costs.table(results, setting)) and found.headings != ["Trials"]:
            yield _costs(found, setting_label(setting))
    yield from (table(each) for each in own if each.name in OF_SEARCHES)
    for load, metric in sorted({(row.load, row.metric) for row in results.rows if _is_shown(row)}, key=_order):
        known = named(metric)
        words = f"{load_label(load)}: {known.words if known else metric}"
        if further := tables.ratios(results, metric, words, (load,)):
            yield table(further, without=("Load",))


def _is_shown(row: Row) -> bool:
    """The main figure of a load that has no column or line above, and what counts as much beside it."""
    base = row.load.split(" ", maxsplit=1)[0]
    if base not in LOADS or base in (*PACKETS, *IN_TABLES):
        return False
    return row.metric == LOADS[base].main(row.raw) or row.metric in BESIDE


def _order(each: tuple[str, str]) -> tuple[Any, str]:
    return load_order(each[0]), each[1]


def _costs(found: costs.Table, setting: str) -> Table:
    made = _new(f"with {setting}; as on the page" if setting else "", ["Through", *found.headings], {0})
    for line in found.lines:
        name = f"{escape(line.name)}\n[dim]{escape(line.against or '')}[/]"
        cells = ["\n".join([escape(cell.value), *(f"[dim]{escape(each)}[/]" for each in cell.small)]) for cell in line.cells]
        made.add_row(name, *(cells or [escape(line.failed or "")]))
    return made


def table(found: tables.Table, without: Collection[str] = ()) -> Table:
    """A table of a page, but for columns that are not wanted."""
    kept = [number for number, head in enumerate(found.heads) if head not in without]
    made = _new(
        found.caption, [found.heads[number] for number in kept], {kept.index(n) for n in found.text_columns if n in kept}
    )
    for row, line in enumerate(found.lines):
        made.add_row(*(escape(line[number]) for number in kept), style="bold" if row in found.strong else "")
    return made


def _new(caption: str, heads: list[str], texts: set[int]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title=escape(caption) or None, title_justify="left")
    for number, head in enumerate(heads):
        made.add_column(escape(head), justify="left" if number in texts else "right")
    return made


def _trials(entry: Mapping[str, Any]) -> str:
    return "1 trial" if entry["trials"] == 1 else f"{entry['trials']} trials"
