# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the processes of a unit may do, asked of the kernel (/proc/PID/task/TID/status): filters of system calls, rights.

    drop-in: ExecStartPre= says what systemd alone sets up ─► journal ─┐
    a running process and its children ─► /proc ────────────────────────┴► Confined

`Machine` and the packages' `Host` both serve: what is needed is `run`, `journal` and `shown`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

# linux/seccomp.h
FILTERED = 2
# The program's own filters: one for clone3(2), one for its work.
OWN_FILTERS = 2
# Of linux/capability.h.
CAPABILITIES = {
    "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7,
    "CAP_NET_BIND_SERVICE": 10, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39,
}  # fmt: skip
# Tells what a process of the unit has before the program adds anything.
BEFORE = "[Service]\nExecStartPre=/bin/grep -E ^(Seccomp|Seccomp_filters|NoNewPrivs|CapBnd): /proc/self/status\n"


def drop_in(unit: str) -> tuple[str, str]:
    """Path and text of a drop-in with which the journal says what systemd sets up for the unit's processes."""
    return f"/etc/systemd/system/{unit}.d/before.conf", BEFORE


@dataclass(frozen=True)
class Rights:
    """Of a thread. Sets of capabilities are masks."""

    name: str
    seccomp: int
    filters: int
    no_new_privs: int
    permitted: int
    bounding: int


def read(text: str) -> Rights:
    """From a status file."""
    of = dict(re.findall(r"^(\w+):\s*(.*)$", text, re.MULTILINE))
    return Rights(
        of.get("Name", ""),
        int(of["Seccomp"]),
        int(of["Seccomp_filters"]),
        int(of["NoNewPrivs"]),
        int(of.get("CapPrm", "0"), 16),
        int(of["CapBnd"], 16),
    )


def of_unit(host: Any, unit: str) -> dict[int, list[Rights]]:
    """The threads of all processes of a unit, by the number of the process on that host."""
    group = host.shown(unit, "ControlGroup")
    found = {}
    for pid in host.run("cat", f"/sys/fs/cgroup{group}/cgroup.procs").stdout.split():
        text = host.run("sh", "-c", f"cat /proc/{pid}/task/*/status").stdout
        found[int(pid)] = [read(part) for part in re.split(r"^(?=Name:)", text, flags=re.MULTILINE) if part]
    return found


def before(host: Any, unit: str) -> Rights:
    """What systemd sets up, as the drop-in has said."""
    lines = [
        line for line in host.journal(unit).splitlines() if re.match(r"(Seccomp|Seccomp_filters|NoNewPrivs|CapBnd):", line)
    ]
    return read("\n".join(lines[-4:]))


def check(host: Any, unit: str, processes: int, *devices: str) -> dict[int, list[Rights]]:
    """Each thread of each process of a unit has filters of its own besides systemd's, and no way to more rights.

    `devices`: the status of each says so, too.
    """
    of_systemd = before(host, unit)
    assert (of_systemd.seccomp, of_systemd.no_new_privs) == (FILTERED, 1), of_systemd
    found = of_unit(host, unit)
    assert len(found) == processes, found
    bounding = sum(1 << CAPABILITIES[name.upper()] for name in host.shown(unit, "CapabilityBoundingSet").split())
    for thread in (thread for threads in found.values() for thread in threads):
        assert thread.seccomp == FILTERED and thread.no_new_privs == 1, thread
        assert thread.filters >= of_systemd.filters + OWN_FILTERS, (thread, of_systemd)
        assert thread.bounding & ~bounding == 0 and thread.permitted & ~bounding == 0, (thread, hex(bounding))
    assert "not confined" not in host.journal(unit), host.journal(unit)
    for device in devices:
        status = json.loads(host.run("diolkos", "show", "status", "--json", "--device", device, check=False).stdout)
        assert (status["seccomp"], status["seccomp_trouble"]) == ("enforce", None), status
    assert "wrong: threads" not in host.shown(unit, "StatusText")
    return found
