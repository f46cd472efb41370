# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`run`: a study from its definition to its result folder.

Stages: systems → fit to start? → folder → set up → trials → summary → report.
"""

import contextlib
import os
import random
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from diolkos_lab import asked, studies, summary
from diolkos_lab.asked import Length
from diolkos_lab.experiment.definition import Form, FormName, Study
from diolkos_lab.experiment.failover import FailoverStudy
from diolkos_lab.failover import command as failover
from diolkos_lab.faults import Interrupted, MissingFault, UsageFault
from diolkos_lab.load import registry, tools
from diolkos_lab.run import box, disturbance, router
from diolkos_lab.run.box import WantedBox
from diolkos_lab.run.completed import CompletedTrials
from diolkos_lab.run.conditions import Conditions, Skipped
from diolkos_lab.run.router import Links, Wanted
from diolkos_lab.run.session import Session
from diolkos_lab.run.testbed import Testbed
from diolkos_lab.run.trial import Trial
from diolkos_lab.samples import folder, host, host_remote
from diolkos_lab.sut import definition, lookup, offer
from diolkos_lab.topology import control_group, leftovers
from diolkos_lab.topology.box_links import BoxLinks
from diolkos_lab.topology.machine import THIS_MACHINE, Machine
from diolkos_lab.wide_rules import with_wide_rules

QUICK: FormName = "quick"
CONGESTION_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True)
class RunRequest:
    """What the command line asks for."""

    study: str
    quick: bool
    only: Sequence[str] = ()
    out: Path | None = None
    seed: int | None = None
    paths: Mapping[str, str] = field(default_factory=dict)  # system to the path of its program
    form: FormName | None = None  # by name; without it `quick` says which
    resume: Path | None = None  # an interrupted run to go on with; what else is asked for has to be the same
    router: Wanted | WantedBox | None = None  # what is between the ends: another machine, or a black box
    facts: Mapping[str, Any] = field(default_factory=dict)  # more of them, for host.json
    reasons: Mapping[str, str] = field(default_factory=dict)  # system to why it cannot run, where that is known before
    length: Length = field(default_factory=Length)

    @property
    def form_name(self) -> FormName:
        return self.form or ("quick" if self.quick else "full")


class Observer(Protocol):
    """Receives the progress of a run, such as the terminal."""

    def planned(self, study: Study, session: Session, missing: Sequence[lookup.Missing], out: Path) -> None: ...
    def disturbed(self, by: disturbance.Disturbance) -> None: ...
    def testbed_ready(self, testbed: Testbed) -> None: ...
    def skipped(self, skipped: Sequence[Skipped]) -> None: ...
    def trial_done(self, trial: Trial, session: Session) -> None: ...
    def said(self, sentence: str) -> None: ...


def run(request: RunRequest, observer: Observer) -> tuple[folder.AnyResult, dict[str, Any]]:
    """Measure a study. Returns the result as read back and its summary. Leaves nothing on the host, however it ends."""
    result = folder.read(measure(request, observer))
    return result, summary.write(result)


def measure(request: RunRequest, observer: Observer) -> Path:
    """The same without its evaluation. Returns the result folder."""
    others = request.only or request.router or request.length or request.paths.keys() - {"diolkos"}
    if not others and (faults := studies.of_faults_named(request.study)):
        program = request.paths.get("diolkos")
        return failover.measure(faults, request.form_name, request.out, request.seed, program, observer.said)
    if request.router:
        require_root()
        with contextlib.closing(request.router.connect()) as nic_links:
            return _measure(request, observer, nic_links)
    return _measure(request, observer, None)


def _measure(request: RunRequest, observer: Observer, nic_links: Links | None) -> Path:
    study = asked_study(request)
    found, missing = choose(study, request, nic_links)
    study = offer.with_factor_levels(study, definition.load_all())
    study = asked.fitting(study, request.form_name, found, request.length.hours)
    form = study.form[request.form_name]
    left_out: list[dict[str, str]] = []
    if isinstance(nic_links, BoxLinks):
        study, form, left_out = box.without_obstacles(study, form)
    elif nic_links:
        study, form, left_out = router.without_obstacles(study, form, found)
    machine = (nic_links and nic_links.remote) or THIS_MACHINE
    require_fit(study, form)
    resolvers = find_resolvers(study, form, found, request.paths, nic_links)
    leftovers.clean()
    study, levels = offer.available_levels(study, found, machine)
    missing += levels
    out = request.out or Path("results") / f"{study.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    seed = request.seed if request.seed is not None else random.SystemRandom().randrange(2**32)
    header = {
        "quick": request.form_name == QUICK,
        "form": request.form_name,
        "seed": seed,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "missing": _missing_rows(study, missing),
    }
    writer = folder.Writer(out, study, resolved(found | resolvers, machine), header)
    facts = host.facts() | _facts_of_run(found | resolvers, seed, request) | dict(request.facts)
    if isinstance(nic_links, BoxLinks):
        facts |= {"box": nic_links.pair.model_dump(), "left_out": left_out}
    elif nic_links:
        facts |= {"router": host_remote.facts(nic_links.remote), "nics": nic_links.nics.model_dump(), "left_out": left_out}
    return run_planned(Planned(study, form, found, missing, seed, resolvers, nic_links=nic_links), writer, facts, observer)


@dataclass(frozen=True)
class Planned:
    """All that is known before the first lane is built."""

    study: Study
    form: Form
    found: Mapping[str, lookup.Found]
    missing: Sequence[lookup.Missing]
    seed: int
    resolvers: Mapping[str, lookup.Found]
    completed: CompletedTrials = field(default_factory=CompletedTrials)
    nic_links: Links | None = None  # to the router's machine

    def session(self, conditions: Conditions) -> Session:
        named = self.study, self.form, self.found, self.seed, self.resolvers
        return Session(*named, conditions, self.completed, self.nic_links, with_wide_rules)


def run_planned(planned: Planned, writer: folder.Writer, facts: dict[str, Any], observer: Observer) -> Path:
    """From the lanes to the last trial. Returns the result folder. Leaves nothing on the host, however it ends."""
    begun, out = time.monotonic(), writer.folder
    part = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "next_block": planned.completed.next_block}
    facts |= {"parts": [*facts.get("parts", []), part], "complete": False}
    writer.host(facts)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(writer))
        conditions = stack.enter_context(Conditions(planned.form.vary))
        session = stack.enter_context(planned.session(conditions))
        try:
            observer.planned(planned.study, session, planned.missing, out)
            busy = disturbance.measure(limits=planned.study.guards)
            facts |= {
                "before": {"foreign": busy.foreign, "steal": busy.steal, "busiest": busy.whose, "untrusted": busy.untrusted}
            }
            if busy.matters:
                observer.disturbed(busy)
            for testbed in session.set_up():
                observer.testbed_ready(testbed)
            facts |= _facts_of_lanes(session) | {"generator": session.generators(), "seats": session.cpu_roles}
            skipped = [*conditions.skipped, *session.left_out, *session.limit(facts["generator"])]
            facts |= {"skipped": [each.as_json for each in skipped], "varied": conditions.varied}
            writer.host(facts)
            observer.skipped(skipped)
            if session.empty:
                raise MissingFault(
                    f"this form of {planned.study.name} offers more than the generator can: {skipped[-1].reason}; "
                    "choose a form with lower rates"
                )
            for trial in session.trials():
                writer.add(trial)
                observer.trial_done(trial, session)
            facts |= {
                "counters": session.testbeds.counters,
                "complete": True,
            }
        except Interrupted as interrupted:
            resume_hint = "" if planned.nic_links else f", `diolkos-lab run --resume {out}` resumes the run"
            interrupted.add_note(
                f"Stopped in block {session.block}; {writer.trials} trials are kept in {out} "
                f"(`diolkos-lab report {out}` evaluates them{resume_hint})."
            )
            raise
        finally:
            writer.host(facts | {"duration_s": round(planned.completed.seconds + time.monotonic() - begun, 1)})
    return out


def asked_study(request: RunRequest) -> Study:
    """The study as the command line asks for it. Raises UsageFault, also for a name that nobody knows."""
    study, known = studies.load(request.study), definition.catalogue()
    chosen_form(study, request)
    for name in request.paths:
        if known.require(name) is None:
            raise UsageFault(f"--path {name}=…: no system is called {name}; there are {', '.join(known.systems)}")
    chosen = asked.study(study, request.form_name, request.only, known, request.length)
    if lone := asked.undefined(chosen, known):
        where = studies.place(request.study, study.system.index(lone))
        raise UsageFault(f"{where}: no definition of the system {lone.system} with datapath {lone.datapath}")
    return chosen


def chosen_form(study: Study, request: RunRequest) -> Form:
    name = request.form_name
    if name not in study.form:
        others = " or ".join("--quick" if each == QUICK else f"--form {each}" for each in study.form)
        raise UsageFault(f"the study {study.name} has no {name} form: run it with {others}")
    return study.form[name]


def choose(
    study: Study, request: RunRequest, nic_links: Links | None = None
) -> tuple[dict[str, lookup.Found], list[lookup.Missing]]:
    """The study's systems that can run here, and those that cannot. One that --only names has to be there."""
    systems = definition.load_all()
    found: dict[str, lookup.Found] = {}
    missing: list[lookup.Missing] = []
    for name in dict.fromkeys(subject.system for subject in study.system):
        datapaths = [subject.datapath for subject in study.system if subject.system == name]
        looked = router.find(systems[name], request.paths, nic_links, datapaths)
        if isinstance(looked, lookup.Missing) and name in request.reasons:
            looked = lookup.Missing(looked.system, request.reasons[name], looked.how)
        if isinstance(looked, lookup.Found):
            found[name] = looked
        elif asked.names_system(request.only, name):
            raise MissingFault(f"{looked.system.title} cannot run here: {looked.reason}; {looked.how}")
        else:
            missing.append(looked)
    return found, missing


def find_resolvers(
    study: Study,
    form: Form,
    found: Mapping[str, lookup.Found],
    paths: Mapping[str, str],
    nic_links: Links | None = None,
) -> dict[str, lookup.Found]:
    """The systems that serve names on the paths of those found, where a load asks for some. Raises MissingFault."""
    systems = definition.load_all()
    asking = [
        subject for subject in study.system if any(subject.gets(load) and registry.asks_names(load) for load in form.load)
    ]
    resolvers = {}
    for subject in asking:
        if subject.system in found:
            datapath = found[subject.system].system.datapath[subject.datapath]
            name, _, path = datapath.resolver.partition("/")
            if datapath.serves == "packets" and name not in found:
                looked = router.find(systems[name], paths, nic_links, [path])
                if isinstance(looked, lookup.Missing):
                    raise MissingFault(f"{subject.key} needs a resolver: {looked.reason}; {looked.how}")
                resolvers[name] = looked
    return resolvers


def require_fit(study: Study, form: Form) -> None:
    """Raises MissingFault for the first privilege or tool that the study needs and this host lacks."""
    require_root()
    loads = [load for load in form.load if any(subject.gets(load) for subject in study.system)]
    for name, how in missing_tools(registry.required(loads)).items():
        raise MissingFault(f"the tool {name} is not on this host: {how}")
    available = CONGESTION_CONTROLS.read_text().split()
    for load in loads:
        if obstacle := registry.LOADS[load.name].obstacle(load, available):
            raise MissingFault(obstacle)


def missing_tools(required: Mapping[str, str] = tools.REQUIRED) -> dict[str, str]:
    """Those of the required tools that this host lacks, with how to get them."""
    return {name: how for name, how in required.items() if lookup.tool(name) is None}


def missing_by_study(shipped: Sequence[Study | FailoverStudy]) -> dict[str, tuple[str, list[str]]]:
    """Tools that a study needs and this host lacks: name to how to get it and the studies."""
    found: dict[str, tuple[str, list[str]]] = {}
    for study in shipped:
        if isinstance(study, FailoverStudy):
            lacked = failover.lacks()
        else:
            lacked = missing_tools(registry.required([load for form in study.form.values() for load in form.load]))
        for name, how in lacked.items():
            found.setdefault(name, (how, []))[1].append(study.name)
    return found


def require_root() -> None:
    if os.geteuid() != 0:
        raise MissingFault("the lab makes network namespaces, which needs root: run it again with sudo")


def resolved(found: Mapping[str, lookup.Found], at: Machine = THIS_MACHINE) -> dict[str, Any]:
    """What a run used of its systems. The digest tells two builds apart that call themselves the same version."""
    return {
        name: {
            "binary": str(system.binary) if system.binary else None,
            "version": system.version,
            "sha256": (at if system.on_router else THIS_MACHINE).digest(system.binary) if system.binary else None,
            "definition": system.system.model_dump(mode="json", exclude_defaults=True),
        }
        for name, system in found.items()
    }


def _missing_rows(study: Study, missing: Sequence[lookup.Missing]) -> list[dict[str, str]]:
    return [
        {"system": entry.system.system, "datapath": datapath, "reason": entry.reason, "how": entry.how, **_level(entry)}
        for entry in missing
        for datapath in ([entry.datapath] if entry.datapath else _datapaths(study, entry.system.system))
    ]


def _datapaths(study: Study, system: str) -> list[str]:
    return list(dict.fromkeys(subject.datapath for subject in study.system if subject.system == system))


def _level(entry: lookup.Missing) -> dict[str, str]:
    return {"factor": entry.factor, "level": entry.level} if entry.factor and entry.level else {}


def _facts_of_run(found: Mapping[str, lookup.Found], seed: int, request: RunRequest) -> dict[str, Any]:
    return {
        "run": str(uuid.uuid4()),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "command_line": sys.argv,
        "quick": request.form_name == QUICK,
        "form": request.form_name,
        "systems": {name: {"binary": str(system.binary or ""), "version": system.version} for name, system in found.items()},
    }


def _facts_of_lanes(session: Session) -> dict[str, Any]:
    """Offloads and MTU of the links, as the kernel tells of one lane per offload level; not of a system that cannot take what
    the others have."""
    shown: dict[str, Any] = {}
    for cell, testbed in session.testbeds_by_lane.items():
        shape = testbed.lane.shape
        if cell.offloads not in shown and shape.checksums and shape.offloads == (cell.offloads == "on"):
            role, device = next(testbed.lane.devices())
            shown[cell.offloads] = testbed.lane.features(role, device)
    mtu = next(iter(session.testbeds_by_lane.values())).lane.shape.mtu if session.testbeds_by_lane else None
    words = {
        "free": "the scheduler places both ends of the load and the systems under test",
        "load-on-one-cpu": "both ends of the load share the last CPU of the list; systems under test may use all",
    }
    how = "control groups" if control_group.writable() else "process tree"
    return {"veth": {"mtu": mtu, "offloads": shown}, "placement": words[session.placement], "cpu_account": how}
