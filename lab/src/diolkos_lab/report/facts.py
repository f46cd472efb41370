# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Facts of the host that measured, from host.json. Every one of them may be absent."""

from __future__ import annotations

import shlex
from typing import Any

MANY = 8  # entries of a mapping, from where it is printed by value


def find(facts: object, *names: str) -> Any:
    """The first value under one of `names`, at any depth, shallow ones first."""
    level = [facts]
    while level:
        mappings = [f for f in level if isinstance(f, dict)]
        for name in names:
            for mapping in mappings:
                if mapping.get(name) not in (None, "", [], {}):
                    return mapping[name]
        level = [v for m in mappings for name, v in m.items() if name != "router"]  # those are of another machine
    return None


def router(host: dict[str, Any]) -> str | None:
    """Another machine that was the router: "root@r1 (r1, Xeon Gold, …)"; None where one host was all."""
    found = host.get("router")
    if not isinstance(found, dict):
        return None
    named = [str(found["hostname"])] if found.get("hostname") else []
    return f"{found.get('reached_as') or 'a second machine'} ({', '.join([*named, machine(found)])})"


def box(host: dict[str, Any]) -> str | None:
    """The interfaces that a black box was between: "enp1s0 and enp2s0"; None where there was none."""
    found = host.get("box")
    return f"{found.get('client')} and {found.get('server')}" if isinstance(found, dict) else None


def varied(host: dict[str, Any]) -> dict[str, list[str | int]]:
    """Settings of the host that the run varied, with their levels."""
    found = host.get("varied")
    return found if isinstance(found, dict) else {}


def clocksource(host: dict[str, Any]) -> str | None:
    if levels := varied(host).get("clocksource"):
        return " and ".join(map(str, levels))
    found = find(host, "clocksource")
    return str(found) if found else None


def kernel(host: dict[str, Any]) -> str | None:
    found = find(host, "kernel")
    return str(found) if found else None


def cpu(host: dict[str, Any]) -> str | None:
    found = find(host, "cpu_model")
    return str(found) if found else None


def cpus(host: dict[str, Any]) -> int | None:
    found = find(host, "cores", "cpus")
    if isinstance(found, list):
        return len(found)
    return found if isinstance(found, int) else None


def virtual(host: dict[str, Any]) -> str | None:
    """The hypervisor or "container"; None on bare metal and where it is not known."""
    found = find(host, "virtualisation")
    return None if found in (None, "none") else str(found)


def emulated(host: dict[str, Any]) -> bool:
    """Was the processor emulated? Then no absolute figure says anything of a host."""
    guest = host.get("guest")
    return isinstance(guest, dict) and guest.get("acceleration") == "TCG"


def counts_instructions(host: dict[str, Any]) -> bool:
    """Did the guest's clock count instructions?"""
    guest = host.get("guest")
    return isinstance(guest, dict) and guest.get("clock") == "instructions"


def environment(host: dict[str, Any]) -> str:
    """The environment column of the tables: "one host, tsc"."""
    if router(host):
        clocks = dict.fromkeys(clocksource(each) or "clock unknown" for each in (host, host["router"]))
        return f"two machines, {' and '.join(clocks)}"
    where = places(host)
    if isinstance(host.get("guest"), dict):
        where = f"guest, {'emulated' if emulated(host) else 'KVM'}"
    return f"{where}, {clocksource(host) or 'clock unknown'}"


def places(host: dict[str, Any]) -> str:
    """ "one host", or how many there were that were merged."""
    merged = host.get("merged")
    names = {entry.get("host") for entry in merged if isinstance(entry, dict)} if isinstance(merged, list) else set()
    return f"{len(names)} hosts" if len(names) > 1 else "one host"


def seed(host: dict[str, Any]) -> str | None:
    found = find(host, "seed")
    return None if found is None else str(found)


def command(host: dict[str, Any]) -> str | None:
    """The command line that made the folder."""
    found = find(host, "command_line")
    if isinstance(found, list):
        found = shlex.join(map(str, found))
    return str(found) if found else None


def machine(host: dict[str, Any]) -> str:
    """The machine in half a line: "Xeon Gold, 2 CPUs, KVM, Linux 6.18, tsc"."""
    n = cpus(host)
    guest = host.get("guest") if isinstance(host.get("guest"), dict) else {}
    parts = [
        "an emulated processor (TCG)" if emulated(host) else cpu(host),
        f"{n} CPU{'s' if n != 1 else ''}" if n else None,
        f"a guest of {guest.get('emulator')}"
        if guest
        else {None: None, "container": "in a container"}.get(virtual(host), f"a virtual machine ({virtual(host)})"),
        f"Linux {kernel(host)}" if kernel(host) else None,
        f"clocksource {clocksource(host)}" if clocksource(host) else None,
    ]
    return ", ".join(p for p in parts if p) or "an unknown host"


def flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """All facts as (name, value) pairs, nested names joined by a space; long lists of switches in a few lines."""
    pairs = []
    for key, value in facts.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, dict) and _repetitive(value):
            pairs += _by_value(name, value)
        elif isinstance(value, dict):
            pairs += flat(value, name)
        elif isinstance(value, list) and any(isinstance(v, dict) for v in value):
            pairs += [p for i, v in enumerate(value, 1) for p in flat(v if isinstance(v, dict) else {"": v}, f"{name} {i}")]
        elif isinstance(value, list):
            pairs.append((name, ", ".join(map(_plain, value)) or "none"))
        else:
            pairs.append((name, _plain(value)))
    return pairs


def _repetitive(facts: dict[str, Any]) -> bool:
    """Many entries, few values, as in the features of a device or the list of mitigations."""
    values = list(facts.values())
    return len(values) >= MANY and not any(isinstance(v, (dict, list)) for v in values) and len(set(values)) <= len(values) / 2


def _by_value(name: str, facts: dict[str, Any]) -> list[tuple[str, str]]:
    """One line for each value, with all that have it; (name, "on: a, b, c")."""
    having: dict[str, list[str]] = {}
    for key, value in facts.items():
        if key:
            having.setdefault(_plain(value), []).append(str(key).replace("_", " "))
    return [(name, f"{value}: {', '.join(keys)}") for value, keys in having.items()]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unknown" if value is None or value == "" else str(value)
