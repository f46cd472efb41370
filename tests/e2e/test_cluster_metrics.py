# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What operators see of a cluster: its status, alerts and panels of a real Prometheus, and the orders that they have."""

from __future__ import annotations

import json
import re

from authority import Authority
from cluster import ClusterNetwork
from conftest import ROOT
from prometheus import METRICS, Prometheus, scraped

OF_CLUSTERS = re.compile(r"\bdiolkos_cluster_\w+")
DASHBOARD = ROOT / "packaging" / "grafana" / "diolkos.json"


def reasons(cluster: ClusterNetwork, node: str) -> set[str]:
    """What is wrong, as a node says."""
    return {finding["reason"] for finding in cluster.cluster_status(node)["findings"]}


def test_who_is_away_and_an_engine_that_is_silent_are_seen_and_raise_alerts(cluster: ClusterNetwork) -> None:
    """Every alert and panel asks for series that are there. The exit code of the status says whether all is well."""
    cluster.engine.start()
    cluster.sections = METRICS
    cluster.gateways()
    cluster.settled()
    name = cluster.names["gw1"]
    cluster.until(lambda: cluster.tell("gw1", "status", check=False).returncode == 0)
    page = scraped(cluster, name)
    assert page['diolkos_cluster_part{part="serving"}'] == page["diolkos_cluster_attracts"] == 1
    assert page['diolkos_cluster_node_reachable{node="gw3"}'] == 1

    prometheus = Prometheus(cluster, name)
    cluster.until(lambda: prometheus.query("rate(diolkos_cluster_forwarded_packets_total[1m])"), patience=60)
    [group] = prometheus.get("rules")["data"]["groups"]
    rules = {rule["name"]: rule["query"] for rule in group["rules"] if OF_CLUSTERS.search(rule["query"])}
    assert len(rules) >= 6
    for alert, query in rules.items():
        assert all(prometheus.query(series) for series in OF_CLUSTERS.findall(query)), alert
        assert not prometheus.query(query), f"{alert} without a reason"
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["title"].startswith("Cluster: ")]
    assert len(panels) >= 4
    for expression in (target["expr"] for panel in panels for target in panel["targets"]):
        assert prometheus.query(expression.replace("$instance", ".*").replace("$__rate_interval", "1m")), expression

    cluster.kill("gw3")
    cluster.until(lambda: prometheus.query(rules["DiolkosClusterNodeUnreachable"]), patience=60)
    cluster.until(lambda: reasons(cluster, "gw1") == {"cluster_unreachable"})
    status = cluster.tell("gw1", "status", check=False)
    assert status.returncode == 4 and "trouble   gw3 does not answer" in status.stdout, status

    cluster.engine.freeze()
    cluster.until(lambda: prometheus.query(rules["DiolkosClusterEngineSilent"]), patience=60)
    assert "cluster_engine" in reasons(cluster, "gw1")
    # Known flows and new ones go on.
    assert scraped(cluster, name)["diolkos_ready"] == 1
    cluster.engine.thaw()
    cluster.until(lambda: not prometheus.query(rules["DiolkosClusterEngineSilent"]), patience=60)


def test_another_file_and_another_authority_are_named(cluster: ClusterNetwork) -> None:
    """At the gateway that meets them, with what to do."""
    cluster.engine.start()
    cluster.gateways("gw1")
    cluster.launch("gw2", {"[cluster]": "[nat64.timeouts]\nudp = 400\n[cluster]"})
    other = Authority(cluster.scratch / "other")
    other.make()
    other.issue("gw3", "DNS:gw3")
    files = zip(cluster.authority.of("gw3"), other.of("gw3"), strict=True)
    cluster.launch("gw3", {str(old): str(new) for old, new in files})
    cluster.until(lambda: {"cluster_differs", "cluster_unreachable"} <= reasons(cluster, "gw1"))
    status = cluster.cluster_status("gw1")
    nodes = {node["name"]: node for node in status["nodes"]}
    assert (nodes["gw2"]["differs"], nodes["gw3"]["differs"]) == ("lifetimes", None)
    cluster.until(lambda: "(untrusted): compare cluster.ca" in cluster.tell("gw1", "status", check=False).stdout)
    assert (
        "the configuration of gw2 differs from this node's in nat64.timeouts"
        in cluster.tell("gw1", "status", check=False).stdout
    )
    assert cluster.cluster_status("gw1")["refused"]["untrusted"] > 0
    # It may have begun a moment ago.
    cluster.until(lambda: "cluster_differs" in reasons(cluster, "gw2"))


def test_a_node_is_drained_and_joins_and_its_engine_is_reset(cluster: ClusterNetwork) -> None:
    """Orders return when what they order is so. What would be removed from etcd is listed before."""
    cluster.engine.start()
    cluster.gateways()
    cluster.settled()
    said = cluster.tell("gw2", "drain").stdout
    assert "bindings are left here" in said and "no other node" not in said
    status = cluster.cluster_status("gw2")
    assert (status["part"], status["attracts"], status["findings"]) == ("draining", False, [])
    [seen] = [node for node in cluster.cluster_status("gw1")["nodes"] if node["name"] == "gw2"]
    assert (seen["part"], seen["serves"]) == ("draining", False)
    cluster.tell("gw2", "join")
    cluster.settled()

    file = str(cluster.scratch / "gw1.toml")
    listed = cluster.tell("gw1", "reset", "--config", file, "--node", "gw1", check=False)
    keys = [key for key in cluster.engine.written() if "/record" in key]
    assert len(keys) == 3 and all(f"{key}, revision " in listed.stdout for key in keys), listed
    assert listed.returncode == 2 and "nothing was removed; say --yes" in listed.stderr, listed
    before = cluster.cluster_status("gw1")["engine"]["name"]
    done = cluster.tell("gw1", "reset", "--config", file, "--node", "gw1", "--yes")
    assert re.search(r"^removed [4-9]\d* keys$", done.stdout, re.MULTILINE), done
    # Nodes that run write their records anew, and no flow needs them meanwhile.
    cluster.until(lambda: cluster.cluster_status("gw1")["engine"]["name"] not in (None, before), patience=40)
    cluster.settled()
