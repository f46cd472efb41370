# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which rates are offered to a path: the plan of one load–loss curve.

Stages: search (warm-up: double the rate until the path loses packets, then halve the interval) → rates around that knee, each
once in every block → refine (a few more rates, close to where the PDR turns out to be).

Why close: a PDR is interpolated between two rates, and a straight line between them is below a curve that bends upwards, by
the square of their distance. Between rates 7.5 % apart the PDR comes out 2.4 % too low for the curve of equation 3 of the
paper (mean over all places of the rates; 4.1 % at worst) and 0.7 % for that of equations 4 and 5; 2 % apart, 0.25 % and 0.04 %.
Another scale is no way out: what makes one of the curves straight (the logarithm of the loss) bends the other the other way.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.run.trial import Trial

LOST = 0.005  # of PDR@0.5 %
PROBE_S = 0.1
HALVINGS = 4  # of the last doubling: the knee is then known to a fortieth, so that it lies where a step has its middle
TRIES = 2  # of a probe
PROBES = 3  # if guards object to it
LOWEST = 16  # parts of the load's `lowest`, below which a path counts as one that carries nothing
LOWER, HIGHER = 0.7, 1.3  # what is added where all rates lose, or none does
TRIES_APART = 6
MOST = 6  # rates that are added
USUAL = 2
FEWEST_STEPS = 3  # rates; two make no curve
LAST = 0.25  # of the blocks, in which none is added any more: it would be measured in a moment of its own
CLEAR, PLAIN = 2.0, 8.0  # standard errors: of one rate's loss, and of the difference between two
FINEST = 0.005  # of the rate: no bracket is made narrower
SLACK = 0.05  # rates are rounded


class Sweep:
    """One curve: ask `probes` in the warm-up, then `rates` for every block, and tell what came of each trial."""

    def __init__(self, load: PpsLoad, blocks: int) -> None:
        self.load = load
        self.knee: float | None = None
        self.possible = True  # False: the generator can make too few of the rates
        self._blocks = blocks
        self._base: list[float] = [float(rate) for rate in load.rates]
        self._added: list[float] = []
        self._made = 0  # trials
        self._complete = False  # no rate is added any more
        self._told: list[tuple[float | None, bool]] = []  # of the probes at one rate: loss, and whether no guard objected
        self._loss: dict[int, list[float]] = defaultdict(list)
        self._kept: Counter[int] = Counter()  # trials of each rate that a curve of trusted trials has

    def probes(self) -> Iterator[PpsLoad]:
        """Trials of the search, one after the other; `record` has to be called for each before the next is asked for.

        With rates in the study: the lowest, once, to warm up.
        """
        if not self.possible:
            return
        if self._base:
            yield self.load.at(self._base[0], min(PROBE_S, self.load.seconds))
            return
        passes: float | None = None
        loses: float | None = None
        rate = float(self.load.lowest)
        while loses is None and rate <= self.load.highest:
            yield from self._probe(rate)
            if self._last is None:
                return
            passes, loses = (passes, rate) if self._last > LOST else (rate, None)
            rate *= 2
        while passes is None and loses is not None and loses > self.load.lowest / LOWEST:
            yield from self._probe(loses / 2)
            if self._last is None:
                return
            passes, loses = (None, loses / 2) if self._last > LOST else (loses / 2, loses)
        for _ in range(HALVINGS if passes and loses else 0):
            assert passes and loses
            rate = math.sqrt(passes * loses)
            yield from self._probe(rate)
            if self._last is None:
                return
            passes, loses = (passes, rate) if self._last > LOST else (rate, loses)
        ends = [end for end in (passes, loses) if end is not None]
        self.knee = math.prod(ends) ** (1 / len(ends))
        self._base = sorted({_plain(min(self.knee * share, self.load.highest), 3) for share in self.load.shares})

    def record(self, load: PpsLoad, block: int, loss: float | None, *, believed: bool = True) -> None:
        """What a trial of it lost; None when it had no result. `believed`: no guard objected to it."""
        self._told.append((loss, believed))
        if block:
            self._made += 1
            self._kept[load.offered or 0] += believed or loss is None
        if block and loss is not None and load.offered:
            self._loss[load.offered].append(loss)

    def record_trial(self, trial: Trial) -> None:
        """The same of a trial's record. One in which an instrument failed says nothing, and stays missing."""
        assert isinstance(trial.cell.load, PpsLoad)
        if trial.instrument_failure:
            return
        self.record(trial.cell.load, trial.block, trial.metrics.get("loss"), believed=trial.valid)

    def remember(self, trials: Sequence[Mapping[str, Any]]) -> None:
        """Records of an interrupted run, which goes on with the same rates. Of trials that were made again at one rate in one
        block, the trusted ones count, or the last."""
        told: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
        for trial in trials:
            if outcome(trial) is not Outcome.INSTRUMENT_FAILED:
                told[trial["factors"]["offered"], trial["block"]].append(trial)
        if not told:
            return
        # Every block has every rate. One of the study that is not there was left out when the run began.
        self._base = sorted({float(rate) for (rate, _), made in told.items() if not made[0]["factors"].get("refines")})
        for (rate, _), made in told.items():
            if rate not in (*self._base, *self._added):
                self._added.append(float(rate))
            for trial in [each for each in made if each["valid"]] or made[-1:]:
                self._made += 1
                self._kept[rate] += bool(trial["valid"]) or "loss" not in trial["metrics"]
                if "loss" in trial["metrics"]:
                    self._loss[rate].append(trial["metrics"]["loss"])
        self._complete = self._ends_after(max(block for _, block in told))
        if self._base and not self.load.rates:
            # The rates are shares of the knee, rounded; those at the end of what the generator can do are less.
            self.knee = max(rate / share for rate, share in zip(self._base, sorted(self.load.shares), strict=False))

    def rates(self, block: int) -> list[PpsLoad]:
        """The trials of a block, from 1 on. Empty when the search found nothing out."""
        left = self._blocks - block
        self._complete = self._ends_after(block)
        if self._base and self.load.refine and not self._complete:
            new = [rate for rate in self._nearer() if rate not in (*self._base, *self._added)]
            self._added += new[: MOST - len(self._added)]
        found = [self.load.at(rate, knee=self.knee) for rate in self._base]
        for rate in self._added:
            # As often as the others by the end of the run: one that came in late is measured more often from then on.
            trial = self.load.at(rate, refines=True, knee=self.knee)
            found += [trial] * math.ceil((self._blocks - 1 - len(self._loss.get(trial.offered or 0, ()))) / left)
        return found

    def limit(self, most: float | None) -> list[float]:
        """Leave out the rates of the study above this one, which the generator cannot make; returns them. With fewer than
        three left there is no curve. Rates that a search has found are shares of its knee, and stay as they are."""
        out = [rate for rate in self._base if self.load.rates and most is not None and rate > most]
        left = self._base[: len(self._base) - len(out)]
        if out:
            self._base = left if len(left) >= FEWEST_STEPS else []
            self.possible = bool(self._base)
        return out

    def lacking(self, wanted: int) -> list[PpsLoad]:
        """One trial of each rate that has fewer than wanted to which guards do not object. One that failed counts: it says what
        the path does."""
        if self.tries == 1:
            return []
        rates = [self.load.at(rate, knee=self.knee) for rate in self._base]
        rates += [self.load.at(rate, refines=True, knee=self.knee) for rate in self._added]
        return [rate for rate in rates if self._kept[rate.offered or 0] < wanted]

    @property
    def trials(self) -> int:
        """About how many a block has."""
        return len(self._base or self.load.shares) + len(self._added)

    @property
    def tries(self) -> int:
        """Of a trial, until guards do not object: a rate with one less than an interval needs would leave the whole curve
        without one. But a generator that shares its CPU with what forwards misses every rate that is too high, however often.
        """
        return TRIES_APART if self.load.placement == "apart" else 1

    @property
    def left(self) -> int:
        """About how many trials are still to come, so that every rate has one for each block: of those that there are, and of
        as many more as most curves want, while some may still be added."""
        more = len(self._added) if self._complete else max(len(self._added), USUAL)
        return max(0, (len(self._base) + more) * (self._blocks - 1) - self._made) if self._base else 0

    def _ends_after(self, block: int) -> bool:
        """From this block on no rate is added."""
        return self._blocks - block <= LAST * (self._blocks - 1)

    def _probe(self, rate: float) -> Iterator[PpsLoad]:
        """Once, or again when it loses packets: what a disturbance made the path lose, it does not lose twice. A loss that is
        known to come from one does not count, nor does a rate that was not offered, if there are tries left."""
        self._told = []
        for _ in range(max(TRIES, min(PROBES, self.tries))):
            yield self.load.at(rate, min(PROBE_S, self.load.seconds))
            believed = [loss for loss, is_believed in self._told if is_believed and loss is not None]
            if self._last is None or len(believed) == TRIES or any(loss <= LOST for loss in believed):
                return

    @property
    def _last(self) -> float | None:
        """The least that was lost at a rate, of those that guards do not object to if there are any; None: no result."""
        losses = [(not is_believed, loss) for loss, is_believed in self._told if loss is not None]
        return min(losses)[1] if losses and len(losses) == len(self._told) else None

    def _nearer(self) -> list[float]:
        """Rates that tell more about the PDR than those that there are; none when its bracket is narrow and certain."""
        width = self.load.refine
        if not self._loss:
            return [_plain(self.knee * (1 + side * width / 2)) for side in (-1, 1)] if self.knee else []
        rates = sorted(self._loss)
        first = next((index for index, rate in enumerate(rates) if self._mean(rate) > LOST), None)
        if first is None:
            return [_plain(rates[-1] * HIGHER)] if rates[-1] * HIGHER <= self.load.highest else []
        if first == 0:
            return [_plain(rates[0] * LOWER)]
        below, above = rates[first - 1], rates[first]
        if above - below > (1 + SLACK) * width * above:
            return [_plain(self._between(below, above))]
        clear_below, clear_above = self._clearness(below), self._clearness(above)
        nearer = []
        # Where chance is so small that the straight line would be the larger error.
        if above - below > FINEST * above and clear_below + clear_above > PLAIN:
            nearer.append(_plain((below + above) / 2))
        # The PDR may as well lie beyond an end that loses nearly what is allowed. There, too, it wants a rate near.
        if clear_below < CLEAR and (first == 1 or below - rates[first - 2] > 2 * width * below):
            nearer.append(_plain(below * (1 - width)))
        if clear_above < CLEAR and (first + 1 == len(rates) or rates[first + 1] - above > 2 * width * above):
            nearer.append(_plain(above * (1 + width)))
        return nearer

    def _between(self, below: float, above: float) -> float:
        """Away from a rate that was thought to be near, in growing steps; otherwise the middle."""
        near = [self.load.at(rate).offered for rate in self._added]
        step = self.load.refine * 2.0 ** max(0, len(near) - 2)
        if (below in near) != (above in near):
            rate = below * (1 + step) if below in near else above * (1 - step)
            if below < rate < above and abs(rate - (below if below in near else above)) < (above - below) / 2:
                return rate
        return (below + above) / 2

    def _mean(self, rate: int) -> float:
        return sum(self._loss[rate]) / len(self._loss[rate])

    def _clearness(self, rate: int) -> float:
        """How many standard errors its loss is away from what is allowed: those of its packets, or of its trials if they
        differ by more than chance."""
        losses, mean = self._loss[rate], self._mean(rate)
        error = math.sqrt(max(mean, LOST) / (len(losses) * rate * self.load.seconds))
        if len(losses) > 1:
            error = max(error, math.sqrt(sum((loss - mean) ** 2 for loss in losses) / (len(losses) - 1) / len(losses)))
        return abs(mean - LOST) / error


def _plain(rate: float, digits: int = 4) -> float:
    """Whole packets/s, in few digits, which read better. Three are enough to aim at a knee: half a percent at worst."""
    return float(round(float(f"{rate:.{digits}g}")))
