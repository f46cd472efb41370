# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`doctor`: is this host fit to measure? What must be there, and what makes figures doubtful.

Stages: what every study needs → what single systems need → what the kernel takes → what disturbs a measurement.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from diolkos_lab.faults import Fault, MissingFault
from diolkos_lab.load import kernel_check, tools
from diolkos_lab.run import disturbance
from diolkos_lab.samples import host
from diolkos_lab.sut import lookup
from diolkos_lab.topology import control_group, leftovers, namespace

FEWEST_CORES = 2
ENOUGH_MEMORY = 1 << 30
ENOUGH_CONNECTIONS = 1 << 18

State = Literal["good", "doubtful", "unfit", "missing"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `missing` keeps studies from running, `unfit` leaves too few trusted trials, `doubtful` makes
    figures less certain."""

    state: State
    subject: str
    detail: str


def examine() -> Iterator[Finding]:
    """Every finding, the cheap ones first; the last takes two seconds of looking."""
    yield from _privilege()
    yield from _programs()
    yield _tun()
    yield from _machine()
    yield from _accounting()
    yield from _network()
    yield from _kernel_programs()
    yield _leftovers()
    yield from _disturbance()


def _privilege() -> Iterator[Finding]:
    if os.geteuid() != 0:
        yield Finding("missing", "root", "network namespaces need it: run with sudo")
        return
    yield Finding("good", "root", "yes")
    name = namespace.full_name(namespace.Owner.me(), "doctor", "try")
    try:
        namespace.create(name)
        yield Finding("good", "network namespaces", "can be made")
    except OSError as error:
        detail = f"cannot be made ({error.strerror}); in a container, give it CAP_SYS_ADMIN and CAP_NET_ADMIN"
        yield Finding("missing", "network namespaces", detail)
    finally:
        namespace.remove([name])


def _programs() -> Iterator[Finding]:
    for name, how in tools.REQUIRED.items():
        path = lookup.program(name, None, None)
        yield Finding("good", name, str(path)) if path else Finding("missing", name, how)
    needed = {
        "studies with HTTP or DNS need it": tools.OF_HTTP | tools.OF_NAMES | tools.OF_DNS,
        "load–loss curves need it": tools.OF_PACKETS,
    }
    seen: set[str] = set()
    for who, programs in needed.items():
        for name, how in programs.items():
            if name not in seen:
                seen.add(name)
                path = lookup.tool(name)
                yield Finding("good", name, str(path)) if path else Finding("doubtful", name, f"{who}: {how}")


def _tun() -> Finding:
    if Path("/dev/net/tun").exists():
        return Finding("good", "TUN", "/dev/net/tun is there")
    return Finding("doubtful", "TUN", "/dev/net/tun is not there, so no translator with a TUN device can run: `modprobe tun`")


def _machine() -> Iterator[Finding]:
    facts = host.facts()
    cores = facts["cores"]
    if cores < FEWEST_CORES:
        yield Finding("doubtful", "CPUs", "one: sender, translator and receiver take turns, so ratios understate")
    else:
        yield Finding("good", "CPUs", f"{cores}, {facts['cpu_model']}")
    clock = facts["clocksource"]
    if clock == "tsc":
        yield Finding("good", "clocksource", "tsc")
    else:
        better = " (tsc is available)" if "tsc" in facts["clocksources"] else ""
        yield Finding("doubtful", "clocksource", f"{clock}{better}: reading the time is slow, which lowers every figure")
    governor = facts["governor"]
    if governor in (None, "performance"):
        yield Finding("good", "frequency governor", governor or "none: the host does not change frequencies itself")
    else:
        yield Finding("doubtful", "frequency governor", f"{governor}: the clock follows the load; use `performance`")
    guest = facts["virtualisation"]
    if guest in (None, "none"):
        yield Finding("good", "virtualisation", guest or "unknown")
    else:
        yield Finding("doubtful", "virtualisation", f"{guest}: neighbours can take CPU time; the steal guard watches for it")
    yield from _threads_and_mitigations(facts)
    yield from _kernel(facts)
    memory = facts["memory_bytes"]
    state: State = "good" if memory >= ENOUGH_MEMORY else "doubtful"
    yield Finding(state, "memory", f"{memory / (1 << 30):.1f} GiB")


def _threads_and_mitigations(facts: dict[str, Any]) -> Iterator[Finding]:
    shared = [group for group in facts["smt_siblings"] if any(mark in group for mark in ",-")]
    if shared:
        detail = f"CPUs {'; '.join(shared)} share cores, so generator and system may slow each other down"
        yield Finding("doubtful", "SMT", f"{detail}: `echo off >/sys/devices/system/cpu/smt/control`")
    else:
        yield Finding("good", "SMT", "no two CPUs share a core, as far as the host tells")
    at_work = [name for name, text in facts["mitigations"].items() if (text or "").startswith("Mitigation")]
    if at_work:
        detail = f"{', '.join(at_work)}: part of every figure, so compare only with hosts that have the same"
        yield Finding("doubtful", "mitigations", f"{detail}; `mitigations=off` on the kernel's command line removes them")
    else:
        yield Finding("good", "mitigations", "none at work")


def _kernel(facts: dict[str, Any]) -> Iterator[Finding]:
    """What load–loss curves need of the kernel."""
    features = facts["kernel_features"]
    for name, subject, without, since in (
        ("live_frames", "XDP live frames", "the packet generator uses a packet socket, which is several times slower", "5.18"),
        ("threaded_napi", "threaded NAPI", "the system under test cannot have a CPU of its own", "5.12"),
        ("short_slices", "short slices", "other programs may hold packets up for milliseconds", "6.12"),
    ):
        if features[name]:
            yield Finding("good", subject, f"in Linux {facts['kernel']}")
        else:
            yield Finding("doubtful", subject, f"not in Linux {facts['kernel']}: {without}; Linux {since} has it")
    if features["perf_events"]:
        yield Finding("good", "perf events", "the packet generator sees when a CPU stands still")
    else:
        without = "a stalled CPU goes unnoticed, and packets lost to it look like the system's loss"
        yield Finding("doubtful", "perf events", f"not in this kernel: {without}")


def _accounting() -> Iterator[Finding]:
    """How the kernel counts CPU time, and whose."""
    if os.geteuid() == 0:
        if control_group.writable():
            yield Finding("good", "CPU of each role", "one control group each, with children and daemons")
        else:
            how = "no control groups (version 2) can be made: the process tree is walked, which loses daemons"
            yield Finding("doubtful", "CPU of each role", how)
    clock = host.kernel_clock()
    words = {
        True: "counted by themselves (CONFIG_IRQ_TIME_ACCOUNTING)",
        False: "charged to whoever is interrupted",
        None: "unknown: the kernel's configuration cannot be read",
    }
    yield Finding("good", "software interrupts", f"{words[clock['irq_time_accounting']]}; both are accounted for")
    yield Finding("good", "ticks", f"{clock['hz']} a second" if clock["hz"] else "unknown")


def _network() -> Iterator[Finding]:
    most = host.conntrack_max()
    if most is None:
        yield Finding("good", "conntrack", "not loaded; a system that needs it loads it")
    elif most < ENOUGH_CONNECTIONS:
        how = f"`sysctl net.netfilter.nf_conntrack_max={ENOUGH_CONNECTIONS}` for NAT with many sessions"
        yield Finding("doubtful", "conntrack", f"at most {most} connections: {how}")
    else:
        yield Finding("good", "conntrack", f"at most {most} connections")
    for name, nic in ((name, nic) for name, nic in host.nics().items() if nic["up"]):
        off = [feature for feature, on in nic["offloads"].items() if not on]
        without = f", without {', '.join(off)}" if off else ""
        yield Finding("good", f"NIC {name}", f"{nic['driver'] or 'unknown driver'}, MTU {nic['mtu']}, {nic['qdisc']}{without}")


def _kernel_programs() -> Iterator[Finding]:
    """Programs in the kernel: whether it takes them depends on more than its version."""
    if os.geteuid() != 0:
        return
    for trial in kernel_check.programs():
        if trial.fault:
            yield Finding("doubtful", trial.subject, f"does not work here: {trial.fault}")
        else:
            yield Finding("good", trial.subject, "works here, tried")


def _leftovers() -> Finding:
    if found := leftovers.find():
        return Finding(
            "doubtful", "leftovers", f"{len(found.namespaces)} namespaces of a lab that was killed: `diolkos-lab clean`"
        )
    return Finding("good", "leftovers", "none")


def _disturbance() -> Iterator[Finding]:
    """How busy the host is while the lab does nothing, and with whose work."""
    seen = disturbance.measure()
    busy = f"use {seen.foreign:.0%} of the CPUs"
    whose = f": {seen.whose}" if seen.whose else ", in interrupts and short-lived processes"
    if seen.is_too_much:
        lost = f"a run that begins now would not trust {seen.untrusted:.0%} of its trials"
        yield Finding("unfit", "other programs", f"{busy}{whose}; {lost}: end them, or measure later")
    elif seen.foreign <= disturbance.FOREIGN_SHARE:
        yield Finding("good", "other programs", busy)
    else:
        yield Finding("doubtful", "other programs", f"{busy}{whose}; end them, or a run takes longer and may decide less")
    state: State = "good" if seen.steal <= disturbance.STEAL_SHARE else "doubtful"
    more = "" if state == "good" else ": neighbours on the same machine; measure at another time or on a machine of your own"
    yield Finding(state, "steal", f"{seen.steal:.1%} of the CPU time{more}")


def require(findings: list[Finding]) -> None:
    """Raises MissingFault with everything that is missing, or else Fault where the host is too busy."""
    missing = [f"{finding.subject} ({finding.detail})" for finding in findings if finding.state == "missing"]
    if missing:
        raise MissingFault(f"this host cannot measure; missing: {', '.join(missing)}")
    if unfit := [f"{finding.subject} {finding.detail}" for finding in findings if finding.state == "unfit"]:
        raise Fault(f"this host is not fit to measure now: {', '.join(unfit)}")
