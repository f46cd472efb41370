# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos-pktgen connect: a session for each packet, an answer in each, then both directions at once (RFC 9693 §4.2, 4.6, 4.7).

Stages: command → parse. Where a packet that opens a session is lost, nothing is answered.
"""

from typing import Any

from diolkos_lab.experiment.frames import CpuPlacement
from diolkos_lab.experiment.loads import FILL_ROUNDS, LoadName, NewFlowsLoad
from diolkos_lab.experiment.nodes import MANY_NODES, number_of_nodes
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load import pktgen, tools
from diolkos_lab.load.interface import Load
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading
from diolkos_lab.metric import MetricName

# Source ports of one client that has few bindings: 100 sessions each, of 200 000.
FEW_PORTS = "1024-3023"
# After the last packet of a phase, before those that are not here count as lost.
SETTLE_S = 0.2


def client_command(load: NewFlowsLoad, context: ClientContext) -> list[str]:
    """One attempt. Each has other 4-tuples, so that no session is one that was there before."""
    assert context.ends and context.ends.answers
    answers = context.ends.answers
    few = load.bindings == "few"
    back = ["--back-src", str(answers.source), "--back-dst", str(answers.target if few else answers.targets[0])]
    sizes = ["--size", str(load.frame(context.target.version)), "--back-size", str(load.frame(answers.source.version))]
    amount = ["--sessions", str(load.sessions), "--rate", str(load.fill_rate or load.rate or "max")]
    amount += ["--seconds", f"{load.seconds:g}"] if load.seconds else []
    more = ["--seed", str(context.serial * load.sessions), "--settle", f"{SETTLE_S:g}"]
    more += ["--rounds", str(FILL_ROUNDS)] if load.fill_rate else []
    ends = ["--from", context.ends.near, "--to", context.ends.far]
    asks = askers(load, context)
    return [*pktgen.FIRST, pktgen.program(), "connect", *ends, *asks, *back, *sizes, *amount, *more]


def askers(load: NewFlowsLoad, context: ClientContext) -> list[str]:
    """Whose packets open sessions, and to whom. Raises LoadFault where the path knows a single client and a load wants more."""
    assert context.ends and context.ends.answers
    if load.bindings == "few":
        return ["--src", str(context.ends.source), "--dst", str(context.target), "--sport", FEW_PORTS]
    clients = context.ends.answers.clients
    if number_of_nodes(load.bindings, load.nodes) > MANY_NODES:
        if context.ends.answers.crowd is None:
            raise LoadFault(f"this path knows a single client, and the load asks for {load.nodes}")
        clients = context.ends.answers.crowd
    return ["--src", str(clients), "--dst", str(context.target)]


def parse(text: str, load: NewFlowsLoad) -> Reading:
    """One attempt.

    Metrics: `rate` sessions/s as they got through (none where some were lost and sent again), `loss` share of the packets that
    should open a session and did not get through, `unanswered` share of the sessions whose answer did not get back (1 when none
    was sent), `established` packets/s of both directions together over the open sessions, and `established_loss`. Raises
    InstrumentFault when there is no such report.
    """
    found = pktgen.report(text, "connected")
    try:
        opened, answered, carried = found["opened"], found["answered"], found["carried"]
        rate = opened["received"]["rate_pps"]
        metrics: dict[MetricName, float] = {
            **({"rate": float(rate or 0.0)} if found["rounds"] == 1 else {}),
            "loss": 1 - opened["received"]["received"] / load.sessions,
            "unanswered": 1 - answered["received"]["received"] / load.sessions if answered else 1.0,
        }
        packets = _received(opened) + (_received(answered) if answered else 0)
        if carried:
            arrived, written = sum(map(_received, carried)), sum(each["sent"]["written"] for each in carried)
            metrics["established"] = sum(float(each["received"]["rate_pps"] or 0.0) for each in carried)
            metrics["established_loss"] = 1 - arrived / max(1, written)
            packets += arrived
        offered = opened["sent"]["rate_pps"]
    except (KeyError, TypeError) as error:
        raise InstrumentFault(f"{pktgen.PROGRAM}: {text.strip()[:200]}") from error
    pace_error = offered / load.rate - 1 if load.rate and offered else 0.0
    return Reading(metrics=metrics, packets=packets, pace_error=pace_error)


def _received(direction: dict[str, Any]) -> int:
    return int(direction["received"]["received"])


class Sessions(Load[NewFlowsLoad]):
    """Of new flows, and of the attempts that look for a table's capacity."""

    needs = tools.REQUIRED | tools.OF_PACKETS
    counted_by = "sink"
    answered = True

    def __init__(self, name: LoadName, words: str, metrics: tuple[MetricName, ...]) -> None:
        self.name, self.words, self.metrics = name, words, metrics

    def placement(self, section: NewFlowsLoad) -> CpuPlacement | None:
        return section.placement

    def command(self, section: NewFlowsLoad, context: ClientContext) -> list[str]:
        return client_command(section, context)

    def read(self, text: str, section: NewFlowsLoad) -> Reading:
        return parse(text, section)

    def allowed_s(self, section: NewFlowsLoad) -> float:
        return section.longest_s

    def opening_packets(self, section: NewFlowsLoad) -> int:
        return 2 * section.sessions


NEW_FLOWS = Sessions(
    "new-flows",
    "new flows",
    ("rate", "loss", "unanswered", "established", "established_loss", "sessions", "teardown", "attempts"),
)
CAPACITY = Sessions(
    "capacity",
    "table capacity",
    ("capacity", "attempts", "limit", "too_many", "held_of_too_many", "lost_of_too_many"),
)
