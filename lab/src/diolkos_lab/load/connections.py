# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos-pktgen converse: TCP connections, each opened, used for a request and an answer, and closed by both ends.

Stages: command → parse. Each segment is the answer to the one before, so that what is lost ends its connection.
"""

from diolkos_lab.experiment.loads import NewFlowsLoad
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load import pktgen
from diolkos_lab.load.new_flows import SETTLE_S, Sessions, askers
from diolkos_lab.load.reading import ClientContext, Reading

SEGMENTS = 6  # of a connection: SYN, SYN and ACK, request, answer with FIN, FIN, ACK


def client_command(load: NewFlowsLoad, context: ClientContext) -> list[str]:
    """One attempt. Each has other 4-tuples, so that no connection is one that was there before."""
    assert context.ends
    amount = ["--connections", str(load.sessions), "--rate", str(load.rate or "max")]
    more = [
        "--size",
        str(load.frame(context.target.version)),
        "--seed",
        str(context.serial * load.sessions),
        "--settle",
        f"{SETTLE_S:g}",
    ]
    ends = ["--from", context.ends.near, "--to", context.ends.far]
    return [*pktgen.FIRST, pktgen.program(), "converse", *ends, *askers(load, context), *amount, *more]


def parse(text: str, load: NewFlowsLoad) -> Reading:
    """One attempt.

    Metrics: `rate` connections/s as their last segments arrived, `loss` share of the connections whose SYN did not arrive,
    `unanswered` share of those that began and were not closed. Raises InstrumentFault when there is no such report.
    """
    found = pktgen.report(text, "conversed")
    try:
        arrived = [int(segment["received"]) for segment in found["segments"]]
        begun, closed = arrived[0], arrived[SEGMENTS - 1]
        rate, offered = found["segments"][SEGMENTS - 1]["rate_pps"], found["opened"]["sent"]["rate_pps"]
    except (KeyError, IndexError, TypeError) as error:
        raise InstrumentFault(f"{pktgen.PROGRAM}: {text.strip()[:200]}") from error
    loss, unanswered = 1 - begun / load.sessions, 1 - closed / begun if begun else 1.0
    pace_error = offered / load.rate - 1 if load.rate and offered else 0.0
    return Reading(
        metrics={"rate": float(rate or 0.0), "loss": loss, "unanswered": unanswered},
        packets=sum(arrived),
        pace_error=pace_error,
    )


class Connections(Sessions):
    """Of TCP connections from end to end."""

    def command(self, section: NewFlowsLoad, context: ClientContext) -> list[str]:
        return client_command(section, context)

    def read(self, text: str, section: NewFlowsLoad) -> Reading:
        return parse(text, section)

    def opening_packets(self, section: NewFlowsLoad) -> int:
        return SEGMENTS * section.sessions


CONNECTIONS = Connections("connections", "TCP connections", ("rate", "loss", "unanswered", "sessions", "teardown", "attempts"))
