# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The knee of a path for datagrams: the highest rate at which it loses no more than the study allows.

Stages: without a limit → did the path lose too much? → halve between the highest rate that passed and the lowest that did not.
"""

from collections.abc import Callable
from dataclasses import replace

from diolkos_lab.experiment.streams import HALVINGS, UdpLoad
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.session_rate import Measured, SessionsLost
from diolkos_lab.sut.sessions import Sessions

LEAST = 1e5  # bit/s, below which no rate is tried


def measure(load: UdpLoad, _table: Sessions | None, attempt: Callable[[UdpLoad], Measured]) -> Measured:
    """The attempt at the highest rate that the path carried.

    What the receiver's own socket dropped is no loss of the path. Where the path loses too little without a limit, the
    generator is the limit, and the rate is a lower bound. What guards object to in any attempt counts, since a disturbed one
    makes the knee look lower. Raises Lost where every rate is too high.
    """
    objections: dict[str, Objection] = {}

    def at(rate: float | None) -> Measured:
        reading, raised, costs = attempt(load.at(rate))
        objections.update({each.guard: each for each in raised})
        return reading, [], costs

    def passes(made: Measured) -> bool:
        reading, _, costs = made
        return reading.metrics["loss"] - costs.get("socket_loss", 0.0) <= load.knee_loss

    attempts = 1
    made = at(None)
    if passes(made):
        best: Measured = replace(made[0], bounds={"throughput": (made[0].metrics["throughput"], None)}), [], made[2]
        return _told(best, attempts, objections)
    # What got through where too much was sent is about what the path can carry.
    low, high, rate = 0.0, made[0].metrics["sent_rate"], made[0].metrics["throughput"]
    found: Measured | None = None
    for _attempt in range(HALVINGS):
        if rate < LEAST:
            break
        made = at(rate)
        attempts += 1
        if passes(made):
            low, found = rate, made
        else:
            high = rate
        rate = (low + high) / 2
    if found is None:
        raise SessionsLost(
            f"udp: the path loses more than {load.knee_loss:.1%} at every rate, at {high / 1e6:.0f} Mbit/s still"
        )
    return _told(found, attempts, objections)


def _told(best: Measured, attempts: int, objections: dict[str, Objection]) -> Measured:
    reading, _, costs = best
    return replace(reading, metrics={**reading.metrics, "attempts": float(attempts)}), list(objections.values()), costs
