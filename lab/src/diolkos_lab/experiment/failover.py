# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the study.toml of a study of faults may say (kind "failover"): gateways, what is done to them, rules for every trial.

Every quantity carries its unit in its name; the rules are fixed before the run.
"""

from typing import Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.definition import NAME_OF_STUDY, FormName
from diolkos_lab.experiment.document import StrictModel

Kind = Literal["cluster", "independent", "stateless"]
FaultName = Literal[
    "kill-gateway",
    "kill-program",
    "freeze-gateway",
    "cut-lan",
    "cut-gateway-link",
    "cut-gateway",
    "drain-gateway",
    "upgrade-gateways",
    "kill-engine-member",
    "freeze-engine",
    "lose-engine",
]
# What only a cluster has: an engine, and a link between its gateways.
OF_CLUSTER: tuple[FaultName, ...] = ("kill-engine-member", "freeze-engine", "lose-engine", "cut-gateway-link")
Quantity = Literal["kept_share", "gap_s", "call_gap_s", "wrong", "duplicates", "downloads_share", "new_flows_s", "step_s"]
MOST_SOURCES = 2000  # of a client; see `gateways.SOURCES`
KEPT_AFTER_S = 1.0  # after the fault is over; who hears nothing that was sent later than this has not gone on
KEPT_ROUNDS = 2  # that each flow sends then: by one datagram, a single loss would be a lost flow
KIND = "failover"


class Bfd(StrictModel):
    """When a router takes its neighbour for dead."""

    interval_ms: int = Field(50, ge=10, le=60_000, description="Between two packets of BFD, milliseconds.")
    multiplier: int = Field(3, ge=2, le=255, description="So many intervals of silence mean death.")


class Flows(StrictModel):
    """One set of UDP flows, which send in both directions at a steady pace."""

    flows: int = Field(ge=1, le=4_000_000, description="Flows, from all sources in turn.")
    sources: int = Field(ge=1, le=MOST_SOURCES, description="Addresses of the client, each in a /64 of its own.")
    interval_s: float = Field(gt=0, le=300, description="Between two datagrams of a flow in one direction, seconds.")
    smallest: int = Field(32, ge=20, le=1400, description="Least bytes of a datagram's payload.")
    largest: int = Field(32, ge=20, le=1400, description="Most bytes of a datagram's payload.")

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "Flows":
        if self.smallest > self.largest:
            raise ValueError(f"smallest: {self.smallest} is larger than largest: {self.largest}")
        if -(-self.flows // self.sources) > 1000:
            raise ValueError(f"{self.flows} flows of {self.sources} sources need more than 1000 ports each: name more sources")
        return self


class Traffic(StrictModel):
    """What runs over the fault."""

    many: Flows = Field(description="So many that losses of 0.1 % show: which flows go on?")
    fine: Flows = Field(description="Often enough to time the gap.")
    calls: Flows = Field(description="As calls over a VPN send: steady, small and large datagrams.")
    downloads: int = Field(12, ge=0, le=200, description="Files that curl loads by TCP, each from another source.")
    download_rate: int = Field(200_000, ge=1000, description="Of each, bytes a second.")
    streams: int = Field(3, ge=0, le=20, description="Streams of iperf3, each from another source.")
    stream_rate: int = Field(5_000_000, ge=1000, description="Of each, bit/s.")
    connection_interval_s: float = Field(0.02, gt=0, description="Between two new TCP connections, seconds.")
    before_s: float = Field(12, ge=1, description="From the first packet to the fault, seconds.")


class FaultPlan(StrictModel):
    """One fault, and how long it is watched."""

    name: FaultName = Field(description="What is done.")
    after_s: float = Field(24, ge=2, le=600, description="That traffic goes on after it, seconds.")
    lasts_s: float = Field(10, gt=0, le=300, description="Of what ends by itself (freeze): how long, seconds.")

    @model_validator(mode="after")
    def _is_seen_to_end(self) -> "FaultPlan":
        if self.name.startswith("freeze") and self.lasts_s >= self.after_s:
            raise ValueError(f"{self.name} lasts {self.lasts_s:g} s, and is watched for {self.after_s:g} s only")
        return self

    @property
    def counted_s(self) -> float:
        """Seconds in which it is asked whether flows go on, at most; steps that take long leave less."""
        return self.after_s - KEPT_AFTER_S - (self.lasts_s if self.name.startswith("freeze") else 0.0)


class FailoverForm(StrictModel):
    """How much of it is measured."""

    repetitions: int = Field(ge=1, le=1000, description="Trials of each kind of gateway with each fault.")
    gateways: tuple[Kind, ...] = Field(min_length=1, description="Kinds of gateway.")
    faults: tuple[FaultName, ...] = Field((), description="Faults; without it all of the study.")
    flows: int | None = Field(None, ge=1, description="As many flows of `many`, instead of the study's.")


class Rule(StrictModel):
    """A limit that every trial of a kind of gateway with one of the faults has to keep."""

    rule: str = Field(description="The rule in words.")
    gateways: Kind = Field("cluster", description="Kind of gateway that it is about.")
    faults: tuple[FaultName, ...] = Field((), description="Faults that it is about; without it all.")
    quantity: Quantity = Field(description="What is limited.")
    at_least: float | None = Field(None, description="Least value. Give this or at_most.")
    at_most: float | None = Field(None, description="Greatest value. Give this or at_least.")
    broken_at_most: float = Field(
        0.4,
        gt=0,
        lt=1,
        description="To be met, at most this share of all such trials of a fault may break it (95 % confidence).",
    )

    @model_validator(mode="after")
    def _one_limit(self) -> "Rule":
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give exactly one of at_least and at_most")
        return self


class FailoverStudy(StrictModel):
    """A whole failover.toml."""

    format: Literal[1] = Field(description="Version of this format.")
    kind: Literal["failover"] = Field(description="Tells it from a study of lanes.")
    name: str = Field(pattern=NAME_OF_STUDY, max_length=80, description="Short name; part of the result folder's.")
    title: str = Field(description="Title of the report.")
    question: str = Field(description="What the study asks, one sentence.")
    bfd: Bfd = Field(Bfd(), description="Of all routers.")
    traffic: Traffic = Field(description="What runs over the fault.")
    fault: tuple[FaultPlan, ...] = Field(min_length=1, description="The faults, one in each trial.")
    form: dict[FormName, FailoverForm] = Field(description="How much is measured: `quick`, `full`, and others by name.")
    rule: tuple[Rule, ...] = Field((), description="Rules fixed before the run.")

    @model_validator(mode="after")
    def _names_are_known(self) -> "FailoverStudy":
        names = [each.name for each in self.fault]
        if len(set(names)) < len(names):
            raise ValueError("a fault is listed twice")
        wanted = [each.faults for each in self.form.values()] + [each.faults for each in self.rule]
        for faults in wanted:
            if unknown := next((name for name in faults if name not in names), None):
                raise ValueError(f"the fault {unknown} is named, and is not in the study")
        return self

    @model_validator(mode="after")
    def _flows_send_often_enough(self) -> "FailoverStudy":
        needed_s = KEPT_ROUNDS * self.traffic.many.interval_s
        if short := next((each for each in self.fault if each.counted_s < needed_s), None):
            raise ValueError(
                f"{short.name}: {short.counted_s:g} s of after_s count, and flows that send every "
                f"{self.traffic.many.interval_s:g} s need {needed_s:g} s to send {KEPT_ROUNDS} times"
            )
        return self

    def faults_of(self, form: FailoverForm, kind: Kind) -> list[FaultPlan]:
        """What is done to gateways of a kind: those that share nothing cannot lose what they would share it by."""
        wanted = [each for each in self.fault if not form.faults or each.name in form.faults]
        return [each for each in wanted if kind == "cluster" or each.name not in OF_CLUSTER]

    def trials_of(self, form: FailoverForm) -> int:
        """How many trials a run of the form has."""
        return form.repetitions * sum(len(self.faults_of(form, kind)) for kind in form.gateways)

    def traffic_of(self, form: FailoverForm) -> Traffic:
        """As it runs: a form may have other flows than the study."""
        if form.flows is None:
            return self.traffic
        return self.traffic.model_copy(update={"many": self.traffic.many.model_copy(update={"flows": form.flows})})

    def expected_s(self, form: FailoverForm) -> float:
        """What traffic takes, and 40 s for building and evaluating each trial."""
        watched = [each.after_s for kind in form.gateways for each in self.faults_of(form, kind)]
        return form.repetitions * sum(after_s + self.traffic.before_s + 40 for after_s in watched)
