# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All processes of this host at one moment, by number and start time: a number alone may come back with another process, and a
kernel thread changes its name with its work."""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
KERNEL_THREAD = 0x00200000  # PF_KTHREAD in proc_pid_stat(5), field 9

Key = tuple[int, int]  # process number; start in ticks since boot


@dataclass(frozen=True)
class Seen:
    """One process. Times in seconds since it started."""

    name: str
    parent: int
    is_kernel: bool
    cpu_s: float  # with all its threads, dead ones included
    children_s: float  # its children that ended and were waited for, in whole ticks


Table = Mapping[Key, Seen]


def read() -> Table:
    """Takes some 20 µs for each process."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    # The name may hold blanks and brackets; the fields after the last bracket are plain.
                    head, _, rest = file.read().rpartition(b")")
            except OSError:  # it has ended
                continue
            fields, pid = rest.split(), int(entry)
            found[pid, int(fields[19])] = Seen(
                name=head.partition(b"(")[2].decode(errors="replace"),
                parent=int(fields[1]),
                is_kernel=bool(int(fields[6]) & KERNEL_THREAD),
                cpu_s=cpu_time_s(pid),
                children_s=(int(fields[13]) + int(fields[14])) * TICK_S,
            )
    return found


def used_s(before: Table, after: Table) -> dict[Key, float]:
    """CPU time of each process that lives at the end; all of it where the process began meanwhile."""
    return {key: max(0.0, seen.cpu_s - (before[key].cpu_s if key in before else 0.0)) for key, seen in after.items()}


def family(table: Table, ancestors: Iterable[int]) -> list[Key]:
    """These processes and all that descend from them. A process whose parent ended does not descend from it any more."""
    children: dict[int, list[Key]] = {}
    for key, seen in table.items():
        children.setdefault(seen.parent, []).append(key)
    wanted = set(ancestors)
    found = [key for key in table if key[0] in wanted]
    for pid, _ in found:  # which grows
        found += [key for key in children.get(pid, ()) if key not in found]
    return found


def cpu_time_s(pid: int) -> float:
    """CPU time of a process with all its threads, dead ones included; 0 when it is gone.

    The clock's number is made as clock_getcpuclockid(3) makes it, which Python does not offer.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0
