# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a study.toml may say. Every quantity carries its unit in its name; fixed before the run, claims included."""

from ipaddress import IPv6Network
from typing import Annotated, Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.document import MisplacedError, StrictModel
from diolkos_lab.experiment.frames import Traffic
from diolkos_lab.experiment.levels import TAKEN, FactorName, Levels, combinations
from diolkos_lab.experiment.loads import AnyLoad, CapacityLoad, LoadName, PpsLoad
from diolkos_lab.experiment.procedures import Procedure
from diolkos_lab.experiment.streams import UDP_AND_IPV6, UdpLoad
from diolkos_lab.experiment.varied import Varied
from diolkos_lab.metric import RowMetric

Family = Literal["ipv6", "ipv4"]
FormName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=40)]
USUAL_FORMS: tuple[FormName, ...] = ("quick", "full")  # the forms that a command without --form can run
ShapeName = Literal["benchmark", "nursery"]  # `topology.addresses` has the addresses of each
# Where the load's two ends run. Apart, or moved about by the scheduler, two CPUs send packets of one flow at the same time:
# they overtake each other on the veth pairs, TCP takes that for loss, and the native path itself halves from trial to trial.
Placement = Literal["load-on-one-cpu", "free"]
NATIVE = "native"  # the system without a translator
NAME_OF_STUDY = r"^[a-z][a-z0-9-]*$"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"  # is part of names of namespaces and files
WELL_KNOWN_PREFIX = IPv6Network("64:ff9b::/96")
ETHERNET = 18  # bytes of header and FCS
Load = Annotated[AnyLoad | Procedure, Field(discriminator="name")]
PACKETS: tuple[LoadName, ...] = ("tcp-upload", "tcp-download", "ping")
USUAL: tuple[LoadName, ...] = (*PACKETS, "udp", "udp-gso", "ping-under-load")


class Topology(StrictModel):
    """The ground of all lanes."""

    shape: ShapeName = Field(
        "benchmark", description="Addresses of the lanes. nursery: fd00::/64 at the server, fc00::/64 at the client, fe00::1."
    )
    pref64: IPv6Network = Field(WELL_KNOWN_PREFIX, description="Translation prefix, of length 96.")
    mtu: int = Field(1500, ge=1280, le=65535, description="MTU of every link, bytes.")
    placement: Placement = Field(
        "load-on-one-cpu", description="CPUs of the two ends of the load; free: the scheduler chooses."
    )
    link_rate: float | None = Field(None, gt=0, description="Rate of the links, bit/s; a veth pair has none.")
    empty_conntrack: bool = Field(
        False, description="Forget all connections that the kernel tracks, in every namespace of the lane, before each trial."
    )

    @model_validator(mode="after")
    def _prefix_has_length_96(self) -> "Topology":
        if self.pref64.prefixlen != 96:
            raise ValueError(f"pref64 must have length 96, not {self.pref64.prefixlen}")
        return self


class Subject(StrictModel):
    """One system under test on one path."""

    system: str = Field(pattern=NAME, max_length=80, description="Name of the system, as `diolkos-lab list` shows it.")
    datapath: str = Field(
        pattern=NAME, max_length=80, description="One of the system's datapaths, as `diolkos-lab list` shows them."
    )
    family: Family = Field(description="IP version that the application speaks.")
    hops: Literal[1, 2] = Field(1, description="Routers between client and server.")
    baseline_family: Family | None = Field(
        None,
        description="IP version of the only native path that this one is compared with, for what does not translate between "
        "families. Without it those of both families count that the study has: a rule has to hold against each.",
    )
    twin: bool = Field(False, description="Measure it twice in every block, for the noise floor.")
    loads: tuple[LoadName, ...] = Field(USUAL, min_length=1, description="Loads of the form that it gets.")
    factors: dict[FactorName, Levels] = Field(
        {}, description="Levels of the system's factors, one or a list; every combination is measured. Others have defaults."
    )
    forms: tuple[FormName, ...] = Field((), description="Forms of the study that measure it; without it all.")

    @model_validator(mode="after")
    def _factors_can_be_told_apart(self) -> "Subject":
        for name, levels in self.factors.items():
            if name in TAKEN:
                raise ValueError(f"a factor cannot be called {name}: results have a key of that name")
            if twice := next((level for level in levels if levels.count(level) > 1), None):
                raise ValueError(f"factors.{name}: {twice} is named twice")
        return self

    def __hash__(self) -> int:
        return hash((self.key, self.forms, *sorted(self.factors.items())))

    @property
    def key(self) -> str:
        """Names the subject in results: `diolkos/tc/ipv4/1`."""
        return f"{self.system}/{self.datapath}/{self.family}/{self.hops}"

    @property
    def candidates(self) -> tuple[str, ...]:
        """The native paths that it may be compared with, that of the application's family first. Native IPv4 is compared with
        IPv6."""
        other: Family = "ipv4" if self.family == "ipv6" else "ipv6"
        both: tuple[Family, ...] = ("ipv6",) if self.system == NATIVE else (self.family, other)
        found = (self._native(family) for family in ((self.baseline_family,) if self.baseline_family else both))
        return tuple(key for key in found if key != self.key)

    @property
    def reference_key(self) -> str:
        """The native path that gives the rate of loads that offer a share of what it carries: one for all of a study."""
        return self._native(self.baseline_family or "ipv6")

    def _native(self, family: Family) -> str:
        return f"{NATIVE}/kernel/{family}/{self.hops}"

    def gets(self, load: AnyLoad | Procedure) -> bool:
        if isinstance(load, PpsLoad | CapacityLoad | Procedure) and load.subjects:
            return load.name in self.loads and any(f"{self.key}/".startswith(f"{name}/") for name in load.subjects)
        return load.name in self.loads


class Form(StrictModel):
    """How much of it is measured: `quick` for minutes, `full` for an answer to print, others as their names say."""

    blocks: int = Field(ge=2, description="Blocks, the warm-up among them.")
    build_blocks: int = Field(
        1,
        ge=0,
        description="Blocks that one build of the lanes lasts; the first has the warm-up too. 0: the lanes are built once.",
    )
    claim_blocks: int = Field(
        0, ge=0, description="Further blocks, which hold what claims compare and nothing else: their intervals are narrower."
    )
    wide_blocks: int = Field(
        0,
        ge=0,
        description="Blocks after all others, at most, for claims whose interval was wider than their `width` when the lab "
        "looked: once, at the whole blocks.",
    )
    time_budget_s: float | None = Field(
        None, gt=0, description="Time for all blocks, seconds. No block begins that would not end within it."
    )
    vary: Varied = Field(Varied(), description="Settings of the host that every block has in all their values.")
    load: tuple[Load, ...] = Field(min_length=1, description="The loads that every block has.")

    @model_validator(mode="after")
    def _searches_know_no_settings(self) -> "Form":
        if self.vary.levels and (search := next((load for load in self.load if isinstance(load, Procedure)), None)):
            raise ValueError(f"vary goes with loads that are no search, and {search.name} is one")
        return self


# A share of the trials: so many untrusted ones make a host unfit, and a run doubtful.
TOO_MANY_UNTRUSTED = 0.2


class Guards(StrictModel):
    """When a trial is untrusted. A share is of all CPUs over the length of the trial."""

    steal_share: float = Field(0.02, ge=0, le=1, description="CPU time that the hypervisor may take, share.")
    foreign_cpu_share: float = Field(0.1, ge=0, le=1, description="CPU time that other programs may use, share.")
    clock_jump_s: float = Field(0.05, gt=0, description="By which the clock may be set, seconds.")
    drop_ratio: float = Field(
        1e-4, ge=0, description="Packets dropped outside the system under test, per packet on the server's link."
    )
    bypass_ratio: float = Field(0.05, ge=0, le=1, description="Share of the bytes that may take another path.")
    authority_ratio: float = Field(
        2.2,
        ge=0,
        description="Rate of the authority over that of a DNS64. RFC 8219 §9.2.1: two answers for a new name, and 10 % more.",
    )
    pace_ratio: float = Field(
        0.005, gt=0, description="By which the mean rate of the generator may miss the offered one, ratio."
    )
    behind_s: float = Field(0.002, gt=0, description="By which 99 % of the generator's bursts may begin late, seconds.")
    stall_ratio: float = Field(
        0.0025, ge=0, description="Packets lost because a CPU stood still, per packet sent; half of what a PDR@0.5 % allows."
    )


class Claim(StrictModel):
    """A rule fixed before the run: a ratio against a threshold, decided by its 95 % interval."""

    claim: str = Field(description="The rule in words.")
    system: str = Field(description="System that the rule is about.")
    datapath: str = Field(description="Datapath that the rule is about.")
    loads: tuple[LoadName, ...] = Field(min_length=1, description="Loads that the rule is about.")
    metric: RowMetric = Field(description="Figure that is compared.")
    against: str | None = Field(None, description="`system/datapath` to compare with; without it the subject's baseline.")
    at_least: float | None = Field(None, description="Least ratio that meets the rule. Give this or at_most.")
    at_most: float | None = Field(None, description="Greatest ratio that meets the rule. Give this or at_least.")
    width: float | None = Field(
        None, gt=1, description="The interval is narrow enough where its upper end is at most so many times its lower end."
    )
    where: dict[str, str | int | float] = Field({}, description="Factor levels that the rule is about; without them all.")
    against_where: dict[str, str | int | float] = Field(
        {}, description="Compare with the same system where these factors have these levels."
    )

    @model_validator(mode="after")
    def _one_threshold(self) -> "Claim":
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give exactly one of at_least and at_most")
        if self.against and self.against_where:
            raise ValueError("give against or against_where: one comparison has one side that differs")
        return self


class Study(StrictModel):
    """A whole study.toml."""

    format: Literal[1] = Field(description="Version of this format.")
    name: str = Field(pattern=NAME_OF_STUDY, max_length=80, description="Short name; part of the result folder's.")
    title: str = Field(description="Title of the report.")
    question: str = Field(description="What the study asks, one sentence.")
    topology: Topology = Field(Topology(), description="The ground of all lanes.")
    system: tuple[Subject, ...] = Field(min_length=1, description="Systems under test, each on one path.")
    form: dict[FormName, Form] = Field(description="How much is measured: `quick`, `full`, and others by name.")
    guards: Guards = Field(Guards(), description="When a trial is not trusted.")
    claim: tuple[Claim, ...] = Field((), description="Rules fixed before the run.")

    @model_validator(mode="after")
    def _holds_together(self) -> "Study":
        keys = [subject.key for subject in self.system]
        self._cells_are_named_once()
        for number, subject in enumerate(self.system):
            if subject.candidates and not self.baselines(subject):
                either = " or ".join(subject.candidates)
                raise MisplacedError(f"{subject.key} is compared with {either}, which is not in the study", "system", number)
        # dnsperf's answers are checked for the one kind of record that a DNS64 makes.
        if wrong := next((subject.key for subject in self.system if "dns" in subject.loads and subject.family != "ipv6"), None):
            raise ValueError(f"{wrong} cannot have the load dns, which asks for IPv6 addresses: its family is ipv4")
        # Its rate is a share of what the native path carries.
        gets = {subject.key for subject in self.system if "latency" in subject.loads}
        lone = next((s for s in self.system if s.key in gets and s.reference_key in keys and s.reference_key not in gets), None)
        if lone:
            raise ValueError(f"{lone.key} has the load latency, and {lone.reference_key} has to have it too: it gives the rate")
        every = [load for form in self.form.values() for load in form.load]
        for load in (load for load in every if isinstance(load, PpsLoad | CapacityLoad | Procedure)):
            for name in load.subjects:
                if not any(f"{key}/".startswith(f"{name}/") for key in keys):
                    raise ValueError(f"a load is for {name}, which is not in the study")
        known = {f"{subject.system}/{subject.datapath}" for subject in self.system}
        for claim in self.claim:
            named = [f"{claim.system}/{claim.datapath}", *([claim.against] if claim.against else [])]
            if unknown := next((name for name in named if name not in known), None):
                raise ValueError(f"a claim speaks of {unknown}, which is not in the study")
        self._claims_have_baselines()
        return self

    def baselines(self, subject: Subject, load: LoadName | None = None) -> tuple[str, ...]:
        """The native paths that it is compared with, or that this load through it is: that of its application's family first,
        if the study has it."""
        there = {each.key for each in self.system if load is None or load in each.loads}
        return tuple(key for key in subject.candidates if key in there)

    def baseline_pair(self, key: str, load: LoadName) -> tuple[str | None, str | None]:
        """Of a subject's key, the first of them and the other one."""
        subject = next((each for each in self.system if each.key == key), None)
        found = (self.baselines(subject, load) or self.baselines(subject)) if subject else ()
        first, other, *_ = (*found, None, None)
        return first, other

    def _claims_have_baselines(self) -> None:
        """A rule that leaves a family out because nobody measures it would be easier than it reads."""
        for number, claim in enumerate(self.claim):
            if claim.against or claim.against_where:
                continue
            of_it = [each for each in self.system if (each.system, each.datapath) == (claim.system, claim.datapath)]
            for subject, load in ((subject, load) for subject in of_it for load in claim.loads if load in subject.loads):
                # Names have addresses of IPv6 alone.
                wanted = dict.fromkeys([*subject.candidates[:1], *self.baselines(subject)] if load != "dns" else ())
                if lacking := next((key for key in wanted if key not in self.baselines(subject, load)), None):
                    what = f"the rule compares {load} of {subject.key} with {lacking}, which has no such load in the study"
                    raise MisplacedError(
                        f"{what}; a system's baseline_family names the only one to compare with", "claim", number
                    )

    def _cells_are_named_once(self) -> None:
        """A system may be listed again for other levels of its factors, or for another form."""
        seen: set[object] = set()
        first: dict[str, Subject] = {}
        for subject in self.system:
            other = first.setdefault(subject.key, subject)
            if other.factors.keys() != subject.factors.keys():
                raise ValueError(f"the system {subject.key} is listed twice, with other factors: name the same in both")
            if other.candidates != subject.candidates:
                raise ValueError(f"the system {subject.key} is listed twice, with other baselines")
            if unknown := next((name for name in subject.forms if name not in self.form), None):
                raise ValueError(f"the system {subject.key} names the form {unknown}, which the study does not have")
            forms = subject.forms or tuple(self.form)
            for cell in ((form, chosen) for form in forms for chosen in combinations(subject.factors)):
                if (subject.key, cell) in seen:
                    where = f" with {', '.join(f'{name} {level}' for name, level in cell[1])}" if cell[1] else ""
                    raise ValueError(f"the system {subject.key} is listed twice{where}")
                seen.add((subject.key, cell))

    def of_form(self, name: FormName) -> "Study":
        """With the systems that this form measures, and the rules about them and about loads that it has."""
        limited = self.with_systems(tuple(subject for subject in self.system if not subject.forms or name in subject.forms))
        loads = {load.name for load in self.form[name].load}
        return limited.model_copy(update={"claim": tuple(claim for claim in limited.claim if loads.intersection(claim.loads))})

    def with_systems(self, systems: tuple[Subject, ...]) -> "Study":
        """With these, and the rules about them."""
        left = {f"{subject.system}/{subject.datapath}" for subject in systems}
        claims = [claim for claim in self.claim if {f"{claim.system}/{claim.datapath}", claim.against} <= {*left, None}]
        return self.model_copy(update={"system": systems, "claim": tuple(claims)})

    @model_validator(mode="after")
    def _datagrams_fit(self) -> "Study":
        """Also once a translator has made IPv6 of them."""
        most = self.topology.mtu - UDP_AND_IPV6
        for load in (load for form in self.form.values() for load in form.load if isinstance(load, UdpLoad)):
            if load.datagram_bytes > most:
                raise ValueError(
                    f"datagram_bytes: {load.datagram_bytes} does not fit the MTU of {self.topology.mtu} as IPv6; "
                    f"write {most} or less"
                )
        return self

    @model_validator(mode="after")
    def _destinations_may_be_translated(self) -> "Study":
        every = (load for form in self.form.values() for load in form.load if isinstance(load, Traffic))
        if self.topology.pref64 == WELL_KNOWN_PREFIX and any(load.next_hops > 1 for load in every):
            text = f"{WELL_KNOWN_PREFIX} must not carry the addresses behind next_hops (RFC 6052 §3.1); write 2001:2:0:64::/96"
            raise MisplacedError(text, "topology", "pref64")
        return self

    @model_validator(mode="after")
    def _procedures_can_be_carried_out(self) -> "Study":
        """Frames fit, and results say which load they are of."""
        for form in self.form.values():
            procedures = [load for load in form.load if isinstance(load, Procedure)]
            for size in (size for load in procedures for size in load.sizes):
                if size > self.topology.mtu + ETHERNET:
                    raise ValueError(f"a frame of {size} bytes does not fit the MTU of {self.topology.mtu}")
            for subject in self.system:
                parts = [part for load in procedures if subject.gets(load) for part in load.parts]
                named = [(part.name, *part.plan.items(), level) for part in parts for level in part.offloads]
                if len(set(named)) < len(named):
                    same = "with one size, length, placement and number of flows"
                    raise ValueError(f"{subject.key} gets the same procedure twice, {same}")
        return self
