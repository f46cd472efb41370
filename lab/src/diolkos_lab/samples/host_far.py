# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Facts about the router's machine, as `host` has them about this one. What cannot be found out is null."""

import re
from typing import Any

from diolkos_lab.samples.host import CLOCK, CPU
from diolkos_lab.topology.far.place import There

RELEASE = "/etc/os-release"


def facts(place: There) -> dict[str, Any]:
    """Everything that holds for the whole run, without what only packet generators need."""
    system, node, release, build, machine = place.hello["uname"]
    info, clock, clocks, governor, smt, distribution = (
        (text or "").strip() or None
        for text in place.texts(
            "/proc/cpuinfo",
            str(CLOCK / "current_clocksource"),
            str(CLOCK / "available_clocksource"),
            str(CPU / "cpu0/cpufreq/scaling_governor"),
            str(CPU / "smt/control"),
            RELEASE,
        )
    )
    names: list[str] = place.connection.order("glob", pattern=str(CPU / "vulnerabilities/*"))
    mitigations = zip(names, place.texts(*names), strict=True)
    return {
        "reached_as": place.host,
        "hostname": node or None,
        "is_this_kernel": place.is_this_kernel,
        "kernel": release,
        "kernel_build": build,
        "architecture": machine,
        "distribution": _found(r'^PRETTY_NAME="?([^"\n]+)', distribution),
        "cpu_model": _found(r"^(?:model name|Model)\s*:\s*(.+)$", info),
        "cores": len(place.cpus),
        "affinity": list(place.cpus),
        "clocksource": clock,
        "clocksources": (clocks or "").split(),
        "governor": governor,
        "mitigations": {name.rpartition("/")[2]: (text or "").strip() for name, text in mitigations},
        "virtualisation": ("a hypervisor" if re.search(r"^flags\s*:.*\bhypervisor\b", info, re.MULTILINE) else "none")
        if info
        else None,
        "smt": smt,
        "memory_bytes": place.hello["memory_bytes"],
        "load_average": place.hello["load_average"],
        "python": place.hello["python"],
        "system": system,
    }


def _found(pattern: str, text: str | None) -> str | None:
    found = re.search(pattern, text or "", re.MULTILINE)
    return found[1] if found else None
