# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the terminal shows of an analysis: one line per file, then the count, what depends on the rule, and what was wrong."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from diolkos_lab.analyze.results import Line, shared_folder
from diolkos_lab.curve.judge import GOOD
from diolkos_lab.curve.saturation import RULES

STYLE = {GOOD: "green", "BAD": "red"}
FEW = 5  # files up to which all that is said of each is printed below the table


def results(console: Console, lines: Sequence[Line], rules: Sequence[str]) -> None:
    """Names are shown without the folder that all files share."""
    root = shared_folder([line.file for line in lines])
    _table(console, lines, rules, root)
    _summary(console, lines, rules, root)


def _table(console: Console, lines: Sequence[Line], rules: Sequence[str], root: str) -> None:
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    shown.add_column("file", overflow="fold")
    shown.add_column("loads × trials", justify="right", no_wrap=True)
    shown.add_column("PDR@0.5 %\nMpps", justify="right", no_wrap=True)
    for rule in rules:
        shown.add_column(rule, no_wrap=True)
    shown.add_column("rule\nmatters", no_wrap=True)
    for line in lines:
        verdicts = [f"[{STYLE[line.verdict[rule]]}]{line.verdict[rule]}[/]" for rule in rules]
        matters = "[yellow]yes[/]" if line.depends_on_rule else ""
        counts = f"{line.loads} × {line.runs}"
        shown.add_row(escape(line.file.removeprefix(root)), counts, escape(line.pdr_text), *verdicts, matters)
    console.print(shown)


def _summary(console: Console, lines: Sequence[Line], rules: Sequence[str], root: str) -> None:
    if len(lines) <= FEW:
        for line in lines:
            console.print(f"[bold]{escape(line.file.removeprefix(root))}[/]: {escape(line.reason)}")
            for remark in line.remarks:
                console.print(f"  {escape(remark)}")
    for rule in rules:
        good = sum(line.verdict[rule] == GOOD for line in lines)
        console.print(f"GOOD by the rule {rule} ({RULES[rule].words}): {good} of {len(lines)}")
    if depends := [line for line in lines if line.depends_on_rule]:
        console.print(f"The verdict of {len(depends)} depends on the rule:")
        for line in depends:
            said = ", ".join(f"{rule} {verdict}" for rule, verdict in line.verdict.items())
            console.print(f"  {escape(line.file.removeprefix(root))}: {said}")
    for line in lines:
        if line.unknown:
            parts = ", ".join(line.unknown)
            console.print(f"[yellow]name not understood[/] {escape(line.file)}: {escape(parts)}")
