# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ping (iputils): one round-trip time per packet.

ping prints three digits, and whole microseconds below a millisecond, while a veth path takes about ten of them. The median of
such rounded numbers moves in steps of a microsecond, 10 % of the path. The median for grouped data knows that 9 stands for
the range 8.5 to 9.5 and uses how many values lie in it, which gives back the resolution the single value has lost.
"""

import re
import statistics
from ipaddress import IPv4Address, IPv6Address

from diolkos_lab.experiment.loads import PingLoad
from diolkos_lab.load import tools
from diolkos_lab.load.interface import Load
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading

LOST_AFTER_S = 1
REPLY = re.compile(r"icmp_seq=(\d+) .*?time=([0-9.]+) ms(.*)$", re.MULTILINE)
_SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received")


def client_command(load: PingLoad, target: IPv4Address | IPv6Address, identifier: int | None = None) -> list[str]:
    return [
        "ping",
        "-n",
        "-c",
        str(load.count),
        "-i",
        f"{load.interval_s:g}",
        "-W",
        str(LOST_AFTER_S),
        *([] if identifier is None else ["-e", str(identifier)]),
        str(target),
    ]


def parse(text: str, load: PingLoad) -> Reading:
    """Median round-trip time and loss ratio of one run of ping, the first `start` packets not counted.

    Raises LoadFault when ping did not reach its summary, or when no reply is left to count.
    """
    summary = _SUMMARY.search(text)
    if not summary:
        raise LoadFault(f"ping: {text.strip().splitlines()[-1] if text.strip() else 'no output'}")
    times_us = {
        int(sequence): float(milliseconds) * 1000
        for sequence, milliseconds, rest in REPLY.findall(text)
        if "DUP!" not in rest and int(sequence) > load.start
    }
    if not times_us:
        raise LoadFault(f"ping: no reply to {summary[1]} packets")
    counted = load.count - load.start
    return Reading(
        metrics={
            "rtt": statistics.median_grouped(times_us.values(), interval=_grid_us(text, times_us)) * 1e-6,
            "loss": 1 - len(times_us) / counted,
        },
        series={
            "rtt": {
                "t": [round((sequence - 1) * load.interval_s, 6) for sequence in times_us],
                "y": [round(microseconds * 1e-6, 9) for microseconds in times_us.values()],
            }
        },
    )


def _grid_us(text: str, times_us: dict[int, float]) -> float:
    """By how much times around the median differ at least: 1 µs below 1 ms, 10 µs from there to 10 ms, and so on."""
    middle = statistics.median_low(times_us.values())
    printed = next(time for sequence, time, _ in REPLY.findall(text) if times_us.get(int(sequence)) == middle)
    return 1000 * 10.0 ** -len(printed.partition(".")[2])


class Ping(Load[PingLoad]):
    name = "ping"
    words = "ping"
    metrics = ("rtt", "loss")
    needs = tools.REQUIRED

    def command(self, section: PingLoad, context: ClientContext) -> list[str]:
        return client_command(section, context.target, context.echo_identifier)

    def read(self, text: str, section: PingLoad) -> Reading:
        return parse(text, section)
