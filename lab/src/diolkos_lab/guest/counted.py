# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loads under which instructions are counted, and their names between host and guest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from diolkos_lab.experiment.frames import ForwardingRateLoad
from diolkos_lab.experiment.loads import TcpLoad
from diolkos_lab.experiment.streams import UdpGsoLoad

CountedLoad = TcpLoad | UdpGsoLoad | ForwardingRateLoad
COUNTED_S = 0.2  # of packets of a generator: four to six of each of 4096 flows


def counted_loads(loads: Sequence[Any]) -> tuple[CountedLoad, ...]:
    """Those of a study's form that can be counted, each kind of packet once."""
    return tuple({load_name(load): load for asked in loads for load in _counted(asked)}.values())


def load_name(load: CountedLoad) -> str:
    """Unique within a run."""
    if isinstance(load, ForwardingRateLoad):
        return f"{load.name}-{load.size}-{load.flows}{'-back' if load.backwards else ''}"
    return load.name


def _counted(load: Any) -> Iterator[CountedLoad]:
    match load:
        case TcpLoad():  # without super-packets: every packet crosses the path as one of 1500 bytes
            yield TcpLoad(name=load.name, seconds=1, offloads=("off",))
        case UdpGsoLoad():
            yield UdpGsoLoad(name=load.name, seconds=1, datagram_bytes=load.datagram_bytes)
        case ForwardingRateLoad(directions="one", nodes=1, next_hops=1) if load.flows != "unique":
            forth = ForwardingRateLoad(name=load.name, seconds=COUNTED_S, size=load.size, flows=load.flows)
            yield from (forth, forth.model_copy(update={"backwards": True}))
