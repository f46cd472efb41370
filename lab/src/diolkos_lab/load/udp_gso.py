# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Datagrams as QUIC sends them: up to 64 KiB with one system call, in one piece through the kernel (UDP GSO, and GRO).

Stages: client command → parse. iperf3 sends each datagram by itself, so that what it measures is mostly the sender.
"""

import json
import sys
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.streams import UdpGsoLoad
from diolkos_lab.load import cpu_shares, datagrams, tools
from diolkos_lab.load.interface import CpuUsage, Load, ServerName, per_gigabyte
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading
from diolkos_lab.metric import MetricName

PORT = 5210
INTERVAL_S = 0.1
_PROGRAMS = Path(datagrams.__file__).parent
# Neither the user's packages nor their settings have a part in it, and it starts faster without.
_PYTHON = (sys.executable, "-I", "-S")
SERVER_COMMAND = (*_PYTHON, str(_PROGRAMS / "receiver.py"), str(PORT))


def parse(text: str, load: UdpGsoLoad) -> Reading:
    """Received bit/s from `start_s` to the end, share of all datagrams that was lost, and bit/s of the sender.

    Raises LoadFault when the sender or the receiver brought no result.
    """
    try:
        report: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
        received = report["received"]
        ends, amounts = received["t"], received["y"]
        total, sent, seconds = int(received["bytes"]), int(report["sent"]), float(report["seconds"])
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise LoadFault(f"UDP GSO: {' '.join(text.split())[-200:] or 'no output'}") from error
    counted = [amount for end, amount in zip(ends, amounts, strict=True) if load.start_s < end <= load.seconds + INTERVAL_S / 2]
    if not total or not counted:
        raise LoadFault("UDP GSO: no datagram arrived")
    # The last interval is rarely a whole one. Of others that are missing, nothing came.
    intervals = max(len(counted), round((load.seconds - load.start_s) / INTERVAL_S) - 1)
    course = [8 * amount / INTERVAL_S for amount in amounts]
    return Reading(
        metrics={
            "throughput": 8 * sum(counted) / (INTERVAL_S * intervals),
            "loss": max(0.0, 1 - total / (load.datagram_bytes * max(1, sent))),
            "sent_rate": 8 * load.datagram_bytes * sent / seconds,
        },
        series={"throughput": {"t": ends, "y": course}},
        seconds=seconds,
        received_bytes=total,
        packets=sent,
    )


class UdpGso(Load[UdpGsoLoad]):
    name = "udp-gso"
    words = "UDP with GSO"
    metrics: tuple[MetricName, ...] = ("throughput", "sent_rate", "loss", "socket_loss", "cpu_s_per_gb", *cpu_shares.METRICS)
    needs = tools.REQUIRED
    apart = True

    def servers(self, section: UdpGsoLoad) -> frozenset[ServerName]:
        return frozenset({"datagrams"})

    def command(self, section: UdpGsoLoad, context: ClientContext) -> list[str]:
        what = [f"{section.seconds:g}", str(section.datagram_bytes), str(section.at_once), f"{INTERVAL_S:g}"]
        return [*_PYTHON, str(_PROGRAMS / "sender.py"), str(context.target), str(PORT), *what]

    def read(self, text: str, section: UdpGsoLoad) -> Reading:
        return parse(text, section)

    def costs(self, section: UdpGsoLoad, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        return {
            "socket_loss": min(1.0, usage.socket_drops / max(1, reading.packets)),
            **per_gigabyte(reading, usage),
            **cpu_shares.shares(usage, reading, "client"),
        }
