# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A whole run: testbeds set up, trials in randomised interleaved blocks, everything removed at the end, however it ends.

Stages: set up all testbeds → the generator by itself → for each block: rebuild? → repair → shuffle → for each setting of the
host: for each load: trials → what guards objected to, again → … → blocks of claims → blocks that make up for the rest →
blocks of claims with wide intervals → tear down. Block 0 also finds the rates of curves, and that of delays. A procedure is
part of a block, and has as many trials as it wants.

All lanes get the same load one after the other, in random order, and then the next load: a machine is faster in one minute
than in the next, and what is compared with each other is measured in the same one.
"""

import contextlib
import functools
import itertools
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from diolkos_lab.experiment.cells import LaneCell, TrialCell, expected_s, lane_cells, trial_cells, under
from diolkos_lab.experiment.definition import Form, Load, Study
from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.experiment.order import shuffled, shuffled_settings
from diolkos_lab.experiment.procedures import PacketTrial, Procedure, Rfc8219
from diolkos_lab.experiment.varied import Setting
from diolkos_lab.run import generator_alone
from diolkos_lab.run.completed import CompletedTrials
from diolkos_lab.run.conditions import Conditions, Skipped
from diolkos_lab.run.native_rate import UNKNOWN, NativeRates
from diolkos_lab.run.pairs import Pairs
from diolkos_lab.run.placement import assign_cpus, roles_of
from diolkos_lab.run.procedure import run_procedure, warm_up
from diolkos_lab.run.remote_host import assign_split_cpus
from diolkos_lab.run.retries import PendingRetry, RetryBudget
from diolkos_lab.run.sweep import Sweep
from diolkos_lab.run.testbed import Testbed
from diolkos_lab.run.testbeds import Testbeds
from diolkos_lab.run.trial import Trial
from diolkos_lab.run.wide_blocks import WideBlocks, WideRules
from diolkos_lab.sut.lookup import Found
from diolkos_lab.topology.box_links import BoxLinks
from diolkos_lab.topology.nic_links import NicLinks

TRIES = 3  # of a trial in its block, until guards do not object


class Session(contextlib.ExitStack):
    """Use as a context manager; then iterate over `trials()` once."""

    def __init__(
        self,
        study: Study,
        form: Form,
        systems: Mapping[str, Found],
        seed: int,
        resolvers: Mapping[str, Found] | None = None,
        conditions: Conditions | None = None,
        completed: CompletedTrials | None = None,
        nic_links: NicLinks | BoxLinks | None = None,
        wide_rules: WideRules | None = None,
    ) -> None:
        """`resolvers` holds the systems that serve names on the paths of others, `conditions` what of the host is varied;
        `completed` is what there is already. `nic_links` lead to the router's machine; `wide_rules` says which rules want the
        time that is left."""
        super().__init__()
        self.form = form
        self.lanes = lane_cells(study, form, systems)
        self.completed = completed or CompletedTrials()
        self.testbeds = Testbeds(study, form, self.lanes, systems, resolvers or {}, self.completed.next_build, nic_links)
        self.block = 0
        self._study = study
        self._conditions = conditions
        self._settings: list[Setting] = conditions.settings if conditions else [()]
        every = trial_cells(form, under(self._settings, self.lanes))
        why_not = [systems[cell.lane.subject.system].system.obstacle(cell.lane.subject.datapath, cell.load) for cell in every]
        self._every = [cell for cell, reason in zip(every, why_not, strict=True) if reason is None]
        refused = ((cell, reason) for cell, reason in zip(every, why_not, strict=True) if reason)
        self.left_out = list(dict.fromkeys(Skipped(cell.load.name, cell.lane.subject.key, reason) for cell, reason in refused))
        loads = ((cell.lane, cell.load) for cell in self._every)
        self._cells = [TrialCell(lane, load) for lane, load in loads if not isinstance(load, PpsLoad | Procedure)]
        self._procedures = [
            (cell.lane, cell.load, part) for cell in self._every if isinstance(cell.load, Procedure) for part in cell.load.parts
        ]
        curves = ((cell.lane, cell.load) for cell in self._every if isinstance(cell.load, PpsLoad))
        self._sweeps = {(lane, load): Sweep(load, form.blocks) for lane, load in curves}
        self._seed = seed
        self._begun: float | None = None
        self.trials_done = 0
        self._block_ends = 0  # how many trials are done when the block is
        self._pending: list[PendingRetry] = []  # of the block
        self._wide = WideBlocks(study, form, self._cells, wide_rules)
        self._pairs = Pairs(study, self._cells)
        self._rates = NativeRates(self._cells, self.lanes, self.completed)
        self._remember()

    def set_up(self) -> Iterator[Testbed]:
        """Build every lane and start every system, one after the other; yields each testbed when it is ready."""
        self.enter_context(self.testbeds)
        yield from self.testbeds.set_up()

    @property
    def testbeds_by_lane(self) -> Mapping[LaneCell, Testbed]:
        return self.testbeds.by_lane

    @property
    def placement(self) -> str:
        return self._study.topology.placement

    @property
    def block_trials(self) -> int:
        searched = sum(part.trials for _, _, part in self._procedures)
        return len(self._cells) + sum(sweep.trials for sweep in self._sweeps.values()) + searched

    def _size(self, block: int, wanted: Sequence[TrialCell]) -> int:
        """Trials of a block without those of curves. In the warm-up a procedure has one."""
        if block >= self.form.blocks:
            return len(wanted)
        return len(wanted) + sum(part.trials if block else 1 for _, _, part in self._procedures)

    @property
    def _planned_blocks(self) -> int:
        return self.form.blocks + self.form.claim_blocks

    @property
    def cpu_roles(self) -> dict[str, dict[str, int | None]]:
        """The CPU of generator, system under test and sink in every placement of the run; None: the scheduler's choice."""
        placements = [load.placement for _, load in self._sweeps] + [part.placement for _, _, part in self._procedures]
        placements += [cell.load.placement for cell in self._cells if isinstance(cell.load, LatencyLoad)]
        return roles_of(placements, assign_split_cpus if self.testbeds.is_split else assign_cpus)

    def generators(self) -> list[dict[str, Any]]:
        """How fast generator and sink are when nothing is between them, for every kind of curve of the run."""
        bare = next((testbed for testbed in self.testbeds_by_lane.values() if testbed.has_both_families), None)
        loads = [*self._sweeps, *((lane, warm_up(part)) for lane, _, part in self._procedures)]
        return generator_alone.rates(bare, loads, self._apply) if bare else []

    def limit(self, generators: Sequence[Mapping[str, Any]]) -> list[Skipped]:
        """Leave out the rates of the study that the generator does not reach by itself; says which."""
        return generator_alone.limit(self._sweeps, generators)

    @property
    def empty(self) -> bool:
        """No load is left that could be offered."""
        return not (self._cells or self._procedures or any(sweep.possible for sweep in self._sweeps.values()))

    @property
    def remaining_trials(self) -> int:
        """Of this block and of those of the plan, and of the blocks that will make up for what guards rejected."""
        begun = self._begun is not None
        ahead = max(self.completed.next_block, self.block + 1) if begun else self.completed.next_block
        blocks, claims = max(0, self.form.blocks - ahead), max(0, self._planned_blocks - max(ahead, self.form.blocks))
        here = max(0, self._block_ends - self.trials_done) if begun else self._size(0, self._cells)
        left = here + blocks * self.block_trials + claims * len(self._pairs.needed)
        left += self._wide.left(self.block, len(self._pairs.needed))
        if not begun:
            return left
        # Half of this block may have been made.
        this = int(0 < self.block < self.form.blocks), int(self.form.blocks <= self.block < self._planned_blocks)
        rejected = self._pairs.makeup_trials(self.form.blocks - 1, self.form.claim_blocks, blocks + this[0], claims + this[1])
        rates = sum(len(sweep.lacking(self.form.blocks - 1)) for sweep in self._sweeps.values()) if not blocks else 0
        return left + rejected + rates

    def remaining_s(self) -> float:
        """Time left, from the loads' own lengths at first, then from the trials so far."""
        left = self.remaining_trials * self._length_of_block() / self.block_trials
        if self.form.time_budget_s is not None:
            elapsed_s = time.monotonic() - self._begun if self._begun is not None else 0.0
            left = min(left, self.form.time_budget_s - elapsed_s)
        return max(0.0, left)

    def trials(self) -> Iterator[Trial]:
        """Every trial, block by block. Block 0 is the warm-up; the seed decides all orders.

        After the blocks of the plan, first whole ones and then those of claims, come those that make up for what guards
        objected to: a trial, and all that it is compared with, and rates of a curve that lack trials, until there are as many
        as the plan wanted, or the time is over. What a trial brought is not asked there. Then come blocks of the claims whose
        intervals were wide when the whole blocks were done (`wide_blocks`).
        """
        for trial in self._planned():
            self._wide.note(trial)
            yield trial
        for block, wide in self._wide.blocks(max(self.block, self.completed.next_block - 1) + 1):
            if self._would_exceed_budget(len(wide) / self.block_trials):
                return
            yield from self._block(block, wide, {}, planned=False)

    def _planned(self) -> Iterator[Trial]:
        """Up to those that make up for what guards objected to."""
        self._begun = time.monotonic() - self.completed.seconds
        after = self.completed.next_block
        for block in (0, *range(after, self.form.blocks)):
            if block > 1 and self._would_exceed_budget():
                return
            rates = {curve: sweep.rates(block) for curve, sweep in self._sweeps.items()} if block else {}
            yield from self._block(block, self._cells, rates, planned=True)
        claims = self._pairs.needed
        for block in range(max(after, self.form.blocks), self._planned_blocks):
            if self._would_exceed_budget(len(claims) / self.block_trials):
                return
            yield from self._block(block, claims, {}, planned=False)
        planned, wanted = self._planned_blocks, self.form.blocks - 1
        for block in range(max(after, planned), planned + 2 * (planned - 1)):
            lacking = self._pairs.lacking(wanted, self.form.claim_blocks)
            rates = {curve: few for curve, sweep in self._sweeps.items() if (few := sweep.lacking(wanted))}
            trials = len(lacking) + sum(map(len, rates.values()))
            if not trials or self._would_exceed_budget(trials / self.block_trials):
                return
            yield from self._block(block, lacking, rates, planned=False)

    def _remember(self) -> None:
        """What the kept trials said when they were made. A curve keeps its rates."""
        self._wide.remember(self.completed.trials)
        for cell in self._cells:
            for trial in self.completed.of_cell(cell):
                self._pairs.record(cell, trial["block"], trusted=not trial["distrust"])
        for (lane, load), sweep in self._sweeps.items():
            sweep.remember(self.completed.of_curve(TrialCell(lane, load)))

    def _block(
        self,
        block: int,
        wanted: Sequence[TrialCell],
        rates: Mapping[tuple[LaneCell, PpsLoad], Sequence[PpsLoad]],
        *,
        planned: bool,
    ) -> Iterator[Trial]:
        """Trials of these cells, and these rates of each curve."""
        self.block = block
        self._block_ends = self.trials_done + self._size(block, wanted) + sum(map(len, rates.values()))
        # The first block after the warm-up has the lanes of it.
        if self.form.build_blocks and block > self.completed.next_block and (block - 1) % self.form.build_blocks == 0:
            lanes = dict.fromkeys([*(cell.lane.bare for cell in wanted), *(lane.bare for lane, _ in rates)])
            self.testbeds.rebuild(self.lanes if planned else list(lanes))
        self.testbeds.return_to_router()
        for testbed in self.testbeds_by_lane.values():
            if testbed.failure and not testbed.given_up:
                testbed.bring_up()
        # Random numbers of its own: a disturbance must not change the order of what comes after it.
        order, retry_budget = itertools.count(), RetryBudget(self.block_trials, random.Random(f"{self._seed} {block} again"))
        for setting in shuffled_settings(self._seed, block, self._settings):
            self._apply(setting)
            yield from self._part(
                block,
                [cell for cell in wanted if cell.lane.setting == setting],
                {curve: offered for curve, offered in rates.items() if curve[0].setting == setting},
                order,
                retry_budget,
                setting,
                planned=planned,
            )
        if block == 0:
            yield from self._search()

    def _part(
        self,
        block: int,
        wanted: Sequence[TrialCell],
        rates: Mapping[tuple[LaneCell, PpsLoad], Sequence[PpsLoad]],
        order: Iterator[int],
        retry_budget: RetryBudget,
        setting: Setting,
        *,
        planned: bool,
    ) -> Iterator[Trial]:
        """What a block has under one setting of the host."""
        # What is not interrupted, by what is compared with each other.
        units: dict[Load, list[Callable[[int, Iterator[int]], Iterator[Trial]]]] = {}
        for cell in wanted:
            units.setdefault(cell.load, []).append(functools.partial(self._make, cell, None))
        for (lane, load), offered in rates.items():
            sweep = self._sweeps[lane, load]
            curve = [functools.partial(self._make, TrialCell(lane, rate), sweep) for rate in offered]
            units.setdefault(load, []).extend(curve)
        if planned:
            for lane, whole, part in self._procedures:
                units.setdefault(whole, []).append(functools.partial(self._carry_out, lane, whole, part))
        for each in shuffled(self.form, self._seed, block, units, setting):
            for unit in each:
                yield from unit(block, order)
            yield from self._retry(block, order, retry_budget)

    def _apply(self, setting: Setting) -> None:
        if self._conditions and setting:
            self._conditions.apply(setting)

    def _search(self) -> Iterator[Trial]:
        """Find the rates of every curve. Its trials belong to the warm-up."""
        curves = random.Random(self._seed).sample(list(self._sweeps), len(self._sweeps))
        for lane, load in sorted(curves, key=lambda curve: self._settings.index(curve[0].setting)):
            self._apply(lane.setting)
            sweep = self._sweeps[lane, load]
            for probe in sweep.probes():
                trial = yield from self._probe(TrialCell(lane, probe))
                sweep.record(probe, 0, trial.metrics.get("loss"), believed=trial.valid)
        for search in self._rates.searches:
            self._apply(search.lane.setting)
            for cell in search.probes():
                search.record((yield from self._probe(cell)))

    def _probe(self, cell: TrialCell) -> Generator[Trial, None, Trial]:
        """A trial of a search, made again while it is the instrument that fails: without an answer a search ends."""
        for _ in range(TRIES):
            trial = self._measure(cell, 0, self.trials_done)
            yield trial
            self.trials_done += 1
            if not trial.instrument_failure:
                break
        return trial

    def _make(self, cell: TrialCell, sweep: Sweep | None, block: int, order: Iterator[int]) -> Iterator[Trial]:
        trial = self._measure(cell, block, next(order))
        tries = (sweep.tries if sweep and not trial.instrument_failure else TRIES) - 1
        if trial.objections and not trial.error and tries and block:
            self._pending.append(PendingRetry(trial, sweep, tries))
        else:
            self._accept(trial, sweep)
        yield trial
        self.trials_done += 1

    def _measure(self, cell: TrialCell, block: int, order: int) -> Trial:
        offered = self._rates.trial(cell, block)
        unknown = Trial.without_instrument(cell, block, order, UNKNOWN)
        trial = self.testbeds.measure(offered, block, order) if offered else unknown
        return replace(trial, cell=cell, build=self.testbeds.build if self.form.build_blocks else None)

    def _accept(self, trial: Trial, sweep: Sweep | None) -> None:
        """No other trial is made in the place of this one."""
        if sweep:
            sweep.record_trial(trial)
        elif trial.block:
            self._pairs.record(trial.cell, trial.block, trusted=not trial.objections)

    def _retry(self, block: int, order: Iterator[int], retry_budget: RetryBudget) -> Iterator[Trial]:
        """What guards objected to, once all other lanes had this load: what disturbed it may be over by then.

        Close to the trials that it is compared with, and by the same rule for a system and for its baseline. Where time is
        short, what claims need comes first. As often as the block has trials, at most: where something disturbs for ever, a
        run must come to an end.
        """
        while self._pending:
            doubtful, self._pending = self._pending, []
            again = retry_budget.random.sample(doubtful, len(doubtful))
            for pending in sorted(again, key=lambda pending: not self._pairs.decides(pending.trial.cell)):
                before, left = pending.trial, pending.tries
                hopeless = not left or not retry_budget.left or not self.testbeds.works(before.cell.lane)
                if hopeless or not self._has_time_to_spare():
                    self._accept(before, pending.sweep)
                    continue
                trial = self._measure(before.cell, block, next(order))
                retry_budget.left -= 1
                yield trial
                if trial.objections and not trial.error:
                    self._pending.append(PendingRetry(trial, pending.sweep, left - 1))
                else:
                    self._accept(trial, pending.sweep)

    def _carry_out(
        self, lane: LaneCell, whole: Procedure, part: Procedure, block: int, order: Iterator[int]
    ) -> Iterator[Trial]:
        """One procedure from its first trial to its outcome. In the warm-up: one trial at its lowest rate."""
        testbed = self.testbeds_by_lane[lane.bare]
        rest_s = part.rest_s if isinstance(part, Rfc8219) else 0.0

        def measure(load: PacketTrial) -> Trial:
            time.sleep(rest_s)
            self.trials_done += 1
            return self._measure(TrialCell(lane, load), block, next(order))

        if block == 0:
            yield measure(warm_up(part))
        else:
            # What could not be started three times in a row is left alone until it is built anew; its trials fail at once.
            repair = testbed.bring_up if not testbed.given_up else lambda: None
            yield from run_procedure(part, whole, measure, repair)

    def _has_time_to_spare(self) -> bool:
        """Whether all that is planned can still be made when a trial is made again."""
        if self.form.time_budget_s is None or self._begun is None:
            return True
        others = self.block_trials - sum(sweep.trials for sweep in self._sweeps.values())
        left = max(0, self.form.blocks - self.block - 1) * others
        left += max(0, min(self.form.claim_blocks, self._planned_blocks - 1 - self.block)) * len(self._pairs.needed)
        working = {lane for lane, testbed in self.testbeds_by_lane.items() if not testbed.given_up}
        left += sum(sweep.left for (lane, _), sweep in self._sweeps.items() if lane.bare in working)
        left_s = left * self._length_of_block() / self.block_trials
        return time.monotonic() - self._begun + left_s < self.form.time_budget_s

    def _would_exceed_budget(self, share: float = 1.0) -> bool:
        """Whether so much of a block, begun now, would end too late."""
        if self.form.time_budget_s is None or self._begun is None:
            return False
        return time.monotonic() - self._begun + share * self._length_of_block() > self.form.time_budget_s

    def _length_of_block(self) -> float:
        if self._begun is None or self.trials_done < self.block_trials:
            return expected_s(self._every)
        return (time.monotonic() - self._begun - self.completed.seconds) / self.trials_done * self.block_trials
