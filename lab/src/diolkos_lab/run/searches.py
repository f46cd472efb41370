# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Loads whose trial is a search: it makes several attempts, each of them one run of the client."""

from collections.abc import Callable
from typing import Any

from diolkos_lab.experiment.loads import AnyLoad, LoadName
from diolkos_lab.experiment.streams import UdpLoad
from diolkos_lab.run import capacity, knee, session_rate
from diolkos_lab.run.session_rate import Measured
from diolkos_lab.sut.sessions import Sessions

Search = Callable[[Any, Sessions | None, Callable[[Any], Measured]], Measured]
SEARCHES: dict[LoadName, Search] = {
    "new-flows": session_rate.measure,
    "connections": session_rate.measure,
    "capacity": capacity.measure,
}


def search_for(load: AnyLoad) -> Search | None:
    """None where one run of the client is the trial."""
    if isinstance(load, UdpLoad):
        return knee.measure if load.rate == "knee" else None
    return SEARCHES.get(load.name)
