# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What guards object to is made again at the end of its block: how often, and what the sweep is told of it."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import pytest

from diolkos_lab import studies
from diolkos_lab.experiment.cells import TrialCell
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.session import TRIES, RetryBudget, Session
from diolkos_lab.run.sweep import TRIES_APART, Sweep
from diolkos_lab.run.trial import Trial
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.lookup import Found
from diolkos_lab.wide_rules import with_wide_rules

Ask = Callable[[], tuple[float | None, str]]  # what comes of the next trial: loss, and what is wrong with it
STALL = [Objection("stall", "a CPU stood still")]


@dataclass
class Path:
    """A testbed without a network. `error` comes from a system that does not work until somebody starts it again."""

    ask: Ask
    failure: str | None = None
    given_up: bool = False

    def measure(self, cell: TrialCell, block: int, order: int) -> Trial:
        loss, wrong = self.ask()
        self.failure = "it died" if wrong == "error" else None
        if wrong == "instrument":
            return Trial.without_instrument(cell, block, order, "the server iperf3 ended")
        return Trial(
            block,
            order,
            cell,
            "",
            0.0,
            error=self.failure,
            objections=STALL if wrong == "stall" else [],
            metrics={} if loss is None else {"loss": loss},
        )


class RecordingSweep(Sweep):
    """A sweep that keeps what it was told."""

    def __init__(self, load: PpsLoad) -> None:
        super().__init__(load, 6)
        self.told: list[tuple[float | None, bool]] = []

    def record(self, load: PpsLoad, block: int, loss: float | None, *, believed: bool = True) -> None:
        self.told.append((loss, believed))


def _block(
    ask: Ask, planned: int = 1, time_left: Callable[[], bool] = lambda: True
) -> tuple[RecordingSweep, list[Trial], Session]:
    """A block of so many trials of one sweep, on a path that answers as told."""
    study = studies.load("router-accuracy")
    form = study.form["quick"].model_copy(update={"load": [study.form["quick"].load[0]]})
    session = Session(study, form, {"native": lookup.find(definition.load_all()["native"], {})}, 1)
    (lane, load), *_ = session._sweeps
    sweep = RecordingSweep(load)
    session._sweeps = {(lane, load): sweep}
    session.testbeds.by_lane = {lane: Path(ask)}  # type: ignore[dict-item]
    session._has_time_to_spare = time_left  # type: ignore[method-assign]
    order, cell = count(), TrialCell(lane, load.at(1000))
    made = [trial for _ in range(planned) for trial in session._make(cell, sweep, 1, order)]
    made += session._retry(1, order, RetryBudget(session.block_trials, random.Random(1)))
    return sweep, made, session


def _answers(*given: tuple[float | None, str]) -> Ask:
    rest = iter(given)
    return lambda: next(rest)


def test_a_good_trial_is_told_and_made_once() -> None:
    sweep, made, session = _block(_answers((0.1, "")))
    assert sweep.told == [(0.1, True)]
    assert len(made) == session.trials_done == 1


def test_a_doubtful_trial_is_made_again_and_its_better_one_told() -> None:
    answers = _answers((0.1, "stall"), (0.2, ""), (0.3, "stall"), (0.4, ""), (0.5, ""))
    sweep, made, session = _block(answers, planned=3)
    assert sorted(sweep.told) == [(0.2, True), (0.4, True), (0.5, True)]
    assert [trial.order for trial in made] == list(range(len(made)))
    assert session.trials_done == 3, "what is made again was not planned"


def test_a_trial_whose_instrument_failed_is_made_again_and_tells_nothing() -> None:
    sweep, made, _ = _block(_answers((None, "instrument"), (None, "instrument"), (0.2, "")))
    assert sweep.told == [(0.2, True)] and len(made) == TRIES
    never, _, session = _block(lambda: (None, "instrument"))
    assert never.told == [], "the rate stays missing, so that a later block makes it up"
    assert session.trials_done == 1


def test_a_search_asks_again_while_its_instrument_fails() -> None:
    """Without an answer it would end, and there would be no curve at all."""
    _, _, session = _block(_answers((0.1, "")))
    (lane, load), *_ = session._sweeps
    session.testbeds.by_lane = {lane: Path(_answers((None, "instrument"), (0.3, "")))}  # type: ignore[dict-item]
    probes = session._probe(TrialCell(lane, load.at(1000)))
    assert next(probes).instrument_failure and next(probes).metrics["loss"] == 0.3
    with pytest.raises(StopIteration) as end:
        next(probes)
    assert end.value.value.metrics["loss"] == 0.3


def test_after_so_many_tries_the_last_one_has_to_do() -> None:
    sweep, made, _ = _block(lambda: (0.1, "stall"))
    assert len(made) == TRIES_APART
    assert sweep.told == [(0.1, False)]


def test_where_all_is_disturbed_a_block_comes_to_an_end() -> None:
    _, made, session = _block(lambda: (0.1, "stall"), planned=20)
    assert len(made) == 20 + session.block_trials


def test_no_time_is_left() -> None:
    sweep, made, _ = _block(_answers((0.1, "stall"), (0.2, "stall")), planned=2, time_left=lambda: False)
    assert len(made) == 2
    assert sorted(sweep.told) == [(0.1, False), (0.2, False)]


@pytest.mark.parametrize("more", [1, 2])
def test_a_system_that_dies_meanwhile_is_not_asked_again(more: int) -> None:
    """One error says it, and counts; what was still to be made again stays as it was."""
    answers = [(0.1, "stall")] * more + [(None, "error")]
    sweep, made, _ = _block(_answers(*answers), planned=more)
    assert len(made) == more + 1 and made[-1].error == "it died"
    assert sweep.told == [(None, False)] + [(0.1, False)] * (more - 1)


def _clat() -> Session:
    """A session of the study clat, with nothing built, in the middle of its run."""
    study = studies.load("clat")
    systems = {name: lookup.find(definition.load_all()[name], {}) for name in ("native", "diolkos")}
    present = {name: found for name, found in systems.items() if isinstance(found, Found)}
    session = Session(study, study.form["quick"], present, 1, wide_rules=with_wide_rules)
    session._begun = time.monotonic() - 60
    return session


def test_time_is_left_while_blocks_make_up_for_what_guards_rejected() -> None:
    """Before, the terminal said "0:00 min left" for as long as blocks beyond the plan went on."""
    session = _clat()
    wanted, last = session.form.blocks - 1, session.form.blocks + session.form.claim_blocks - 1
    for cell in session._cells:
        for block in range(1, last + 1):
            session._pairs.record(cell, block, trusted=block > 3)
    session.block, session.trials_done = last, 10_000
    session._block_ends = session.trials_done
    lacking = session._pairs.lacking(wanted, session.form.claim_blocks)
    assert lacking and session.remaining_trials >= len(lacking)
    assert session.remaining_s() > 0


def test_a_run_of_which_guards_reject_nothing_ends_with_its_plan() -> None:
    session = _clat()
    for cell in session._cells:
        for block in range(1, session.form.blocks + session.form.claim_blocks):
            session._pairs.record(cell, block, trusted=True)
    session.block, session.trials_done = session.form.blocks + session.form.claim_blocks - 1, 10_000
    session._block_ends = session.trials_done + 7
    assert session.remaining_trials == 7 + session.form.wide_blocks * len(session._pairs.needed), "all may be wide"
    session._wide._wide = []
    assert session.remaining_trials == 7, "of this block"


def test_the_time_of_a_plan_has_every_block_once() -> None:
    session = _clat()
    session._begun = None
    behind = session.form.claim_blocks + session.form.wide_blocks
    planned = session.form.blocks * session.block_trials + behind * len(session._pairs.needed)
    assert session.remaining_trials == planned
