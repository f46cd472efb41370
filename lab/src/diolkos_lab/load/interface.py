# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The interface of a load. A load is one class in a module of its own, and one entry in `registry`.

A section is what a study says of a load (`experiment.loads`); one object here serves all sections of its name.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from diolkos_lab.experiment.frames import CpuPlacement
from diolkos_lab.experiment.loads import AnyLoad, LoadName
from diolkos_lab.load.reading import ClientContext, Reading
from diolkos_lab.metric import ROW_METRICS, MetricName, RowMetric

Section = TypeVar("Section", bound=AnyLoad)
# Who counts what arrives at the server: its kernel, the sink of the packet generator, or the authority by its queries.
Counter = Literal["kernel", "sink", "authority"]
ServerName = Literal["iperf3", "datagrams", "nginx", "authority"]
GIGABYTE = 1e9


@dataclass(frozen=True)
class CpuUsage:
    """CPU time of one trial, in seconds, by who was charged."""

    client: float
    system: float  # processes of the system under test
    threads: float  # kernel threads of its queues
    all: float  # all CPUs
    path: float | None = 0.0  # all CPUs, without other programs and the lab; None where a machine of the path cannot tell
    elapsed: float = 1.0  # in which all this was counted: the whole trial, programs' starts and ends included
    socket_drops: int = 0  # datagrams for which the receiver's socket had no room
    server: float = 0.0  # processes of the far end
    ends_share_cpu: bool = False  # client and server have one CPU between them


@dataclass(frozen=True)
class Stream:
    """Packets at one rate, whatever becomes of them. A CPU that stands still makes a ring overflow."""

    rate: float  # packets/s
    seconds: float
    lossless: bool = False  # a procedure looks for the rate at which nothing is lost, so that every loss counts
    expected_loss: float = 0.0  # share of the packets, by what was known before the trial
    saturates: bool = False  # more than any path forwards: what a stall costs is its share of the time, and no more
    timed: bool = False  # what counts is when packets arrive, so that one which only waits is disturbed, too


class Load(ABC, Generic[Section]):
    """The defaults are those of a program that asks a server of the kernel's sockets."""

    name: LoadName
    words: str  # in sentences and tables: "TCP upload"
    metrics: tuple[MetricName, ...]  # all that its trials may have; the first is the main one
    needs: Mapping[str, str]  # programs, with how to get them
    counted_by: Counter = "kernel"
    answered: bool = False  # the far end of a packet generator answers
    apart: bool = False  # the receiver has another CPU than the generator, where there are two
    ended_by_time: bool = False  # what the client did counts even where it ends with an error

    # ---- before a trial

    def required(self, section: Section) -> Mapping[str, str]:
        """Programs that this section needs."""
        return self.needs

    def servers(self, section: Section) -> frozenset[ServerName]:
        return frozenset()

    def obstacle(self, section: Section, congestion_controls: list[str]) -> str | None:
        """What this kernel lacks, with what to do."""
        return None

    def prepare(self, section: Section, context: ClientContext) -> list[list[str]]:
        """Write the files that the client reads. Returns commands for the client's namespace that run before the trial."""
        return []

    @abstractmethod
    def command(self, section: Section, context: ClientContext) -> list[str]:
        """Of the client."""

    def allowed_s(self, section: Section) -> float:
        """How long a trial may take."""
        return section.expected_s

    def placement(self, section: Section) -> CpuPlacement | None:
        """Who runs where while the packets of a generator are counted; None for the client of a server."""
        return None

    # ---- after it

    @abstractmethod
    def read(self, text: str, section: Section) -> Reading:
        """What the client printed. Raises LoadFault where that is no result."""

    def main(self, factors: Mapping[str, Any]) -> RowMetric:
        """The metric of a cell in which every trial failed. `factors` are those of a record."""
        return next(name for name in ROW_METRICS if name == self.metrics[0])

    def costs(self, section: Section, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        """CPU time, as the metrics of this load have it."""
        return {}

    # ---- what guards ask

    def stream(self, section: Section, reading: Reading) -> Stream | None:
        """The stream that a CPU which stands still disturbs; None where nothing has to wait for it."""
        return None

    def asks_new_names(self, section: Section) -> bool:
        """Every query reaches the authority; otherwise none does."""
        return False

    def unpaced_lookups_s(self, section: Section) -> float | None:
        """Seconds in which as many new names are asked for as go, so that the authority may be the limit; None elsewhere."""
        return None

    def opening_packets(self, section: Section) -> int:
        """Packets that a fast path may leave to the slow one, because they open sessions."""
        return 0


def per_gigabyte(reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
    """CPU time of the path per gigabyte that arrived, where the load is about throughput: the ends, the system, the kernel's
    threads and software interrupts, on every machine that the packets pass."""
    if "throughput" not in reading.metrics or not reading.received_bytes or usage.path is None:
        return {}
    return {"cpu_s_per_gb": usage.path / (reading.received_bytes / GIGABYTE)}
