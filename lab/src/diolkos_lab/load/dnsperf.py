# SPDX-License-Identifier: Apache-2.0 OR MIT
"""dnsperf: queries for IPv6 addresses, at a fixed rate for the time of each answer, or as many as are answered.

Stages: names → commands → parse. A query counts as lost after a second (RFC 8219 §9.2). dnsperf looks at nothing of an
answer but its code; whether it is the right one is seen in `answers.py`.
"""

import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.loads import DnsLoad
from diolkos_lab.load import names, tools
from diolkos_lab.load.interface import CpuUsage, Load, ServerName
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading
from diolkos_lab.metric import MetricName, RowMetric

TIMEOUT_S = 1
OUTSTANDING = 100  # queries without an answer at a time, when nothing else limits the rate
WARM_NAMES = 100
WARM_SERIAL = 0
# More names than any resolver here answers in a second; a trial that runs out of them ends early and says its own length.
COLD_NAMES_PER_S = 150_000

_REPLY = re.compile(r"^> ([A-Z0-9]+) \S+ AAAA (\d+\.\d+)$", re.MULTILINE)
_SENT = re.compile(r"Queries sent: +(\d+)")
_COMPLETED = re.compile(r"Queries completed: +(\d+)")
_CODES = re.compile(r"Response codes: +(.*)")
_RUN_TIME = re.compile(r"Run time \(s\): +(\d+\.\d+)")
_RATE = re.compile(r"Queries per second: +(\d+\.\d+)")
_WARNING = re.compile(r"^Warning: (.+)$", re.MULTILINE)


def write_names(load: DnsLoad, context: ClientContext) -> Path:
    """The file of what is asked for."""
    file = context.folder / "names"
    count = WARM_NAMES if load.cache == "warm" else int((load.offered or COLD_NAMES_PER_S) * load.seconds * 1.1) + 1
    serial = WARM_SERIAL if load.cache == "warm" else context.serial
    file.write_text("".join(f"{names.name(serial, number)} AAAA\n" for number in range(1, count + 1)))
    return file


def warming_command(context: ClientContext) -> list[str]:
    """Ask for every name once, so that the resolver knows them."""
    return [*_common(context), "-n", "1", "-q", "10"]


def client_command(load: DnsLoad, context: ClientContext) -> list[str]:
    """The time of every single answer is printed at a fixed rate only: printing costs."""
    pace = ["-q", str(OUTSTANDING)] if load.offered is None else ["-Q", str(load.offered), "-v"]
    once = ["-n", "1"] if load.cache == "cold" else []
    return [*_common(context), *once, "-l", f"{load.seconds:g}", *pace]


def _common(context: ClientContext) -> list[str]:
    return [
        "dnsperf",
        "-s",
        str(context.resolver),
        "-d",
        str(context.folder / "names"),
        "-t",
        str(TIMEOUT_S),
        "-c",
        "1",
        "-T",
        "1",
    ]


def parse(text: str, load: DnsLoad) -> Reading:
    """At an offered rate the median time of an answer, else answers per second; and the share that was lost.

    Raises LoadFault when dnsperf did not reach its summary, nothing was answered, or an answer was an error.
    """
    found = [pattern.search(text) for pattern in (_SENT, _COMPLETED, _CODES, _RATE)]
    if not all(found):
        lines = text.strip().splitlines()
        raise LoadFault(f"dnsperf: {lines[-1] if lines else 'no output'}")
    sent, completed, codes, rate = (match[1] for match in found if match)
    if not int(completed):
        warning = _WARNING.search(text)
        raise LoadFault(f"dnsperf: no answer to {sent} queries" + (f" ({warning[1]})" if warning else ""))
    if not codes.strip().startswith(f"NOERROR {completed} "):
        raise LoadFault(f"dnsperf: not every answer is without error: {codes.strip()}")
    loss = 1 - int(completed) / int(sent)
    took = _RUN_TIME.search(text)
    seconds = float(took[1]) if took else 0.0
    if load.offered is None:
        return Reading({"rate": float(rate), "loss": loss}, seconds=seconds, answers=int(completed))
    times = [float(seconds) for _, seconds in _REPLY.findall(text)]
    if not times:
        raise LoadFault("dnsperf printed no times")
    course = {"t": [round(number / load.offered, 6) for number in range(len(times))], "y": times}
    return Reading(
        {"latency": statistics.median(times), "loss": loss}, {"latency": course}, seconds=seconds, answers=int(completed)
    )


class Dns(Load[DnsLoad]):
    name = "dns"
    words = "DNS"
    metrics = ("latency", "rate", "loss", "busy", "cpu_answer")
    needs = tools.REQUIRED | tools.OF_NAMES | tools.OF_DNS
    counted_by = "authority"

    def servers(self, section: DnsLoad) -> frozenset[ServerName]:
        return frozenset({"authority"})

    def prepare(self, section: DnsLoad, context: ClientContext) -> list[list[str]]:
        write_names(section, context)
        return [warming_command(context)] if section.cache == "warm" else []

    def command(self, section: DnsLoad, context: ClientContext) -> list[str]:
        return client_command(section, context)

    def read(self, text: str, section: DnsLoad) -> Reading:
        return parse(text, section)

    def main(self, factors: Mapping[str, Any]) -> RowMetric:
        return "rate" if factors["offered"] == "most" else "latency"

    def costs(self, section: DnsLoad, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        if section.offered is not None:
            return {}
        return {"busy": usage.system / (reading.seconds or usage.elapsed), "cpu_answer": usage.system / reading.answers}

    def asks_new_names(self, section: DnsLoad) -> bool:
        return section.cache == "cold"

    def unpaced_lookups_s(self, section: DnsLoad) -> float | None:
        return section.seconds if section.cache == "cold" and section.offered is None else None
