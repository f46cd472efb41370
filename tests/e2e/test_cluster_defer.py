# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`cluster.defer`: a flow whose first packet was seen outside keeps its external address, whenever its gateway dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cluster import ClusterNetwork
from plan import (
    CLIENTS,
    NODES,
    SERVER4,
    SERVER6,
    SERVER_PORT,
    owner,
    prefix,
    subscribers,
)
from witness import Program

DEFER = {"[cluster]": "[cluster]\ndefer = true"}
ROUNDS = 3
# Flows of a round, and after which of them the gateway dies. The others are on their way then, or begin elsewhere.
FLOWS, FATAL, INTERVAL = 300, 200, 0.002
SOON = 40.0


@pytest.fixture
def started(cluster: ClusterNetwork) -> ClusterNetwork:
    """Gateways that wait for each other."""
    cluster.engine.start()
    cluster.gateways(changes=DEFER)
    cluster.settled()
    return cluster


@contextmanager
def new_flows(cluster: ClusterNetwork, flows: int, fatal: int = 0, interval: float = INTERVAL) -> Iterator[Program]:
    """New flows of one subscriber, whose gateway dies with the flow `fatal`; and who sees them."""
    pids = {node: running.process.pid for node, running in cluster.nodes.items()}
    at_server = (SERVER4, str(SERVER_PORT), str(fatal), json.dumps(pids))
    seeing = Program(cluster, cluster.server, "first_packets.py", "see", *at_server)
    seeing.ask("report")  # from now on it listens
    from_host = (
        SERVER6,
        str(SERVER_PORT),
        prefix(subscribers(CLIENTS[0])[0]),
        str(flows),
        str(interval),
    )
    sending = Program(cluster, cluster.names[CLIENTS[0]], "first_packets.py", "send", *from_host)
    yield seeing
    for program in (sending, seeing):
        assert program.process.stdin is not None
        program.process.stdin.close()
        program.process.wait()


def counters(cluster: ClusterNetwork, node: str) -> dict[str, int]:
    """Those of a gateway."""
    shown = cluster.run(cluster.names[node], str(cluster.program), "show", "counters", "--json").stdout
    return json.loads(shown)["counters"]


def nothing_moved(seen: dict[str, list]) -> None:
    """Each flow has one external address and port."""
    moved = {flow: ends for flow, ends in seen.items() if len(ends) > 1}
    assert not moved, f"{len(moved)} of {len(seen)} flows: {moved}"


def test_a_flow_that_was_seen_outside_survives_its_gateway(
    started: ClusterNetwork,
) -> None:
    """Gateways die as soon as the server has a packet of a new flow, which may be the last one that it has sent."""
    for _ in range(ROUNDS):
        with new_flows(started, FLOWS, FATAL) as seeing:
            started.until(lambda seeing=seeing: len(seeing.ask("report")["lately"]) == FLOWS, SOON)
            report = seeing.ask("report")
        nothing_moved(report["seen"])
        started.kill(report["killed"])
        started.gateways(report["killed"], changes=DEFER)
        started.settled()


def test_a_first_packet_does_not_wait_for_ever(started: ClusterNetwork) -> None:
    """Packets leave unacknowledged if all others stand still, and do not wait once these are unreachable. None is lost."""
    flows = 3 * FLOWS  # for nine seconds
    with new_flows(started, flows, interval=0.01) as seeing:
        started.until(lambda: len(seeing.ask("report")["seen"]) > FATAL, SOON)
        home = owner(next(iter(seeing.ask("report")["seen"].values()))[0][0])
        others = [node for node in NODES if node != home]
        for node in others:
            started.freeze(node)
        started.until(lambda: counters(started, home)["slow.deferred_unacknowledged"] > 0, SOON)
        started.until(lambda: len(seeing.ask("report")["seen"]) == flows, SOON)
        found = counters(started, home)
        assert found["slow.deferred_no_room"] == 0
        assert FATAL < found["slow.deferred"] < flows, found
        for node in others:
            started.thaw(node)
        nothing_moved(seeing.ask("report")["seen"])
