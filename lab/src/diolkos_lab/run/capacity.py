# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How many sessions does a table hold at once (RFC 9693 §4.9)?

Stages: is the table empty? → attempt → all through, all answered, all in the table? → end them all. Twice as many until some
are missing, then in the middle between what was held and what was not, until that is narrow enough.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from diolkos_lab.experiment.loads import CapacityLoad, NewFlowsLoad
from diolkos_lab.load.reading import LoadFault, Reading
from diolkos_lab.metric import MetricName
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.session_rate import STRAY, Measured, SessionsLost, end_all, require_empty
from diolkos_lab.sut.sessions import Sessions

TRIES = 2  # at the number that counts as too many: what a disturbance made the path lose, it does not lose twice
SLOWER = 0.5  # of the rate, the second time: what is held only at less than that is not held (the RFC's factor gamma)


@dataclass(frozen=True)
class Attempt:
    """What became of one attempt."""

    sessions: int  # that were asked for
    held: int  # that the table then had
    lost: float  # share of the packets that should open a session and did not get through
    whole: bool  # all got through, were answered and are in the table
    objections: list[Objection]


def measure(load: CapacityLoad, table: Sessions | None, attempt: Callable[[NewFlowsLoad], Measured]) -> Measured:
    """The most sessions of which none was missing.

    Metrics, in sessions: `capacity`; `too_many`, the fewest of which some were missing, and `held_of_too_many`, what the table
    had then; `limit`, what the system says of itself. `lost_of_too_many` is the share of them that did not get through:
    where it is 0, a full table takes new sessions and forgets others. `attempts` is how many were made. Without `too_many` the
    search has met its end, and the table holds at least that many; without `limit` the system does not tell.

    No disturbance makes a table hold more than it can, so what guards object to counts in the attempts at `too_many` only.
    Raises LoadFault where not even the first number is held (Lost), or the table has more sessions than were opened.
    """
    if table is None:
        raise LoadFault("capacity: nothing on the path has sessions that can be counted")
    limit = table.limit()
    require_empty(table)
    search = Search(load)
    made: list[Attempt] = []
    while asked := search.next():
        made.append(_made(load.attempt(*asked), table, attempt))
        search.record(made[-1].sessions, made[-1].whole)
    beyond = [each for each in made if each.sessions == search.too_many]
    if not search.held:
        last = beyond[-1]
        why = f"{last.lost:.2%} of them do not get through" if last.lost else f"{last.held} are in the table"
        why += "" if last.lost or last.held < last.sessions else ", but not all are answered"
        raise SessionsLost(f"capacity: {load.first} sessions, the fewest to be tried, are too many: {why}")
    metrics: dict[MetricName, float] = {"capacity": float(search.held), "attempts": float(len(made))}
    if limit is not None:
        metrics["limit"] = float(limit)
    if beyond:
        last = beyond[-1]
        metrics |= {"too_many": float(last.sessions), "held_of_too_many": float(last.held), "lost_of_too_many": last.lost}
    objections = {objection.guard: objection for each in beyond for objection in each.objections}
    # Where none was too many, the search has met its own limit and not the table's.
    bounds: dict[MetricName, tuple[float, float | None]] = {} if beyond else {"capacity": (float(search.held), None)}
    return Reading(metrics=metrics, bounds=bounds), list(objections.values()), {}


def _made(filling: NewFlowsLoad, table: Sessions, attempt: Callable[[NewFlowsLoad], Measured]) -> Attempt:
    """One attempt, from an empty table to an empty table."""
    reading, objections, _ = attempt(filling)
    held, _ = end_all(table)
    lost, unanswered = reading.metrics["loss"], reading.metrics["unanswered"]
    answered = lost <= 0 and unanswered <= 0
    if answered and held > filling.sessions + STRAY:
        raise LoadFault(f"capacity: {filling.sessions} sessions were opened, but the table holds {held}")
    # A full table may go on to let packets through, and forget others: answers, or its own count, then tell.
    return Attempt(filling.sessions, held, max(0.0, lost), answered and held >= filling.sessions, objections)


class Search:
    """Numbers of sessions to try: ask for the `next`, and tell what came of it."""

    def __init__(self, load: CapacityLoad) -> None:
        self._load = load
        self._missed: Counter[int] = Counter()  # how often sessions were missing, of each number above what is held
        self._slowly = False  # a number was held at the slower rate alone, and so may be those that follow
        self.held = 0  # the most of which none was missing

    @property
    def too_many(self) -> int | None:
        """The fewest of which some were missing; None before there are any."""
        return min(self._missed, default=None)

    def next(self) -> tuple[int, float] | None:
        """Sessions, and the rate to open them at; None when the capacity is known well enough."""
        sessions = self._next()
        if sessions is None:
            return None
        return sessions, self._load.fill_rate * (SLOWER if self._slowly or self._missed[sessions] else 1)

    def _next(self) -> int | None:
        too_many = self.too_many
        if too_many is None:
            wanted = min(2 * self.held, self._load.most) if self.held else self._load.first
            return wanted if wanted > self.held else None
        if self.held and too_many - self.held > max(1, self._load.resolution * too_many):
            return (self.held + too_many) // 2
        return too_many if self._missed[too_many] < TRIES else None

    def record(self, sessions: int, whole: bool) -> None:
        """`whole`: none of so many was missing."""
        if not whole:
            self._missed[sessions] += 1
            return
        self._slowly = self._slowly or self._missed[sessions] > 0
        self.held = sessions
        self._missed = Counter({number: times for number, times in self._missed.items() if number > sessions})
