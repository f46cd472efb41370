# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Facts about the router's machine, as `host` has them about this one. What cannot be found out is null."""

import re
from typing import Any

from diolkos_lab.samples.host import CLOCK, CPU
from diolkos_lab.topology.remote.machine import RemoteMachine

RELEASE = "/etc/os-release"


def facts(machine: RemoteMachine) -> dict[str, Any]:
    """Everything that holds for the whole run, without what only packet generators need."""
    system, node, release, build, architecture = machine.hello["uname"]
    info, clock, clocks, governor, smt, distribution = (
        (text or "").strip() or None
        for text in machine.texts(
            "/proc/cpuinfo",
            str(CLOCK / "current_clocksource"),
            str(CLOCK / "available_clocksource"),
            str(CPU / "cpu0/cpufreq/scaling_governor"),
            str(CPU / "smt/control"),
            RELEASE,
        )
    )
    names: list[str] = machine.connection.call("glob", pattern=str(CPU / "vulnerabilities/*"))
    mitigations = zip(names, machine.texts(*names), strict=True)
    return {
        "reached_as": machine.host,
        "hostname": node or None,
        "is_this_kernel": machine.is_this_kernel,
        "kernel": release,
        "kernel_build": build,
        "architecture": architecture,
        "distribution": _found(r'^PRETTY_NAME="?([^"\n]+)', distribution),
        "cpu_model": _found(r"^(?:model name|Model)\s*:\s*(.+)$", info),
        "cores": len(machine.cpus),
        "affinity": list(machine.cpus),
        "clocksource": clock,
        "clocksources": (clocks or "").split(),
        "governor": governor,
        "mitigations": {name.rpartition("/")[2]: (text or "").strip() for name, text in mitigations},
        "virtualisation": ("a hypervisor" if re.search(r"^flags\s*:.*\bhypervisor\b", info, re.MULTILINE) else "none")
        if info
        else None,
        "smt": smt,
        "memory_bytes": machine.hello["memory_bytes"],
        "load_average": machine.hello["load_average"],
        "python": machine.hello["python"],
        "system": system,
    }


def _found(pattern: str, text: str | None) -> str | None:
    found = re.search(pattern, text or "", re.MULTILINE)
    return found[1] if found else None
