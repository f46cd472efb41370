# SPDX-License-Identifier: Apache-2.0 OR MIT
"""curl: one object again and again for the length of a trial, in one process, each time over a new connection.

Stages: command → parse. The server closes each connection, so the next fetch opens another. curl writes a line for each
fetch at once, without a buffer, because the end of the time ends it too; the fetch that is cut off then has no line.
"""

import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from diolkos_lab.experiment.loads import LARGE, HttpLoad
from diolkos_lab.load import names, tools
from diolkos_lab.load.interface import CpuUsage, Load, ServerName, per_gigabyte
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading, course
from diolkos_lab.metric import MetricName, RowMetric

OK = 200
# Each trial has a port of the server's to itself. A client soon comes back to a port of its own, and a stateful translator
# holds a connection for four minutes after its end (RFC 6146 §4, TCP_TRANS): one trial's connections would meet those of
# the trial before.
PORTS = range(8000, 8128)
PATIENCE_S = 5  # for one fetch
# Standard error has no buffer. Times are in seconds with six decimals, from the start of the fetch.
_LINE = "%{stderr}%{exitcode} %{http_code} %{size_download} %{size_header} %{time_namelookup} %{time_total}\n"
_FETCH = re.compile(r"^(\d+) (\d+) (\d+) (\d+) (\d+\.\d+) (\d+\.\d+)$", re.MULTILINE)
_ERROR = re.compile(r"^curl: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Fetch:
    """One line of curl's."""

    code: int  # of HTTP
    size: int  # of the object, bytes
    head: int
    lookup_s: float  # from the start to the end of the name lookup
    total_s: float


def client_command(load: HttpLoad, context: ClientContext) -> list[str]:
    host = names.pattern(context.serial) if load.by == "name" else _literal(context)
    port = PORTS[context.serial % len(PORTS)]
    more = "" if load.by == "name" else f"?[1-{names.MOST}]"
    fetch = [
        "timeout",
        f"{load.seconds:g}",
        # It must not go on fetching when whoever watches the time is killed.
        "setpriv",
        "--pdeathsig",
        "KILL",
        "curl",
        "-q",  # no configuration of the user
        "--silent",
        "--show-error",
        "--fail-early",
        "--noproxy",
        "*",
        "--ipv6" if isinstance(context.target, IPv6Address) else "--ipv4",
        "--max-time",
        str(PATIENCE_S),
        "--output",
        "/dev/null",
        "--write-out",
        _LINE,
        f"http://{host}:{port}/{load.object_bytes}{more}",
    ]
    together = ["sh", "-c", 'exec "$@" 2>&1', "sh", *fetch]
    return names.with_resolver(together, context.resolver, context.folder) if load.by == "name" else together


def _literal(context: ClientContext) -> str:
    return f"[{context.target}]" if isinstance(context.target, IPv6Address) else str(context.target)


def parse(text: str, load: HttpLoad) -> Reading:
    """Of a small object the median time of a fetch and fetches per second; of a large one bits per second.

    Every fetch has to bring the whole object. Raises LoadFault for the first that does not, or when there is none.
    """
    fetches = [
        Fetch(int(code), int(size), int(head), float(lookup), float(total))
        for _, code, size, head, lookup, total in _FETCH.findall(text)
    ]
    for number, fetch in enumerate(fetches, start=1):
        if fetch.code != OK or fetch.size != load.object_bytes:
            said = _ERROR.search(text)
            why = said[1] if said else f"HTTP {fetch.code}, {fetch.size} of {load.object_bytes} bytes"
            raise LoadFault(f"curl: fetch {number} failed: {why}")
    if not fetches:
        # curl itself, or what was to start it.
        said = _ERROR.search(text)
        why = said[1] if said else next(reversed(text.strip().splitlines()), "no fetch was done in time")
        raise LoadFault(f"curl: {why}")
    times = [fetch.total_s for fetch in fetches]
    received = sum(fetch.size + fetch.head for fetch in fetches)
    if load.is_large:
        rate = load.object_bytes * len(fetches) * 8 / sum(times)
        return Reading({"throughput": rate}, received_bytes=received, connections=len(fetches))
    metrics: dict[MetricName, float] = {"latency": statistics.median(times), "rate": len(times) / sum(times)}
    if load.by == "name":
        metrics["lookup"] = statistics.median(fetch.lookup_s for fetch in fetches)
    return Reading(metrics, {"latency": course(times)}, received_bytes=received, connections=len(fetches))


class Http(Load[HttpLoad]):
    name = "http"
    words = "HTTP"
    metrics = ("latency", "rate", "lookup", "throughput", "cpu_s_per_gb")
    needs = tools.REQUIRED | tools.OF_HTTP
    ended_by_time = True

    def required(self, section: HttpLoad) -> Mapping[str, str]:
        return {**self.needs, **(tools.OF_NAMES if section.by == "name" else {})}

    def servers(self, section: HttpLoad) -> frozenset[ServerName]:
        return frozenset({"nginx", "authority"} if section.by == "name" else {"nginx"})

    def command(self, section: HttpLoad, context: ClientContext) -> list[str]:
        return client_command(section, context)

    def read(self, text: str, section: HttpLoad) -> Reading:
        return parse(text, section)

    def main(self, factors: Mapping[str, Any]) -> RowMetric:
        return "throughput" if factors["object"] >= LARGE else "latency"

    def costs(self, section: HttpLoad, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        return per_gigabyte(reading, usage)
