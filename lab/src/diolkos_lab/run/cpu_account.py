# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whose CPU time is it? What the kernel charged during a trial, by role, and what other programs used.

The groups of a lane know what its programs used. Three things they do not know: software interrupts, which some kernels charge
to nobody (CONFIG_IRQ_TIME_ACCOUNTING) and others to whoever was interrupted; kernel threads, which work for the lane where they
handle packets (WireGuard encrypts in workqueues); and the lab itself.

Stages: read everything → trial → read again → differences → bounds of what others used, and the processes that were seen.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from diolkos_lab.run.counters import HostCounters
from diolkos_lab.topology import processes
from diolkos_lab.topology.control_group import Group, Role
from diolkos_lab.topology.namespace import Owner

SOFTIRQ = "ksoftirqd/"
# Kernel threads that handle packets: software interrupts, workqueues, queues of devices, interrupts in threads, RCU.
OF_PACKETS = (SOFTIRQ, "kworker/", "napi/", "irq/", "rcu")


@dataclass(frozen=True)
class Account:
    """CPU time between two moments, in seconds."""

    busy_s: float  # all CPUs, as /proc/stat counts
    interrupts_s: float = 0.0  # of it, hard and soft ones
    groups_s: float = 0.0  # what ran in the lane's groups
    lab_s: float = 0.0
    threads_s: float = 0.0  # kernel threads that handle packets
    softirqd_s: float = 0.0  # of them, those of software interrupts, whose time is in `interrupts_s` as well
    seen_s: float = 0.0  # all other processes that lived at the end

    @property
    def foreign_s(self) -> float:
        """What other programs used.

        At most what is busy and neither the lane's nor the lab's. At least that without all interrupts: a kernel that charges
        them to whoever was interrupted has them in the groups already, another has not. Between the two, what was seen.
        May be a few ticks below zero, because the kernel counts busy time in ticks.
        """
        most_s = self.busy_s - self.groups_s - self.lab_s - self.threads_s
        least_s = most_s - (self.interrupts_s - self.softirqd_s)
        return min(most_s, max(least_s, self.seen_s))

    @property
    def path_s(self) -> float:
        """What packets cost: programs, kernel threads and interrupts."""
        return max(0.0, self.busy_s - self.foreign_s - self.lab_s)


class Watch:
    """From its making to `end`, which gives it `after`, `roles`, `others` (name and CPU time of each process that is neither
    the lab nor the lane's) and `account`."""

    def __init__(self, groups: Mapping[Role, Group] | None = None) -> None:
        self._groups = groups or {}
        self._me = Owner.me()
        self._processes, self._seen_at_s = processes.read(), time.monotonic()
        self._roles, self._here_s = self._used()
        self._lab_s = time.process_time()
        self.before = HostCounters.read()

    def end(self) -> None:
        self.after = HostCounters.read()
        lab_s = time.process_time() - self._lab_s
        roles, here_s = self._used()
        self.roles: dict[Role, float] = {role: used_s - self._roles[role] for role, used_s in roles.items()}
        members = {pid for group in self._groups.values() for pid in group.members()}
        now = processes.read()
        # To read them takes milliseconds, in which they go on.
        part = min(1.0, self.elapsed_s / (time.monotonic() - self._seen_at_s))
        used = {key: used_s * part for key, used_s in processes.used_s(self._processes, now).items()}
        threads = {key: used_s for key, used_s in used.items() if now[key].is_kernel and now[key].name.startswith(OF_PACKETS)}
        mine = (self._me.pid, self._me.started)
        others = {key: used_s for key, used_s in used.items() if key != mine and key[0] not in members}
        self.others = {key: (now[key].name, used_s) for key, used_s in others.items()}
        self.account = Account(
            busy_s=self.after.busy_s - self.before.busy_s,
            interrupts_s=self.after.interrupts_s - self.before.interrupts_s,
            groups_s=here_s - self._here_s,
            lab_s=lab_s,
            threads_s=sum(threads.values()),
            softirqd_s=sum(used_s for key, used_s in threads.items() if now[key].name.startswith(SOFTIRQ)),
            seen_s=sum(used_s for key, used_s in others.items() if key not in threads),
        )

    @property
    def elapsed_s(self) -> float:
        return self.after.monotonic_s - self.before.monotonic_s

    def _used(self) -> tuple[dict[Role, float], float]:
        """By role on all machines, and all on this one."""
        return {role: group.usage_s() for role, group in self._groups.items()}, sum(g.here_s() for g in self._groups.values())
