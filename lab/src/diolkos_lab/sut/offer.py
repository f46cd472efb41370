# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a host offers of the factors that a study names: levels filled in, checked, tried, and left out where they are missing.

Stages: settle (names, levels and defaults, by the systems' files) → try each level once → a study without the missing ones.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from diolkos_lab.experiment.definition import Study, Subject
from diolkos_lab.experiment.levels import Level
from diolkos_lab.faults import UsageFault
from diolkos_lab.sut.definition import Datapath, System
from diolkos_lab.sut.factors import Command, Part
from diolkos_lab.sut.lookup import Found, Missing, tool
from diolkos_lab.topology import namespace
from diolkos_lab.topology.machine import THIS_MACHINE, Machine

LANE = "offer"  # of the namespace in which levels are tried
PATIENCE_S = 5.0


def with_factor_levels(study: Study, systems: Mapping[str, System]) -> Study:
    """The study with a level for each factor. Raises UsageFault for a factor or a level that the system does not have."""
    return study.model_copy(update={"system": tuple(_settled(study, subject, systems) for subject in study.system)})


def available_levels(study: Study, found: Mapping[str, Found], at: Machine = THIS_MACHINE) -> tuple[Study, list[Missing]]:
    """The study without the levels that the machine of the systems cannot offer, and these with their reasons. Needs root."""
    missing = list(_missing(study, found, at))
    gone = {(each.system.system, each.datapath, each.factor, each.level) for each in missing}
    systems = []
    for subject in study.system:
        left = {
            name: tuple(each for each in levels if (subject.system, subject.datapath, name, each) not in gone)
            for name, levels in subject.factors.items()
        }
        if all(left.values()):
            systems.append(subject.model_copy(update={"factors": left}))
    return study.with_systems(tuple(systems)), missing


def _settled(study: Study, subject: Subject, systems: Mapping[str, System]) -> Subject:
    name = f"{subject.system}/{subject.datapath}"
    factors = systems[subject.system].datapath[subject.datapath].factor
    for factor, levels in subject.factors.items():
        if factor not in factors:
            there = f"there are {', '.join(factors)}" if factors else "it has none"
            raise UsageFault(f"study {study.name}: {name} has no factor {factor}; {there}")
        if wrong := next((level for level in levels if not factors[factor].takes(level)), None):
            choice = factors[factor].choice
            raise UsageFault(f"study {study.name}: {name}: {factor} cannot be {wrong!r}; it can be one of: {choice}")
    defaults = {factor: (each.default,) for factor, each in factors.items()}
    return subject.model_copy(update={"factors": {**defaults, **subject.factors}})


def _missing(study: Study, found: Mapping[str, Found], at: Machine) -> Iterator[Missing]:
    """Each level once, however many cells have it."""
    tried: set[tuple[str, str, str, Level]] = set()
    for subject in study.system:
        if subject.system not in found:
            continue
        datapath = found[subject.system].system.datapath[subject.datapath]
        for name, level, part in _parts(subject, datapath):
            key = (subject.system, subject.datapath, name, level)
            if key in tried:
                continue
            tried.add(key)
            if reason := next((said for command in part.tries if (said := obstacle(command, at))), None):
                yield Missing(found[subject.system].system, reason, part.how, subject.datapath, name, level)


def _parts(subject: Subject, datapath: Datapath) -> Iterator[tuple[str, str, Part]]:
    for name, levels in subject.factors.items():
        for level in map(str, levels):
            if part := datapath.factor[name].level.get(level):
                yield name, level, part


def obstacle(command: Command, at: Machine = THIS_MACHINE) -> str | None:
    """Why a command does not work in an empty namespace; None when it does."""
    if (tool(command[0]) if at is THIS_MACHINE else at.program(command[0])) is None:
        return f"the program {command[0]} is not on {at.host or 'this host'}"
    where = namespace.full_name(at.owner, LANE, "client")
    at.create(where)
    try:
        with tempfile.TemporaryDirectory(prefix="diolkos-lab-") as folder:
            status, text = at.run_to_end(where, command, Path(folder) / "log", PATIENCE_S)
    except OSError as error:  # TimeoutError among them
        return f"`{' '.join(command)}` did not work: {error}"
    finally:
        at.remove([where])
    if status == 0:
        return None
    said = " ".join(text.split()[-30:])
    return f"`{' '.join(command)}` ended with exit code {status}{f': {said}' if said else ''}"
