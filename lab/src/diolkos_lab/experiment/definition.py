# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a study.toml may say. Every quantity carries its unit in its name; fixed before the run, claims included."""

from ipaddress import IPv6Network
from typing import Annotated, Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.document import Strict

Family = Literal["ipv6", "ipv4"]
Switch = Literal["on", "off"]
# Where the load's two ends run. Apart, or moved about by the scheduler, two CPUs send packets of one flow at the same time:
# they overtake each other on the veth pairs, TCP takes that for loss, and the native path itself halves from trial to trial.
Placement = Literal["load-on-one-cpu", "free"]
TcpName = Literal["tcp-upload", "tcp-download"]
LoadName = Literal["tcp-upload", "tcp-download", "ping"]
Metric = Literal["throughput", "rtt", "loss", "cpu"]

# From 10 ms up ping sleeps in ticks of the kernel's timer and wakes up to two of them late (at 250 Hz 10 ms become 16);
# below it polls.
PING_SLEEPS_FROM_S = 0.01
PING_TIMER_S = 0.008
PING_POLL_S = 0.0005


class Topology(Strict):
    """The ground of all lanes."""

    pref64: IPv6Network = IPv6Network("64:ff9b::/96")
    mtu: int = Field(1500, ge=1280, le=65535)
    placement: Placement = "load-on-one-cpu"
    link_rate: float | None = Field(None, gt=0)  # bit/s; a veth pair has none

    @model_validator(mode="after")
    def _prefix_has_length_96(self) -> "Topology":
        if self.pref64.prefixlen != 96:
            raise ValueError(f"pref64 must have length 96, not {self.pref64.prefixlen}")
        return self


class Subject(Strict):
    """One system under test on one path."""

    system: str
    datapath: str
    family: Family  # what the application speaks
    hops: Literal[1, 2] = 1
    baseline_family: Family = "ipv6"  # the native path of the same hops that this one is compared with
    twin: bool = False  # measure it twice in every block, for the noise floor

    @property
    def key(self) -> str:
        """Names the subject in results: `diolkos/tc/ipv4/1`."""
        return f"{self.system}/{self.datapath}/{self.family}/{self.hops}"

    @property
    def baseline_key(self) -> str | None:
        key = f"native/kernel/{self.baseline_family}/{self.hops}"
        return None if key == self.key else key


class TcpLoad(Strict):
    """iperf3; the interval from `start_s` to the end counts, connection set-up and slow start do not."""

    name: TcpName
    seconds: int = Field(ge=1, le=3600)
    streams: int = Field(1, ge=1, le=128)
    start_s: float = Field(0.3, ge=0)
    congestion_control: str = "cubic"
    offloads: tuple[Switch, ...] = ("on",)

    @model_validator(mode="after")
    def _something_is_left(self) -> "TcpLoad":
        if self.start_s > self.seconds / 2:
            raise ValueError("start_s may cut off at most half of the trial")
        return self

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"streams": self.streams, "seconds": self.seconds}

    @property
    def expected_s(self) -> float:
        return self.seconds + 0.2


class PingLoad(Strict):
    """ping; the first `start` replies, which wait for address resolution and cold caches, do not count."""

    name: Literal["ping"]
    count: int = Field(ge=2, le=1_000_000)
    interval_s: float = Field(0.01, ge=0.002, le=60)
    start: int = Field(2, ge=0)
    offloads: tuple[Switch, ...] = ("on",)

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


Load = Annotated[TcpLoad | PingLoad, Field(discriminator="name")]


class Form(Strict):
    """How much of it is measured: `quick` for minutes, `full` for an answer to print."""

    blocks: int = Field(ge=2)  # the first is the warm-up and counted here
    time_budget_s: float | None = Field(None, gt=0)  # no block is begun that would not end within it
    load: tuple[Load, ...] = Field(min_length=1)


class Guards(Strict):
    """When a trial is distrusted. A share is of all CPUs over the length of the trial."""

    steal_share: float = Field(0.02, ge=0, le=1)
    foreign_cpu_share: float = Field(0.1, ge=0, le=1)
    clock_jump_s: float = Field(0.05, gt=0)
    drop_ratio: float = Field(1e-4, ge=0)  # dropped outside the system under test, per packet on the server's link
    retransmit_ratio: float = Field(1e-3, ge=0)  # on paths without a system under test, per segment sent
    late_ratio: float = Field(1.5, gt=1)  # a load that took this much longer than asked for
    bypass_ratio: float = Field(0.05, ge=0, le=1)  # share of the bytes that may take the wrong way


class Claim(Strict):
    """A rule fixed before the run: a ratio against a threshold, decided by its 95 % interval."""

    claim: str
    system: str
    datapath: str
    loads: tuple[LoadName, ...] = Field(min_length=1)
    metric: Metric
    against: str | None = None  # `system/datapath`; without it the subject's baseline
    at_least: float | None = None
    at_most: float | None = None
    where: dict[str, str | int | float] = Field({})  # factor levels the claim is about; all levels when empty

    @model_validator(mode="after")
    def _one_threshold(self) -> "Claim":
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give exactly one of at_least and at_most")
        return self


class Study(Strict):
    """A whole study.toml."""

    format: Literal[1]
    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    title: str
    question: str
    topology: Topology = Topology()
    system: tuple[Subject, ...] = Field(min_length=1)
    form: dict[Literal["quick", "full"], Form]
    guards: Guards = Guards()
    claim: tuple[Claim, ...] = ()

    @model_validator(mode="after")
    def _holds_together(self) -> "Study":
        keys = [subject.key for subject in self.system]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise ValueError(f"the system {twice} is listed twice")
        for subject in self.system:
            if subject.baseline_key and subject.baseline_key not in keys:
                raise ValueError(f"{subject.key} is compared with {subject.baseline_key}, which is not in the study")
        known = {f"{subject.system}/{subject.datapath}" for subject in self.system}
        for claim in self.claim:
            for name in (f"{claim.system}/{claim.datapath}", claim.against):
                if name and name not in known:
                    raise ValueError(f"a claim speaks of {name}, which is not in the study")
        return self
