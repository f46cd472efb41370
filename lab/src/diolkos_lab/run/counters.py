# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kernel's counters before and after a trial, and what changed between.

Stages: open once → read (microseconds, so that reading disturbs nothing) → difference.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.topology import namespace
from diolkos_lab.topology.processes import TICK_S

NAMES = ("dev", "snmp", "snmp6", "netstat")
LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp6


@dataclass(frozen=True)
class HostCounters:
    """CPU time and clocks of the whole host."""

    cpus: int  # that are at work
    busy_s: float  # all CPUs: user, nice, system, hard and soft interrupts
    steal_s: float
    softnet_drops: int
    realtime_s: float
    monotonic_s: float
    interrupts_s: float = 0.0  # hard and soft ones

    @classmethod
    def read(cls) -> "HostCounters":
        return parse_host(
            Path("/proc/stat").read_text(),
            Path("/proc/net/softnet_stat").read_text(),
            time.clock_gettime(time.CLOCK_REALTIME),
            time.clock_gettime(time.CLOCK_MONOTONIC_RAW),
        )


def parse_host(stat: str, softnet: str, realtime_s: float, monotonic_s: float, tick_s: float = TICK_S) -> HostCounters:
    """/proc/stat and /proc/net/softnet_stat of any host."""
    # proc_stat(5): user nice system idle iowait irq softirq steal
    total, *others = stat.splitlines()
    ticks = [int(word) for word in total.split()[1:9]]
    # The second column of every CPU's line counts packets its backlog had no room for.
    drops = sum(int(line.split()[1], 16) for line in softnet.splitlines())
    return HostCounters(
        cpus=sum(line.startswith("cpu") for line in others),
        busy_s=(sum(ticks[0:3]) + ticks[5] + ticks[6]) * tick_s,
        steal_s=ticks[7] * tick_s,
        softnet_drops=drops,
        realtime_s=realtime_s,
        monotonic_s=monotonic_s,
        interrupts_s=(ticks[5] + ticks[6]) * tick_s,
    )


@dataclass(frozen=True)
class Device:
    """One line of /proc/net/dev, directions as the device sees them."""

    rx_bytes: int
    rx_packets: int
    rx_drops: int  # errors included
    tx_bytes: int
    tx_packets: int
    tx_drops: int

    def __sub__(self, before: "Device") -> "Device":
        mine, theirs = vars(self), vars(before)
        return Device(**{name: mine[name] - theirs[name] for name in mine})


@dataclass(frozen=True)
class NetCounters:
    """Devices and protocol counters of one namespace."""

    devices: dict[str, Device]
    protocols: dict[str, int]  # `Ip6InOctets`, `IcmpInEchos`, `IpExtInOctets`…


class Window:
    """A namespace's counter files, opened once from inside; they go on showing that namespace from outside."""

    def __init__(self, where: str) -> None:
        with namespace.entered(where):
            self._files = [os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in (*NAMES, "tcp6")]

    def close(self) -> None:
        """An open window keeps the namespace alive, so it has to be closed before that can go."""
        while self._files:
            os.close(self._files.pop())

    def read(self) -> NetCounters:
        return net_counters([_whole(file) for file in self._files[: len(NAMES)]])

    def devices_as_text(self) -> str:
        """As short a look as there is; `devices` reads it, later."""
        return _whole(self._files[0])

    def is_listening(self, port: int) -> bool:
        """Does anything accept IPv6 (and with it IPv4) TCP connections on the port?"""
        lines = (line.split() for line in _whole(self._files[-1]).splitlines()[1:])
        return any(int(line[1].rpartition(":")[2], 16) == port and line[3] == LISTEN for line in lines)


def net_counters(texts: Sequence[str]) -> NetCounters:
    """From the files of `NAMES`, in that order."""
    device, snmp, snmp6, netstat = texts
    return NetCounters(devices(device), {**_paired_lines(snmp), **_plain_lines(snmp6), **_paired_lines(netstat)})


def difference(after: NetCounters, before: NetCounters) -> NetCounters:
    """What was counted in between. A device that appeared meanwhile counts from zero."""
    nothing = Device(0, 0, 0, 0, 0, 0)
    return NetCounters(
        {name: device - before.devices.get(name, nothing) for name, device in after.devices.items()},
        {name: count - before.protocols.get(name, 0) for name, count in after.protocols.items()},
    )


def drops(changes: Iterable[NetCounters], wanted: Mapping[str, object] | None = None) -> int:
    """Packets dropped on the devices; `wanted` limits it to these names."""
    return sum(
        device.rx_drops + device.tx_drops
        for change in changes
        for name, device in change.devices.items()
        if wanted is None or name in wanted
    )


def _whole(file: int) -> str:
    parts = []
    offset = 0
    while part := os.pread(file, 1 << 16, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts).decode()


def devices(text: str) -> dict[str, Device]:
    found = {}
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        n = [int(word) for word in numbers.split()]
        found[name.strip()] = Device(n[0], n[1], n[2] + n[3], n[8], n[9], n[10] + n[11])
    return found


def _paired_lines(text: str) -> dict[str, int]:
    """`Ip: A B` over `Ip: 1 2` gives IpA and IpB."""
    lines = text.splitlines()
    return {
        title[:-1] + name: int(value)
        for names, values in zip(lines[::2], lines[1::2], strict=False)
        for title in [names.split()[0]]
        for name, value in zip(names.split()[1:], values.split()[1:], strict=True)
    }


def _plain_lines(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}
