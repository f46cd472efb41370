# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Facts about the host that a reader years later needs to judge the figures. What cannot be found out is null."""

import contextlib
import gzip
import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.ethtool import Ethtool
from pyroute2.ethtool.ioctl import EthtoolError

from diolkos_lab.topology.scheduling import slice_ns

CPU = Path("/sys/devices/system/cpu")
NET = Path("/sys/class/net")
MOST_NICS = 32
LOOPBACK = 8  # IFF_LOOPBACK, netdevice(7)
OFFLOADS = (
    "rx-checksum",
    "tx-checksum-ip-generic",
    "tx-scatter-gather",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "rx-gro",
    "rx-lro",
)
# Of the host; the lab sets those of its namespaces itself.
SYSCTLS = (
    "net/core/default_qdisc",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/bpf_jit_enable",
    "net/core/bpf_jit_harden",
    "net/ipv4/tcp_available_congestion_control",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_ecn",
    "net/ipv6/route/max_size",
    "kernel/sched_autogroup_enabled",
    "kernel/nmi_watchdog",
    "kernel/perf_event_paranoid",
)
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
        **kernel_clock(),
        "conntrack_max": conntrack_max(),
        "sysctls": {name: _text(Path("/proc/sys", name)) for name in SYSCTLS},
        "nics": nics(),
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


def kernel_clock() -> dict[str, Any]:
    """Whether the kernel counts interrupts by themselves (otherwise whoever is interrupted is charged), and ticks a second."""
    text = _kernel_configuration()
    if text is None:
        return {"irq_time_accounting": None, "hz": None}
    ticks = re.search(r"^CONFIG_HZ=(\d+)$", text, re.MULTILINE)
    counted = re.search(r"^CONFIG_(?:IRQ_TIME_ACCOUNTING|VIRT_CPU_ACCOUNTING_NATIVE)=y$", text, re.MULTILINE)
    return {"irq_time_accounting": bool(counted), "hz": int(ticks[1]) if ticks else None}


def _kernel_configuration() -> str | None:
    try:
        return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode(errors="replace")
    except OSError:
        return _text(Path(f"/boot/config-{platform.release()}"))


def conntrack_max() -> int | None:
    """Connections that the kernel tracks at most; None while it tracks none."""
    text = _text(Path("/proc/sys/net/netfilter/nf_conntrack_max"))
    return int(text) if text else None


def nics() -> dict[str, dict[str, Any]]:
    """Devices of the host but the loopback: driver, MTU, speed (Mbit/s), qdisc, and the offloads that matter."""
    found = {}
    with IPRoute() as route:
        links = [link for link in route.get_links() if not link["flags"] & LOOPBACK][:MOST_NICS]
        for link in links:
            name = link.get_attr("IFLA_IFNAME")
            driver = NET / name / "device/driver"
            speed = _text(NET / name / "speed")
            found[name] = {
                "driver": driver.resolve().name if driver.exists() else link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND"),
                "mtu": link.get_attr("IFLA_MTU"),
                "up": link["state"] == "up",
                "speed": int(speed) if speed and speed.isdigit() else None,
                "qdisc": link.get_attr("IFLA_QDISC"),
                "offloads": _offloads(name),
            }
    return found


def _offloads(name: str) -> dict[str, bool]:
    """Empty where the kernel does not tell."""
    try:
        with contextlib.closing(Ethtool()) as ethtool:
            features = ethtool.get_features(name).features
    except (OSError, EthtoolError):
        return {}
    return {feature: features[feature].enable for feature in OFFLOADS if feature in features}


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
