# SPDX-License-Identifier: Apache-2.0 OR MIT
"""When a cluster counts as ready, by what `diolkos cluster status --json` says."""

import tomllib
from ipaddress import collapse_addresses
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab.failover import engine, gateways, plan
from diolkos_lab.failover.gateways import is_whole


def status(*serve: bool, part: str = "serving", reach: bool = True) -> dict[str, Any]:
    others = [{"name": f"gw{number}", "is_reachable": reach, "serves": each} for number, each in enumerate(serve, 2)]
    return {"part": part, "nodes": others}


@pytest.mark.parametrize(
    ("said", "ready"),
    [
        (status(True, True), True),
        (status(True, False), False),  # one that still asks the others what they have of it
        (status(True, True, part="starting"), False),
        (status(True, True, reach=False), False),
        (status(True), False),
        ({}, False),  # the node does not answer
    ],
)
def test_a_cluster_is_ready_when_every_node_serves(said: dict[str, Any], ready: bool) -> None:
    assert is_whole(said) is ready


def test_nodes_have_one_configuration_but_for_their_certificates() -> None:
    """Each address has one node, and the parts are one network: so the route of each part is more specific than that of all."""
    texts = {}
    for node in plan.NODES:
        text = gateways.CONFIGURATIONS["cluster"](node, Path("home"), engine.Certificates(Path("certificates")))
        texts[node.name] = text.replace(f"/{node.name}.", "/NODE.")
    assert len(set(texts.values())) == 1
    section = tomllib.loads(next(iter(texts.values())))["cluster"]
    assert [each["name"] for each in section["node"]] == list(plan.GATEWAYS)
    assert all(url.startswith("https://") for url in section["etcd"])
    assert [*collapse_addresses(plan.PARTS4)] == [plan.POOLS4]
    assert sum(part.num_addresses for part in plan.PARTS4) == plan.POOLS4.num_addresses
    assert all(part.prefixlen > plan.POOLS4.prefixlen for part in plan.PARTS4)


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ("etcd_server_has_leader 1\netcd_server_is_leader 1\n", True),
        ("# HELP etcd_server_is_leader\netcd_server_is_leader 0\netcd_server_has_leader 1\n", False),
        ("etcd_server_has_leader 0\netcd_server_is_leader 0\n", None),
        ("", None),
    ],
)
def test_a_member_says_by_its_metrics_whether_it_leads(metrics: str, found: bool | None) -> None:
    assert engine.leads(metrics) is found
