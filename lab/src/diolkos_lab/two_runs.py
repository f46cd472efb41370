# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What changed from one result to another, of any study: as JSON, and as the terminal shows it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from diolkos_lab import comparing, json_output
from diolkos_lab.failover import comparing as of_faults
from diolkos_lab.report import terminal
from diolkos_lab.samples.folder import AnyResult, FailoverResult, differing_facts
from diolkos_lab.serve import changes


@dataclass(frozen=True)
class Compared:
    study: str
    facts: Mapping[str, tuple[Any, Any]]
    entries: Sequence[Mapping[str, Any]]
    show: Callable[[Console], None]


def compared(first: AnyResult, second: AnyResult) -> Compared:
    """Raises UsageFault where these two cannot be compared."""
    facts = differing_facts(first, second)
    if isinstance(first, FailoverResult) or isinstance(second, FailoverResult):
        found = of_faults.compare(first, second)

        def show(console: Console) -> None:
            console.print(terminal.table(of_faults.table(found)))
            console.print(found.sentence)

        return Compared(found.study, facts, [each.as_json for each in found.figures], show)
    found_changes = comparing.compare(first, second)

    def show_changes(console: Console) -> None:
        console.print(terminal.table(changes.table(changes.in_order(found_changes))))
        console.print(comparing.in_words(found_changes))

    return Compared(first.study.name, facts, [json_output.change_entry(each) for each in found_changes], show_changes)


def show(console: Console, found: Compared) -> None:
    for differs in comparing.facts_in_words(found.facts):
        console.print(f"[yellow]host differs[/] {escape(differs)}")
    found.show(console)
