# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ping beside TCP streams of iperf3: two programs, one trial.

Stages: command → the two outputs apart → parse each. ping starts when slow start is over and ends before the streams do, so
that every echo is one of a busy path.
"""

from diolkos_lab.experiment.loads import PingLoad, TcpLoad, TcpName
from diolkos_lab.experiment.streams import PingUnderLoad
from diolkos_lab.load import cpu_shares, iperf3, ping, tools
from diolkos_lab.load.interface import CpuUsage, Load, ServerName, per_gigabyte
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading
from diolkos_lab.metric import MetricName

OUTPUT = "echoes"  # file in the lane's folder
BETWEEN = "--- echoes"
# Arguments: file, seconds before the first echo, seconds of echoes, words of ping, `--`, words of iperf3. Every program ends
# with the shell, also where that is killed.
_SCRIPT = f"""
file=$1 start=$2 length=$3; shift 3
: >"$file"
echoes=
while [ "$1" != -- ]; do echoes="$echoes $1"; shift; done; shift
setpriv --pdeathsig KILL sh -c "sleep $start; exec timeout --signal=INT $length setpriv --pdeathsig KILL $echoes" \\
    >"$file" 2>&1 &
setpriv --pdeathsig KILL "$@"
wait
echo
echo "{BETWEEN}"
cat "$file"
"""


def client_command(load: PingUnderLoad, context: ClientContext) -> list[str]:
    echoes = ping.client_command(_ping(load), context.target, context.echo_identifier)
    streams = iperf3.client_command(_tcp(load), context.target, None)
    times = [f"{load.start_s:g}", f"{load.echoes_s:g}"]
    return ["sh", "-c", _SCRIPT, "sh", str(context.folder / OUTPUT), *times, *echoes, "--", *streams]


def parse(text: str, load: PingUnderLoad) -> Reading:
    """Median round-trip time and share of echoes lost while the streams went, and what the receiver of the streams got.

    Raises LoadFault when either program brought no result.
    """
    streams, between, echoes = text.partition(f"\n{BETWEEN}\n")
    if not between:
        raise LoadFault(f"ping beside iperf3: {text.strip()[-200:] or 'no output'}")
    carried = iperf3.parse(streams, _tcp(load))
    # What was on its way at the end is not lost: of the echoes up to the last that came back, each should have come back.
    last = max((int(sequence) for sequence, *_ in ping.REPLY.findall(echoes)), default=load.most_echoes)
    answered = ping.parse(echoes, _ping(load).model_copy(update={"count": max(last, 1)}))
    return Reading(
        metrics={**answered.metrics, "throughput": carried.metrics["throughput"]},
        series={**answered.series, **carried.series},
        seconds=carried.seconds,
        received_bytes=carried.received_bytes,
        segments=carried.segments,
    )


def _tcp(load: PingUnderLoad) -> TcpLoad:
    name: TcpName = "tcp-upload" if load.direction == "upload" else "tcp-download"
    return TcpLoad(
        name=name,
        seconds=load.seconds,
        streams=load.streams,
        start_s=load.start_s,
        congestion_control=load.congestion_control,
    )


def _ping(load: PingUnderLoad) -> PingLoad:
    return PingLoad(name="ping", count=load.most_echoes, interval_s=load.interval_s, start=0)


class PingBesideTcp(Load[PingUnderLoad]):
    name = "ping-under-load"
    words = "ping under TCP load"
    metrics: tuple[MetricName, ...] = ("rtt", "loss", "throughput", "cpu_s_per_gb", *cpu_shares.METRICS)
    needs = tools.REQUIRED | {"timeout": "apt-get install coreutils"}

    def servers(self, section: PingUnderLoad) -> frozenset[ServerName]:
        return frozenset({"iperf3"})

    def obstacle(self, section: PingUnderLoad, congestion_controls: list[str]) -> str | None:
        return iperf3.no_congestion_control(section.congestion_control, congestion_controls)

    def command(self, section: PingUnderLoad, context: ClientContext) -> list[str]:
        return client_command(section, context)

    def read(self, text: str, section: PingUnderLoad) -> Reading:
        return parse(text, section)

    def costs(self, section: PingUnderLoad, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        sender: cpu_shares.End = "client" if section.direction == "upload" else "server"
        return {**per_gigabyte(reading, usage), **cpu_shares.shares(usage, reading, sender)}
