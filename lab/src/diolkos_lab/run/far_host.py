# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What counters and placement are on the router's machine.

Its CPUs belong to the system under test alone: neither the client nor the server of a load runs there.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from diolkos_lab.experiment.definition import Guards, Topology
from diolkos_lab.experiment.frames import Seating
from diolkos_lab.run import guards
from diolkos_lab.run.counters import NAMES, HostCounters, NetCounters, Window, net_counters, parse_host
from diolkos_lab.run.placement import Roles, Seats
from diolkos_lab.topology.far.place import There
from diolkos_lab.topology.place import Place
from diolkos_lab.topology.process import Process

LOOKED_AT = (guards.steal, guards.foreign_cpu)


class FarWindow(Window):
    """A namespace's counters over there."""

    def __init__(self, place: There, where: str) -> None:
        self._place, self._where = place, where

    def close(self) -> None:
        """Nothing is open."""

    def read(self) -> NetCounters:
        texts: list[str | None] = self._place.connection.order("net", where=self._where, names=list(NAMES))
        return net_counters([text or "" for text in texts])


class FarHost:
    """CPU time and clocks of the router's machine, before and after a trial."""

    def __init__(self, place: There) -> None:
        self.place = place
        self.has_own_cpus = not place.is_this_kernel
        self._threads: list[int] = place.connection.order("softirq_threads")

    def read(self) -> HostCounters:
        stat, softnet, realtime_s, monotonic_s = self.place.connection.order("counters")
        return parse_host(stat, softnet, realtime_s, monotonic_s, self.place.hello["tick_s"])

    def threads_s(self) -> float:
        """CPU time of the kernel threads that handle packets when interrupts alone cannot."""
        return float(self.place.connection.order("cpu", pids=self._threads))


class FarWatch:
    """The router's machine during one trial; of none there is nothing to say."""

    def __init__(self, far: FarHost | None, system_s: Callable[[], float]) -> None:
        """The trial begins. `system_s` reads the CPU time of the system under test."""
        self._far, self._system_s = far, system_s
        self._before = self._after = self._read()

    def end(self) -> None:
        self._after = self._read()

    @property
    def busy_s(self) -> float:
        """CPU time of all CPUs that only that machine has."""
        if not (self._far and self._far.has_own_cpus and self._before and self._after):
            return 0.0
        return self._after[0].busy_s - self._before[0].busy_s

    def objections(self, evidence: guards.Evidence, limits: Guards) -> list[guards.Distrust]:
        """What the guards of the CPU say of that machine."""
        if not (self._far and self._far.has_own_cpus and self._before and self._after):
            return []
        (before, own_before_s), (after, own_after_s) = self._before, self._after
        there = replace(
            evidence,
            cores=len(self._far.place.cpus),
            elapsed_s=after.monotonic_s - before.monotonic_s,
            busy_s=self.busy_s,
            steal_s=after.steal_s - before.steal_s,
            # Interrupts that forward packets are charged to nobody. Nothing else of the lab runs there.
            own_s=own_after_s - own_before_s + after.interrupts_s - before.interrupts_s,
        )
        found = []
        for guard in LOOKED_AT:
            if detail := guard(there, limits, Topology()):
                found.append(guards.Distrust(guard.__name__.replace("_", "-"), f"{self._far.place.host}: {detail}"))
        return found

    def _read(self) -> tuple[HostCounters, float] | None:
        """Its counters, and the CPU time there of all that belongs to the measurement."""
        return (self._far.read(), self._system_s() + self._far.threads_s()) if self._far else None


class FarSeats(Seats):
    """Generator and sink are here, on the CPUs that they have elsewhere; the router's machine places its work itself."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus
        self.threads = []
        self.sink_threads = []

    def take(self, seating: Seating, processes: Iterable[Process], *, answers: bool = False) -> Roles:
        return split_roles(seating, self._cpus)

    def leave(self) -> None:
        """Nothing was changed."""


def split_roles(seating: Seating, cpus: Sequence[int]) -> Roles:
    """The generator on the last CPU here; the sink where interrupts of its NIC are."""
    return Roles(None if seating == "free" else cpus[-1], None, None)


def window_of(place: Place, where: str) -> Window:
    return FarWindow(place, where) if isinstance(place, There) else Window(where)
