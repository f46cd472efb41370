# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ICMPv6 errors of routers in a cluster: they belong to the flow that they quote, whoever sends them."""

from __future__ import annotations

import time

from cluster import ClusterNetwork
from plan import CLIENTS, NODES, prefix, subscribers
from router_errors import packet_too_big

MTU = 1400


def test_an_error_of_another_subscribers_router_opens_nothing(cluster: ClusterNetwork) -> None:
    """The server learns the path MTU of each flow, and no gateway has a binding more than before."""
    cluster.engine.start()
    cluster.gateways()
    cluster.settled()
    witness = cluster.witness(udp=30, tcp=5, openers=0)
    x, y = CLIENTS
    flows = [flow for flow in witness.fresh().flows if flow.subscriber in subscribers(x) and flow.kind == "udp"]

    def bindings() -> list[int]:
        # What a node says of itself is up to 100 ms old.
        time.sleep(0.3)
        return [cluster.cluster_status(node)["bindings"] for node in NODES]

    before = bindings()
    # Routers of two other subscribers, whose homes may be others, and one whose prefix nobody has used.
    for source in (f"{prefix(number)}ff" for number in subscribers(y)):
        for flow in flows:
            packet_too_big(cluster.names[y], source, tuple(flow.local), MTU)

    def path_mtu(address: str) -> bool:
        shown = cluster.run(cluster.server, "ip", "route", "get", address, "from", "192.0.0.171").stdout
        return f"mtu {MTU - 20}" in shown

    cluster.until(lambda: all(path_mtu(flow.seen[-1][0]) for flow in flows))
    report = witness.report()
    assert bindings() == before
    report.nothing_moved()
    assert not report.silent(3)
