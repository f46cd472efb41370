# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What counts as dropped, and that the kernel's counters of a namespace are read from it."""

import socket
from pathlib import Path

import pytest

from diolkos_lab.failover import drops, plan
from diolkos_lab.failover.cluster import Cluster
from diolkos_lab.failover.engine import Certificates, Engine
from diolkos_lab.failover.gateways import Gateways
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.run.counters import Device, NetCounters
from diolkos_lab.topology import namespace

PATIENCE_S = 30.0


def test_only_what_counts_drops_and_has_grown_is_told() -> None:
    change = NetCounters(
        {"lan0": Device(9000, 90, 3, 9000, 90, 0), "lo": Device(0, 0, 0, 0, 0, 0)},
        {
            "Ip6InReceives": 90,
            "Ip6OutNoRoutes": 4,
            "Ip6InDiscards": 0,
            "UdpRcvbufErrors": 1,
            "TcpOutRsts": 7,
            "IpExtInNoRoutes": 2,
        },
    )
    assert drops.of_kernel(change) == {"Ip6OutNoRoutes": 4, "UdpRcvbufErrors": 1, "IpExtInNoRoutes": 2, "lan0 rx": 3}


BEFORE = {"slow.drop.no_binding": 5, "cluster.report.slow": 0, "fast.failed": 0, "state.bindings": 900}


@pytest.mark.parametrize(
    ("readings", "found"),
    [
        ([{**BEFORE, "slow.drop.no_binding": 7, "state.bindings": 950}], {"slow.drop.no_binding": 2}),
        ([{**BEFORE, "fast.failed": 1, "state.bindings": 10}], {"fast.failed": 1}),
        ([{"slow.drop.no_binding": 6, "cluster.report.void": 3}, {"slow.drop.no_binding": 3, "cluster.report.slow": 1}],
         {"slow.drop.no_binding": 4, "cluster.report.void": 3, "cluster.report.slow": 1}),
        ([BEFORE, {}], {}),
        ([{}], {}),  # dead
    ],
)  # fmt: skip
def test_programs_tell_their_drops_one_after_the_other(readings: list[dict[str, int]], found: dict[str, int]) -> None:
    assert drops.of_programs(readings, BEFORE) == found


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_each_place_tells_its_own_drops(tmp_path: Path) -> None:
    """A datagram arrives for a port without a socket; the gateways run no program."""
    with Network("test") as network:
        certificates = Certificates(tmp_path)
        gateways = Gateways(network, "cluster", Path("/bin/false"), tmp_path, certificates)
        cluster = Cluster(network, Engine(network, tmp_path, certificates, {}), {}, gateways)
        with drops.watch(cluster) as watch:
            victim = plan.NODES[1]
            with namespace.entered(network.namespace(plan.GATEWAYS[0])), socket.socket(type=socket.SOCK_DGRAM) as one:
                one.sendto(b"x", (str(victim.lan4), 9))
            # New namespaces also solicit routers, and drop such packets: these count elsewhere.
            assert wait_until(lambda: told(watch) == {victim.name: 1}, PATIENCE_S), watch.drops()


def told(watch: drops.Watch) -> dict[str, int]:
    return {place: counts["UdpNoPorts"] for place, counts in watch.drops().items() if "UdpNoPorts" in counts}
