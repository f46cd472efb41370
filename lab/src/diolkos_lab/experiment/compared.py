# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which cells a figure is compared with, and which of them claims are about."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from diolkos_lab.experiment.cells import TrialCell
from diolkos_lab.experiment.definition import Study


def partners(study: Study, cells: Sequence[TrialCell]) -> dict[TrialCell, list[TrialCell]]:
    """For each of the cells those of them that it is compared with."""
    known = set(cells)
    return {cell: [each for each in _compared_with(study, cell, cells) if each in known] for cell in cells}


def claimed(study: Study, cells: Sequence[TrialCell]) -> set[TrialCell]:
    """Those that claims are about."""
    return {cell for cell in cells if _is_claimed(study, cell)}


def needed(study: Study, cells: Sequence[TrialCell]) -> list[TrialCell]:
    """Those that claims are about, and those that these are compared with."""
    about, others = claimed(study, cells), partners(study, cells)
    all_of_them = about.union(*(others[cell] for cell in about))
    return [cell for cell in cells if cell in all_of_them]


def _is_claimed(study: Study, cell: TrialCell) -> bool:
    subject, load = cell.lane.subject, cell.load.name
    of_it = (claim for claim in study.claim if (claim.system, claim.datapath) == (subject.system, subject.datapath))
    about = any(load in claim.loads and claim.where.items() <= cell.factors.items() for claim in of_it)
    return about and cell.lane.replica == 1


def _compared_with(study: Study, cell: TrialCell, every: Iterable[TrialCell]) -> list[TrialCell]:
    lane, load = cell.lane, cell.load
    if lane.replica != 1:
        return [TrialCell(replace(lane, replica=1), load)]
    mine = [
        claim
        for claim in study.claim
        if (claim.system, claim.datapath) == (lane.subject.system, lane.subject.datapath) and load.name in claim.loads
    ]
    names = {claim.against for claim in mine if claim.against}
    others = {subject.key for subject in study.system if f"{subject.system}/{subject.datapath}" in names}
    others.update(study.baselines(lane.subject, load.name))
    itself = [{**dict(lane.levels), **claim.against_where} for claim in mine if claim.against_where]
    return [
        each
        for each in every
        if each.load == load
        and (each.lane.replica, each.lane.offloads, each.lane.setting) == (1, lane.offloads, lane.setting)
        and each.lane != lane
        and (
            # Of its factors it has the same levels.
            (each.lane.subject.key in others and set(each.lane.levels) <= set(lane.levels))
            or (each.lane.subject.key == lane.subject.key and dict(each.lane.levels) in itself)
        )
    ]
