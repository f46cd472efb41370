# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the gateways run, by the kind of gateway, and how it is started, drained and stopped.

cluster       one pool, cut into slices; gateways share their bindings by the engine
independent   a stateful NAT64 each, with a pool of its own: what a cluster has to be better than
stateless     a SIIT each: no state that could be lost, so what is left is what routing needs to find another way
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diolkos_lab.failover import plan
from diolkos_lab.failover.definition import Kind
from diolkos_lab.failover.engine import Certificates
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.faults import Fault
from diolkos_lab.topology import namespace
from diolkos_lab.topology.process import Process, wait_for_text

CLUSTER_NAME = "lab"
READY = "ready"
PATIENCE_S = 60.0
PORTS_PER_SLICE = 64512  # an address each
LEASE_S = 12  # the rules about new flows follow from it
SOURCES = 1000  # of each client, that a stateless translator has mappings for; the most that a study may use


@dataclass
class Gateways:
    """The program of each gateway, by name."""

    network: Network
    kind: Kind
    binary: Path
    folder: Path
    certificates: Certificates
    processes: dict[str, Process] = field(default_factory=dict)
    farewells: dict[str, list[dict[str, int]]] = field(default_factory=dict)  # counters of programs that were ended

    def start(self, name: str) -> None:
        """Start one and wait until it is ready. Raises Fault."""
        node = next(node for node in plan.NODES if node.name == name)
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        config = home / "diolkos.toml"
        config.write_text(CONFIGURATIONS[self.kind](node, home, self.certificates))
        command = [str(self.binary), "siit" if self.kind == "stateless" else "nat64", "--config", str(config)]
        if self.kind == "cluster":
            command += ["--node", name]
        log = home / f"diolkos-{len(list(home.glob('*.log')))}.log"  # a restart has a log of its own
        process = Process(self.network.namespace(name), command, log, log)
        self.processes[name] = process
        if not wait_for_text(process, READY, PATIENCE_S):
            raise Fault(f"diolkos in {name} {process.how_it_ended()}: {' '.join(process.last_words())}")

    def start_all(self) -> None:
        for name in plan.GATEWAYS:
            self.start(name)
        if self.kind == "cluster" and not wait_until(self.all_slices_are_open, PATIENCE_S):
            raise Fault(f"the slices of the cluster are not all open: {self.status(plan.GATEWAYS[0])}")
        if self.kind == "cluster" and not wait_until(self.slices_are_divided, PATIENCE_S):
            raise Fault(f"the slices of the cluster are not divided among its nodes: {self.status(plan.GATEWAYS[0])}")

    def drain(self, name: str) -> None:
        """Hand everything over, then end: what an operator does before an upgrade. Gateways that share nothing just end."""
        if self.kind == "cluster":
            status, text = self.order(name, "cluster", "drain")
            if status:
                raise Fault(f"{name} is not drained: {text.strip()[-200:]}")
        self.farewells.setdefault(name, []).append(self.counters(name))
        self.processes[name].stop(patience_s=10)

    def status(self, name: str) -> Mapping[str, Any]:
        """What `cluster status --json` says in a gateway; empty where it says nothing."""
        status, text = self.order(name, "cluster", "status", "--json")
        try:
            value = json.loads(text) if status == 0 else {}
        except json.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def counters(self, name: str) -> dict[str, int]:
        """What `show counters` says in a gateway, by name; empty where nothing answers."""
        status, text = self.order(name, "show", "counters", "--json")
        return {str(key): int(count) for key, count in json.loads(text)["counters"].items()} if status == 0 else {}

    def all_slices_are_open(self) -> bool:
        """Does the routing of the addresses say so? Every address of the pool has a route of its own in its owner."""
        routes = "".join(self.network.show(name, "-4", "route", "show", "dev", plan.TUN_DEVICE) for name in plan.GATEWAYS)
        return all(f"{address} " in routes for address in plan.POOL4)

    def slices_are_divided(self) -> bool:
        """Has every node its share, and is none on its way? The node that came first has all of them for 5 s. While it hands
        them over, new connections fail for about a tenth of a second, which is none of a trial's faults."""
        return all(is_divided(self.status(name)) for name in plan.GATEWAYS)

    def order(self, name: str, *arguments: str) -> tuple[int, str]:
        """Run a command of diolkos in a gateway: exit status and output."""
        where = namespace.DIRECTORY / self.network.namespace(name)
        done = subprocess.run(
            ["nsenter", f"--net={where}", str(self.binary), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout + done.stderr


def is_divided(status: Mapping[str, Any]) -> bool:
    """Does a node see all others alive and with slices, and every slice where it belongs? `status` is its `cluster status`."""
    nodes = status.get("nodes") or []
    each_has_some = len(nodes) == len(plan.GATEWAYS) and all(node["is_alive"] and node["slices"] > 0 for node in nodes)
    return bool(each_has_some and status.get("moving") == 0 and status.get("unowned") == 0)


# ---- configuration, by kind


def _cluster(node: plan.Gateway, home: Path, certificates: Certificates) -> str:
    """The same for every node but for its certificate: `--node` says which one it is."""
    certificate, key = certificates.of(node.name)
    secret = home.parent / "cluster.secret"
    if not secret.exists():
        secret.touch(mode=0o600)
        secret.write_text("6c6162206f6e6c793a206e6f7420612073656372657420746f206b6565702e2e\n")
    servers = ", ".join(f'"tls://{plan.engine4(number)}:{plan.ENGINE_PORT}"' for number in range(1, len(plan.ENGINES) + 1))
    nodes = "".join(
        f'\n[[cluster.node]]\nname = "{each.name}"\nid = {each.number}\naddress = "{each.node6}"\n' for each in plan.NODES
    )
    return f"""\
{_nat64(str(plan.POOL4))}
[cluster]
name = "{CLUSTER_NAME}"
servers = [{servers}]
ca = "{certificates.authority}"
certificate = "{certificate}"
key = "{key}"
secret_file = "{secret}"
ports_per_slice = {PORTS_PER_SLICE}
lease = {LEASE_S}
{nodes}"""


def _independent(node: plan.Gateway, _home: Path, _certificates: Certificates) -> str:
    return _nat64(str(node.pool4))


def _stateless(_node: plan.Gateway, _home: Path, _certificates: Certificates) -> str:
    mappings = "".join(
        f'\n[[eam]]\nv4 = "{plan.stateless4(client, number)}/32"\nv6 = "{plan.source6(client, number)}/128"\n'
        for client in range(1, len(plan.CLIENTS) + 1)
        for number in range(SOURCES)
    )
    return f"""\
[translator]
mode = "siit"
pref64 = ["{plan.PREF64}"]

[siit]
routes4 = ["{plan.STATELESS4}"]
{mappings}"""


def _nat64(pool4: str) -> str:
    return f"""\
[translator]
mode = "nat64"
pref64 = ["{plan.PREF64}"]

[[nat64.pool4]]
address = "{pool4}"
"""


CONFIGURATIONS: dict[Kind, Callable[[plan.Gateway, Path, Certificates], str]] = {
    "cluster": _cluster,
    "independent": _independent,
    "stateless": _stateless,
}
