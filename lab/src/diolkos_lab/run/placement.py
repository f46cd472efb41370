# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who runs on which CPU while packets are counted.

The kernel forwards a packet in the software interrupt of whoever brought it. On a veth pair that is the sender: a generator
on one CPU then pays for the router, slows down with it, and no overload can be offered. So the first device of the system
under test gets a thread of its own (threaded NAPI), which is pinned like a network card's interrupt would be.

    apart     generator on the last CPU; system under test on the first; sink on one between them, or beside the system
    beside    generator on the last CPU, which also forwards and sinks; processes of the system under test on the first
    one-cpu   all on the last CPU; no threads: the generator pays
    free      nothing is pinned; no threads

Stages: roles → threads of the devices → processes.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.experiment.frames import CpuPlacement
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import mounts
from diolkos_lab.topology.lane import Lane
from diolkos_lab.topology.process import run_to_end
from diolkos_lab.topology.scheduling import FIRST, prioritize

THREAD = "napi/{}-"  # name of the kernel thread of a device's queue
LAST = "router", plan.SERVER_LINK  # where answers enter the system under test
ENOUGH = 3  # CPUs, from which on the sink has one of its own


@dataclass(frozen=True)
class CpuRoles:
    """The CPU of each; None leaves it to the scheduler."""

    generator: int | None
    system: int | None
    sink: int | None

    @property
    def used(self) -> tuple[int, ...]:
        """Every CPU that one of them has."""
        return tuple(sorted({cpu for cpu in (self.generator, self.system, self.sink) if cpu is not None}))


def assign_cpus(placement: CpuPlacement, cpus: Sequence[int]) -> CpuRoles:
    if placement == "free":
        return CpuRoles(None, None, None)
    if placement == "one-cpu" or len(cpus) == 1:
        return CpuRoles(cpus[-1], cpus[-1], cpus[-1])
    if placement == "beside":
        return CpuRoles(cpus[-1], cpus[0], cpus[-1])
    return CpuRoles(cpus[-1], cpus[0], cpus[1] if len(cpus) >= ENOUGH else cpus[0])


def roles_of(
    placements: Iterable[CpuPlacement], assign: Callable[[CpuPlacement, Sequence[int]], CpuRoles]
) -> dict[str, dict[str, int | None]]:
    """The CPU of each role in each placement, as `assign` gives them among the CPUs of this process."""
    cpus = sorted(os.sched_getaffinity(0))
    return {placement: vars(assign(placement, cpus)) for placement in placements}


class CpuPinning:
    """Pins generator, system under test and sink of one lane to CPUs. Devices change only when the placement does."""

    def __init__(self, lane: Lane, cpus: Sequence[int], folder: Path) -> None:
        self._lane = lane
        self._cpus = cpus
        self._log = folder / "placement"
        self._placement: tuple[CpuPlacement, bool] | None = None
        self.threads: list[int] = []  # kernel threads of the system under test's devices
        self.sink_threads: list[int] = []
        self._threaded: list[tuple[str, str]] = []  # devices that have one

    def apply(self, placement: CpuPlacement, processes: Iterable[int], *, answers: bool = False) -> CpuRoles:
        """Pin all; `processes` are the numbers of those of the system under test. With `answers` the far end sends,
        too.

        Raises InstrumentFault."""
        chosen = assign_cpus(placement, self._cpus)
        if (placement, answers) != self._placement:
            self._placement = None
            self._devices(placement, chosen, answers=answers)
            self._placement = placement, answers
        where = self._cpus if chosen.system is None else [chosen.system]
        for pid in processes:
            with contextlib.suppress(OSError):  # a kernel without autogroups (sched(7))
                Path(f"/proc/{pid}/autogroup").write_text(str(FIRST))
            with contextlib.suppress(OSError):  # a thread that ended meanwhile
                for thread in os.listdir(f"/proc/{pid}/task"):
                    os.sched_setaffinity(int(thread), where)
                    prioritize(int(thread))
        return chosen

    def release(self) -> None:
        """Restore the devices: every other load is better off without threads and GRO."""
        if self._placement is not None:
            self._placement = None
            self._stop_threads()
            for end in (*self._ends, LAST):
                self._lane.set_gro(*end, on=False)

    def _devices(self, placement: CpuPlacement, chosen: CpuRoles, *, answers: bool) -> None:
        apart = placement == "apart" and chosen.system != chosen.generator
        own_sink = apart and chosen.sink != chosen.system
        self._stop_threads()
        first, sink = self._ends
        # Frames of XDP enter a veth only where its peer polls, which it does with GRO.
        self._lane.set_gro(*first, on=True)
        self._lane.set_gro(*sink, on=own_sink)
        self._lane.set_gro(*LAST, on=answers)
        self.threads = self._switch_on(first) if apart else []
        self.threads += self._switch_on(LAST) if apart and answers else []
        self.sink_threads = self._switch_on(sink) if own_sink else []
        for threads, cpu in ((self.threads, chosen.system), (self.sink_threads, chosen.sink)):
            for thread in threads:
                assert cpu is not None
                os.sched_setaffinity(thread, [cpu])
                prioritize(thread)

    @property
    def _ends(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The devices where packets enter the system under test, and the sink."""
        first = "translator" if self._lane.shape.hops > 1 else "router"
        return (first, plan.DOWNLINK), ("server", plan.SERVER_LINK)

    def _switch_on(self, end: tuple[str, str]) -> list[int]:
        self._threaded.append(end)
        return self._thread(*end, on=True)

    def _stop_threads(self) -> None:
        while self._threaded:  # a device that does not poll cannot be told
            self._thread(*self._threaded.pop(), on=False)
        self.threads, self.sink_threads = [], []

    def _thread(self, role: str, device: str, *, on: bool) -> list[int]:
        """Switch threaded NAPI; returns the threads that this brought. /sys shows a namespace only to those who mount it."""
        before = set(_threads(device))
        script = 'mount -t sysfs sysfs /sys && echo "$1" >"/sys/class/net/$2/threaded"'
        command = mounts.own(["sh", "-c", script, "sh", str(int(on)), device])
        status, text = run_to_end(self._lane.namespace(role), command, self._log)
        if status:
            raise InstrumentFault(f"{device} cannot be given a thread of its own (threaded NAPI): {text.strip()}")
        return sorted(set(_threads(device)) - before)


def _threads(device: str) -> list[int]:
    """Kernel threads of devices of that name, in whatever namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text().startswith(THREAD.format(device)):
                    found.append(int(entry.name))
    return found
