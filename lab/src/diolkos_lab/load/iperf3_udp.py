# SPDX-License-Identifier: Apache-2.0 OR MIT
"""iperf3 with datagrams. The receiver's report is the truth: what the sender claims may never have arrived.

Stages: client command → parse. Loss is that of the receiver's sequence numbers. The counters of its kernel say how much of
that its own socket dropped, which is no loss of the path.
"""

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from diolkos_lab.experiment.streams import UdpLoad
from diolkos_lab.load import cpu_shares, iperf3, tools
from diolkos_lab.load.interface import CpuUsage, Load, ServerName, per_gigabyte
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading
from diolkos_lab.metric import MetricName

# Waits for the receiver's next turn on its CPU. Host-wide limits are obeyed, and left as they are.
SOCKET_BYTES = 2 << 20
LIMITS = Path("/proc/sys/net/core/rmem_max"), Path("/proc/sys/net/core/wmem_max")
# The sender keeps its rate by bursts, one in each of these spans. The usual millisecond makes a burst that overflows queues.
PACING_US = 100


def client_command(load: UdpLoad, target: IPv4Address | IPv6Address) -> list[str]:
    each = 0 if isinstance(load.rate, str) else round(load.rate / load.streams)
    window = min([SOCKET_BYTES, *(int(file.read_text()) for file in LIMITS if file.exists())])
    return [
        "iperf3",
        "--client",
        str(target),
        "--udp",
        "--json",
        "--get-server-output",
        "--time",
        str(load.seconds),
        "--interval",
        str(iperf3.INTERVAL_S),
        "--parallel",
        str(load.streams),
        "--bitrate",
        str(each),
        "--length",
        str(load.datagram_bytes),
        "--window",
        str(window),
        "--pacing-timer",
        str(PACING_US),
        "--connect-timeout",
        str(iperf3.CONNECT_MS),
    ]


def parse(text: str, load: UdpLoad) -> Reading:
    """Received bit/s, share that was lost, and bit/s of the sender, from `start_s` to the end.

    Raises LoadFault when iperf3 reports an error or when the receiver's report is not there.
    """
    report = iperf3.report_of(text)
    received, sent = (
        [entry["sum"] for entry in part.get("intervals", [])] for part in (report.get("server_output_json", {}), report)
    )
    counted = iperf3.after_start(received, load.seconds, load.start_s)
    sending = iperf3.after_start(sent, load.seconds, load.start_s)
    try:
        expected = sum(int(entry["packets"]) for entry in counted)
        lost = sum(int(entry["lost_packets"]) for entry in counted)
    except KeyError as error:
        raise LoadFault(f"iperf3: the receiver does not report {error}") from error
    rate = iperf3.bits_per_s(counted)
    if not rate:
        raise LoadFault("iperf3: no datagram arrived")
    return Reading(
        # A datagram that comes out of order takes a loss back, maybe one of the start.
        metrics={
            "throughput": rate,
            "loss": max(0.0, lost / max(1, expected)),
            "sent_rate": iperf3.bits_per_s(sending),
        },
        series={"throughput": iperf3.course(received, load.seconds)},
        seconds=iperf3.sent_s(report),
        received_bytes=sum(int(entry["bytes"]) for entry in received),
        packets=sum(int(entry["packets"]) for entry in sent),
    )


class Udp(Load[UdpLoad]):
    name = "udp"
    words = "UDP"
    metrics: tuple[MetricName, ...] = (
        "throughput",
        "sent_rate",
        "loss",
        "socket_loss",
        "cpu_s_per_gb",
        "attempts",
        *cpu_shares.METRICS,
    )
    needs = tools.REQUIRED
    apart = True

    def servers(self, section: UdpLoad) -> frozenset[ServerName]:
        return frozenset({"iperf3"})

    def command(self, section: UdpLoad, context: ClientContext) -> list[str]:
        return client_command(section, context.target)

    def read(self, text: str, section: UdpLoad) -> Reading:
        return parse(text, section)

    def costs(self, section: UdpLoad, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        socket_loss = min(1.0, usage.socket_drops / max(1, reading.packets))
        return {
            "socket_loss": socket_loss,
            **per_gigabyte(reading, usage),
            **cpu_shares.shares(usage, reading, "client"),
        }
