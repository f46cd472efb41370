# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`--router`: what of a study can be measured over two machines, and the way to the other one.

Stages: file of NICs → connection → systems over there → the study without what two machines cannot have.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Form, Study, Subject
from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.experiment.nics import Nics
from diolkos_lab.experiment.varied import Varied
from diolkos_lab.faults import MissingFault, UsageFault
from diolkos_lab.sut import lookup, lookup_remote
from diolkos_lab.sut.definition import System
from diolkos_lab.sut.factors import PLACE
from diolkos_lab.sut.lookup import Found, Missing, tool
from diolkos_lab.topology.box_links import BoxLinks
from diolkos_lab.topology.leftovers import Removed
from diolkos_lab.topology.nic_links import NicLinks
from diolkos_lab.topology.remote.machine import RemoteMachine

# Their generator sends frames of XDP from both ends, which macvlan devices do not take.
BOTH_WAYS: tuple[LoadName, ...] = ("latency", "new-flows", "connections", "capacity")
NO_XDP = "its generator sends frames of XDP from both ends, and macvlan devices, by which lanes share the NICs, take none"
Links = NicLinks | BoxLinks
ENDS = {"client", "server"}  # which are on this machine


@dataclass(frozen=True)
class Wanted:
    """What the command line says of the other machine."""

    host: str
    nics: Path

    def connect(self) -> NicLinks:
        """Raises UsageFault or MissingFault with one sentence where that machine cannot play the router."""
        nics = document.read(self.nics, Nics)
        if tool("ip") is None:
            raise MissingFault("the tool ip is not on this host: apt-get install iproute2")
        return NicLinks(nics, lambda: _reach(self.host))


def clean(host: str) -> Removed:
    """Remove what labs that were killed have left on that machine."""
    with contextlib.closing(_reach(host)) as there:
        found = there.clean()
        return Removed(found["namespaces"], [Path(folder) for folder in found["folders"]], [], [], found["processes"], [])


def _reach(host: str) -> RemoteMachine:
    ssh = tool("ssh")
    if ssh is None:
        raise MissingFault("the tool ssh is not on this host: apt-get install openssh-client")
    return RemoteMachine(host, ssh)


def wanted(host: str | None, nics: Path | None) -> Wanted | None:
    if host is None and nics is None:
        return None
    if host is None or nics is None:
        lacking = "--router USER@HOST" if host is None else "--nics FILE, a file that names the NICs of both machines"
        raise UsageFault(f"{'--nics' if host is None else '--router'} needs {lacking}")
    return Wanted(host, nics)


def find(system: System, given: Mapping[str, str], nic_links: Links | None, datapaths: Sequence[str]) -> Found | Missing:
    """Look where it runs: here without NICs; else here, over there, or on both machines. `datapaths` are those of the study;
    where none can be measured, the system is missing."""
    if nic_links is None:
        return lookup.find(system, given)
    if isinstance(nic_links, BoxLinks):
        if system.box or all(datapath.is_native for datapath in system.datapath.values()):
            return Found(system, None, None)
        return Missing(system, "a black box stands between client and server", "measure it without --box")
    obstacles = [lookup_remote.obstacle(system, name) for name in datapaths]
    if obstacles and all(obstacles):
        return Missing(system, str(obstacles[0]), "measure it on one machine, without --router")
    places = {place for name in datapaths for place in _places(system, name)}
    here = lookup.find(system, given) if places & ENDS else None
    if here is not None and (isinstance(here, Missing) or not places - ENDS):
        return here
    there = lookup_remote.find(system, given, nic_links.remote)
    return replace(there, here=here) if isinstance(there, Found) and isinstance(here, Found) else there


def _places(system: System, name: str) -> set[str]:
    """Where the parts of a datapath run, at any level of its factors."""
    levels = system.datapath[name].factor[PLACE].levels if PLACE in system.datapath[name].factor else (None,)
    paths = [system.path(name, {PLACE: level} if level else None) for level in levels]
    return {part.place for path in paths for part in path if not part.is_native}


def without_obstacles(study: Study, form: Form, systems: Mapping[str, Found]) -> tuple[Study, Form, list[dict[str, str]]]:
    """The study with what two machines can have, and what was left out with its reason."""
    left_out: list[dict[str, str]] = []
    subjects: list[Subject] = []
    for subject in study.system:
        if subject.system not in systems:
            subjects.append(subject)
            continue
        between, reasons = _between(subject, systems[subject.system].system)
        subjects += [between] if between else []
        left_out += [each for what, reason in reasons if (each := {"what": what, "reason": reason}) not in left_out]
    varied = form.vary.levels
    left_out += [{"what": name, "reason": "settings of the router's machine are not varied"} for name in varied]
    loads = []
    for load in form.load:
        if load.name in BOTH_WAYS:
            left_out.append({"what": load.name, "reason": NO_XDP})
            continue
        if "off" in load.offloads:
            left_out.append({"what": f"{load.name}, offloads off", "reason": "the NICs merge packets for all lanes alike"})
        if "on" in load.offloads:
            loads.append(load.model_copy(update={"offloads": ("on",)}))
    if not loads:
        raise UsageFault(
            f"--router: every load of the study {study.name} has offloads off, which the NICs do for all lanes alike"
        )
    keys = {subject.key for subject in subjects}
    kept = {None, *(f"{subject.system}/{subject.datapath}" for subject in subjects)}
    made = {load.name for load in loads}
    claims = [
        claim
        for claim in study.claim
        if {f"{claim.system}/{claim.datapath}", claim.against} <= kept
        and made.issuperset(claim.loads)
        and "off" not in (claim.where.get("offloads"), claim.against_where.get("offloads"))
        and varied.keys().isdisjoint({*claim.where, *claim.against_where})
    ]
    subjects = [subject for subject in subjects if not subject.candidates or keys.intersection(subject.candidates)]
    limited = study.model_copy(update={"system": tuple(subjects), "claim": tuple(claims)})
    return limited, form.model_copy(update={"load": tuple(loads), "vary": Varied()}), left_out


def _between(subject: Subject, system: System) -> tuple[Subject | None, list[tuple[str, str]]]:
    """What of the subject runs between the ends, and what does not, with its reason."""
    if PLACE not in subject.factors:
        reason = lookup_remote.obstacle(system, subject.datapath)
        return (None, [(subject.key, reason)]) if reason else (subject, [])
    said = {level: lookup_remote.obstacle(system, subject.datapath, {PLACE: level}) for level in subject.factors[PLACE]}
    reasons = [(f"{subject.key}, {PLACE} {level}", reason) for level, reason in said.items() if reason]
    left = tuple(level for level, reason in said.items() if not reason)
    return (subject.model_copy(update={"factors": {**subject.factors, PLACE: left}}) if left else None), reasons
