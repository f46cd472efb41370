# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the study relies on: cuts cut, routing spreads and withdraws, the engine survives its leader."""

import http.client
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from diolkos_lab.experiment.failover import Bfd
from diolkos_lab.failover import engine, plan, routing
from diolkos_lab.failover.cluster import Cluster
from diolkos_lab.failover.gateways import Gateways
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.topology import namespace, scratch
from diolkos_lab.topology.process import Process

PATIENCE_S = 60.0
SLOW_BFD = Bfd(interval_ms=300)  # a busy machine that tests must not take for a dead neighbour
FRR_EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "cluster" / "frr.conf"

root = [pytest.mark.root, pytest.mark.usefixtures("clean_machine")]
with_frr = pytest.mark.skipif(bool(routing.missing()), reason="FRR is not installed")
with_engine = pytest.mark.skipif(bool(engine.missing()), reason="etcd or openssl is not installed")


@pytest.fixture
def network() -> Iterator[Network]:
    with Network("test") as found:
        yield found


@pytest.fixture
def work() -> Iterator[Path]:
    """Not pytest's folder: FRR has a user of its own, who cannot enter that."""
    with scratch.folder() as found:
        yield found


def pings(network: Network, role: str, target: object) -> bool:
    where = namespace.DIRECTORY / network.namespace(role)
    command = ["nsenter", f"--net={where}", "ping", "-n", "-c1", "-W1", str(target)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def stand_in(network: Network, node: plan.Gateway) -> None:
    """A device with the routes that diolkos adds as long as it lives."""
    network.ip(
        node.name,
        [
            f"link add {plan.TUN_DEVICE} type veth peer name other",  # not every kernel has dummy devices
            "link set other up",
            f"link set {plan.TUN_DEVICE} up",
            f"route add {plan.PREF64} dev {plan.TUN_DEVICE} metric 1024 proto static",
            f"route add {plan.POOLS4} dev {plan.TUN_DEVICE} metric 1024 proto static",
            f"route add {node.pool4} dev {plan.TUN_DEVICE} metric 1024 proto static",
        ],
    )


def lead_away(network: Network, node: plan.Gateway, *, back: bool = False) -> None:
    """Make the routes worse, as diolkos does when the gateway is drained: the new ones come before the old ones go."""
    new, old = (1024, 1026) if back else (1026, 1024)
    for to in (plan.PREF64, plan.POOLS4, node.pool4):
        network.ip(node.name, [f"route add {to} dev {plan.TUN_DEVICE} metric {new} proto static"])
        network.ip(node.name, [f"route delete {to} dev {plan.TUN_DEVICE} metric {old}"])


class TestNetwork:
    pytestmark = root

    def test_a_cut_carries_nothing_and_neither_end_loses_its_link(self, network: Network) -> None:
        victim, other = plan.NODES[:2]
        assert wait_until(lambda: pings(network, victim.name, other.lan4), PATIENCE_S)
        network.cut(plan.LAN, victim.name)
        assert not pings(network, victim.name, other.lan4)
        assert not pings(network, other.name, victim.lan6)
        assert "LOWER_UP" in network.show(victim.name, "link", "show", plan.LAN_DEVICE)
        assert pings(network, victim.name, plan.engine4(1)), "the link to the engine is another"
        assert pings(network, victim.name, other.link6), "and so is that to the other gateways"

    @with_frr
    def test_routing_spreads_by_source_and_leaves_who_vanishes_or_dies(self, network: Network, work: Path) -> None:
        routers = routing.start(network, work / "frr", SLOW_BFD)
        changes = Process(network.namespace(plan.INSIDE), ["ip", "-6", "monitor", "route"], work / "changes", work / "changes")
        for node in plan.NODES:
            stand_in(network, node)
        certificates = engine.Certificates(work)
        gateways = Gateways(network, "cluster", Path("diolkos"), work, certificates)
        cluster = Cluster(network, engine.Engine(network, work, certificates, {}), routers, gateways)
        assert wait_until(lambda: cluster.gateways_of_prefix() == set(plan.GATEWAYS), PATIENCE_S)
        # One hop for each source, and every gateway for some.
        hops = {source: next_hop(network, plan.source6(1, source)) for source in range(60)}
        assert len(set(hops.values())) == len(plan.GATEWAYS)
        assert hops == {source: next_hop(network, plan.source6(1, source)) for source in hops}
        # An address of the pool leads to its owner, though all have the pool.
        first, second, third = plan.NODES
        assert wait_until(cluster.everything_is_announced, PATIENCE_S)
        # The second wants no packets, so its metric is another; then it does again.
        lead_away(network, second)
        assert wait_until(lambda: cluster.gateways_of_prefix() == {first.name, third.name}, PATIENCE_S)
        assert wait_until(lambda: cluster.owner_of(second.pool4[1]) is None, PATIENCE_S)
        lead_away(network, second, back=True)
        assert wait_until(cluster.everything_is_announced, PATIENCE_S)
        # The program ends: its device is gone, and with it all that was announced.
        network.ip(second.name, [f"link delete {plan.TUN_DEVICE}"])
        assert wait_until(lambda: cluster.gateways_of_prefix() == {first.name, third.name}, PATIENCE_S)
        assert wait_until(lambda: cluster.owner_of(second.pool4[1]) is None, PATIENCE_S)
        # A gateway dies, and only BFD can tell: its routes stay where it was.
        for pid in namespace.processes_inside({network.namespace(third.name)}):
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: cluster.gateways_of_prefix() == {first.name}, PATIENCE_S)
        # A route that changes is there all the while.
        assert (work / "changes").read_text().count(str(plan.PREF64)) >= 3
        assert f"Deleted {plan.PREF64}" not in (work / "changes").read_text()
        changes.kill()
        # The third is cut off.
        network.cut(plan.LAN, first.name)
        assert wait_until(lambda: not cluster.gateways_of_prefix(), PATIENCE_S)

    @with_engine
    def test_the_engine_goes_on_without_its_leader_and_knows_no_strangers(self, network: Network, work: Path) -> None:
        certificates = engine.make_certificates(work / "certificates")
        members = engine.start(network, work / "engine", certificates)
        leader = members.leader()
        assert leader
        members.processes[leader].kill()
        assert wait_until(members.ready, PATIENCE_S)
        assert members.leader() not in (leader, None)
        survivor = next(name for name in plan.ENGINES if name != leader)
        assert b"etcdserver" in version(network, survivor, certificates, plan.GATEWAYS[0])
        assert not version(network, survivor, certificates, None)


def next_hop(network: Network, source: object) -> str:
    said = network.show(plan.INSIDE, "-6", "route", "get", str(plan.SERVER6), "from", str(source), "iif", plan.CLIENTS[0])
    words = said.split()
    return words[words.index("via") + 1]


def version(network: Network, member: str, certificates: engine.Certificates, who: str | None) -> bytes:
    """What a member of the engine answers to a client with the certificate of `who`, or without one; empty if nothing."""
    context = ssl.create_default_context(cafile=str(certificates.authority))
    if who:
        context.load_cert_chain(*certificates.of(who))
    address = str(engine.address_of(member))
    with namespace.entered(network.namespace(plan.GATEWAYS[0])):
        connection = http.client.HTTPSConnection(address, plan.ENGINE_PORT, timeout=PATIENCE_S, context=context)
        try:
            connection.request("GET", "/version")
            return connection.getresponse().read()
        except OSError:
            return b""
        finally:
            connection.close()


@with_frr
def test_frr_knows_every_line_of_what_it_gets(tmp_path: Path) -> None:
    """Of the configurations of the study, and of the one that the documentation shows. Needs no daemon."""
    for role in plan.ROUTERS:
        (tmp_path / role).write_text(routing.configuration(role, Bfd()))
    for file in (*(tmp_path / role for role in plan.ROUTERS), FRR_EXAMPLE):
        done = subprocess.run(["vtysh", "--dryrun", "--inputfile", str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{file.name}: {done.stdout}{done.stderr}"


@with_frr
def test_frr_refuses_a_line_that_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "frr.conf").write_text("router bgp 64512\n neighbour 2001:db8::1 remote-as 64513\n")
    command = ["vtysh", "--dryrun", "--inputfile", str(tmp_path / "frr.conf")]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
