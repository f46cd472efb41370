# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`plan`: what a run would measure on this host, in which order and for how long, without measuring it."""

import platform
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from diolkos_lab import asked, run_study
from diolkos_lab.experiment import compared
from diolkos_lab.experiment.cells import PlannedCell, TrialCell, expected_s, lane_cells, trial_cells, under
from diolkos_lab.experiment.definition import Form, FormName, Load, Study
from diolkos_lab.experiment.length import all_systems, expected_of_cells_s
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.experiment.order import shuffled, shuffled_settings
from diolkos_lab.experiment.procedures import Procedure
from diolkos_lab.experiment.varied import Setting
from diolkos_lab.faults import MissingFault
from diolkos_lab.load import registry
from diolkos_lab.run import conditions
from diolkos_lab.run.conditions import Skipped
from diolkos_lab.run.trial import lane_keys
from diolkos_lab.run_study import RunRequest
from diolkos_lab.sut import definition, lookup, offer


@dataclass(frozen=True)
class Obstacle:
    """Why something cannot be measured here, and how to change that."""

    reason: str
    how: str


@dataclass(frozen=True)
class Plan:
    """The cells of a study in the study's order, those too that cannot be measured here."""

    study: Study
    form: Form
    form_name: FormName
    seed: int
    cells: Sequence[PlannedCell]
    obstacles: Mapping[int, Obstacle]  # by the number of the cell
    unfit: str | None  # why no run begins here
    settings: Sequence[Setting] = ((),)  # of the host, that it offers

    @property
    def expected_s(self) -> float:
        """Of the cells that can be measured; at most the time budget."""
        here = [cell for number, cell in enumerate(self.cells) if number not in self.obstacles]
        return expected_of_cells_s(self.study, self.form, here)

    def order(self, block: int) -> list[int]:
        """The cells of a block by number, as the seed draws them. A procedure of several parts is there for each.

        A curve stands where its load has its turn. The order of its rates among those of other curves is drawn when the
        warm-up has found them.
        """
        units: dict[Setting, dict[Load, list[int]]] = {setting: {} for setting in self.settings}
        claimed = self._claimed if block >= self.form.blocks else None
        for number, cell in enumerate(self.cells):
            if claimed is not None and number not in claimed:
                continue
            if number not in self.obstacles and (block or not isinstance(cell.load, PpsLoad)):
                parts = len(cell.load.parts) if isinstance(cell.load, Procedure) else 1
                units[cell.lane.setting].setdefault(cell.load, []).extend([number] * parts)
        return [
            number
            for setting in shuffled_settings(self.seed, block, self.settings)
            for load in shuffled(self.form, self.seed, block, units[setting], setting)
            for number in load
        ]

    @property
    def _claimed(self) -> set[int]:
        """The cells of the blocks that hold only what claims compare."""
        simple = {
            TrialCell(cell.lane, cell.load): number
            for number, cell in enumerate(self.cells)
            if number not in self.obstacles and not isinstance(cell.load, PpsLoad | Procedure)
        }
        return {simple[cell] for cell in compared.needed(self.study, list(simple))}


def plan(request: RunRequest) -> Plan:
    """Raises UsageFault for a study or an option that is wrong; what the host lacks is part of the plan."""
    study = run_study.asked_study(request)
    found, missing = run_study.choose(study, request)
    systems = definition.load_all()
    study = offer.with_factor_levels(study, systems)
    study = asked.fitting(study, request.form_name, found, request.length.hours)
    form = study.form[request.form_name]
    lacked = {entry.system.system: Obstacle(entry.reason, entry.how) for entry in missing}
    settings, skipped = conditions.preview(form.vary)
    named = [*settings, *(setting for setting in form.vary.settings if setting not in settings)]
    cells = trial_cells(form, under(named, lane_cells(study, form, all_systems(study))))
    obstacles = {number: why for number, cell in enumerate(cells) if (why := _obstacle(cell, systems, lacked, skipped))}
    seed = request.seed if request.seed is not None else random.SystemRandom().randrange(2**32)
    return Plan(study, form, request.form_name, seed, cells, obstacles, _unfit(study, form, found, request), settings)


def document(of: Plan) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "study": of.study.name,
        "form": of.form_name,
        "seed": of.seed,
        "host": platform.node() or None,
        "kernel": platform.release(),
        "blocks": of.form.blocks,
        "build_blocks": of.form.build_blocks,
        "claim_blocks": of.form.claim_blocks,
        "wide_blocks": of.form.wide_blocks,
        "vary": {name: list(levels) for name, levels in of.form.vary.levels.items()},
        "expected_s": round(of.expected_s, 1),
        "time_budget_s": of.form.time_budget_s,
        "obstacle": of.unfit,
        "cells": [_cell(of, number) for number in range(len(of.cells))],
        "order": [{"block": block, "cells": of.order(block)} for block in range(of.form.blocks + of.form.claim_blocks)],
    }


def show(console: Console, of: Plan) -> None:
    """The same for people, save the order, which is for programs."""
    table = Table(box=None, pad_edge=False)
    lacking: dict[str, list[str]] = {}
    for name in ("path", "load", "factors", "seconds a block", "here"):
        table.add_column(name, justify="right" if name.startswith("seconds") else "left", overflow="fold")
    for number in range(len(of.cells)):
        cell = _cell(of, number)
        path = of.cells[number].lane.subject.key + (" twin" if cell["replica"] == 2 else "")
        factors = ", ".join(f"{name} {value}" for name, value in cell["factors"].items())
        table.add_row(path, cell["load"], factors, f"{cell['expected_s']:.1f}", "yes" if cell["runs_here"] else "no")
        if not cell["runs_here"]:
            lacking.setdefault(f"{cell['reason']}; {cell['how']}", []).append(cell["system"])
    console.print(table, markup=False)
    for why, systems in lacking.items():  # below the table, whose columns are too narrow for a command to copy
        console.print(f"no for {', '.join(dict.fromkeys(systems))}: {why}", soft_wrap=True, markup=False)
    about = f"about {of.expected_s / 60:.0f} minutes" if of.expected_s > 90 else f"about {of.expected_s:.0f} s"
    more = f", and {of.form.claim_blocks} of what rules compare" if of.form.claim_blocks else ""
    more += f", and up to {of.form.wide_blocks} of rules that are still wide" if of.form.wide_blocks else ""
    console.print(f"{of.form.blocks} blocks, the first to warm up{more}: {about} and what guards object to. Seed: {of.seed}.")
    if of.unfit:
        console.print(f"No run begins here: {of.unfit}.", soft_wrap=True, markup=False)


def _cell(of: Plan, number: int) -> dict[str, Any]:
    cell, obstacle = of.cells[number], of.obstacles.get(number)
    return {
        "cell": number,
        **lane_keys(cell.lane),
        "load": cell.load.name,
        "factors": {"offloads": cell.lane.offloads, **dict(cell.lane.levels), **dict(cell.lane.setting), **_varying(cell.load)},
        "runs_here": obstacle is None,
        "reason": obstacle.reason if obstacle else None,
        "how": obstacle.how if obstacle else None,
        "expected_s": round(expected_s([cell]), 2),
    }


def _varying(load: Load) -> dict[str, Any]:
    """Of a curve without the rate, of a procedure with all that it goes through."""
    if isinstance(load, PpsLoad):
        return dict(load.curve_factors)
    if isinstance(load, Procedure):
        return {"sizes": ", ".join(map(str, load.sizes)), "seconds": load.seconds}
    return dict(load.factors)


def _obstacle(
    cell: PlannedCell, systems: Mapping[str, definition.System], lacked: Mapping[str, Obstacle], skipped: Sequence[Skipped]
) -> Obstacle | None:
    for each in skipped:
        if (each.factor, each.value) in {(name, str(level)) for name, level in cell.lane.setting}:
            return Obstacle(each.reason, f"use a host that offers {each.factor} {each.value}, or leave it out of `vary`")
    if cell.lane.subject.system in lacked:
        return lacked[cell.lane.subject.system]
    for name, how in run_study.missing_tools(registry.required([cell.load])).items():
        return Obstacle(f"the tool {name} is not on this host", how)
    subject = cell.lane.subject
    if reason := systems[subject.system].obstacle(subject.datapath, cell.load):
        return Obstacle(reason, "leave the system or the load out")
    available = run_study.CONGESTION_CONTROLS.read_text().split()
    reason = registry.LOADS[cell.load.name].obstacle(cell.load, available)
    return Obstacle(reason, "load the module, or leave the load out") if reason else None


def _unfit(study: Study, form: Form, found: Mapping[str, lookup.Found], request: RunRequest) -> str | None:
    try:
        run_study.require_fit(study, form)
        run_study.find_resolvers(study, form, found, request.paths)
    except MissingFault as fault:
        return str(fault)
    return None
