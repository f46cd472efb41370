# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A gateway of a cluster as `diolkos@NAME.service`, among others that run without a service manager."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

from cluster import SETTLED, ClusterNetwork
from confined import check, drop_in
from machine import Machine
from plan import CLUSTER, NODES

UNIT = "diolkos@nat64.service"


def test_a_gateway_works_in_its_sandbox(cluster: ClusterNetwork, machine: Callable[..., Machine]) -> None:
    """Connections, etcd with a password, programs that forward: with the unit's rights, and the program's own filters."""
    me, *others = NODES
    cluster.engine.start()
    cluster.engine.add_users(CLUSTER, *NODES)
    host = machine(cluster, cluster.names[me])
    text = cluster.configuration(me)
    certificate, key = cluster.authority.of(me)
    for file in (cluster.authority.certificate, certificate, key, cluster.scratch / f"{me}.password"):
        shutil.copy(file, host.folder / "etc" / "diolkos")
        text = text.replace(f'"{file}"', f'"/etc/diolkos/{file.name}"')
    host.file("/etc/diolkos/nat64.toml", text)
    host.file("/etc/hostname", f"{me}\n")
    host.file(*drop_in(UNIT))
    host.boot()
    cluster.gateways(*others)
    host.systemctl("start", UNIT)

    def stands() -> bool:
        status = json.loads(host.run("diolkos", "cluster", "status", "--json", check=False).stdout)
        usable = [each["serves"] and each["copies_usable_ms"] for each in status["nodes"]]
        return status["part"] == "serving" and all(usable) and not status["findings"] and status["engine"]["answered"] > 0

    cluster.until(stands, SETTLED)
    cluster.until(lambda: cluster.is_used(me), SETTLED)
    witness = cluster.witness(udp=40, tcp=10)
    before = cluster.forwarded(me)
    cluster.until(lambda: cluster.forwarded(me) - before > 200)
    witness.report().nothing_moved()
    (threads,) = check(host, UNIT, 1, "diolkos0").values()
    assert "cluster" in {thread.name for thread in threads}
    counted = json.loads(host.run("diolkos", "show", "counters", "--json").stdout)["counters"]
    assert counted["fast.translated_6to4"] and counted["fast.translated_4to6"] and counted["cluster.forwarded"], counted
