# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Everything that a trial is about, built and ready: network, engine, routing and gateways.

Stages: certificates → engine → routing → gateways → is everything announced?
"""

import json
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.failover import FailoverStudy, Kind
from diolkos_lab.failover import engine, plan, routing
from diolkos_lab.failover.engine import Engine
from diolkos_lab.failover.gateways import PORT as GATEWAY_PORT
from diolkos_lab.failover.gateways import GatewayFault, Gateways
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.routing import Routing
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.topology import namespace
from diolkos_lab.topology.control_group import Group

ANNOUNCED_S = 60.0


@dataclass
class Cluster:
    """The parts. What is in the network's namespaces ends with it."""

    network: Network
    engine: Engine
    routing: dict[str, Routing]
    gateways: Gateways

    def announcers(self) -> dict[str, list[IPv4Network]]:
        """Gateway to the IPv4 networks for which the outside router's best route leads to it alone."""
        found: dict[str, list[IPv4Network]] = {node.name: [] for node in plan.NODES}
        by_link = {str(node.lan4): node.name for node in plan.NODES}
        for route in _routes(self.network, plan.OUTSIDE, "-4"):
            if "/" in route["dst"] or route["dst"].count(".") == 3:
                hops = _next_hops(route)
                if len(hops) == 1 and (name := by_link.get(next(iter(hops)))):
                    found[name].append(IPv4Network(route["dst"]))
        return found

    def owner_of(self, address: IPv4Address) -> str | None:
        """The gateway to which the outside router sends packets for an address; None where several would do."""
        fitting = [
            (each.prefixlen, name) for name, networks in self.announcers().items() for each in networks if address in each
        ]
        return max(fitting)[1] if fitting else None

    def gateways_of_prefix(self) -> set[str]:
        """The gateways among which the inside router divides what goes to the translation prefix."""
        index = {}
        for node in plan.NODES:
            links = json.loads(self.network.show(node.name, "-j", "-6", "address", "show", "dev", plan.LAN_DEVICE) or "[]")
            for entry in (entry for link in links for entry in link.get("addr_info", [])):
                index[entry["local"]] = node.name
        hops: set[str] = set()
        for route in _routes(self.network, plan.INSIDE, "-6"):
            if route["dst"] == str(plan.PREF64):
                hops |= _next_hops(route)
        return {index[hop] for hop in hops if hop in index}

    def reaches_engine(self, gateway: str) -> bool:
        """Does a member of the engine accept a connection from the gateway?"""
        return any(self._connects(gateway, engine.address_of(name), plan.ENGINE_PORT) for name in plan.ENGINES)

    def reaches_gateway(self, gateway: str, other: plan.Gateway) -> bool:
        """Does another gateway accept a connection by the link that they share?"""
        return self._connects(gateway, other.link6, GATEWAY_PORT)

    def _connects(self, role: str, address: object, port: int) -> bool:
        with namespace.entered(self.network.namespace(role)):
            try:
                socket.create_connection((str(address), port), timeout=0.5).close()
            except OSError:
                return False
        return True

    def require_instruments(self) -> None:
        """Raises InstrumentFault where a router's daemon or a member of the engine has ended.

        Then gateways that do not come back have an excuse.
        """
        processes = dict(self.engine.processes)
        for role, each in self.routing.items():
            processes |= {f"{Path(process.command[-1]).stem} of {role}": process for process in each.processes}
        for name, process in processes.items():
            if process.exit_status is not None:
                raise InstrumentFault(f"{name} {process.how_it_ended()}: {' '.join(process.last_words())}")

    def everything_is_announced(self) -> bool:
        """Does the inside use all gateways, and does the outside know the part of the pool that each of them has?"""
        if self.gateways_of_prefix() != set(plan.GATEWAYS):
            return False
        if self.gateways.kind == "stateless":
            return True
        return all(self.owner_of(node.pool4[1]) == node.name for node in plan.NODES)


def build(
    network: Network, folder: Path, study: FailoverStudy, kind: Kind, binary: Path, group: Group | None = None
) -> Cluster:
    """All of it, in a network that is there. Raises GatewayFault when the gateways do not get ready, and another Fault when
    something else does not."""
    certificates = engine.make_certificates(folder / "certificates")
    servers = engine.start(network, folder / "engine", certificates)
    routers = routing.start(network, folder / "frr", study.bfd)
    gateways = Gateways(network, kind, binary, folder / "gateways", certificates, group)
    cluster = Cluster(network, servers, routers, gateways)
    try:
        cluster.gateways.start_all()
        if not wait_until(cluster.everything_is_announced, ANNOUNCED_S):
            raise GatewayFault(
                f"not everything is announced: inside {sorted(cluster.gateways_of_prefix())}, outside {cluster.announcers()}"
            )
    except GatewayFault:
        cluster.require_instruments()
        raise
    return cluster


def _routes(network: Network, role: str, family: str) -> list[dict[str, Any]]:
    text = network.show(role, family, "-j", "route", "show", "proto", "bgp")
    value = json.loads(text or "[]")
    return [each for each in value if isinstance(each, dict) and "dst" in each]


def _next_hops(route: dict[str, Any]) -> set[str]:
    several = route.get("nexthops") or [route]
    hops = {str(hop.get("gateway") or hop.get("via", {}).get("host")) for hop in several}
    return hops - {"None"}
