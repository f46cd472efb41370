# SPDX-License-Identifier: Apache-2.0 OR MIT
"""iperf3: one server per lane that sleeps between trials, one client run per trial.

Stages: server → client command → parse. The receiver's bytes are the truth: of an upload they are in the server's own
report, which the client fetches (--get-server-output).
"""

import json
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from diolkos_lab.experiment.loads import TcpLoad, TcpName
from diolkos_lab.load import tools
from diolkos_lab.load.protocol import Load, ServerName, Used, per_gigabyte
from diolkos_lab.load.reading import Aim, LoadFault, Reading
from diolkos_lab.metric import MetricName

PORT = 5201
INTERVAL_S = 0.1
LONG_INTERVAL_S = 1.0
SERVER_COMMAND = ("iperf3", "--server", "--json", "--interval", str(INTERVAL_S))
CONNECT_MS = 2000
LEAST_BYTES = 1 << 20
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
    try:
        report = json.loads(text)
    except ValueError as error:
        raise LoadFault(f"iperf3 gave no JSON: {text.strip()[-200:] or 'no output'}") from error
    if message := report.get("error"):
        raise LoadFault(f"iperf3: {message}")
    receiver = report if load.name == "tcp-download" else report.get("server_output_json", {})
    intervals = [entry["sum"] for entry in receiver.get("intervals", [])]
    times, rates = _course(intervals, load)
    counted = [(entry["bytes"], entry["seconds"]) for entry in intervals if entry["start"] >= load.start_s - INTERVAL_S / 2]
    seconds = sum(length for _, length in counted)
    wanted = load.seconds - load.start_s if load.seconds >= 1 else INTERVAL_S  # faster than ever, it ends earlier
    if seconds < wanted / 2:
        raise LoadFault(f"iperf3: the receiver reported {seconds:.1f} s of {load.seconds - load.start_s:.1f} s")
    received = int(report["end"]["sum_received"]["bytes"])
    segment = int(report["start"].get("tcp_mss_default") or 1440)
    return Reading(
        metrics={
            "throughput": sum(count for count, _ in counted) * 8 / seconds,
            "retransmits": float(report["end"]["sum_sent"].get("retransmits", 0)),
        },
        series={"throughput": {"t": times, "y": rates}},
        received_bytes=received,
        segments=received // segment,
    )


def _course(intervals: list[dict[str, Any]], load: TcpLoad) -> tuple[list[float], list[float]]:
    """End of each interval (s) and the rate in it (bit/s), start included. Long trials are thinned to a point a second."""
    step = 1 if load.seconds <= 10 else round(LONG_INTERVAL_S / INTERVAL_S)
    whole = [entry for entry in intervals if entry["seconds"] > INTERVAL_S * COMPLETE]
    times, rates = [], []
    for first in range(0, len(whole), step):
        group = whole[first : first + step]
        times.append(round(group[-1]["end"], 3))
        rates.append(round(sum(entry["bytes"] for entry in group) * 8 / sum(entry["seconds"] for entry in group)))
    return times, rates


class Tcp(Load[TcpLoad]):
    metrics = ("throughput", "retransmits", "cpu")
    needs = tools.REQUIRED

    def __init__(self, name: TcpName, words: str) -> None:
        self.name, self.words = name, words

    def servers(self, section: TcpLoad) -> frozenset[ServerName]:
        return frozenset({"iperf3"})

    def obstacle(self, section: TcpLoad, congestion_controls: list[str]) -> str | None:
        name = section.congestion_control
        if name in congestion_controls:
            return None
        return f"this kernel has no TCP congestion control {name}: `modprobe tcp_{name}`"

    def command(self, section: TcpLoad, aim: Aim) -> list[str]:
        return client_command(section, aim.target, aim.fastest)

    def read(self, text: str, section: TcpLoad) -> Reading:
        return parse(text, section)

    def costs(self, section: TcpLoad, reading: Reading, used: Used) -> dict[MetricName, float]:
        return per_gigabyte(reading, used)
