# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How busy the host is while the lab does nothing, and whose work that is.

Stages: CPU time of all and of each program → wait → the same again → shares, the busiest first.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.run.counters import TICK_S, HostCounters

LOOK_S = 2.0
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
    """Shares are of all CPUs, over the time of the look."""

    foreign: float  # all that runs, kernel threads and interrupts among it
    steal: float  # taken by the hypervisor
    busiest: tuple[Program, ...]

    @property
    def matters(self) -> bool:
        return self.foreign > FOREIGN_SHARE or self.steal > STEAL_SHARE

    @property
    def whose(self) -> str:
        """`firefox (process 4711) 12 %, …`; empty where no program stands out."""
        return ", ".join(f"{each.name} (process {each.pid}) {each.share:.0%}" for each in self.busiest)


def measure(seconds: float = LOOK_S) -> Disturbance:
    """Takes so long. Programs that end meanwhile are not named."""
    cpu_before, before = _by_program(), HostCounters.read()
    time.sleep(seconds)
    after, cpu_after = HostCounters.read(), _by_program()
    capacity_s = (after.monotonic_s - before.monotonic_s) * before.cpus
    used = [
        Program(name, pid, (cpu_s - cpu_before.get((pid, name), 0.0)) / capacity_s) for (pid, name), cpu_s in cpu_after.items()
    ]
    busiest = sorted((each for each in used if each.share >= WORTH_A_NAME), key=lambda each: -each.share)
    return Disturbance(
        foreign=max(0.0, after.busy_s - before.busy_s) / capacity_s,
        steal=max(0.0, after.steal_s - before.steal_s) / capacity_s,
        busiest=tuple(busiest[:MOST_NAMED]),
    )


def _by_program() -> dict[tuple[int, str], float]:
    """CPU time of every process so far, in seconds, with all its threads: proc_pid_stat(5), fields 14 and 15."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
            except OSError:  # it has ended
                continue
            fields = rest.split()
            name = head.partition("(")[2]
            found[int(entry.name), name] = (int(fields[11]) + int(fields[12])) * TICK_S
    return found
