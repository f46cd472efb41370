# SPDX-License-Identifier: Apache-2.0 OR MIT
"""iperf3: one server per lane that sleeps between trials, one client run per trial.

Stages: server → client command → report → parse. The receiver's bytes are the truth: of an upload they are in the server's own
report, which the client fetches (--get-server-output).
"""

import json
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from diolkos_lab.experiment.loads import TcpLoad, TcpName
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load import cpu_shares, tools
from diolkos_lab.load.interface import CpuUsage, Load, ServerName, per_gigabyte
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading
from diolkos_lab.metric import MetricName
from diolkos_lab.topology.addresses import BOUND

PORT = BOUND
INTERVAL_S = 0.1
LONG_INTERVAL_S = 1.0
SERVER_COMMAND = ("iperf3", "--server", "--json", "--interval", str(INTERVAL_S))
CONNECT_MS = 2000
LEAST_BYTES = 1 << 20
BUSY = "the server is busy running a test"
COMPLETE = 0.5  # of an interval's length; iperf3 ends with a sliver of a few milliseconds


def client_command(load: TcpLoad, target: IPv4Address | IPv6Address, fastest: float | None) -> list[str]:
    """iperf3 knows whole seconds only. What shall be shorter is as many bytes as that takes at the `fastest` rate (bit/s) that
    this path has shown, and a second where it has shown none yet."""
    length = ["--time", str(max(1, int(load.seconds)))]
    if load.seconds < 1 and fastest:
        length = ["--bytes", str(max(LEAST_BYTES, round(fastest / 8 * load.seconds)))]
    return [
        "iperf3",
        "--client",
        str(target),
        "--json",
        "--get-server-output",
        *length,
        "--interval",
        str(INTERVAL_S),
        "--parallel",
        str(load.streams),
        "--congestion",
        load.congestion_control,
        "--connect-timeout",
        str(CONNECT_MS),
        *(["--reverse"] if load.name == "tcp-download" else []),
    ]


def parse(text: str, load: TcpLoad) -> Reading:
    """Throughput of the receiver from `start_s` to the end, with its course; retransmits of the sender.

    Raises LoadFault when iperf3 reports an error or when the receiver's report is not there.
    """
    report = report_of(text)
    receiver = report if load.name == "tcp-download" else report.get("server_output_json", {})
    intervals = [entry["sum"] for entry in receiver.get("intervals", [])]
    counted = after_start(intervals, load.seconds, load.start_s)
    received = int(report["end"]["sum_received"]["bytes"])
    segment = int(report["start"].get("tcp_mss_default") or 1440)
    return Reading(
        metrics={
            "throughput": bits_per_s(counted),
            "retransmits": float(report["end"]["sum_sent"].get("retransmits", 0)),
        },
        series={"throughput": course(intervals, load.seconds)},
        seconds=sent_s(report),
        received_bytes=received,
        segments=received // segment,
    )


def sent_s(report: dict[str, Any]) -> float:
    """For how long the sender sent. Less or more than what was asked for where a trial ends by its bytes."""
    return float(report["end"].get("sum_sent", report["end"].get("sum", {})).get("seconds", 0.0))


def report_of(text: str) -> dict[str, Any]:
    """What the client printed. Raises LoadFault when that is no report, or one of an error.

    InstrumentFault where the server is still busy with another trial: the path has brought its answer.
    """
    try:
        report = json.loads(text)
    except ValueError as error:
        raise LoadFault(f"iperf3 gave no JSON: {text.strip()[-200:] or 'no output'}") from error
    if not isinstance(report, dict):
        raise LoadFault(f"iperf3 gave no report: {text.strip()[:200]}")
    if message := report.get("error"):
        if BUSY in message:
            raise InstrumentFault(f"iperf3: {message}")
        raise LoadFault(f"iperf3: {message}")
    return report


def after_start(intervals: list[dict[str, Any]], seconds: float, start_s: float) -> list[dict[str, Any]]:
    """The receiver's intervals that count. Raises LoadFault where they are less than half of the trial, or, of one that ends by
    its bytes, less than half of one interval."""
    counted = [entry for entry in intervals if entry["start"] >= start_s - INTERVAL_S / 2]
    reported_s = sum(entry["seconds"] for entry in counted)
    wanted_s = seconds - start_s if seconds >= 1 else INTERVAL_S  # faster than ever, it ends earlier
    if reported_s < wanted_s / 2:
        raise LoadFault(f"iperf3: the receiver reported {reported_s:.1f} s of {seconds - start_s:.1f} s")
    return counted


def bits_per_s(intervals: list[dict[str, Any]]) -> float:
    seconds = sum(float(entry["seconds"]) for entry in intervals)
    return sum(int(entry["bytes"]) for entry in intervals) * 8 / seconds if seconds else 0.0


def course(intervals: list[dict[str, Any]], seconds: float) -> dict[str, list[float]]:
    """End of each interval (s) and the rate in it (bit/s), start included. Long trials are thinned to a point a second."""
    step = 1 if seconds <= 10 else round(LONG_INTERVAL_S / INTERVAL_S)
    whole = [entry for entry in intervals if entry["seconds"] > INTERVAL_S * COMPLETE]
    times: list[float] = []
    rates: list[float] = []
    for first in range(0, len(whole), step):
        group = whole[first : first + step]
        times.append(round(group[-1]["end"], 3))
        rates.append(round(sum(entry["bytes"] for entry in group) * 8 / sum(entry["seconds"] for entry in group)))
    return {"t": times, "y": rates}


def no_congestion_control(name: str, known: list[str]) -> str | None:
    """What to do where the kernel does not know it."""
    return None if name in known else f"this kernel has no TCP congestion control {name}: `modprobe tcp_{name}`"


class Tcp(Load[TcpLoad]):
    metrics: tuple[MetricName, ...] = ("throughput", "retransmits", "cpu_s_per_gb", *cpu_shares.METRICS)
    needs = tools.REQUIRED

    def __init__(self, name: TcpName, words: str) -> None:
        self.name, self.words = name, words

    def servers(self, section: TcpLoad) -> frozenset[ServerName]:
        return frozenset({"iperf3"})

    def obstacle(self, section: TcpLoad, congestion_controls: list[str]) -> str | None:
        return no_congestion_control(section.congestion_control, congestion_controls)

    def command(self, section: TcpLoad, context: ClientContext) -> list[str]:
        return client_command(section, context.target, context.fastest)

    def read(self, text: str, section: TcpLoad) -> Reading:
        return parse(text, section)

    def costs(self, section: TcpLoad, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        sender: cpu_shares.End = "client" if section.name == "tcp-upload" else "server"
        return {**per_gigabyte(reading, usage), **cpu_shares.shares(usage, reading, sender)}
