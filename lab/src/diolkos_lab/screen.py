# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the terminal shows of a run while it goes on; and findings of `doctor`.

On a terminal a bar; elsewhere (a log, a pipe) one plain line per block.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from diolkos_lab.doctor import Finding
from diolkos_lab.experiment.definition import Study
from diolkos_lab.faults import printable
from diolkos_lab.run.conditions import Skipped
from diolkos_lab.run.disturbance import STEAL_SHARE, Disturbance
from diolkos_lab.run.session import Session
from diolkos_lab.run.testbed import Testbed
from diolkos_lab.run.trial import Trial
from diolkos_lab.sut.lookup import Missing


class Screen:
    """Shows the progress of a run. Use as a context manager, so that the terminal is restored."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            auto_refresh=False,  # drawn between trials; a thread that draws ten times a second would be measured too
        )
        self._task: Any = None
        self._block = -1
        self._failed: set[str] = set()

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._bar.stop()

    def planned(self, study: Study, session: Session, missing: Sequence[Missing], out: Path) -> None:
        # Trials that guards object to are retried within the budget.
        about_s, most_s = session.remaining_s(), session.form.time_budget_s or 0.0
        most = f", or up to {minutes(most_s)}" if most_s > about_s else ""
        length = f"{len(session.lanes)} paths, about {minutes(about_s)}{most}"
        self._console.print(f"[bold]{escape(printable(study.title))}[/]: {length}")
        for entry in missing:
            name = entry.system.title + (f" with {entry.factor} {entry.level}" if entry.factor else "")
            how = f"; {entry.how}" if entry.how else ""
            self._console.print(printable(f"  without {name}: {entry.reason}{how}"), highlight=False, markup=False)

    def disturbed(self, by: Disturbance) -> None:
        whose = f": {escape(by.whose)}" if by.whose else ""
        what = f"Before the run, other programs use {by.foreign:.0%} of the CPUs{whose}"
        if by.steal > STEAL_SHARE:
            what += f", and the hypervisor takes {by.steal:.1%}"
        advice = "Disturbed trials are retried while time remains. For a firmer answer, end those programs and start again."
        self._console.print(f"[yellow]{what}.[/] {advice}", highlight=False)

    def testbed_ready(self, testbed: Testbed) -> None:
        if testbed.failure:
            self._console.print(f"  [red]✗[/] {escape(printable(testbed.failure))}", highlight=False)

    def said(self, sentence: str) -> None:
        self._console.print(printable(sentence), soft_wrap=True, markup=False)

    def skipped(self, skipped: Sequence[Skipped]) -> None:
        for each in skipped:
            self._console.print(f"  without {each.words}", highlight=False, markup=False)

    def trial_done(self, trial: Trial, session: Session) -> None:
        left = f"{minutes(session.remaining_s())} left"
        name = f"{trial.cell.lane.subject.system} {trial.cell.lane.subject.datapath} {trial.cell.load.name}"
        broken = trial.instrument_failure
        if (why := trial.error or broken) and why not in self._failed:
            self._failed.add(why)
            mark, whose = ("[yellow]![/]", "the lab itself failed, not the system: ") if broken else ("[red]✗[/]", "")
            self._console.print(f"  {mark} {name}: {whose}{escape(printable(why))}", highlight=False)
        if self._console.is_terminal:
            if self._task is None:
                self._bar.start()
                self._task = self._bar.add_task("", total=None, left=left)
            block = f"block {trial.block}" if trial.block else "warm-up"
            done = session.trials_done
            whole = done + session.remaining_trials
            self._bar.update(self._task, description=f"{block}: {name}", completed=done, total=whole, left=left, refresh=True)
        elif trial.block != self._block:
            self._block = trial.block
            self._console.print(f"{f'block {trial.block}' if trial.block else 'warm-up'}, {left}", highlight=False)


def finding(console: Console, found: Finding) -> None:
    mark = {"good": "[green]✓[/]", "doubtful": "[yellow]![/]", "unfit": "[red]✗[/]", "missing": "[red]✗[/]"}[found.state]
    console.print(f"{mark} {found.subject}: {escape(printable(found.detail))}")


def minutes(seconds: float) -> str:
    """A length, as people say it."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes}:{seconds:02} min"
