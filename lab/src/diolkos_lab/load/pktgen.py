# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos-pktgen: packets at an offered rate from the client's device, counted by their signature at the server's.

Stages: open the flows, where the path keeps state → measure → parse. And, before a study, the generator by itself.

The offered load is what the generator wrote. What its device then refuses, because the receive ring at the other end of the
veth pair is full, is lost at the entrance of the system under test and counts as lost.
"""

import json
from typing import Any, TypeVar

from diolkos_lab.experiment.frames import CpuPlacement, ForwardingRateLoad
from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.experiment.loads import LoadName, PpsLoad
from diolkos_lab.experiment.procedures import PacketTrial
from diolkos_lab.faults import InstrumentFault, MissingFault
from diolkos_lab.load import tools
from diolkos_lab.load.interface import CpuUsage, Load, Stream
from diolkos_lab.load.reading import ClientContext, Reading
from diolkos_lab.metric import MetricName
from diolkos_lab.sut.lookup import tool

PROGRAM = "diolkos-pktgen"
FORMAT = 1
# After the last packet was sent: a queue of a second is none that anybody would want, and most are empty after this.
SETTLE_S = 0.1
# Packets per second, so slow that each flow's first packet finds the way that is taken by first packets free.
OPENING_RATE = 5000
# The generator keeps time: what else wants its CPU waits. Between sessions the kernel shares CPUs out by the value of the whole
# session where it groups tasks by them (sched(7), "autogroup"). `run.placement` gives the system under test the same.
FIRST = ("sh", "-c", 'echo -20 >/proc/self/autogroup; exec nice -n -20 "$@"', "sh")

Generated = PpsLoad | ForwardingRateLoad | LatencyLoad
G = TypeVar("G", PpsLoad, ForwardingRateLoad, LatencyLoad)

COUNTS: tuple[MetricName, ...] = ("rate", "sent", "received", "refused", "duplicate", "reordered", "corrupted")
CPU_TIMES: tuple[MetricName, ...] = ("cpu_generator", "cpu_system", "cpu_threads", "cpu_all")


def opening_command(load: Generated, context: ClientContext) -> list[str]:
    """One packet of each flow, so that its session is there (test phase 1 of RFC 9693 §4.2)."""
    assert context.ends
    device = context.ends.near.rpartition(":")[2]
    amount = ["--rate", str(OPENING_RATE), "--count", str(load.flows)]
    return [program(), "send", "--interface", device, *_looks(load, context), *amount]


def measure_command(load: Generated, context: ClientContext) -> list[str]:
    """One trial."""
    assert context.ends
    ends = ["--from", context.ends.near, "--to", context.ends.far]
    settle_s, burst = (load.settle_s, load.burst) if isinstance(load, PacketTrial) else (SETTLE_S, None)
    if isinstance(load, LatencyLoad) and not load.searches:
        burst = 1  # a stamp tells when a burst is begun
    amount = ["--rate", str(load.offered or "max"), "--seconds", f"{load.seconds:g}", "--settle", f"{settle_s:g}"]
    amount += ["--burst", str(burst)] if burst else []
    amount += ["--watch-cpu", ",".join(map(str, context.ends.cpus))] if context.ends.cpus else []
    return [*FIRST, program(), "measure", *ends, *_looks(load, context), *amount]


def parse(text: str, load: Generated) -> Reading:
    """Loss, rate at the sink and latency of one trial.

    Metrics: `sent` and `received` packets, `rate` received packets/s, `loss` 1 − received/sent, `latency` median one-way
    delay in s, `latency_worst` its 99.9th percentile (RFC 8219 §7.2), `pdv` in s (§7.3.1), `ipdv_min`, `ipdv_median` and
    `ipdv_max` in s (§7.3.2), `refused` at the first ring, and `duplicate`, `reordered` and `corrupted` packets. Raises
    InstrumentFault when the generator gave no such report.
    """
    measured = report(text, "measured")
    found = _direction(measured, text)
    sent, received = found["sent"], found["received"]
    written = int(sent["written"])
    if not written:
        raise InstrumentFault(f"{PROGRAM} sent nothing")
    wanted, got = load.offered, sent.get("rate_pps")
    metrics: dict[MetricName, float] = {
        "sent": float(written),
        "received": float(received["received"]),
        "rate": float(received.get("rate_pps") or received["received"] / load.seconds),
        "loss": 1 - received["received"] / written,
        "refused": float(sent["refused"]),
        "duplicate": float(received["duplicate"]),
        "reordered": float(received["reordered"]),
        "corrupted": float(received["corrupted"] + found.get("corrupted_unattributed", 0)),
    }
    if delay := received.get("delay_ns"):
        metrics |= {"latency": delay["p50"] * 1e-9, "latency_worst": delay["p99_9"] * 1e-9}
    if received.get("pdv_ns") is not None:
        metrics["pdv"] = received["pdv_ns"] * 1e-9
    if ipdv := received.get("ipdv_ns"):
        metrics |= {"ipdv_min": ipdv["min"] * 1e-9, "ipdv_median": ipdv["p50"] * 1e-9, "ipdv_max": ipdv["max"] * 1e-9}
    lateness = sent.get("lateness_ns") or {}
    return Reading(
        metrics=metrics,
        packets=int(received["received"]),
        pace_error=got / wanted - 1 if wanted and got else 0.0,
        behind_s=lateness.get("p99", 0.0) * 1e-9 if wanted else 0.0,
        stalls_s=tuple(stall["stood_still_ns"] * 1e-9 for cpu in measured.get("watched") or () for stall in cpu["stalls"]),
    )


def _direction(measured: dict[str, Any], text: str) -> dict[str, Any]:
    """The only one."""
    try:
        found: dict[str, Any] = measured["directions"][0]
        return found
    except (IndexError, KeyError) as error:
        raise InstrumentFault(f"{PROGRAM}: {text.strip()[:200]}") from error


def report(text: str, event: str) -> dict[str, Any]:
    """The last line, which has to be this event. Raises InstrumentFault."""
    lines = text.strip().splitlines()
    try:
        found: dict[str, Any] = json.loads(lines[-1])
        if (found["format"], found["event"]) != (FORMAT, event):
            raise InstrumentFault(f"{PROGRAM}: this lab reads its format {FORMAT}, not {found['format']} with {found['event']}")
        return found
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise InstrumentFault(f"{PROGRAM}: {lines[-1][:200] if lines else 'no output'}") from error


def _looks(load: Generated, context: ClientContext) -> list[str]:
    assert context.ends
    size = str(load.frame(context.target.version))
    return ["--src", str(context.ends.source), "--dst", str(context.target), "--size", size, "--flows", str(load.flows)]


def program() -> str:
    found = tool(PROGRAM)
    if found is None:
        raise MissingFault(f"the tool {PROGRAM} is not on this host: build it with `make build`")
    return str(found)


class Generator(Load[G]):
    """What all loads of the packet generator have in common."""

    needs = tools.REQUIRED | tools.OF_PACKETS
    counted_by = "sink"

    def prepare(self, section: G, context: ClientContext) -> list[list[str]]:
        return [opening_command(section, context)] if context.ends and context.ends.keeps_state else []

    def placement(self, section: G) -> CpuPlacement | None:
        return section.placement

    def command(self, section: G, context: ClientContext) -> list[str]:
        return measure_command(section, context)

    def costs(self, section: G, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        """CPU time of a trial, seconds, by who was charged."""
        return {"cpu_generator": usage.client, "cpu_system": usage.system, "cpu_threads": usage.threads, "cpu_all": usage.all}


class Packets(Generator[PpsLoad]):
    """Of load–loss curves, and of the procedures whose trials are like theirs."""

    metrics = (*COUNTS, "loss", "latency", "latency_worst", "pdv", "ipdv_min", "ipdv_median", "ipdv_max", *CPU_TIMES)

    def __init__(self, name: LoadName, words: str) -> None:
        self.name, self.words = name, words

    def read(self, text: str, section: PpsLoad) -> Reading:
        return parse(text, section)

    def stream(self, section: PpsLoad, reading: Reading) -> Stream | None:
        """On one CPU the sender stands still with everybody else, and nothing comes that would have to wait."""
        if section.placement == "one-cpu":
            return None
        rate = section.offered or reading.metrics["sent"] / section.seconds
        expected = max(0.0, 1 - section.knee / rate) if section.knee else 0.0
        return Stream(rate, section.seconds, lossless=isinstance(section, PacketTrial), expected_loss=expected)
