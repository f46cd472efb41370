# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long a run should take: blocks of the plan → their loads → seconds."""

from collections.abc import Sequence

from diolkos_lab.experiment import compared
from diolkos_lab.experiment.cells import PlannedCell, TrialCell, expected_s, lane_cells, trial_cells, under
from diolkos_lab.experiment.definition import Form, FormName, Study
from diolkos_lab.experiment.failover import FailoverStudy
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.experiment.procedures import Procedure


def expected_of_form_s(study: Study | FailoverStudy, name: FormName) -> float:
    """Seconds for all systems of the study, under all settings that it varies."""
    if isinstance(study, FailoverStudy):
        return study.expected_s(study.form[name])
    form, measured = study.form[name], study.of_form(name)
    lanes = under(form.vary.settings, lane_cells(measured, form, all_systems(measured)))
    return expected_of_cells_s(measured, form, trial_cells(form, lanes))


def all_systems(study: Study) -> set[str]:
    return {subject.system for subject in study.system}


def expected_of_cells_s(study: Study, form: Form, cells: Sequence[PlannedCell]) -> float:
    """Seconds for these, at most the form's time budget. The first block warms up, without procedures."""
    procedures = [cell for cell in cells if isinstance(cell.load, Procedure)]
    simple = [TrialCell(cell.lane, cell.load) for cell in cells if not isinstance(cell.load, PpsLoad | Procedure)]
    claims = [PlannedCell(cell.lane, cell.load) for cell in compared.needed(study, simple)]
    seconds = (
        form.blocks * expected_s(cells) - expected_s(procedures) + (form.claim_blocks + form.wide_blocks) * expected_s(claims)
    )
    return min(seconds, form.time_budget_s or seconds)
