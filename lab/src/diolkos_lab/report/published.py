# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The figures of the study that `clat` repeats, as data.

Source: D. J. Wodke, "Evaluating Dual-Stack against NAT64 deployment schemes with DNS64 and CLAT", bachelor's thesis,
TU Berlin, 2025: throughput means of its 30 s runs, round-trip times of its table 5.1.
One run a cell, TCP from client to server. Tayga and Tundra were one hop from the server, Jool two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diolkos_lab.report.read import Interval

SOURCE = "Wodke, “Evaluating Dual-Stack against NAT64 deployment schemes with DNS64 and CLAT”, TU Berlin, 2025"
HOPS = {"tayga": 1, "tundra": 1, "jool": 2}


@dataclass(frozen=True)
class Environment:
    name: str
    clocksource: str
    one_host: bool
    line_rate: bool = False  # every path, native too, fills the link


AWS_HPET = Environment("AWS", "hpet", one_host=True)
AWS_KVM = Environment("AWS", "kvm-clock", one_host=True)
SINGLE_HPET = Environment("one host", "hpet", one_host=True)
SINGLE_TSC = Environment("one host", "tsc", one_host=True)
DUAL_HPET = Environment("two hosts", "hpet", one_host=False)
DUAL_TSC = Environment("two hosts", "tsc", one_host=False, line_rate=True)


@dataclass(frozen=True)
class Throughput:
    """Means in bit/s. `native` holds the native IPv6 means by hops; two values where the thesis has two."""

    environment: Environment
    translated: dict[str, float | None]  # None: the tool failed there
    native: dict[int, tuple[float, ...]]


@dataclass(frozen=True)
class Rtt:
    """Averages of 30 echoes in s, translated and native from the same namespace."""

    environment: str
    translated: dict[str, float | None]
    native: dict[str, float]


def _gbit(env: Environment, means: tuple[Any, ...], one_hop: tuple[Any, ...], two_hops: tuple[Any, ...]) -> Throughput:
    values = dict(zip(("tayga", "tundra", "jool"), means, strict=True))
    return Throughput(
        env,
        {tool: None if v is None else v * 1e9 for tool, v in values.items()},
        {1: tuple(v * 1e9 for v in one_hop), 2: tuple(v * 1e9 for v in two_hops)},
    )


def _ms(env: str, translated: dict[str, Any], native: dict[str, Any]) -> Rtt:
    return Rtt(
        env,
        {tool: None if v is None else v / 1e3 for tool, v in translated.items()},
        {tool: v / 1e3 for tool, v in native.items()},
    )


THROUGHPUT = [
    _gbit(AWS_HPET, (0.187, 0.432, 9.02), (10.06,), (9.42,)),
    _gbit(AWS_KVM, (0.834, 1.236, 16.0), (14.8, 23.3), (19.9,)),
    _gbit(SINGLE_HPET, (None, 0.518, 6.75), (8.87,), (7.09,)),
    _gbit(SINGLE_TSC, (None, 4.435, 33.87), (42.3,), (35.88,)),
    _gbit(DUAL_HPET, (None, 0.541, 0.584), (0.859,), (0.672,)),
    _gbit(DUAL_TSC, (None, 0.929, 0.929), (0.929,), (0.929,)),
]
RTT = [
    _ms("AWS", {"jool": 0.064, "tayga": 0.091, "tundra": 0.099}, {"jool": 0.053, "tayga": 0.042, "tundra": 0.042}),
    _ms("one host", {"jool": 0.189, "tayga": None, "tundra": 0.239}, {"jool": 0.171, "tayga": 0.134, "tundra": 0.131}),
    _ms(
        "two hosts",
        {"jool": 0.563, "tayga": None, "tundra": 0.666},
        {"jool": 0.532, "tayga": 0.539, "tundra": 0.537},
    ),
]


def throughput_ratio(entry: Throughput, tool: str) -> Interval | None:
    """Translated over native IPv6 of the same hops, as (lowest, highest).

    Both are equal unless the thesis has two native means for the cell, where nothing says which belongs to the tool.
    """
    value = entry.translated.get(tool)
    if value is None:
        return None
    found = [value / native for native in entry.native[HOPS[tool]]]
    return min(found), max(found)


def rtt_ratio(entry: Rtt, tool: str) -> float | None:
    """Translated over native from the same namespace."""
    value = entry.translated.get(tool)
    return None if value is None else value / entry.native[tool]
