# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The search for a path's knee, over paths whose knee is known."""

from collections.abc import Callable

import pytest

from diolkos_lab.experiment.loads import UdpLoad
from diolkos_lab.load.reading import Reading
from diolkos_lab.run import knee, searches
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.session_rate import Measured, SessionsLost

KNEE = UdpLoad(name="udp", seconds=1, rate="knee")
MOST = 4e9  # bit/s that the generator can send
STEAL = Objection("steal", "the hypervisor took 9 %")


def _path(capacity: float, socket_loss: float = 0.0, doubtful: int = -1) -> tuple[Callable[[UdpLoad], Measured], list[float]]:
    """It carries so much and drops the rest; its receiver loses a share more."""
    tried: list[float] = []

    def attempt(load: UdpLoad) -> Measured:
        sent = MOST if isinstance(load.rate, str) else load.rate
        tried.append(sent)
        lost = max(0.0, 1 - capacity / sent) + socket_loss
        reading = Reading({"throughput": sent * (1 - lost), "sent_rate": sent, "loss": lost})
        return reading, [STEAL] if len(tried) - 1 == doubtful else [], {"socket_loss": socket_loss}

    return attempt, tried


@pytest.mark.parametrize("capacity", [0.3e9, 1e9, 2.5e9])
def test_the_knee_of_a_path_is_found(capacity: float) -> None:
    attempt, tried = _path(capacity)
    reading, objections, _ = knee.measure(KNEE, None, attempt)
    assert capacity * 0.9 <= reading.metrics["throughput"] <= capacity
    assert reading.metrics["loss"] <= KNEE.knee_loss and not reading.bounds and not objections
    assert reading.metrics["attempts"] == len(tried) <= 6


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
