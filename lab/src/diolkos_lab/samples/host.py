# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Facts about the host that a reader years later needs to judge the figures. What cannot be found out is null."""

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from diolkos_lab.topology.scheduling import slice_ns

CPU = Path("/sys/devices/system/cpu")
CLOCK = Path("/sys/devices/system/clocksource/clocksource0")
PACKAGES = ("altair", "diolkos-lab", "jinja2", "numpy", "pydantic", "pyroute2", "rich", "scipy", "typer", "vl-convert-python")
TOOLS = {
    "iperf3": ["iperf3", "--version"],
    "diolkos-pktgen": ["diolkos-pktgen", "--version"],
    "ping": ["ping", "-V"],
    "nft": ["nft", "--version"],
    "curl": ["curl", "--version"],
    "nginx": ["nginx", "-v"],
    "dnsperf": ["dnsperf", "-h"],
    "unbound": ["unbound", "-V"],
}


def facts() -> dict[str, Any]:
    """Everything that holds for the whole run."""
    cores = sorted(os.sched_getaffinity(0))
    return {
        "hostname": platform.node() or None,
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "architecture": platform.machine(),
        "distribution": _distribution(),
        "cpu_model": _cpu_model(),
        "cores": len(cores),
        "affinity": cores,
        "clocksource": _text(CLOCK / "current_clocksource"),
        "clocksources": (_text(CLOCK / "available_clocksource") or "").split(),
        "governor": _text(CPU / "cpu0/cpufreq/scaling_governor"),
        "mitigations": {file.name: _text(file) for file in sorted((CPU / "vulnerabilities").glob("*"))},
        "virtualisation": virtualisation(),
        "smt": _text(CPU / "smt/control"),
        "smt_siblings": sorted({text for file in CPU.glob("cpu[0-9]*/topology/thread_siblings_list") if (text := _text(file))}),
        "kernel_features": kernel_features(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "tcp_congestion_control_default": _text(Path("/proc/sys/net/ipv4/tcp_congestion_control")),
        "load_average": list(os.getloadavg()),
        "python": platform.python_version(),
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Of the tools and of Python's packages."""
    return {**{name: version(command) for name, command in TOOLS.items()}, **_packages()}


def kernel_features() -> dict[str, bool]:
    """What packet generation and its placement rest on: live frames of XDP came with 5.18, threaded NAPI with 5.12. The
    generator needs perf events to see that a CPU stood still. With short slices (6.12) nobody holds up who carries packets."""
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    return {
        "live_frames": version >= (5, 18),
        "threaded_napi": version >= (5, 12),
        "tcx": version >= (6, 6),
        "short_slices": slice_ns(0) is not None,
        "perf_events": Path("/proc/sys/kernel/perf_event_paranoid").exists(),
    }


def virtualisation() -> str | None:
    """`none`, or the hypervisor's name, or that this is a container; null when the host does not tell."""
    flags = re.search(r"^flags\s*:(.*)$", _text(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    if flags and "hypervisor" in flags[1].split():
        named = re.search(r"Hypervisor vendor:\s*(\S+)", _output(["lscpu"]) or "")
        return named[1] if named else _text(Path("/sys/class/dmi/id/sys_vendor")) or "an unnamed hypervisor"
    if Path("/run/.containerenv").exists() or Path("/.dockerenv").exists():
        return "container"
    return "none" if flags else None


def _cpu_model() -> str | None:
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", _text(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    return found[1] if found else None


def _distribution() -> str | None:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', _text(Path("/etc/os-release")) or "", re.MULTILINE)
    return found[1] if found else None


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[f"python:{name}"] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def version(command: list[str]) -> str | None:
    """The first line with a number as versions have it, else the first line."""
    lines = (_output(command) or "").strip().splitlines()
    return next((line for line in lines if re.search(r"\d\.\d", line)), lines[0] if lines else None)


def _output(command: list[str]) -> str | None:
    if not shutil.which(command[0], path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"):
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout or done.stderr


def _text(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None
