# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Loads of streams beside plain TCP: UDP at a rate, UDP as QUIC sends it, and ping beside a TCP stream."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.document import StrictModel
from diolkos_lab.experiment.offloads import Offloads

IPERF3_S = 0.2  # it starts, connects, and fetches the report of the other end
UDP_AND_IPV6 = 48  # bytes of headers in front of a datagram's payload, in the longer of both families
LONGEST_PACKET = 65_535  # bytes
MOST_AT_ONCE = 64  # datagrams that the kernel takes with one system call (UDP_MAX_SEGMENTS before Linux 6.9)
GSO_S = 0.3  # the sender starts, and the receiver waits for what is on its way
PING_STARTS_S = 0.1  # and ends by so much before the stream does
Streams = Annotated[int, Field(ge=1, le=128, description="Parallel connections.")]
CongestionControl = Annotated[
    str, Field(pattern=r"^[a-z0-9_-]{1,15}$", description="Congestion control of the sender, as the kernel names it.")
]
Rate = Annotated[float, Field(ge=1e4, le=1e12)]
SEARCHED = 6  # attempts of the search for a knee, after the one without a limit


class UdpLoad(StrictModel):
    """iperf3 sends datagrams from the client at a rate, whatever becomes of them. What the receiver counts is the result.

    A knee is the highest rate at which at most `knee_loss` is lost on the path.
    """

    name: Literal["udp"]
    seconds: int = Field(ge=1, le=3600, description="Length of a trial, or of one attempt of a search, seconds.")
    rate: Rate | Literal["most", "knee"] = Field(
        "most",
        description="Payload that all streams together send, bit/s. most: without a limit. knee: the lab searches for it.",
    )
    datagram_bytes: int = Field(
        1400,
        ge=16,
        le=8952,
        description="Payload of a datagram, bytes. Translated to IPv6 it has to fit the MTU: 48 bytes less.",
    )
    streams: Streams = 1
    start_s: float = Field(0.3, ge=0, description="Seconds at the start that do not count; at most half of the trial.")
    knee_loss: float = Field(0.005, ge=0, lt=1, description="Share of the datagrams that the path may lose at the knee.")
    offloads: Offloads = ("on",)

    @model_validator(mode="after")
    def _something_is_left(self) -> "UdpLoad":
        if self.start_s > self.seconds / 2:
            raise ValueError("start_s may cut off at most half of the trial")
        return self

    def at(self, rate: float | None) -> "UdpLoad":
        """One attempt of a search; None: without a limit."""
        return self.model_copy(update={"rate": rate or "most"})

    @property
    def factors(self) -> dict[str, str | int | float]:
        rate = self.rate if isinstance(self.rate, str) else round(self.rate)
        return {"streams": self.streams, "seconds": self.seconds, "datagram": self.datagram_bytes, "rate": rate}

    @property
    def expected_s(self) -> float:
        return (self.seconds + IPERF3_S) * (1 + SEARCHED if self.rate == "knee" else 1)


class UdpGsoLoad(StrictModel):
    """Datagrams as QUIC sends them: many with one system call, which cross the kernel in one piece (UDP GSO).

    They are sent as fast as the path takes them. What the receiver counts is the result.
    """

    name: Literal["udp-gso"]
    seconds: float = Field(ge=0.4, le=3600, description="Length of a trial, seconds.")
    datagram_bytes: int = Field(
        1200, ge=512, le=8952, description="Payload of a datagram, bytes. RFC 9000 has QUIC begin with 1200."
    )
    start_s: float = Field(0.1, ge=0, description="Seconds at the start that do not count; at most half of the trial.")
    offloads: Offloads = ("on",)

    @model_validator(mode="after")
    def _something_is_left(self) -> "UdpGsoLoad":
        if self.start_s > self.seconds / 2:
            raise ValueError("start_s may cut off at most half of the trial")
        return self

    @property
    def at_once(self) -> int:
        """Datagrams with one system call: as many as fit one packet of either family, and 64 at most."""
        return min(MOST_AT_ONCE, (LONGEST_PACKET - UDP_AND_IPV6) // self.datagram_bytes)

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"seconds": self.seconds, "datagram": self.datagram_bytes}

    @property
    def expected_s(self) -> float:
        return self.seconds + GSO_S


class PingUnderLoad(StrictModel):
    """ping beside TCP streams: the time of a round trip while the path is busy. It begins when slow start is over."""

    name: Literal["ping-under-load"]
    seconds: int = Field(ge=1, le=3600, description="Length of a trial, seconds.")
    direction: Literal["upload", "download"] = Field("upload", description="Which way the TCP streams go.")
    streams: Streams = 1
    start_s: float = Field(0.3, ge=0, description="Seconds of the streams before the first echo; at most half of the trial.")
    interval_s: float = Field(0.005, ge=0.002, le=60, description="Time between two echo requests, seconds.")
    congestion_control: CongestionControl = "cubic"
    offloads: Offloads = ("on",)

    @model_validator(mode="after")
    def _something_is_left(self) -> "PingUnderLoad":
        if self.start_s > self.seconds / 2:
            raise ValueError("start_s may cut off at most half of the trial")
        if self.most_echoes < 2:
            raise ValueError(f"interval_s: {self.interval_s:g} leaves no time for two echoes in {self.echoes_s:g} s")
        return self

    @property
    def echoes_s(self) -> float:
        """The time in which echoes are sent, all of it beside the streams."""
        return self.seconds - self.start_s - PING_STARTS_S

    @property
    def most_echoes(self) -> int:
        return int(self.echoes_s / self.interval_s)

    @property
    def factors(self) -> dict[str, str | int | float]:
        names = {"direction": self.direction, "streams": self.streams, "seconds": self.seconds}
        return {**names, "interval": self.interval_s}

    @property
    def expected_s(self) -> float:
        return self.seconds + IPERF3_S
