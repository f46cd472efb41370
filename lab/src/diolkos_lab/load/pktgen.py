# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos-pktgen: packets at an offered rate from the client's device, counted by their signature at the server's.

Stages: open the flows, where the path keeps state → measure → parse. And, before a study, the generator by itself.

The offered load is what the generator wrote. What its device then refuses, because the receive ring at the other end of the
veth pair is full, is lost at the entrance of the system under test and counts as lost.
"""

import json
import os
from collections.abc import Sequence
from typing import Any, TypeVar

from diolkos_lab.experiment.frames import CpuPlacement, ForwardingRateLoad
from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.experiment.loads import LoadName, PpsLoad
from diolkos_lab.experiment.procedures import PacketTrial
from diolkos_lab.faults import InstrumentFault, MissingFault
from diolkos_lab.load import native_beside, tools
from diolkos_lab.load.interface import CpuUsage, Load, Stream
from diolkos_lab.load.reading import ClientContext, LoadFault, PacketEndpoints, Reading
from diolkos_lab.metric import MetricName
from diolkos_lab.sut.lookup import tool

PROGRAM = "diolkos-pktgen"
MEASURE, MEASURED = "measure", "measured"
CONNECT, CONNECTED = "connect", "connected"
FORMAT = 1
# After the last packet was sent: a queue of a second is none that anybody would want, and most are empty after this.
SETTLE_S = 0.1
# Packets per second, so slow that each flow's first packet finds the way that is taken by first packets free. Of many flows as
# many as take half a second, up to a rate that a slow path carries.
OPENING_RATE, MOST_OPENING_RATE = 5000, 50_000
OPENING_S = 0.5
START_S = 0.6  # of a phase in which sessions are opened or answered
OPENING_ROUNDS = 4  # for the sessions of both directions, all of which have to be there
SOURCE_PORTS, TARGET_PORTS = "1024-65535", "1-49151"  # RFC 4814 §4.5
SEED = 1 << 26  # more than the packets of a trial: unique flows of one trial are not those of another
# The generator keeps time: what else wants its CPU waits. Between sessions the kernel shares CPUs out by the value of the whole
# session where it groups tasks by them (sched(7), "autogroup"). `run.placement` gives the system under test the same.
FIRST = ("sh", "-c", 'echo -20 >/proc/self/autogroup; exec nice -n -20 "$@"', "sh")

Generated = PpsLoad | ForwardingRateLoad | LatencyLoad
G = TypeVar("G", PpsLoad, ForwardingRateLoad, LatencyLoad)

COUNTS: tuple[MetricName, ...] = ("rate", "sent", "received", "refused", "duplicate", "reordered", "corrupted")
NATIVE: tuple[MetricName, ...] = ("native_sent", "native_received", "translated_loss")
CPU_TIMES: tuple[MetricName, ...] = ("cpu_generator", "cpu_system", "cpu_threads", "cpu_all")


def opening_command(load: Generated, context: ClientContext) -> list[str]:
    """One packet of each flow, so that its session is there (test phase 1 of RFC 9693 §4.2)."""
    assert context.ends
    device = context.ends.near.rpartition(":")[2]
    amount = ["--rate", str(_opening_rate(load)), "--count", str(load.flows)]
    return [program(), "send", "--interface", device, *_looks(load, context), "--flows", str(load.flows), *amount]


def measure_command(load: Generated, context: ClientContext, before: Sequence[str] = FIRST) -> list[str]:
    """One trial. Where packets go both ways and the path keeps state, sessions are opened and answered first (RFC 9693 §4.2,
    §4.6), and the trial is the stage in both directions (§4.7). `before` is a command that runs it."""
    assert context.ends
    ends = ["--from", context.ends.near, "--to", context.ends.far]
    settle_s, burst, timeout_s = SETTLE_S, None, None
    if isinstance(load, PacketTrial):
        settle_s, burst, timeout_s = load.settle_s, load.burst, load.timeout_s
    if isinstance(load, LatencyLoad) and not load.searches:
        burst = 1  # a stamp tells when a burst is begun
    sending = ["--seconds", f"{load.seconds:g}", *(["--burst", str(burst)] if burst else [])]
    counting = ["--late-ms", f"{1e3 * timeout_s:g}"] if timeout_s else []
    if load.native_share:
        both = native_beside.command(_ways(load, context, sending), context.folder, program(), settle_s, counting)
        return [*before, *both]
    rate, sessions = str(load.offered or "max"), _opens_sessions(load, context)
    if sessions:
        opening = ["--sessions", str(load.flows), "--rate", str(_opening_rate(load)), "--rounds", str(OPENING_ROUNDS)]
        answers = ["--answer-rate", str(_opening_rate(load)), "--answer-rounds", str(OPENING_ROUNDS)]
        flows = [*opening, *answers, "--both-rate", rate]
    else:
        flows = ["--flows", str(load.flows), "--rate", rate]
    amount = [*sending[:2], "--settle", f"{settle_s:g}", *sending[2:], *counting]
    amount += ["--watch-cpu", ",".join(map(str, context.ends.cpus))] if context.ends.cpus else []
    event = CONNECT if sessions else MEASURE
    looks = [*_looks(load, context), *(_back(load, context) if load.directions == "both" else [])]
    return [*before, program(), event, *ends, *looks, *flows, *amount]


def backwards_command(load: ForwardingRateLoad, context: ClientContext, before: Sequence[str] = FIRST) -> list[str]:
    """One trial from the server to the client. Where the path keeps state, the client opens sessions first."""
    both, ends = load.model_copy(update={"directions": "both"}), context.ends
    assert ends
    back, seconds = _back(both, context), ["--seconds", f"{load.seconds:g}", "--settle", f"{SETTLE_S:g}"]
    if not ends.keeps_state:
        looks = [word.replace("--back-", "--") for word in back]
        way = ["--from", ends.far, "--to", ends.near, *looks, "--flows", str(load.flows), "--rate", "max"]
        return [*before, program(), MEASURE, *way, *seconds]
    rate = str(_opening_rate(load))
    opening = ["--sessions", str(load.flows), "--rate", rate, "--rounds", str(OPENING_ROUNDS)]
    answers = ["--answer-rate", rate, "--answer-rounds", str(OPENING_ROUNDS), "--back-only"]
    way = ["--from", ends.near, "--to", ends.far, *_looks(load, context), *back]
    return [*before, program(), CONNECT, *way, *opening, *answers, *seconds]


def parse(text: str, load: Generated) -> Reading:
    """Loss, rate at the sink and latency of one trial.

    Metrics: `sent` and `received` packets, `rate` received packets/s, `loss` 1 − received/sent, `latency` median one-way
    delay in s, `latency_worst` its 99.9th percentile (RFC 8219 §7.2), `pdv` in s (§7.3.1), `ipdv_min`, `ipdv_median` and
    `ipdv_max` in s (§7.3.2), `refused` at the first ring, and `duplicate`, `reordered` and `corrupted` packets. Of two
    directions counts and rates are added, and of times the worse one counts. With native packets beside, times and disorder are
    of the others alone. Raises InstrumentFault when the generator gave no
    such report, and LoadFault when sessions that both directions need were not opened.
    """
    native: list[dict[str, Any]] = []
    if load.native_share:
        of_both = native_beside.directions(text)
        found, native = ([each[stream] for each in of_both] for stream in (native_beside.TRANSLATED, native_beside.NATIVE))
        watched: list[dict[str, Any]] = []
    else:
        measured = report(text, MEASURED, CONNECTED)
        found, watched = _directions(measured, text), measured.get("watched") or []
    times_out = isinstance(load, PacketTrial) and load.timeout_s is not None
    counts = [_counts(each, times_out=times_out) for each in [*found, *native]]
    metrics: dict[MetricName, float] = {name: sum(count[name] for count in counts) for name in COUNTS if name != "rate"}
    if not all(count["sent"] for count in counts):
        raise InstrumentFault(f"{PROGRAM} sent nothing")
    arrived = [(each["received"], count["received"]) for each, count in zip([*found, *native], counts, strict=True)]
    metrics["rate"] = sum(float(received.get("rate_pps") or count / load.seconds) for received, count in arrived)
    metrics["loss"] = 1 - metrics["received"] / metrics["sent"]
    translated, beside = counts[: len(found)], counts[len(found) :]
    if beside:
        metrics["native_sent"] = sum(count["sent"] for count in beside)
        metrics["native_received"] = sum(count["received"] for count in beside)
        metrics["translated_loss"] = 1 - sum(each["received"] for each in translated) / sum(each["sent"] for each in translated)
    for each in map(_times, found):
        metrics |= {name: max(value, metrics.get(name, value)) for name, value in each.items() if name != "ipdv_min"}
        metrics |= {name: min(value, metrics.get(name, value)) for name, value in each.items() if name == "ipdv_min"}
    rates = [(each["sent"].get("rate_pps"), _translated(load)) for each in found]
    rates += [(each["sent"].get("rate_pps"), native_beside.rate(load, load.offered or 0)) for each in native]
    errors = [sent / wanted - 1 for sent, wanted in rates if wanted and sent]
    behind = [(each["sent"].get("lateness_ns") or {}).get("p99", 0.0) * 1e-9 for each in [*found, *native]]
    return Reading(
        metrics=metrics,
        packets=int(sum(count["received"] for count in translated)),
        pace_error=max(errors, key=abs, default=0.0),
        behind_s=max(behind) if load.offered else 0.0,
        stalls_s=tuple(stall["stood_still_ns"] * 1e-9 for cpu in watched for stall in cpu["stalls"]),
    )


def _counts(direction: dict[str, Any], *, times_out: bool) -> dict[MetricName, float]:
    sent, received = direction["sent"], direction["received"]
    late = received["late"] if times_out else 0
    return {
        "sent": float(sent["written"]),
        "received": float(received["received"] - late),
        "refused": float(sent["refused"]),
        "duplicate": float(received["duplicate"]),
        "reordered": float(received["reordered"]),
        "corrupted": float(received["corrupted"] + direction.get("corrupted_unattributed", 0)),
    }


def _times(direction: dict[str, Any]) -> dict[MetricName, float]:
    received = direction["received"]
    found: dict[MetricName, float] = {}
    if delay := received.get("delay_ns"):
        found |= {"latency": delay["p50"], "latency_worst": delay["p99_9"]}
    if received.get("pdv_ns") is not None:
        found["pdv"] = received["pdv_ns"]
    if ipdv := received.get("ipdv_ns"):
        found |= {"ipdv_min": ipdv["min"], "ipdv_median": ipdv["p50"], "ipdv_max": ipdv["max"]}
    return {name: ns * 1e-9 for name, ns in found.items()}


def _directions(measured: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """Forth, and back where that was asked for."""
    if measured["event"] == CONNECTED and not measured.get("carried"):
        phases = (measured.get(name) or {} for name in ("opened", "answered"))
        opened, answered = (phase["received"]["received"] if phase else 0 for phase in phases)
        raise LoadFault(f"of {measured['sessions']} sessions {opened} were opened and {answered} answered")
    try:
        found: list[dict[str, Any]] = measured["directions" if measured["event"] == MEASURED else "carried"]
        found[0]["sent"]
    except (IndexError, KeyError, TypeError) as error:
        raise InstrumentFault(f"{PROGRAM}: {text.strip()[:200]}") from error
    return found


def report(text: str, *events: str) -> dict[str, Any]:
    """The last line, which has to be one of these events. Raises InstrumentFault."""
    lines = text.strip().splitlines()
    try:
        found: dict[str, Any] = json.loads(lines[-1])
        if found["format"] != FORMAT or found["event"] not in events:
            raise InstrumentFault(f"{PROGRAM}: this lab reads its format {FORMAT}, not {found['format']} with {found['event']}")
        return found
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise InstrumentFault(f"{PROGRAM}: {lines[-1][:200] if lines else 'no output'}") from error


def _translated(load: Generated) -> int | None:
    """Packets/s that are not native, in each direction."""
    return load.offered - native_beside.rate(load, load.offered) if load.offered and load.native_share else load.offered


def _ways(load: Generated, context: ClientContext, sending: list[str]) -> list[native_beside.Way]:
    """Packets of both kinds, forth and, where that is asked for, back."""
    ends = context.ends
    assert ends and load.offered
    rates = {native_beside.TRANSLATED: _translated(load), native_beside.NATIVE: native_beside.rate(load, load.offered)}
    every = {stream: ["--flows", str(load.flows), "--rate", str(rate), *sending] for stream, rate in rates.items()}
    # Two generators that keep time on one CPU are late by as much as the kernel lets each of them have it, some milliseconds.
    free = sorted(os.sched_getaffinity(0) - set(ends.cpus)) if ends.cpus else []
    turned = ["--sport", TARGET_PORTS, "--dport", SOURCE_PORTS]
    back = [word.replace("--back-", "--") for word in (_back(load, context) if load.directions == "both" else [])]
    found = []
    for sender, sink, translated in ((ends.near, ends.far, _looks(load, context)), (ends.far, ends.near, back)):
        if translated:
            is_back = sender == ends.far
            native = [*native_beside.looks(load, ends, back=is_back), "--size", str(load.frame(6))]
            native += turned if is_back else ["--seed", str(context.serial * SEED)]
            native += ["--cpu", str(free[-1])] if free else []
            both = {native_beside.TRANSLATED: translated, native_beside.NATIVE: native}
            found.append(native_beside.Way(sender, sink, {stream: [*both[stream], *every[stream]] for stream in both}))
    return found


def _opens_sessions(load: Generated, context: ClientContext) -> bool:
    assert context.ends
    return load.directions == "both" and context.ends.keeps_state


def _opening_rate(load: Generated) -> int:
    assert isinstance(load.flows, int)
    return round(min(MOST_OPENING_RATE, max(OPENING_RATE, load.flows / OPENING_S)))


def _looks(load: Generated, context: ClientContext) -> list[str]:
    """Of frames that go forth, without the number of their flows."""
    ends = context.ends
    assert ends
    unique = load.flows == "unique"
    source = ends.answers.clients if unique and ends.answers else _senders(load, ends)
    target = ends.targets if load.next_hops > 1 and ends.targets else context.target
    looks = ["--src", str(source), "--dst", str(target), "--size", str(load.frame(context.target.version))]
    return [*looks, "--seed", str(context.serial * SEED)] if unique else looks


def _senders(load: Generated, ends: PacketEndpoints) -> object:
    """The source of all flows, or the network of those of many nodes."""
    if load.nodes == 1 or ends.answers is None:
        return ends.source
    if ends.answers.crowd is None:
        raise LoadFault(f"this path knows a single client, and the load asks for {load.nodes}")
    return ends.answers.crowd


def _back(load: Generated, context: ClientContext) -> list[str]:
    """Of frames that go back. Over open sessions each goes to where a frame has come from."""
    assert context.ends and context.ends.answers
    answers, remembered = context.ends.answers, _opens_sessions(load, context)
    source = answers.sources if load.next_hops > 1 and not remembered else answers.source
    target = answers.targets if load.flows == "unique" else answers.target
    size = str(load.frame(answers.source.version))
    # The ports of RFC 4814, turned round.
    ports = [] if remembered else ["--back-sport", TARGET_PORTS, "--back-dport", SOURCE_PORTS]
    return ["--back-src", str(source), "--back-dst", str(target), "--back-size", size, *ports]


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
        """Sessions, where the path keeps any: for one direction. Those of both are opened by the trial itself."""
        ends = context.ends
        if ends is None:
            return []
        commands: list[list[str]] = []
        if ends.keeps_state and section.flows != "unique" and section.directions == "one":
            commands.append(opening_command(section, context))
        if section.native_share:
            commands.append(native_beside.asking_command(ends))
        return commands

    def placement(self, section: G) -> CpuPlacement | None:
        return section.placement

    def command(self, section: G, context: ClientContext) -> list[str]:
        return measure_command(section, context)

    def allowed_s(self, section: G) -> float:
        """With sessions for both directions, which may have to be opened again."""
        if section.directions == "one" or section.flows == "unique":
            return section.expected_s
        return section.expected_s + 2 * OPENING_ROUNDS * (START_S + section.flows / _opening_rate(section))

    def opening_packets(self, section: G) -> int:
        """Both ways the sessions are opened within the trial."""
        return 2 * section.flows if section.directions == "both" and section.flows != "unique" else 0

    def costs(self, section: G, reading: Reading, usage: CpuUsage) -> dict[MetricName, float]:
        """CPU time of a trial, seconds, by who was charged."""
        return {"cpu_generator": usage.client, "cpu_system": usage.system, "cpu_threads": usage.threads, "cpu_all": usage.all}


class Packets(Generator[PpsLoad]):
    """Of load–loss curves, and of the procedures whose trials are like theirs."""

    metrics = (*COUNTS, *NATIVE, "loss", "latency", "latency_worst", "pdv", "ipdv_min", "ipdv_median", "ipdv_max", *CPU_TIMES)

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
