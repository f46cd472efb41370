# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The input of a load's client and the result of its tool, in one form for all tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from diolkos_lab.faults import Fault
from diolkos_lab.metric import MetricName

Network = IPv4Network | IPv6Network


class LoadFault(Fault):
    """The load tool ran, but brought no result: the server refused, or nothing answered.

    The path has to answer for it; where the tool itself is broken, that is an InstrumentFault.
    """


@dataclass(frozen=True)
class PacketEndpoints:
    """Where a packet generator puts packets in and takes them out. Places are `NAMESPACE:DEVICE`."""

    near: str
    far: str
    source: IPv4Address | IPv6Address  # of the client
    keeps_state: bool  # the path has sessions, which have to be there before packets are counted
    answers: Answers | None = None  # for what is sent back
    cpus: tuple[int, ...] = ()  # on which packets are sent, forwarded and counted
    targets: Network | None = None  # the destinations behind many next hops, as the client knows them
    native: Native | None = None  # of IPv6 that nobody translates


@dataclass(frozen=True)
class Native:
    """From whom to whom native IPv6 goes."""

    source: IPv6Address
    target: IPv6Address
    clients: Network
    targets: Network | None  # behind many next hops


@dataclass(frozen=True)
class Answers:
    """How the far end answers, and who asks where one client is not enough."""

    source: IPv4Address | IPv6Address  # of answers
    target: IPv4Address | IPv6Address  # where they go: the client, or what lends it an address
    clients: Network  # many of them; where the path knows a single one, that one
    targets: Network  # where answers to these go
    sources: Network | None = None  # of answers from behind many next hops
    crowd: Network | None = None  # many more clients; None where the path knows a single one


@dataclass(frozen=True)
class ClientContext:
    """Everything that the client of a trial needs: addresses, files and endpoints."""

    target: IPv4Address | IPv6Address  # the server's address as the application knows it
    resolver: IPv4Address | IPv6Address  # whom the application asks for names
    folder: Path  # for files the client reads, of this lane only
    serial: int  # of the trial in its lane: names with a serial of their own are in no cache
    ends: PacketEndpoints | None = None  # only where packets are generated
    fastest: float | None = None  # of earlier trials of this load on this path, the greatest main figure
    echo_identifier: int | None = None  # of echo requests; None: any will do


@dataclass(frozen=True)
class Reading:
    """Figures of one trial, each in the unit that `metric` gives it."""

    metrics: dict[MetricName, float]
    series: dict[MetricName, dict[str, list[float]]] = field(default_factory=dict)  # metric to {t: [s], y: [its unit]}
    seconds: float = 0.0  # for which the generator sent, as it measured that; 0 where it does not tell
    received_bytes: int = 0  # payload the receiver got, start included
    segments: int = 0  # TCP segments that payload makes on the wire
    connections: int = 0  # TCP connections opened for it, where they are many
    answers: int = 0  # to queries for names
    packets: int = 0  # that a sink counted
    pace_error: float = 0.0  # of the generator's mean rate, relative to the offered one
    behind_s: float = 0.0  # by which its bursts began late, 99th percentile
    stalls_s: tuple[float, ...] = ()  # for which a CPU of the path stood still
    # Of a figure that is only known to lie in a range: both ends, None where there is none.
    bounds: dict[MetricName, tuple[float, float | None]] = field(default_factory=dict)


MOST_POINTS = 400  # of a series: enough for its 99th percentile over the blocks of a run


def course(values: list[float]) -> dict[str, list[float]]:
    """A series of times that followed each other, thinned evenly, which leaves its distribution as it was."""
    step = -(-len(values) // MOST_POINTS) if values else 1
    ends: list[float] = []
    passed = 0.0
    for value in values:
        passed += value
        ends.append(round(passed, 6))
    return {"t": ends[::step], "y": values[::step]}
