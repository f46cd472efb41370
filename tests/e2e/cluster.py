# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A cluster of three or five NAT64 gateways between two routers, with subscribers, a server and etcd, each in a namespace.

    x ─┐         ┌─ gw1 ─┐
       ├── r6 ───┼─ gw2 ─┼─── r4 ── server        gw1, gw2, gw3: gw0 at `link`
    y ─┘   ECMP  └─ gw3 ─┘  ECMP                  gw1, gw2, gw3: mg0 at `engine`, where the three members of etcd are

Routers learn from the gateways' own FRR which of them take packets. `cut` takes a gateway out of one of the two switches.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
from dataclasses import dataclass, field

from authority import Authority
from engine import Engine, password
from network import Network, Running
from plan import (
    CLIENTS,
    CLUSTER,
    GATEWAYS,
    MEMBERS,
    MORE_NODES,
    MORE_POOLS4,
    NODES,
    POOLS4,
    PREF64,
    ROUTER4,
    ROUTER6,
    SERVER4,
    TO_ENGINE,
    TO_GATEWAYS,
    TO_ROUTER4,
    TO_ROUTER6,
    Gateway,
    client_link6,
    halves,
    member_address,
    prefix,
    subscribers,
)
from routing import Routing
from witness import Witness

LINK, ENGINE = "link", "engine"
ROLES = (*CLIENTS, ROUTER6, ROUTER4, "server", LINK, ENGINE)
# ECMP by addresses and ports: packets of one subscriber pass all gateways.
BY_FLOW = {"net.ipv6.fib_multipath_hash_policy": "1", "net.ipv4.fib_multipath_hash_policy": "1"}
# Addresses of a router's link stay when it is down, as they do where only the carrier is lost.
KEPT = {f"net.ipv6.conf.{interface}.keep_addr_on_down": "1" for interface in ("all", "default")}
FORWARDING = {"net.ipv6.conf.all.forwarding": "1", "net.ipv4.ip_forward": "1"}
SETTLED = 40.0  # seconds, of a machine that does much else


@dataclass
class ClusterNetwork(Network):
    """Gateways, and what is around them."""

    nodes: dict[str, Running] = field(default_factory=dict)
    # Sections of every node's file beside those of the cluster.
    sections: str = ""
    # Further keys of every pool.
    pool_keys: str = ""
    # These subscribers have the second half of each gateway's addresses for themselves.
    customers: tuple[int, ...] = ()
    size: int = 3
    placement: str = "device"
    datapath: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.all = (*NODES, *MORE_NODES)[: self.size]
        self.announced = ((ROUTER6, PREF64), (ROUTER4, POOLS4 if self.size == len(NODES) else MORE_POOLS4))
        self.roles = (*ROLES, *self.all)
        self.names = {role: f"{self.tag}-{role}" for role in self.roles}
        self.client, self.router, self.server = (self.names[role] for role in (CLIENTS[0], ROUTER6, "server"))
        self.further = list(self.names.values())
        self.authority = Authority(self.scratch / "tls")
        self.engine = Engine(self, ENGINE, self.authority)
        self.routing = Routing(self, self.names, self.all)

    # --- the network

    def build(self) -> None:
        """Make namespaces, links, addresses and routes, certificates and routers. Neither etcd nor gateways run."""
        self.authority.make()
        # Members are in one namespace, so each connects to another from that one's address.
        self.authority.issue(ENGINE, ",".join(f"IP:{member_address(member)}" for member in MEMBERS))
        for node in self.all:
            self.authority.issue(node, f"DNS:{node}")
        self.add_namespaces(*self.names.values())
        for role in self.roles:
            self._batch(role, "link set lo up")
            for interface in ("all", "default"):
                self.sysctl(self.names[role], f"net.ipv4.conf.{interface}.rp_filter", "0")
        for role in (ROUTER6, ROUTER4, *self.all):
            self._settings(role, FORWARDING)
        for role in (ROUTER6, ROUTER4):
            self._settings(role, {**BY_FLOW, **KEPT})
        self._switches()
        self._gateways()
        self._ends()
        self.routing.start()

    def remove(self) -> None:
        """End what runs and remove the namespaces."""
        self.engine.stop(*self.engine.processes)
        for role in list(self.routing.processes):
            self.routing.kill(role)
        for process in self.running:  # for it to hear that it shall end
            process.send_signal(signal.SIGCONT)
        super().remove()
        shutil.rmtree(self.engine.data, ignore_errors=True)

    def _settings(self, role: str, values: dict[str, str]) -> None:
        for key, value in values.items():
            self.sysctl(self.names[role], key, value)

    def _batch(self, role: str, *lines: str) -> None:
        """Lines of ip(8) in a role's namespace."""
        self.batch(self.names[role], *lines)

    def _joint(self, first: str, second: str, at_first: str, at_second: str) -> None:
        self._batch(first, f"link add {at_first} type veth peer name {at_second} netns {self.names[second]}")

    def _up(self, role: str, device: str, *interfaces: str) -> None:
        added = (f"address add {each} dev {device}{' nodad' if ':' in each else ''}" for each in interfaces)
        self._batch(role, *added, f"link set {device} up")

    def _switches(self) -> None:
        for switch, device in ((LINK, TO_GATEWAYS), (ENGINE, TO_ENGINE)):
            # No spanning tree and no snooping: a port forwards from its first packet on.
            self._batch(switch, "link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0", "link set br0 up")
            for node in self.all:
                self._joint(switch, node, node, device)
                self._batch(switch, f"link set {node} master br0 up")
        self._up(ENGINE, "br0", *(f"{member_address(member)}/64" for member in MEMBERS))

    def _gateways(self) -> None:
        for node in self.all:
            gateway = GATEWAYS[node]
            self._joint(ROUTER6, node, node, TO_ROUTER6)
            self._joint(ROUTER4, node, node, TO_ROUTER4)
            self._up(ROUTER6, node, f"{gateway.link6[0]}/64")
            self._up(ROUTER4, node, f"{gateway.link4[0]}/24")
            self._up(node, TO_ROUTER6, f"{gateway.link6[1]}/64")
            self._up(node, TO_ROUTER4, f"{gateway.link4[1]}/24")
            self._up(node, TO_GATEWAYS, f"{gateway.address}/64")
            self._up(node, TO_ENGINE, f"{gateway.management}/64")
            self._batch(node, *(f"route add default via {link[0]}" for link in (gateway.link6, gateway.link4)))

    def _ends(self) -> None:
        for client in CLIENTS:
            router, own = client_link6(client)
            self._joint(ROUTER6, client, client, "a0")
            self._up(ROUTER6, client, f"{router}/64")
            self._up(client, "a0", f"{own}/64")
            # All addresses of the prefixes are the client's own, and its programs may send from any of them.
            prefixes = [f"{prefix(number)}/64" for number in subscribers(client)]
            self._batch(client, f"route add default via {router}", *(f"route add local {p} dev lo" for p in prefixes))
            self._settings(client, {"net.ipv6.ip_nonlocal_bind": "1", "net.ipv4.ping_group_range": "0 2147483647"})
            self._batch(ROUTER6, *(f"route add {p} via {own}" for p in prefixes))
        self._joint(ROUTER4, "server", "srv", "a0")
        self._up(ROUTER4, "srv", "198.18.100.1/24")
        self._up("server", "a0", "198.18.100.2/24")
        self._batch("server", f"address add {SERVER4}/32 dev lo", f"route add default via 198.18.100.1 src {SERVER4}")
        self._batch(ROUTER4, f"route add {SERVER4}/32 via 198.18.100.2")

    # --- faults of the network

    def cut(self, switch: str, *nodes: str) -> None:
        """Take gateways out of `LINK` or `ENGINE`. Their interfaces stay up, and nobody is told."""
        self._batch(switch, *(f"link set {node} nomaster" for node in nodes))

    def mend(self, switch: str, *nodes: str) -> None:
        """Put them back."""
        self._batch(switch, *(f"link set {node} master br0" for node in nodes))

    def lose(self, router: str, node: str) -> None:
        """A router's link to a gateway has no carrier."""
        self._batch(router, f"link set {node} down")

    def regain(self, router: str, node: str) -> None:
        """It has one again."""
        self._batch(router, f"link set {node} up")

    def silence(self, node: str) -> None:
        """Drop whatever netfilter sees at a gateway: its routers see links that are up, and hear nothing."""
        hooks = ("input", "forward", "output")
        chains = "\n".join(f"chain {h} {{ type filter hook {h} priority -400; policy drop; }}" for h in hooks)
        self.run(self.names[node], "nft", "-f", "-", input=f"table inet dark {{\n{chains}\n}}")

    def unsilence(self, node: str) -> None:
        """Drop nothing any more."""
        self.run(self.names[node], "nft", "delete table inet dark")

    # --- the gateways

    def configuration(self, node: str, changes: dict[str, str] | None = None) -> str:
        """A node's file; `changes` replaces texts of it by others."""
        certificate, key = self.authority.of(node)
        members = ", ".join(f'"{self.engine.url(member)}"' for member in MEMBERS)
        text = f"""[translator]
mode = "nat64"
pref64 = ["{PREF64}"]
datapath = "{self.datapath}"
placement = "{self.placement}"
interfaces = ["{TO_ROUTER6}", "{TO_ROUTER4}"]
[cluster]
name = "{CLUSTER}"
etcd = [{members}]
ca = "{self.authority.certificate}"
certificate = "{certificate}"
key = "{key}"
"""
        if self.engine.user:
            file = self.scratch / f"{node}.password"
            file.write_text(password(node))
            file.chmod(0o600)
            text += f'user = "{node}"\npassword_file = "{file}"\n'
        for gateway in (GATEWAYS[name] for name in self.all):
            text += f"""[[cluster.node]]
name = "{gateway.name}"
address = "{gateway.address}"
links = ["{TO_GATEWAYS}"]
"""
            for net, sources in self.pools(gateway):
                text += f'[[cluster.node.pool4]]\naddress = "{net}"\n{sources}{self.pool_keys}'
        text += self.sections
        for old, new in (changes or {}).items():
            assert old in text, old
            text = text.replace(old, new)
        return text

    def pools(self, gateway: Gateway) -> list[tuple[str, str]]:
        """A gateway's networks, with the line that says whose each is."""
        if not self.customers:
            return [(gateway.pool4, "")]
        others, own = halves(gateway.pool4)
        prefixes = ", ".join(f'"{prefix(number)}/64"' for number in self.customers)
        return [(others, ""), (own, f"sources = [{prefixes}]\n")]

    def launch(self, node: str, changes: dict[str, str] | None = None) -> Running:
        """Start a gateway, and do not wait."""
        config = self.scratch / f"{node}.toml"
        text = self.configuration(node, changes)
        config.write_text(text)
        log = self.scratch / f"log-{node}-{len(self.running)}"
        with log.open("w") as sink:
            command = [str(self.program), "nat64", "--config", str(config)]
            command += ["--node", node] if "[cluster]" in text else []
            process = self.start(self.names[node], *command, stderr=sink, stdout=sink)
        self.nodes[node] = Running(process, log)
        return self.nodes[node]

    def hears(self, node: str) -> None:
        """Wait until a gateway's program says how it stands, or has ended."""
        running = self.nodes[node]
        answers = lambda: self.tell(node, "status", "--json", check=False).stdout.startswith("{")  # noqa: E731
        self.until(lambda: running.process.poll() is not None or answers(), SETTLED)
        assert running.process.poll() is None, running.log()

    def gateways(self, *nodes: str, changes: dict[str, str] | None = None) -> None:
        """Start gateways, all by default, and wait until routers use them."""
        nodes = nodes or self.all
        for node in nodes:
            self.launch(node, changes)
        for node in nodes:
            self.attracts(node)

    def attracts(self, node: str, patience: float = SETTLED) -> None:
        """Wait until both routers use a gateway."""
        running = self.nodes[node]
        self.until(lambda: running.process.poll() is not None or self.is_used(node), patience)
        assert running.process.poll() is None, running.log()

    def is_used(self, node: str) -> bool:
        """Whether both routers use a gateway."""
        return all(node in self.routing.ways(role, to) for role, to in self.announced)

    def repels(self, node: str, patience: float = SETTLED) -> None:
        """Wait until no router uses a gateway."""
        self.until(lambda: not any(node in self.routing.ways(role, to) for role, to in self.announced), patience)

    def settled(self, *nodes: str, patience: float = SETTLED) -> None:
        """Wait until these gateways, all by default, serve, and each has usable copies of the bindings of the others."""
        nodes = nodes or self.all

        def is_settled(node: str) -> bool:
            shown = self.tell(node, "status", "--json", check=False).stdout
            if not shown:
                return False  # it has just been started
            status = json.loads(shown)
            others = [other for other in status["nodes"] if other["name"] in nodes]
            usable = [each["serves"] and each["copies_usable_ms"] and each["unacknowledged"] is not None for each in others]
            return status["part"] == "serving" and status["attracts"] and all(usable)

        self.until(lambda: all(map(is_settled, nodes)), patience)

    def kill(self, node: str) -> None:
        """End a gateway's program, at once."""
        process = self.nodes.pop(node).process
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def freeze(self, node: str) -> None:
        """Let a gateway's program stand still; its BPF programs go on."""
        self.nodes[node].process.send_signal(signal.SIGSTOP)

    def thaw(self, node: str) -> None:
        """Let it go on."""
        self.nodes[node].process.send_signal(signal.SIGCONT)

    def tell(self, node: str, *words: str, **options) -> subprocess.CompletedProcess:
        """Run `diolkos cluster` in a gateway; options are those of `run`."""
        return self.run(self.names[node], str(self.program), "cluster", *words, **options)

    def cluster_status(self, node: str) -> dict:
        """What a node says of itself and its cluster."""
        return json.loads(self.tell(node, "status", "--json", check=False).stdout)

    def forwarded(self, node: str) -> int:
        """Packets that a gateway has sent to others on the link between them."""
        found = self.ip_json(self.names[node], "-s", "link", "show", TO_GATEWAYS)
        return found[0]["stats64"]["tx"]["packets"]

    # --- subscribers and the server

    def witness(self, **options: float) -> Witness:
        """Start the server and all subscribers' flows, and wait until each flow has had an answer."""
        made = Witness(self, self.server, {self.names[client]: subscribers(client) for client in CLIENTS}, **options)
        self.until(lambda: made.report().begun, SETTLED)
        return made

    def story(self, lines: int = 30) -> str:
        """What gateways say now, and the last lines of all logs."""
        found = []
        for node, running in self.nodes.items():
            if running.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    found += [f"--- {node} now", self.tell(node, "status", check=False, timeout=3).stdout]
        for log in sorted(self.scratch.glob("log-*")):
            found += [f"--- {log.name}", *log.read_text().splitlines()[-lines:]]
        return "\n".join(found)
