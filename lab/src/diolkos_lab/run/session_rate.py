# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How many sessions a second, so that each of them gets through (RFC 9693 §4.5)?

Stages: is there room, and is the table empty? → attempt → does the table hold them all? → end them all, timed → lost any?
Then slower, until the rate is known well enough.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from diolkos_lab.experiment.loads import NewFlowsLoad
from diolkos_lab.load.reading import LoadFault, Reading
from diolkos_lab.metric import MetricName
from diolkos_lab.run.guards import Objection
from diolkos_lab.sut.sessions import Sessions

# Sessions that are not the generator's: who pings, or looks for neighbours, has some.
STRAY = 64
TRIES = 2  # before the search begins: what a disturbance made the path lose, it does not lose twice
SLOWEST = 0.5  # of the first rate that loses sessions: where the search begins
# How often the search halves its lowest rate where that loses sessions too. A system that takes a burst at once looks faster in
# the first attempt than it can stay.
DESCENTS = 3

Measured = tuple[Reading, list[Objection], dict[MetricName, float]]


class SessionsLost(LoadFault):
    """The system works, but loses sessions at every rate. Its table is empty again, so that the next trial can be made."""


def measure(load: NewFlowsLoad, table: Sessions | None, attempt: Callable[[NewFlowsLoad], Measured]) -> Measured:
    """The attempt at the highest rate at which all sessions got through and were answered.

    It gets the metrics `sessions` that the table held, `teardown` sessions/s when all of them were ended at once (§4.8, but
    without the time that ending none takes), and how many `attempts` were made. What guards object to in any attempt counts,
    since a disturbed one makes the rate look lower. `table` is None where nothing keeps state. Raises LoadFault where sessions
    are lost at every rate (Lost), or the table does not hold what it should.
    """
    search = Search(load.halvings, fills=load.fill_rate is not None)
    best: Measured | None = None
    objections: dict[str, Objection] = {}
    attempts = 0
    for rate in search.rates():
        if table:
            _require_room(table, load)
        reading, raised, cpu = attempt(load.at(rate))
        attempts += 1
        objections |= {each.guard: each for each in raised}
        whole = reading.metrics["loss"] <= 0 and reading.metrics["unanswered"] <= 0
        ended = _end(table, load.sessions if whole else None) if table else {}
        search.record(rate or reading.metrics.get("rate", 0.0), whole)
        if whole:
            best = replace(reading, metrics={**reading.metrics, **ended}), [], cpu
    if best is None:
        lost = f"{reading.metrics['loss']:.2%} of the sessions" if reading.metrics["loss"] else "some answers"
        raise SessionsLost(f"new flows: lost at every rate, at {search.lowest:.0f} sessions/s still {lost}")
    found, _, cpu = best
    return replace(found, metrics={**found.metrics, "attempts": float(attempts)}), list(objections.values()), cpu


class Search:
    """Rates to try, None for as many as go: ask `rates`, and tell what came of each before the next is asked for.

    Where it does not matter how fast the table is filled, there is nothing to look for (`fills`)."""

    def __init__(self, halvings: int, *, fills: bool) -> None:
        self._fills = fills
        self.lowest = 0.0
        self._halvings = halvings
        self._told: tuple[float, bool] = 0.0, False

    def rates(self) -> Iterator[float | None]:
        for _ in range(TRIES):
            yield None
            reached, passed = self._told
            self.lowest = reached
            if passed or not reached:
                return
        if self._fills:
            return
        low = SLOWEST * reached
        if (yield from self._halve(low, reached)):
            return
        for _ in range(1 + DESCENTS):
            self.lowest = low
            yield low
            if self._told[1]:
                break
            low /= 2
        if low < SLOWEST * reached and self._told[1]:
            yield from self._halve(low, 2 * low)

    def _halve(self, low: float, high: float) -> Generator[float, None, bool]:
        """Returns whether any rate passed."""
        found = False
        for _ in range(self._halvings):
            middle = (low + high) / 2
            self.lowest = min(self.lowest, middle)
            yield middle
            found = found or self._told[1]
            low, high = (middle, high) if self._told[1] else (low, middle)
        return found

    def record(self, rate: float, passed: bool) -> None:
        """`rate` as it was reached."""
        self._told = rate, passed


def end_all(table: Sessions) -> tuple[int, float]:
    """End all sessions; how many there were, and the seconds it took. Raises LoadFault where some are left."""
    held = table.count()
    taken_s = table.clear()
    left = table.count()
    if left > STRAY:
        raise LoadFault(f"{left} of {held} sessions are left after all were ended")
    return held, taken_s


def require_empty(table: Sessions) -> None:
    """End what somebody has left in it."""
    if table.count() > STRAY:
        end_all(table)


def _require_room(table: Sessions, load: NewFlowsLoad) -> None:
    limit = table.limit()
    if limit is not None and limit < load.sessions + STRAY:
        raise LoadFault(f"new flows: the table has room for {limit} sessions, {load.sessions} are asked for")
    require_empty(table)


def _end(table: Sessions, expected: int | None) -> dict[MetricName, float]:
    """End all sessions, of which there should be so many; what the table held, and how fast they went."""
    held, full_s = end_all(table)
    if expected is not None and not expected <= held <= expected + STRAY:
        raise LoadFault(f"new flows: {expected} sessions got through, but the table holds {held}")
    # What the order itself takes is no work on sessions.
    empty_s = table.clear()
    return {"sessions": float(held), **({"teardown": held / (full_s - empty_s)} if full_s > empty_s else {})}
