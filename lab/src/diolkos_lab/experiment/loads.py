# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loads a study may ask for, in the order of the layers: packets, streams, names, objects.

Each says what varies in it (`factors`), and how long a trial of it should take (`expected_s`).
"""

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.document import StrictModel
from diolkos_lab.experiment.frames import PKTGEN_S, ForwardingRateLoad, FrameSize, FramesLoad, PlacementChoice, frame
from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.experiment.nodes import Bindings, Nodes, number_of_nodes, require_agreement
from diolkos_lab.experiment.offloads import Offloads
from diolkos_lab.experiment.streams import CongestionControl, PingUnderLoad, Streams, UdpGsoLoad, UdpLoad

TcpName = Literal["tcp-upload", "tcp-download"]
LoadName = Literal[
    "pps",
    "forwarding-rate",
    "latency",
    "new-flows",
    "connections",
    "capacity",
    "mlrsearch",
    "rfc8219",
    "tcp-upload",
    "tcp-download",
    "udp",
    "udp-gso",
    "ping",
    "ping-under-load",
    "dns",
    "http",
]
Subjects = Annotated[
    tuple[str, ...],
    Field(description="Who gets it: `system/datapath`, and as far as needed `/family/hops`; without it all."),
]
Resolution = Annotated[
    float, Field(gt=0, lt=1, description="The search ends at an interval this narrow, relative to its upper end.")
]

# From 10 ms up ping sleeps in ticks of the kernel's timer and wakes up to two of them late (at 250 Hz 10 ms become 16);
# below it polls.
PING_SLEEPS_FROM_S = 0.01
PING_TIMER_S = 0.008
PING_POLL_S = 0.0005
START_S = 0.1  # of a program that brings libraries along
BOTH_WAYS_S = 0.6  # the same, if both ends send: all threads get ready first
FILL_ROUNDS = 4  # to open sessions where it does not matter how fast
PHASES = 3  # of a load that opens sessions, each with a start of its own
OPENED_PER_S, ANSWERED_PER_S = 250_000, 400_000  # guesses for the time that is left
MOST_SESSIONS = 8_000_000  # that the generator tells apart
DOUBLINGS = 2  # about how many come before a table is full; only the time that is left depends on it
LARGE = 1 << 20  # bytes; of an object from this size on the rate counts, of a smaller one the time


class PpsLoad(FramesLoad):
    """diolkos-pktgen offers packets at a rate, whatever becomes of them, and counts at the server what arrives.

    In a study one such load is a sweep: a load–loss curve. Its rates are `rates`, or, without them, `shares` of the rate
    that the warm-up finds, at which a path begins to lose packets. In a trial `offered` is the one rate, of each direction.
    """

    name: Literal["pps"]
    seconds: float = Field(ge=0.05, le=600, description="Length of a trial, seconds.")
    rates: tuple[int, ...] = Field((), description="Rates of the curve, packets/s, ascending; without them `shares` counts.")
    # Steps as wide as the paper's, 15 % of saturation, with the knee in the middle of one. The verdict asks how much of a step
    # gets through beyond the PDR: with narrow steps every knee that is a little round would be BAD.
    shares: tuple[float, ...] = Field(
        (0.475, 0.625, 0.775, 0.925, 1.075, 1.225, 1.375, 1.525),
        min_length=3,
        description="Rates of the curve as shares of the rate at which packets begin to be lost, ascending.",
    )
    lowest: int = Field(20_000, ge=10, description="Rate at which the warm-up begins to search, packets/s.")
    highest: int = Field(2_000_000, ge=1000, description="Highest rate that is offered, packets/s.")
    refine: float = Field(
        0.02, ge=0, description="A bracket of the PDR wider than this share of its rate gets more rates; 0: none does."
    )
    subjects: Subjects = ()
    offered: int | None = Field(None, description="Set by the lab: rate of one trial, packets/s.")
    refines: bool = Field(False, description="Set by the lab: the trial is only to find the PDR; the verdict does not use it.")
    knee: float | None = Field(None, description="Set by the lab: rate at which packets begin to be lost, packets/s.")

    @model_validator(mode="after")
    def _rates_ascend(self) -> "PpsLoad":
        for name in ("rates", "shares"):
            values = getattr(self, name)
            if list(values) != sorted(set(values)) or (values and values[0] <= 0):
                raise ValueError(f"{name} have to ascend, from above zero")
        if self.lowest > self.highest:
            raise ValueError("lowest is above highest")
        return self

    def at(
        self, offered: float, seconds: float | None = None, *, refines: bool = False, knee: float | None = None
    ) -> "PpsLoad":
        """One trial of it."""
        chosen = {"offered": max(1, round(offered)), "seconds": seconds or self.seconds, "refines": refines, "knee": knee}
        return self.model_copy(update=chosen)

    @property
    def steps(self) -> int:
        """Rates of the curve."""
        return len(self.rates or self.shares)

    @property
    def curve_factors(self) -> dict[str, str | int | float]:
        """What varies from curve to curve."""
        return {**self.traffic, "seconds": self.seconds}

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {**self.curve_factors, "offered": self.offered or 0, "refines": int(self.refines)}

    @property
    def expected_s(self) -> float:
        return self.seconds + PKTGEN_S


class NewFlowsLoad(StrictModel):
    """RFC 9693: each packet opens a session. How many a second, with all of them there and answered? Then packets in both
    directions over them, and the end of all at once.

    The rate is the highest at which every session gets through (§4.5). A generator that shares its CPU with the system under
    test cannot offer more than that carries, so the first attempt has no rate; where it loses any, the rate is searched for.
    """

    name: Literal["new-flows"]
    sessions: int = Field(200_000, ge=100, le=MOST_SESSIONS, description="Sessions that are opened.")
    bindings: Bindings = "few"
    nodes: Nodes = None
    seconds: float = Field(0.5, ge=0.1, le=600, description="Length of the stage in both directions (RFC 9693 §4.7), seconds.")
    size: FrameSize = 84
    placement: PlacementChoice = "beside"
    halvings: int = Field(
        4, ge=1, le=10, description="Steps of the search, from half of the first rate that loses sessions to that rate."
    )
    fill_rate: int | None = Field(
        None, ge=1, description="Sessions/s to open where the rate does not matter; those that are lost are sent again."
    )
    rate: int | None = Field(None, ge=1, description="Set by the lab: sessions/s of one attempt.")
    offloads: Offloads = ("on",)

    @model_validator(mode="after")
    def _nodes_have_bindings(self) -> "NewFlowsLoad":
        require_agreement(self.bindings, self.nodes)
        return self

    def at(self, rate: float | None) -> "NewFlowsLoad":
        """One attempt of it."""
        return self.model_copy(update={"rate": None if rate is None else max(1, round(rate))})

    def frame(self, version: int) -> int:
        """Bytes of a frame of that IP version."""
        return frame(self.size, version)

    @property
    def factors(self) -> dict[str, str | int | float]:
        names = ("sessions", "bindings", "placement", "size", "seconds")
        return {**{name: getattr(self, name) for name in names}, "nodes": number_of_nodes(self.bindings, self.nodes)}

    @property
    def expected_s(self) -> float:
        """Of one attempt, which is all of it unless sessions are lost."""
        return PHASES * BOTH_WAYS_S + self._opening_s + self.sessions / ANSWERED_PER_S + self.seconds

    @property
    def longest_s(self) -> float:
        """The same, if what opens sessions has to be sent again as often as that is allowed."""
        return self.expected_s + ((FILL_ROUNDS - 1) * (BOTH_WAYS_S + self._opening_s) if self.fill_rate else 0.0)

    @property
    def _opening_s(self) -> float:
        return self.sessions / (self.fill_rate or self.rate or OPENED_PER_S)


class CapacityLoad(StrictModel):
    """RFC 9693 §4.9: how many sessions does a table hold, all of them there at once and answered?

    From `first` on the number doubles until some are missing, or `most` is reached. The interval between a number that was held
    and one that was not is then halved until it is narrow enough.
    """

    name: Literal["capacity"]
    first: int = Field(100_000, ge=1000, description="Sessions that every table of the study holds; the search begins there.")
    most: int = Field(
        MOST_SESSIONS,
        ge=1000,
        le=MOST_SESSIONS,
        description="Sessions at which the search ends: the table holds at least these.",
    )
    resolution: Resolution = 0.01
    fill_rate: int = Field(100_000, ge=1, description="Sessions/s to open; half of it where some were missing before.")
    bindings: Bindings = "few"
    nodes: Nodes = None
    size: FrameSize = 84
    placement: PlacementChoice = "beside"
    subjects: Subjects = ()
    offloads: Offloads = ("on",)

    @model_validator(mode="after")
    def _first_is_not_above_most(self) -> "CapacityLoad":
        if self.first > self.most:
            raise ValueError("first is above most")
        return self

    @model_validator(mode="after")
    def _nodes_have_bindings(self) -> "CapacityLoad":
        require_agreement(self.bindings, self.nodes)
        return self

    def attempt(self, sessions: int, rate: float) -> "Filling":
        """One attempt of it."""
        return Filling(
            name=self.name,
            sessions=sessions,
            rate=max(1, round(rate)),
            bindings=self.bindings,
            nodes=self.nodes,
            size=self.size,
            placement=self.placement,
            offloads=self.offloads,
        )

    @property
    def factors(self) -> dict[str, str | int | float]:
        names = ("bindings", "placement", "size", "first", "most", "resolution", "fill_rate")
        return {**{name: getattr(self, name) for name in names}, "nodes": number_of_nodes(self.bindings, self.nodes)}

    @property
    def expected_s(self) -> float:
        """Of a search whose DOUBLINGS end in the middle between what is held and what is not."""
        attempts = DOUBLINGS + 1 + math.ceil(-math.log2(self.resolution))
        sessions = min(self.most, round(0.75 * self.first * 2**DOUBLINGS))
        return attempts * self.attempt(sessions, self.fill_rate).expected_s


class Filling(NewFlowsLoad):
    """One attempt of the search for a capacity: so many sessions are opened at a rate and answered, and that is all."""

    name: Literal["capacity"]  # type: ignore[assignment]
    seconds: float = Field(0.0, description="None: there is no stage in both directions.")

    @property
    def longest_s(self) -> float:
        """A table that is nearly full may take its time for sessions and for answers."""
        return 2 * self.expected_s


class ConnectionsLoad(NewFlowsLoad):
    """How many TCP connections a second, each opened, used for a request and an answer, and closed by both ends?

    A connection has six segments, and ends where one of them is lost. The rate is searched for as that of new flows is.
    """

    name: Literal["connections"]  # type: ignore[assignment]
    seconds: float = Field(0.0, ge=0, le=0, description="0 seconds: there is no stage in both directions.")
    size: FrameSize = Field(
        96, description="Bytes of IPv6 frames with FCS; IPv4 frames are 20 shorter. The least of TCP is 96."
    )


class PingLoad(StrictModel):
    """ping; the first `start` replies, which wait for address resolution and cold caches, do not count."""

    name: Literal["ping"]
    count: int = Field(ge=2, le=1_000_000, description="Echo requests of a trial.")
    interval_s: float = Field(0.01, ge=0.002, le=60, description="Time between two requests, seconds.")
    start: int = Field(2, ge=0, description="Replies at the start that do not count; at most half of them.")
    offloads: Offloads = ("on",)

    @model_validator(mode="after")
    def _something_is_left(self) -> "PingLoad":
        if self.start > self.count / 2:
            raise ValueError("start may cut off at most half of the replies")
        return self

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"count": self.count, "interval": self.interval_s}

    @property
    def expected_s(self) -> float:
        late_s = PING_TIMER_S if self.interval_s >= PING_SLEEPS_FROM_S else PING_POLL_S
        return self.count * (self.interval_s + late_s)


class TcpLoad(StrictModel):
    """iperf3; the interval from `start_s` to the end counts, connection set-up and slow start do not."""

    name: TcpName
    seconds: int | float = Field(
        ge=0.2, le=3600, description="Length of a trial, seconds. Below 1: as many bytes as take that long, by earlier trials."
    )
    streams: Streams = 1
    start_s: float = Field(0.3, ge=0, description="Seconds at the start that do not count; at most half of the trial.")
    congestion_control: CongestionControl = "cubic"
    offloads: Offloads = ("on",)

    @model_validator(mode="after")
    def _something_is_left(self) -> "TcpLoad":
        if self.start_s > self.seconds / 2:
            raise ValueError("start_s may cut off at most half of the trial")
        if self.seconds >= 1 and self.seconds != int(self.seconds):
            raise ValueError("seconds must be a whole number, or less than 1")
        return self

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"streams": self.streams, "seconds": self.seconds}

    @property
    def expected_s(self) -> float:
        return self.seconds + 0.2


class DnsLoad(StrictModel):
    """dnsperf asks the path's resolver for AAAA records, each answer checked to be the right address.

    `cold`: every name is new, so that the authority has to be asked. `warm`: few names, asked before the trial.
    With an offered rate the time of each answer counts; without one the rate that the resolver reaches.
    """

    name: Literal["dns"]
    cache: Literal["cold", "warm"] = Field(description="cold: every name is new. warm: the resolver knows the names.")
    offered: int | None = Field(None, ge=1, le=100_000, description="Queries/s; without it as many as are answered.")
    seconds: float = Field(ge=0.1, le=600, description="Length of a trial, seconds.")
    offloads: Offloads = ("on",)

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"cache": self.cache, "offered": self.offered or "most", "seconds": self.seconds}

    @property
    def expected_s(self) -> float:
        return self.seconds + START_S


class HttpLoad(StrictModel):
    """curl fetches an object again and again, each time over a new connection.

    By `name` each fetch asks for a name that nobody asked for before; by `literal` there is no lookup.
    """

    name: Literal["http"]
    object_bytes: int = Field(
        ge=1, le=1 << 30, description="Bytes of the object; from 1 MiB on the rate counts, else the time."
    )
    by: Literal["literal", "name"] = Field(
        description="How the client finds the server: by address, or by a new name each time."
    )
    seconds: float = Field(ge=0.1, le=600, description="Length of a trial, seconds.")
    offloads: Offloads = ("on",)

    @property
    def is_large(self) -> bool:
        return self.object_bytes >= LARGE

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"object": self.object_bytes, "by": self.by, "seconds": self.seconds}

    @property
    def expected_s(self) -> float:
        return self.seconds + START_S


AnyLoad = (
    PpsLoad
    | ForwardingRateLoad
    | LatencyLoad
    | NewFlowsLoad
    | ConnectionsLoad
    | CapacityLoad
    | PingLoad
    | TcpLoad
    | UdpLoad
    | UdpGsoLoad
    | PingUnderLoad
    | DnsLoad
    | HttpLoad
)
