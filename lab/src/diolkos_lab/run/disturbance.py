# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How busy the host is while the lab does nothing, whose work that is, and how many trials a run would lose to it.

Stages: the account of a short time, as a trial has it, again and again → shares, the busiest first → as the guards judge.
"""

import time
from dataclasses import dataclass

from diolkos_lab.experiment.definition import TOO_MANY_UNTRUSTED, Guards
from diolkos_lab.run import guards
from diolkos_lab.run.cpu_account import Watch
from diolkos_lab.topology.processes import Key

LOOKS = 10
LOOK_S = 0.25  # each as long as a short trial
FOREIGN_SHARE = 0.05
STEAL_SHARE = 0.01
MOST_NAMED = 3
WORTH_A_NAME = 0.01  # of all CPUs


@dataclass(frozen=True)
class Program:
    name: str
    pid: int
    share: float  # of all CPUs


@dataclass(frozen=True)
class Disturbance:
    """Shares of all CPUs are over the time of all looks."""

    foreign: float  # all that runs, kernel threads and interrupts among it
    steal: float  # taken by the hypervisor
    busiest: tuple[Program, ...]
    untrusted: float = 0.0  # share of the looks that the guards of a trial would reject

    @property
    def matters(self) -> bool:
        return self.foreign > FOREIGN_SHARE or self.steal > STEAL_SHARE or self.is_too_much

    @property
    def is_too_much(self) -> bool:
        return self.untrusted >= TOO_MANY_UNTRUSTED

    @property
    def whose(self) -> str:
        """`firefox (process 4711) 12 %, …`; empty where no program stands out."""
        return ", ".join(f"{each.name} (process {each.pid}) {each.share:.0%}" for each in self.busiest)


def measure(looks: int = LOOKS, limits: Guards | None = None) -> Disturbance:
    """Takes a quarter of a second for each look. Programs that end meanwhile are not named."""
    capacity_s = foreign_s = steal_s = 0.0
    used_s: dict[Key, float] = {}
    names: dict[Key, str] = {}
    rejected = 0
    for _ in range(looks):
        watch = Watch()
        time.sleep(LOOK_S)
        watch.end()
        cores, elapsed_s = watch.before.cpus, watch.elapsed_s
        stolen_s = watch.after.steal_s - watch.before.steal_s
        capacity_s += cores * elapsed_s
        foreign_s += watch.account.busy_s - watch.account.lab_s
        steal_s += stolen_s
        rejected += guards.is_disturbed(watch.account.foreign_s, stolen_s, cores, elapsed_s, limits or Guards())
        for key, (name, spent_s) in watch.others.items():
            names[key] = name
            used_s[key] = used_s.get(key, 0.0) + min(spent_s, cores * elapsed_s)
    busiest = [Program(names[key], key[0], used_s[key] / capacity_s) for key in sorted(used_s, key=lambda key: -used_s[key])]
    return Disturbance(
        foreign=min(1.0, max(0.0, foreign_s) / capacity_s),
        steal=max(0.0, steal_s) / capacity_s,
        busiest=tuple([each for each in busiest if each.share >= WORTH_A_NAME][:MOST_NAMED]),
        untrusted=rejected / looks,
    )
