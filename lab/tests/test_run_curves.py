# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whole runs of a load–loss curve without a network: what guards object to, and what becomes of the curve."""

import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from diolkos_lab import curves, studies
from diolkos_lab.experiment.cells import LaneCell, TrialCell
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.session import Session
from diolkos_lab.run.trial import Trial
from diolkos_lab.sut import definition, lookup

sys.path.insert(0, str(Path(__file__).parent / "curve"))
import paper_curves

BUSY = [Objection("foreign-cpu", "other programs used 30 % of the CPUs")]
BLOCKS = 7


@dataclass
class Router:
    """A testbed without a network, that loses packets by the paper's formula while others disturb a share of its trials."""

    random: random.Random
    disturbed: float
    failure: str | None = None
    given_up: bool = False

    def measure(self, cell: TrialCell, block: int, order: int) -> Trial:
        assert isinstance(cell.load, PpsLoad) and cell.load.offered
        sent = round(cell.load.offered * cell.load.seconds)
        lost = float(paper_curves.realistic(np.array([cell.load.offered]))[0])
        objections = BUSY if block and self.random.random() < self.disturbed else []
        metrics = {"sent": float(sent), "received": float(round(sent * (1 - lost))), "loss": lost}
        return Trial(block, order, cell, "", 0.1, objections=objections, metrics=metrics)

    def bring_up(self) -> None: ...


def _run(disturbed: float, placement: str = "apart", seed: int = 1) -> list[Trial]:
    study = studies.load("router-accuracy")
    subject = next(each for each in study.system if each.key == "native/kernel/ipv6/1")
    load = PpsLoad(name="pps", seconds=0.1, lowest=100_000, placement=placement)
    form = study.form["quick"].model_copy(update={"blocks": BLOCKS, "load": (load,), "time_budget_s": None})
    study = study.model_copy(update={"system": (subject,), "claim": ()})
    session = Session(study, form, {"native": lookup.Found(definition.load_all()["native"], None, None)}, seed)
    router = Router(random.Random(seed), disturbed)

    def build(lanes: Iterable[LaneCell]) -> None:
        session.testbeds.by_lane = dict.fromkeys(lanes, router)  # type: ignore[misc]

    def rebuild(lanes: Iterable[LaneCell]) -> None:
        session.testbeds.build += 1
        build(lanes)

    session.testbeds.rebuild = rebuild  # type: ignore[method-assign,assignment]
    build(session.lanes)
    return list(session.trials())


def _trusted(trials: Iterable[Trial]) -> Counter[int]:
    found: Counter[int] = Counter()
    for trial in trials:
        assert isinstance(trial.cell.load, PpsLoad)
        if trial.block and trial.cell.load.offered:
            found[trial.cell.load.offered] += not trial.objections
    return found


def test_where_nothing_disturbs_the_plan_is_all_there_is() -> None:
    assert {trial.block for trial in _run(0.0)} == set(range(BLOCKS))


@pytest.mark.parametrize("seed", range(5))
def test_a_curve_of_which_guards_object_to_half_gets_all_its_trials(seed: int) -> None:
    """With four trusted trials of a rate there would be no interval, however many blocks were good."""
    trials = _run(0.6, seed=seed)
    assert min(_trusted(trials).values()) >= BLOCKS - 1
    [curve] = curves.gather([trial.as_json() for trial in trials], [])
    assert curve.trusted and curve.found.pdr_ci95


def test_a_block_that_makes_up_holds_the_rates_that_lack_trials() -> None:
    trials = _run(0.6)
    more = [trial for trial in trials if trial.block >= BLOCKS]
    planned = _trusted(trial for trial in trials if trial.block < BLOCKS)
    assert more
    assert {trial.cell.load.offered for trial in more} <= {rate for rate, number in planned.items() if number < BLOCKS - 1}  # type: ignore[union-attr]


def test_what_is_disturbed_for_ever_ends_nonetheless() -> None:
    trials = _run(1.0)
    assert max(trial.block for trial in trials) <= BLOCKS - 1 + 2 * (BLOCKS - 1)
    [curve] = curves.gather([trial.as_json() for trial in trials], [])
    assert not curve.trusted


def test_a_generator_that_cannot_keep_its_rate_is_not_asked_for_ever() -> None:
    """It shares its CPU with what forwards, and guards object to every rate that is too high."""
    assert {trial.block for trial in _run(1.0, "one-cpu")} == set(range(BLOCKS))
