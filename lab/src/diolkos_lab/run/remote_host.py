# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What counters and placement are on the router's machine.

Its CPUs belong to the system under test alone: neither the client nor the server of a load runs there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from diolkos_lab.experiment.definition import Guards, Topology
from diolkos_lab.experiment.frames import CpuPlacement
from diolkos_lab.run import guards
from diolkos_lab.run.counters import NAMES, HostCounters, NetCounters, Window, net_counters, parse_host
from diolkos_lab.run.placement import CpuPinning, CpuRoles
from diolkos_lab.topology.control_group import Group
from diolkos_lab.topology.machine import Machine
from diolkos_lab.topology.remote.machine import RemoteMachine

LOOKED_AT = (guards.steal, guards.foreign_cpu)


class RemoteWindow(Window):
    """A namespace's counters over there."""

    def __init__(self, machine: RemoteMachine, where: str) -> None:
        self._machine, self._where = machine, where

    def close(self) -> None:
        """Nothing is open."""

    def read(self) -> NetCounters:
        texts: list[str | None] = self._machine.connection.call("net", where=self._where, names=list(NAMES))
        return net_counters([text or "" for text in texts])


class RemoteHost:
    """CPU time and clocks of the router's machine, before and after a trial."""

    def __init__(self, machine: RemoteMachine) -> None:
        self.machine = machine
        self.has_own_cpus = not machine.is_this_kernel
        self._threads: list[int] = machine.connection.call("softirq_threads")

    def read(self) -> HostCounters:
        stat, softnet, realtime_s, monotonic_s = self.machine.connection.call("counters")
        return parse_host(stat, softnet, realtime_s, monotonic_s, self.machine.hello["tick_s"])

    def threads_s(self) -> float:
        """CPU time of the kernel threads that handle packets when interrupts alone cannot."""
        return float(self.machine.connection.call("cpu", pids=self._threads))


class RemoteWatch:
    """The router's machine during one trial; of none there is nothing to say."""

    def __init__(self, remote: RemoteHost | None, system: Group) -> None:
        """The trial begins. `system` is what the system under test runs."""
        self._remote, self._system = remote, system
        self._before = self._after = self._read()

    def end(self) -> None:
        self._after = self._read()

    @property
    def busy_s(self) -> float:
        """CPU time of all CPUs that only that machine has."""
        if not (self._remote and self._remote.has_own_cpus and self._before and self._after):
            return 0.0
        return self._after[0].busy_s - self._before[0].busy_s

    @property
    def path_s(self) -> float:
        """Of it, what packets cost."""
        return min(self.busy_s, self._own_s)

    @property
    def _own_s(self) -> float:
        """The system under test, software interrupts and their threads. Nothing else of the lab runs there."""
        if not (self._before and self._after):
            return 0.0
        (before, own_before_s), (after, own_after_s) = self._before, self._after
        return own_after_s - own_before_s + after.interrupts_s - before.interrupts_s

    def objections(self, evidence: guards.Evidence, limits: Guards) -> list[guards.Objection]:
        """What the guards of the CPU say of that machine."""
        if not (self._remote and self._remote.has_own_cpus and self._before and self._after):
            return []
        before, after = self._before[0], self._after[0]
        there = replace(
            evidence,
            cores=len(self._remote.machine.cpus),
            elapsed_s=after.monotonic_s - before.monotonic_s,
            foreign_s=self.busy_s - self._own_s,
            steal_s=after.steal_s - before.steal_s,
        )
        found = []
        for guard in LOOKED_AT:
            if detail := guard(there, limits, Topology()):
                found.append(guards.Objection(guard.__name__.replace("_", "-"), f"{self._remote.machine.host}: {detail}"))
        return found

    def _read(self) -> tuple[HostCounters, float] | None:
        """Its counters, and the CPU time there of all that belongs to the measurement."""
        return (
            (self._remote.read(), self._system.usage_s() - self._system.here_s() + self._remote.threads_s())
            if self._remote
            else None
        )


class RemoteCpuPinning(CpuPinning):
    """Generator and sink are here, on the CPUs that they have elsewhere; the router's machine places its work itself."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus
        self.threads = []
        self.sink_threads = []

    def apply(self, placement: CpuPlacement, processes: Iterable[int], *, answers: bool = False) -> CpuRoles:
        return assign_split_cpus(placement, self._cpus)

    def release(self) -> None:
        """Nothing was changed."""


def assign_split_cpus(placement: CpuPlacement, cpus: Sequence[int]) -> CpuRoles:
    """The generator on the last CPU here; the sink where interrupts of its NIC are."""
    return CpuRoles(None if placement == "free" else cpus[-1], None, None)


def window_of(machine: Machine, where: str) -> Window:
    return RemoteWindow(machine, where) if isinstance(machine, RemoteMachine) else Window(where)
