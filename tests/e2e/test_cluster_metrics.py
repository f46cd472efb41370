# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures of a cluster's node: what a real Prometheus has of them, and which alerts they raise."""

from __future__ import annotations

import re

from cluster import NODES, ClusterNetwork, freeze, thaw
from prometheus import METRICS, Prometheus, scraped

OF_CLUSTERS = re.compile(r"\bdiolkos_cluster_\w+")


def test_alerts_of_clusters_have_series_and_come_when_the_engine_goes(cluster: ClusterNetwork) -> None:
    """Every alert asks for series that are there, and a node without a lease raises one."""
    cluster.start_engine()
    cluster.sections = METRICS
    cluster.nodes = {node: cluster.gateway(node) for node in NODES[:2]}
    cluster.settled(*NODES[:2])
    name = cluster.gateways[NODES[0]]
    page = scraped(cluster, name)
    assert page["diolkos_cluster_slices"] == cluster.status(NODES[0])["slices"]
    assert (page["diolkos_cluster_nodes"], page["diolkos_cluster_live_nodes"]) == (3, 2)

    prometheus = Prometheus(cluster, name)
    cluster.until(lambda: prometheus.query("diolkos_cluster_member == 1"), patience=60)
    [group] = prometheus.get("rules")["data"]["groups"]
    rules = {rule["name"]: rule["query"] for rule in group["rules"] if OF_CLUSTERS.search(rule["query"])}
    assert len(rules) >= 3
    for alert, query in rules.items():
        assert all(prometheus.query(series) for series in OF_CLUSTERS.findall(query)), alert
        assert not prometheus.query(query), f"{alert} without a reason"

    freeze(cluster.engine)
    cluster.until(lambda: prometheus.query(rules["DiolkosClusterNodeOut"]), patience=60)
    thaw(cluster.engine)
    cluster.until(lambda: not prometheus.query(rules["DiolkosClusterNodeOut"]), patience=60)
