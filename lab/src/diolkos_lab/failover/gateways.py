# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the gateways run, by the kind of gateway, and how it is started, drained and stopped.

cluster       a pool each; gateways tell each other their bindings, and have an engine
independent   a stateful NAT64 each, with a pool of its own: what a cluster has to be better than
stateless     a SIIT each: no state that could be lost, so what is left is what routing needs to find another way
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.failover import Kind
from diolkos_lab.failover import plan
from diolkos_lab.failover.engine import Certificates
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.faults import Fault
from diolkos_lab.topology import control_group, namespace
from diolkos_lab.topology.control_group import Group
from diolkos_lab.topology.process import Process, wait_for_text

CLUSTER_NAME = "lab"
READY = "ready"
PATIENCE_S = 60.0
HANGS = 124  # exit status of a command that does not end, as timeout(1) has it
PORT = 4664  # at which gateways hear each other
SOURCES = 2000  # of each client, that a stateless translator has mappings for; the most that a study may use


class GatewayFault(Fault):
    """A gateway does not do what it is told: it does not drain, start or come back. The system under test has failed; every
    other Fault of a trial is an instrument's."""


@dataclass
class Gateways:
    """The program of each gateway, by name."""

    network: Network
    kind: Kind
    binary: Path
    folder: Path
    certificates: Certificates
    group: Group | None = None  # that counts their CPU time
    processes: dict[str, Process] = field(default_factory=dict)
    farewells: dict[str, list[dict[str, int]]] = field(default_factory=dict)  # counters of programs that were ended

    def start(self, name: str) -> None:
        """Start one and wait until it is ready. Raises GatewayFault."""
        node = next(node for node in plan.NODES if node.name == name)
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        config = home / "diolkos.toml"
        config.write_text(CONFIGURATIONS[self.kind](node, home, self.certificates))
        command = [str(self.binary), "siit" if self.kind == "stateless" else "nat64", "--config", str(config)]
        if self.kind == "cluster":
            command += ["--node", name]
        log = home / f"diolkos-{len(list(home.glob('*.log')))}.log"  # a restart has a log of its own
        with control_group.entered(self.group):
            process = self.processes[name] = Process(self.network.namespace(name), command, log, log)
        if not wait_for_text(process, READY, PATIENCE_S):
            raise GatewayFault(f"diolkos in {name} {process.how_it_ended()}: {' '.join(process.last_words())}")

    def start_all(self) -> None:
        for name in plan.GATEWAYS:
            self.start(name)
        if self.kind == "cluster" and not wait_until(self.know_each_other, PATIENCE_S):
            raise GatewayFault(f"the nodes of the cluster do not all serve: {self.status(plan.GATEWAYS[0])}")

    def drain(self, name: str) -> None:
        """Leave new flows to the others, then end, as before an upgrade. Gateways that share nothing just end."""
        if self.kind == "cluster":
            status, text = self.order(name, "cluster", "drain")
            if status:
                raise GatewayFault(f"{name} is not drained: {text.strip()[-200:]}")
        self.farewells.setdefault(name, []).append(self.counters(name))
        self.processes[name].stop(patience_s=10)

    def status(self, name: str) -> Mapping[str, Any]:
        """What `cluster status --json` says in a gateway, whatever its exit status; empty where it says nothing."""
        try:
            value = json.loads(self._run(name, "cluster", "status", "--json").stdout)
        except json.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def counters(self, name: str) -> dict[str, int]:
        """What `show counters` says in a gateway, by name; empty where nothing answers."""
        status, text = self.order(name, "show", "counters", "--json")
        return {str(key): int(count) for key, count in json.loads(text)["counters"].items()} if status == 0 else {}

    def know_each_other(self) -> bool:
        """Does each node reach all others, and serve?"""
        return all(is_whole(self.status(name)) for name in plan.GATEWAYS)

    def order(self, name: str, *arguments: str) -> tuple[int, str]:
        """Run a command of diolkos in a gateway: exit status and output."""
        done = self._run(name, *arguments)
        return done.returncode, done.stdout + done.stderr

    def _run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = namespace.DIRECTORY / self.network.namespace(name)
        command = ["nsenter", f"--net={where}", str(self.binary), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, HANGS, "", f"no answer within {PATIENCE_S:g} s")


def is_whole(status: Mapping[str, Any]) -> bool:
    """Does a node take new flows, and see that all others are reachable and do so? `status` is its `cluster status`."""
    others = status.get("nodes") or []
    all_serve = all(node.get("is_reachable") and node.get("serves") for node in others)
    return status.get("part") == "serving" and len(others) == len(plan.GATEWAYS) - 1 and all_serve


# ---- configuration, by kind

# All flows have one peer. By default the IPv4 side may open a quarter of the sessions, and one peer an eighth of these: of a
# million flows that another gateway takes over, some would wait for the next packet of their host.
ONE_PEER = """
[nat64]
outside_share = 100
"""

TRANSLATOR = f"""\
[translator]
mode = "nat64"
placement = "device"
pref64 = ["{plan.PREF64}"]
"""


def _cluster(node: plan.Gateway, _home: Path, certificates: Certificates) -> str:
    """The same for every node but for its certificate: `--node` says which one it is."""
    certificate, key = certificates.of(node.name)
    members = ", ".join(f'"https://{plan.engine4(number)}:{plan.ENGINE_PORT}"' for number in range(1, len(plan.ENGINES) + 1))
    nodes = "".join(
        f"""
[[cluster.node]]
name = "{each.name}"
address = "{each.link6}"
links = ["{plan.LINK_DEVICE}"]

[[cluster.node.pool4]]
address = "{each.pool4}"
"""
        for each in plan.NODES
    )
    return f"""\
{TRANSLATOR}
[cluster]
name = "{CLUSTER_NAME}"
etcd = [{members}]
ca = "{certificates.authority}"
certificate = "{certificate}"
key = "{key}"
port = {PORT}
{nodes}{ONE_PEER}"""


def _independent(node: plan.Gateway, _home: Path, _certificates: Certificates) -> str:
    return f"""\
{TRANSLATOR}
{ONE_PEER}
[[nat64.pool4]]
address = "{node.pool4}"
"""


def _stateless(_node: plan.Gateway, _home: Path, _certificates: Certificates) -> str:
    mappings = "".join(
        f'\n[[eam]]\nv4 = "{plan.stateless4(client, number)}/32"\nv6 = "{plan.source6(client, number)}/128"\n'
        for client in range(1, len(plan.CLIENTS) + 1)
        for number in range(SOURCES)
    )
    return f"""\
[translator]
mode = "siit"
placement = "device"
pref64 = ["{plan.PREF64}"]

[siit]
routes4 = ["{plan.STATELESS4}"]
{mappings}"""


CONFIGURATIONS: dict[Kind, Callable[[plan.Gateway, Path, Certificates], str]] = {
    "cluster": _cluster,
    "independent": _independent,
    "stateless": _stateless,
}
