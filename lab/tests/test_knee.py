# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The search for a path's knee, over paths whose knee is known."""

from collections.abc import Callable

import pytest

from diolkos_lab.experiment.loads import UdpLoad
from diolkos_lab.experiment.streams import SEARCHED
from diolkos_lab.load.reading import Reading
from diolkos_lab.run import knee, searches
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.session_rate import Measured, SessionsLost

KNEE = UdpLoad(name="udp", seconds=1, rate="knee")
MOST = 4e9  # bit/s that the generator can send
STEAL = Objection("steal", "the hypervisor took 9 %")


def _path(
    capacity: float, socket_loss: float = 0.0, doubtful: int = -1, overloaded: float = 1.0
) -> tuple[Callable[[UdpLoad], Measured], list[float]]:
    """It carries so much and drops the rest; its receiver loses a share more. Where far too much comes, it carries a share."""
    tried: list[float] = []

    def attempt(load: UdpLoad) -> Measured:
        sent = MOST if isinstance(load.rate, str) else load.rate
        tried.append(sent)
        carried = min(sent, capacity * (overloaded if sent > 1.3 * capacity else 1))
        lost = 1 - carried / sent + socket_loss
        reading = Reading({"throughput": sent * (1 - lost), "sent_rate": sent, "loss": lost})
        return reading, [STEAL] if len(tried) - 1 == doubtful else [], {"socket_loss": socket_loss}

    return attempt, tried


@pytest.mark.parametrize("capacity", [0.003e9, 0.03e9, 0.3e9, 1e9, 2.5e9])
@pytest.mark.parametrize("overloaded", [1.0, 0.7, 0.5, 0.3])
def test_the_knee_lies_within_bounds_that_are_as_narrow_for_slow_paths_as_for_fast_ones(
    capacity: float, overloaded: float
) -> None:
    """Halving between 0 and what the sender sends ended at 0.7 or 0.5 of the knee of a slow path, as an exact figure."""
    attempt, tried = _path(capacity, overloaded=overloaded)
    reading, objections, _ = knee.measure(KNEE, None, attempt)
    low, high = reading.bounds["throughput"]
    assert high is not None and low <= capacity * 1.006 and capacity <= high * 1.006
    assert high / low < (1.1 if overloaded >= 0.5 else 1.35)
    assert reading.metrics["loss"] <= KNEE.knee_loss and not objections
    assert reading.metrics["attempts"] == len(tried) <= 1 + SEARCHED


def test_where_the_generator_is_the_limit_the_knee_is_at_least_that() -> None:
    attempt, tried = _path(2 * MOST)
    reading, _, _ = knee.measure(KNEE, None, attempt)
    assert tried == [MOST] and reading.bounds == {"throughput": (MOST, None)}


def test_what_the_receivers_socket_drops_is_no_loss_of_the_path() -> None:
    attempt, _ = _path(2 * MOST, socket_loss=0.2)
    assert knee.measure(KNEE, None, attempt)[0].bounds, "the path loses nothing"


def test_a_path_that_loses_at_every_rate_fails() -> None:
    def attempt(load: UdpLoad) -> Measured:
        return Reading({"throughput": 1e8, "sent_rate": 1e9, "loss": 0.1}), [], {}

    with pytest.raises(SessionsLost, match=r"the path loses more than 0\.5% at every rate"):
        knee.measure(KNEE, None, attempt)


def test_a_disturbed_attempt_makes_the_search_untrusted() -> None:
    attempt, _ = _path(1e9, doubtful=1)
    assert knee.measure(KNEE, None, attempt)[1] == [STEAL]


def test_only_a_knee_is_searched_for() -> None:
    assert searches.search_for(KNEE) is not None
    assert searches.search_for(KNEE.at(1e9)) is None and searches.search_for(KNEE.at(None)) is None
