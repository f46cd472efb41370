# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Factors of an experiment, from the name of its file in the scheme of the data published with PASTRAMI.

    clab_tb1_class_ebpf_raw_30_exp_t_10_k5.15_intel_bare-metal_nic_buf_4096_irq_pf0-4_pf1-6_date_2024-10-24_ver_02.txt

Parts may be missing. What the scheme leaves out when it has its usual value is filled in, if the name is of this scheme
at all. Parts that are not known are reported and change nothing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNPINNED, ONE_CPU, TWO_CPUS = "unpinned", "1 CPU", "2 CPUs"
ROUTING, EBPF = "IPv6 routing", "eBPF forwarding"
SITES = {"clab": "CloudLab", "mazinga": "mazinga"}
ENVIRONMENTS = {"bare-metal": "bare metal", "vm": "virtual machine", "ns": "namespaces"}
USUAL = {"function": ROUTING, "pinning": UNPINNED, "nic_buffer": 512, "duration_s": 10}

Factors = dict[str, Any]


@dataclass(frozen=True)
class Named:
    factors: Factors  # every key of KEYS; None where the name does not say
    unknown: tuple[str, ...]  # parts of the name that mean nothing here


def _whole(key: str) -> Callable[[re.Match[str]], Factors]:
    return lambda found: {key: int(found[1])}


def _text(key: str) -> Callable[[re.Match[str]], Factors]:
    return lambda found: {key: found[1]}


# In this order: a later pattern sees only what earlier ones left.
_PARTS: tuple[tuple[str, Callable[[re.Match[str]], Factors]], ...] = (
    (r"date_(\d{4}-\d{2}-\d{2})(?:T\d{2}[:_]\d{2}(?:[-+]\d{2}[:_]?\d{2})?)?", _text("date")),
    (r"ver_(\d+)", _whole("version")),
    (r"irq_[a-z]+0-(\d+)_[a-z]+1-(\d+)", lambda found: {"pinning": ONE_CPU if found[1] == found[2] else TWO_CPUS}),
    (r"nic_buf_(\d+)", _whole("nic_buffer")),
    (r"exp_t_(\d+)", _whole("duration_s")),
    (r"raw_(\d+)", _whole("runs")),
    (r"class_ebpf", lambda _: {"function": EBPF}),
    (r"class_routing", lambda _: {"function": ROUTING}),
    (r"ebpf", lambda _: {"function": EBPF}),
    (r"tb(\d+[a-z]?)", _text("testbed")),
    (r"k(\d+\.\d+(?:\.\d+)?)", _text("kernel")),
    (r"(\d+)(?:st|nd|rd|th)_exec", _whole("execution")),
    (r"(after-reboot)", lambda _: {"rebooted": True}),
    (r"(intel)", _text("nic")),
    (r"as-is", lambda _: {"pinning": UNPINNED, "nic_buffer": USUAL["nic_buffer"]}),
    (f"({'|'.join(SITES)})", lambda found: {"site": SITES[found[1]]}),
    (f"({'|'.join(ENVIRONMENTS)})", lambda found: {"environment": ENVIRONMENTS[found[1]]}),
)
_PATTERNS = [(re.compile(rf"(?<![^_]){pattern}(?![^_])"), meaning) for pattern, meaning in _PARTS]
_SUFFIX = re.compile(r"\.[A-Za-z]{1,5}$")  # never the end of a kernel's version, in a name that has no suffix
KEYS = (
    "function",
    "environment",
    "kernel",
    "pinning",
    "nic_buffer",  # packets
    "duration_s",
    "runs",  # as named; the analysis counts for itself
    "site",
    "testbed",
    "nic",
    "execution",
    "rebooted",
    "date",
    "version",
)


def parse(file: Path) -> Named:
    """The factors that the name of a file carries, folders and suffix left aside."""
    rest = _SUFFIX.sub("", file.name)
    found: dict[str, object] = {}
    for pattern, meaning in _PATTERNS:
        if match := pattern.search(rest):
            found |= {key: value for key, value in meaning(match).items() if key not in found}
            rest = rest[: match.start()] + "_" + rest[match.end() :]
    if "kernel" in found and "environment" in found:
        found = USUAL | found
    unknown = tuple(part for part in rest.split("_") if part)
    return Named({key: found.get(key) for key in KEYS}, unknown)


def title(factors: Factors) -> str:
    """The factors in words, for a picture's head; empty when the name says nothing."""
    buffer, seconds, testbed = factors["nic_buffer"], factors["duration_s"], factors["testbed"]
    parts = [
        factors["function"],
        factors["environment"],
        f"kernel {factors['kernel']}" if factors["kernel"] else None,
        factors["pinning"] if factors["pinning"] in (None, UNPINNED) else f"pinned to {factors['pinning']}",
        f"ring {buffer}" if buffer else None,
        f"{seconds} s" if seconds else None,
        factors["site"] + (f" testbed {testbed}" if testbed else "") if factors["site"] else None,
        f"execution {factors['execution']}" if factors["execution"] else None,
        "after reboot" if factors["rebooted"] else None,
        factors["date"],
    ]
    return ", ".join(part for part in parts if part)


def differences(factors: Sequence[Factors]) -> list[str]:
    """Titles of experiments that stand together, without what all of them have in common."""
    common = {key for key in KEYS if all(each[key] == factors[0][key] for each in factors)}
    if "testbed" not in common:
        common.discard("site")  # a testbed is one of a site
    return [title({key: None if key in common else value for key, value in each.items()}) for each in factors]
