# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The knee of a path for datagrams: the highest rate at which it loses no more than the study allows.

Stages: without a limit → did the path lose too much? → from what got through in factors that grow, until a rate passed and one
did not → halve the logarithm of what lies between them.

Rates are searched for in factors, not in differences: what the generator sends may be a hundred times what a path carries, and
each path has a right to the same precision. A search of few trials ends with a bracket, and the bracket is the result.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from diolkos_lab.experiment.streams import SEARCHED, UdpLoad
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.session_rate import Measured, SessionsLost
from diolkos_lab.sut.sessions import Sessions

LEAST = 1e5  # bit/s, below which no rate is tried
STEP = 1.3  # the first factor


def measure(load: UdpLoad, _table: Sessions | None, attempt: Callable[[UdpLoad], Measured]) -> Measured:
    """The attempt at the highest rate that the path carried, as bounds of its throughput: at least what it carried there, at
    most the lowest rate that lost too much.

    What the receiver's own socket dropped is no loss of the path. Where the path loses too little without a limit, the
    generator is the limit, and nothing bounds the knee above. What guards object to in any attempt counts, since a disturbed
    one makes the knee look lower. Raises SessionsLost where every rate is too high.
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
        return _told(made, None, attempts, objections)
    # What got through where too much was sent is about what the path can carry.
    high, rate = made[0].metrics["sent_rate"], made[0].metrics["throughput"]
    step, found = STEP, None
    while attempts <= SEARCHED and rate >= LEAST:
        made = at(rate)
        attempts += 1
        if passes(made):
            low, found = rate, made
            # Overload may have hidden how much the path carries, so the steps upwards grow.
            rate = min(low * step, math.sqrt(low * high))
        else:
            high = made[0].metrics["sent_rate"]
            rate = math.sqrt(low * high) if found else rate / step
        step *= step
    if found is None:
        raise SessionsLost(
            f"udp: the path loses more than {load.knee_loss:.1%} at every rate, at {high / 1e6:.3g} Mbit/s still"
        )
    return _told(found, high, attempts, objections)


def _told(best: Measured, high: float | None, attempts: int, objections: dict[str, Objection]) -> Measured:
    reading, _, costs = best
    carried = reading.metrics["throughput"]
    told = replace(
        reading,
        metrics={**reading.metrics, "attempts": float(attempts)},
        bounds={"throughput": (carried, None if high is None else max(high, carried))},
    )
    return told, list(objections.values()), costs
