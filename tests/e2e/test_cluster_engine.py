# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine of a cluster with users, as docs/engine.md has them, and restored from a backup while gateways run."""

from __future__ import annotations

import time

from cluster import ClusterNetwork
from plan import CLUSTER, NODES
from test_cluster import all_go_on, homes, new_flows_begin


def test_a_gateway_writes_its_own_record_and_one_without_rights_is_named(cluster: ClusterNetwork) -> None:
    """The cluster works with users of the page; none can write another gateway's record."""
    cluster.engine.start()
    cluster.engine.add_users(CLUSTER, *NODES)
    cluster.gateways()
    cluster.settled()
    records = [f"/diolkos/{CLUSTER}/node/{node}/record" for node in NODES]
    # Gateways that all know each other's starts do not wait for the engine.
    cluster.until(lambda: set(records) <= set(cluster.engine.written()))
    for key in (*records[1:], f"/diolkos/{CLUSTER}/node/{NODES[0]}1/record"):
        refused = cluster.engine.ctl("put", key, "x", user=NODES[0], check=False)
        assert refused.returncode != 0 and "permission denied" in refused.stderr, refused
    read = cluster.engine.ctl("get", "--keys-only", records[1], user=NODES[0]).stdout
    assert read.strip() == records[1]

    lacks = NODES[1]
    cluster.engine.ctl("user", "revoke-role", lacks, f"diolkos-{lacks}")
    said = f'refuses the user "{lacks}" (403): etcdserver: permission denied'
    cluster.until(lambda: said in cluster.tell(lacks, "status", check=False).stdout)
    assert cluster.tell(lacks, "status", check=False).returncode == 4
    assert "permission denied" not in cluster.tell(NODES[0], "status", check=False).stdout


def test_an_engine_that_goes_back_to_a_backup_confuses_nobody(cluster: ClusterNetwork) -> None:
    """With users, and with the token from before: gateways see that it went back. Then one dies and comes back."""
    cluster.engine.start()
    cluster.engine.add_users(CLUSTER, *NODES)
    cluster.gateways()
    cluster.settled()
    witness = cluster.witness(udp=80, tcp=20)
    first = homes(witness.fresh())
    backup = cluster.engine.back_up()
    # The engine knows of a start that the backup does not have.
    other = next(node for node in NODES if node != first[0])
    cluster.kill(other)
    cluster.gateways(other)
    cluster.settled()
    for _ in range(10):
        cluster.engine.answers()
    # Gateways read their records every two seconds; who has not read since knows no later revision.
    time.sleep(3)
    names = {cluster.cluster_status(node)["engine"]["name"] for node in NODES}
    assert len(names) == 1

    cluster.engine.restore(backup)

    def has_another_name() -> bool:
        now = {cluster.cluster_status(node)["engine"]["name"] for node in NODES}
        return len(now) == 1 and not now & names

    cluster.until(has_another_name, 40)
    cluster.settled()
    cluster.kill(first[0])
    all_go_on(cluster, witness)
    new_flows_begin(cluster, witness, set(NODES) - {first[0]})
    cluster.gateways(first[0])
    cluster.settled()
    new_flows_begin(cluster, witness, set(NODES))
    assert homes(all_go_on(cluster, witness)) == first
