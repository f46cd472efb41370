# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What diolkos does to its TUN device, and what FRR makes of it: announcements, withdrawal and their metric.

diolkos is not in it: a TUN device lives as long as its descriptor is open, and has the same routes.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from diolkos_lab.experiment.failover import Bfd
from diolkos_lab.failover import plan, routing
from diolkos_lab.failover.cluster import Cluster
from diolkos_lab.failover.engine import Certificates, Engine
from diolkos_lab.failover.gateways import Gateways
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.topology import namespace, scratch

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(routing.missing()), reason="FRR is not installed: apt-get install frr"),
]
TUNSETIFF = 0x400454CA  # linux/if_tun.h
TUN_WITHOUT_HEADER = 0x0001 | 0x1000  # IFF_TUN, IFF_NO_PI
PATIENCE_S = 30.0
SLOW = Bfd(interval_ms=300)  # nothing here is about speed: a busy machine must not lose its neighbours


@dataclass
class Lab:
    """The network, its routers, and the TUN device of each gateway."""

    cluster: Cluster
    devices: dict[str, int]

    @property
    def network(self) -> Network:
        return self.cluster.network

    def start(self, name: str, metric: int = 1024) -> None:
        """What diolkos does when it starts in a gateway: routes of the prefix, of all pools, and of its own one."""
        with namespace.entered(self.network.namespace(name)):
            self.devices[name] = os.open("/dev/net/tun", os.O_RDWR)
            wanted = struct.pack("16sH22x", plan.TUN_DEVICE.encode(), TUN_WITHOUT_HEADER)
            fcntl.ioctl(self.devices[name], TUNSETIFF, wanted)
        self.network.ip(name, [f"link set {plan.TUN_DEVICE} up"])
        self.lead(name, "add", metric)

    def lead(self, name: str, how: str, metric: int) -> None:
        """Add or delete its routes of a metric."""
        own = next(node.pool4 for node in plan.NODES if node.name == name)
        to = f"dev {plan.TUN_DEVICE} proto static metric {metric}"
        self.network.ip(name, [f"route {how} {each} {to}" for each in (plan.PREF64, plan.POOLS4, own)])

    def end(self, name: str) -> None:
        """Let the process die: the kernel removes the device and its routes."""
        os.close(self.devices.pop(name))


@pytest.fixture
def lab(tmp_path: Path, clean_machine: None) -> Iterator[Lab]:
    """All routers with their neighbours, and no gateway that translates."""
    with scratch.folder() as folder, Network("failover") as network:
        routers = routing.start(network, folder / "frr", SLOW)
        nobody = Certificates(tmp_path)
        gateways = Gateways(network, "cluster", Path("/nonexistent"), tmp_path, nobody)
        lab = Lab(Cluster(network, Engine(network, tmp_path, nobody, {}), routers, gateways), {})
        yield lab
        for name in list(lab.devices):
            lab.end(name)


def test_announcements_live_as_long_as_the_program(lab: Lab) -> None:
    """One network for all of it: FRR needs seconds to start."""
    cluster, address = lab.cluster, plan.NODES[0].pool4[1]
    for name in plan.GATEWAYS:
        lab.start(name)
    assert wait_until(cluster.everything_is_announced, PATIENCE_S), cluster.announcers()

    # The program dies: routers send nothing to it any more.
    lab.end("gw1")
    assert wait_until(lambda: cluster.gateways_of_prefix() == {"gw2", "gw3"}, PATIENCE_S)
    assert wait_until(lambda: cluster.owner_of(address) is None, PATIENCE_S), "its addresses have the route of all pools only"
    assert cluster.owner_of(plan.NODES[1].pool4[1]) == "gw2"

    # It comes back and yields, as it does until it knows its earlier bindings: nothing is announced.
    lab.start("gw1", metric=1026)
    lab.end("gw2")
    assert wait_until(lambda: cluster.gateways_of_prefix() == {"gw3"}, PATIENCE_S)
    assert cluster.owner_of(address) == "gw3", "the route of all pools is that of the only gateway left"

    # It serves.
    lab.lead("gw1", "add", 1024)
    lab.lead("gw1", "del", 1026)
    assert wait_until(lambda: cluster.owner_of(address) == "gw1", PATIENCE_S)
    assert wait_until(lambda: cluster.gateways_of_prefix() == {"gw1", "gw3"}, PATIENCE_S)
