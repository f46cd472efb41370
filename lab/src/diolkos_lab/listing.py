# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `list` shows on a terminal: studies with their lengths, systems with where they are or how to get them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from diolkos_lab.experiment.definition import USUAL_FORMS, FormName, Study
from diolkos_lab.experiment.failover import FailoverStudy
from diolkos_lab.experiment.length import expected_of_form_s
from diolkos_lab.faults import printable
from diolkos_lab.screen import minutes
from diolkos_lab.sut.lookup import Found, Missing


def studies(console: Console, found: Mapping[str, Study | FailoverStudy]) -> None:
    """With what each asks, and how long its usual forms take."""
    table = Table(title="Studies", title_justify="left")
    for heading in ("name", "what it asks", *USUAL_FORMS):
        table.add_column(heading, no_wrap=heading not in ("name", "what it asks"))
    for name, study in found.items():
        asks = f"{escape(printable(study.title))}\n[dim]{escape(printable(study.question))}[/]"
        table.add_row(name, asks, *(_expected(study, form) for form in USUAL_FORMS))
    console.print(table)
    for name, study in found.items():
        if others := ", ".join(f"{form} ({_expected(study, form)})" for form in study.form if form not in USUAL_FORMS):
            console.print(f"{name} --form: {others}", highlight=False, soft_wrap=True)


def systems(console: Console, looked: Sequence[Found | Missing], own: Mapping[str, Path]) -> None:
    """`own` are files of the user's, by the name of their system."""
    table = Table(title="Systems under test", title_justify="left")
    for heading in ("name", "datapaths", "here?", "version, or how to get it"):
        table.add_column(heading)
    for entry in looked:
        if entry.system.known_answer:
            continue
        name, datapaths = entry.system.system, ", ".join(entry.system.datapath)
        from_file = f"\n{printable(str(own[name]))}" if name in own else ""
        here = isinstance(entry, Found)
        said = (entry.version or "") if isinstance(entry, Found) else f"{entry.reason}; {entry.how}"
        mark = "[green]✓[/]" if here else "[red]✗[/]"
        table.add_row(name, datapaths, mark, escape(printable(said) + from_file))
    console.print(table)
    known = ", ".join(entry.system.system for entry in looked if entry.system.known_answer)
    console.print(f"Known answers, which test the lab itself: {known}", highlight=False, soft_wrap=True)


def _expected(study: Study | FailoverStudy, name: FormName) -> str:
    return minutes(expected_of_form_s(study, name)) if name in study.form else "–"
