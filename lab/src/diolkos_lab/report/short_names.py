# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a load is called where a terminal has little room."""

from collections.abc import Callable, Mapping
from typing import Any

from diolkos_lab.experiment.frames import traffic_words


def application(row: Mapping[str, Any]) -> str:
    """`HTTP by name, 1 KiB`; `DNS cold, 1000/s`; `200000 new flows, few bindings`; `rfc8219, 84 B, 16 flows`."""
    said = _SAID.get(row["load"])
    return said(row) if said else f"{row['load']}, {size(row['size'])}, {traffic_words(row)}"


def _stream(row: Mapping[str, Any]) -> str:
    if row["load"] == "latency":
        return f"latency at {row['share']:g} of native's rate, {size(row['size'])}, {traffic_words(row)}"
    if row["load"] == "udp-gso":
        return f"UDP with GSO, {size(row['datagram'])}"
    how = row.get("direction") or row["rate"]
    rate = how if isinstance(how, str) else f"{how:.3g} bit/s"
    return f"{row['load']}, {rate}, {row['streams']} stream{'s' * (row['streams'] != 1)}"


def size(count: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power and count % (1 << power) == 0:
            return f"{count >> power} {unit}"
    return f"{count} B"


_SAID: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    **dict.fromkeys(("udp", "udp-gso", "ping-under-load", "latency"), _stream),
    "http": lambda row: f"HTTP by {row['by']}, {size(row['object'])}",
    "dns": lambda row: f"DNS {row['cache']}, {'most' if row['offered'] == 'most' else str(row['offered']) + '/s'}",
    "forwarding-rate": lambda row: f"forwarding rate, {size(row['size'])}, {traffic_words(row)}",
    "new-flows": lambda row: f"{row['sessions']} new flows, {row['bindings']} bindings",
    "connections": lambda row: f"{row['sessions']} TCP connections, {row['bindings']} bindings",
    "capacity": lambda row: f"sessions held at once, {row['bindings']} bindings",
}
