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
SLOW = routing.Bfd(interval_ms=300)  # nothing here is about speed: a busy machine must not lose its neighbours


@dataclass
class Lab:
    """The network, its routers, and the TUN device of each gateway."""

    cluster: Cluster
    devices: dict[str, int]

    @property
    def network(self) -> Network:
        return self.cluster.network

    def start(self, name: str, *addresses: object, metric: int = 1024) -> None:
        """What diolkos does when it starts in a gateway that owns the addresses."""
        with namespace.entered(self.network.namespace(name)):
            self.devices[name] = os.open("/dev/net/tun", os.O_RDWR)
            wanted = struct.pack("16sH22x", plan.TUN_DEVICE.encode(), TUN_WITHOUT_HEADER)
            fcntl.ioctl(self.devices[name], TUNSETIFF, wanted)
        node = next(node for node in plan.NODES if node.name == name)
        to = f"dev {plan.TUN_DEVICE} proto static metric"
        self.network.ip(name, [f"link set {plan.TUN_DEVICE} up"])
        self.network.ip(name, [f"route add {each} {to} {metric}" for each in (plan.PREF64, plan.POOL4, node.node6, *addresses)])

    def end(self, name: str) -> None:
        """Let the process die: the kernel removes the device and its routes."""
        os.close(self.devices.pop(name))

    def reaches(self, name: str, other: plan.Gateway) -> bool:
        """Has a gateway a route to another one's own address?"""
        return bool(self.network.show(name, "-6", "route", "show", str(other.node6), "proto", "bgp"))


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
    cluster, pool = lab.cluster, list(plan.POOL4)
    gw1, _, gw3 = plan.NODES
    for number, name in enumerate(plan.GATEWAYS):
        lab.start(name, *pool[number::3])
    assert wait_until(cluster.everything_is_announced, PATIENCE_S), cluster.announcers()
    assert [cluster.owner_of(address) for address in pool[:4]] == ["gw1", "gw2", "gw3", "gw1"]
    assert wait_until(lambda: lab.reaches("gw2", gw1) and lab.reaches("gw1", gw3), PATIENCE_S)

    # The program dies: nobody sends to it any more, neither routers nor the other gateways.
    lab.end("gw1")
    assert wait_until(lambda: cluster.gateways_of_prefix() == {"gw2", "gw3"}, PATIENCE_S)
    assert wait_until(lambda: cluster.owner_of(pool[0]) is None, PATIENCE_S), "its addresses have the route of the pool only"
    assert wait_until(lambda: not lab.reaches("gw2", gw1), PATIENCE_S)
    assert cluster.owner_of(pool[1]) == "gw2"

    # It comes back and should get no packets, but for one address: that is announced, and nothing else.
    lab.start("gw1", metric=1026)
    lab.network.ip("gw1", [f"route add {pool[0]} dev {plan.TUN_DEVICE} proto static metric 1024"])
    assert wait_until(lambda: cluster.owner_of(pool[0]) == "gw1", PATIENCE_S)
    assert cluster.gateways_of_prefix() == {"gw2", "gw3"}
    assert not lab.reaches("gw2", gw1)

    # It has lost the engine for long: it gets packets when there is nobody better, or nobody is better.
    for name in ("gw1", "gw2"):
        lab.end(name)
        lab.start(name, metric=routing.RESERVE)
    assert wait_until(lambda: cluster.gateways_of_prefix() == {"gw3"}, PATIENCE_S)
    lab.end("gw3")
    assert wait_until(lambda: cluster.gateways_of_prefix() == {"gw1", "gw2"}, PATIENCE_S)
    lab.start("gw3", metric=routing.RESERVE)
    assert wait_until(lambda: cluster.gateways_of_prefix() == set(plan.GATEWAYS), PATIENCE_S)
