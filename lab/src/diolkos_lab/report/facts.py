# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Facts of the host that measured, from host.json. Every one of them may be absent."""

from __future__ import annotations

from diolkos_lab.report.quantities import listing


def find(facts: object, *names: str) -> object | None:
    """The first value under one of `names`, at any depth, shallow ones first."""
    level = [facts]
    while level:
        mappings = [f for f in level if isinstance(f, dict)]
        for name in names:
            for mapping in mappings:
                if mapping.get(name) not in (None, "", [], {}):
                    return mapping[name]
        level = [v for m in mappings for v in m.values()]
    return None


def clocksource(host: dict) -> str | None:
    found = find(host, "clocksource")
    return str(found) if found else None


def kernel(host: dict) -> str | None:
    found = find(host, "kernel")
    return str(found) if found else None


def cpu(host: dict) -> str | None:
    found = find(host, "cpu_model")
    return str(found) if found else None


def cpus(host: dict) -> int | None:
    found = find(host, "cores", "cpus")
    if isinstance(found, list):
        return len(found)
    return found if isinstance(found, int) else None


def virtual(host: dict) -> str | None:
    """The hypervisor or "container"; None on bare metal and where it is not known."""
    found = find(host, "virtualisation")
    return None if found in (None, "none") else str(found)


def environment(host: dict) -> str:
    """The environment column of the tables: "one host, tsc"."""
    return f"one host, {clocksource(host) or 'clock unknown'}"


def seed(host: dict) -> str | None:
    found = find(host, "seed")
    return None if found is None else str(found)


def command(host: dict) -> str | None:
    """The command line that made the folder."""
    found = find(host, "command", "command_line", "argv")
    if isinstance(found, list):
        found = " ".join(map(str, found))
    return str(found) if found else None


def machine(host: dict) -> str:
    """The machine in half a line: "Xeon Gold, 2 CPUs, KVM, Linux 6.18, tsc"."""
    n = cpus(host)
    parts = [
        cpu(host),
        f"{n} CPU{'s' if n != 1 else ''}" if n else None,
        {None: None, "container": "in a container"}.get(virtual(host), f"a virtual machine ({virtual(host)})"),
        f"Linux {kernel(host)}" if kernel(host) else None,
        f"clocksource {clocksource(host)}" if clocksource(host) else None,
    ]
    return ", ".join(p for p in parts if p) or "an unknown host"


def flat(facts: dict, prefix: str = "") -> list[tuple[str, str]]:
    """All facts as (name, value) pairs, nested names joined by a space."""
    pairs = []
    for key, value in facts.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, dict):
            pairs += flat(value, name)
        elif isinstance(value, list) and not any(isinstance(v, dict) for v in value):
            pairs.append((name, listing([str(v) for v in value]) or "none"))
        elif isinstance(value, list):
            pairs += [p for i, v in enumerate(value, 1) for p in flat(v, f"{name} {i}")]
        else:
            pairs.append((name, "unknown" if value is None else str(value)))
    return pairs
