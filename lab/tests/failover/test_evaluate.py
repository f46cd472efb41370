# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What arrivals mean: counted by hand, for three flows of one source each, one datagram a second, and a fault at 10 s."""

from typing import Any

import numpy as np

from diolkos_lab.failover import evaluate
from diolkos_lab.failover.evaluate import RECORD, SetOfFlows

S = 1_000_000_000
FAULT_NS = 10 * S
FIRST_PORT = 1000


def arrivals(*entries: tuple[int, int, float, int]) -> Any:
    """Flow, sequence number, time of arrival (s), where; each was sent a millisecond before."""
    rows = [(flow, number, int(at * S) - 1_000_000, int(at * S), where) for flow, number, at, where in entries]
    return np.array(rows, dtype=RECORD)


def where_at_client(flow: int) -> int:
    """Number of the client's address, and port: as many sources as flows."""
    return flow << 16 | FIRST_PORT


def steady(
    direction: str, flows: int = 3, until: int = 20, silent: tuple[int, range] | None = None
) -> list[tuple[int, int, float, int]]:
    """Every flow every second; one may be silent for a time."""
    found = []
    for flow in range(flows):
        where = where_at_client(flow) if direction == "down" else 0x0A00_0000_0000 + flow
        for second in range(1, until):
            if silent and flow == silent[0] and second in silent[1]:
                continue
            found.append((flow, second, float(second), where))
    return found


def of(up: list[tuple[int, int, float, int]], down: list[tuple[int, int, float, int]], flows: int = 3) -> SetOfFlows:
    return SetOfFlows(flows, flows, FIRST_PORT, 1.0, 20 * S, arrivals(*up), arrivals(*down))


def test_flows_that_notice_nothing_are_kept_and_have_no_gap() -> None:
    found = of(steady("up"), steady("down"))
    row = evaluate.flows_row(found, FAULT_NS, 1.0)
    assert (row["established"], row["kept"], row["kept_share"]) == (3, 3, 1.0)
    assert (row["moved"], row["wrong"], row["duplicates"]) == (0, 0, 0)
    assert evaluate.gap_row(found, FAULT_NS)["gap_s"] == 0.0


def test_a_gap_is_what_goes_beyond_the_interval() -> None:
    """Silent from 11 to 13 s: heard at 10 and 14, four seconds, of which one is the flow's own."""
    found = of(steady("up", silent=(1, range(11, 14))), steady("down"))
    row = evaluate.gap_row(found, FAULT_NS)
    assert (row["gap_s"], row["gap_up_s"], row["gap_down_s"], row["gap_flows"]) == (3.0, 3.0, 0.0, 1)
    assert evaluate.flows_row(found, FAULT_NS, 1.0)["kept"] == 3


def test_a_flow_that_never_goes_on_is_lost_and_has_a_gap_without_end() -> None:
    found = of(steady("up"), steady("down", silent=(2, range(10, 20))))
    row = evaluate.flows_row(found, FAULT_NS, 1.0)
    assert (row["kept"], row["silent_up"], row["silent_down"]) == (2, 0, 1)
    assert evaluate.gap_row(found, FAULT_NS)["gap_s"] is None


def test_a_flow_with_another_address_has_moved_and_is_not_kept() -> None:
    up = [(f, n, at, 0x0B00_0000_0000 if f == 0 and at > 10 else where) for f, n, at, where in steady("up")]
    row = evaluate.flows_row(of(up, steady("down")), FAULT_NS, 1.0)
    assert (row["kept"], row["moved"], row["wrong"]) == (2, 1, 0)


def test_what_reaches_another_flow_is_wrong_on_both_sides() -> None:
    """At the client by the socket; at the server by an address and port that another flow had first."""
    down = [*steady("down"), (1, 30, 15.0, where_at_client(2))]
    up = [*steady("up"), (1, 30, 15.0, 0x0A00_0000_0000)]
    assert evaluate.flows_row(of(up, steady("down")), FAULT_NS, 1.0)["wrong"] == 1
    assert evaluate.flows_row(of(steady("up"), down), FAULT_NS, 1.0)["wrong"] == 1


def test_a_number_that_comes_again_is_a_duplicate() -> None:
    up = [*steady("up"), (1, 5, 5.5, 0x0A00_0000_0001)]
    assert evaluate.flows_row(of(up, steady("down")), FAULT_NS, 1.0)["duplicates"] == 1


def test_new_flows_open_again_after_the_last_failure() -> None:
    found = [
        [FAULT_NS - S, 0.1],
        [FAULT_NS + S, None],
        [FAULT_NS + 3 * S, None],
        [FAULT_NS + 4 * S, 0.1],
        [FAULT_NS + 6 * S, 0.1],
    ]
    row = evaluate.connections_row(found, FAULT_NS, 0.5)
    assert (row["connections"], row["connections_failed"], row["new_flows_s"]) == (4, 2, 3.5)
    assert evaluate.connections_row(found[:3], FAULT_NS, 0.5)["new_flows_s"] is None


def test_what_another_flow_got_a_flow_has_not_heard() -> None:
    """From the fault on, all of flow 2's datagrams reach the socket of flow 1."""
    down = [(f, n, at, where_at_client(1) if f == 2 and at >= 10 else where) for f, n, at, where in steady("down")]
    found = of(steady("up"), down)
    row = evaluate.flows_row(found, FAULT_NS, 1.0)
    assert (row["kept"], row["silent_down"], row["wrong"]) == (2, 1, 10)
    assert evaluate.gap_row(found, FAULT_NS)["gap_s"] is None


def test_flows_that_were_never_established_are_lost() -> None:
    """Who leaves them out makes a gateway that carries nothing look like one that loses nothing."""
    late = [each for each in steady("down") if each[0] != 2 or each[2] > 10]
    found = of(steady("up"), late)
    row = evaluate.flows_row(found, FAULT_NS, 1.0)
    assert (row["established"], row["kept"], row["kept_share"]) == (2, 2, 2 / 3)
    assert evaluate.gap_row(found, FAULT_NS)["gap_s"] is None
    nothing = of([], [])
    assert evaluate.flows_row(nothing, FAULT_NS, 1.0)["kept_share"] == 0.0
    assert evaluate.gap_row(nothing, FAULT_NS)["gap_s"] is None
