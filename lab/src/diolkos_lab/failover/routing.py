# SPDX-License-Identifier: Apache-2.0 OR MIT
"""FRR in the routers: zebra, bfdd and bgpd, a set of each in every namespace, with files of their own.

Gateways announce what diolkos gives them routes for at its TUN device: when the program dies, device and routes vanish and the
announcements with them. When a whole gateway dies, BFD says so.

Stages: configuration → start (zebra before the others) → ask.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.failover import Bfd
from diolkos_lab.failover import plan
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.faults import Fault
from diolkos_lab.topology import scratch
from diolkos_lab.topology.namespace import Owner
from diolkos_lab.topology.process import Process

DAEMONS = Path("/usr/lib/frr")
ORDER = ("zebra", "bfdd", "bgpd")
PATIENCE_S = 60.0
USER = "frr"  # that the package makes; its daemons refuse root
# That diolkos gives the routes of a gateway that wants packets. One that does not has a higher metric.
METRIC = 1024
# With nexthop objects, zebra of FRR 8.4 can leave a gateway out of a route of several ways after its link went and came.
ZEBRA = "no zebra nexthop kernel enable"
# BFD counts milliseconds: its daemon, and what carries out what it finds, run ahead of everything that measures.
# By default zebra changes an IPv6 route by deleting it and adding another: packets between the two are lost.
OPTIONS = {"zebra": ("--v6-rr-semantics",), "bfdd": ("--bfdctl", "{folder}/bfdd.sock"), "bgpd": ()}
PRIORITY = {"zebra": ("nice", "-n", "-15"), "bfdd": ("chrt", "--fifo", "10"), "bgpd": ("nice", "-n", "-15")}


@dataclass(frozen=True)
class Routing:
    """FRR of one router, running."""

    role: str
    folder: Path
    processes: tuple[Process, ...]

    def ask(self, command: str) -> Any:
        """What bgpd, bfdd or zebra says to a `show … json`; None where it says nothing that can be read."""
        ask = ["vtysh", "--vty_socket", str(self.folder), "-c", command]
        try:
            done = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=10)
            return json.loads(done.stdout)
        except (json.JSONDecodeError, subprocess.TimeoutExpired):
            return None

    def neighbours_up(self) -> int:
        """How many sessions of BGP are established with a living BFD session beside each."""
        summary = self.ask("show bgp summary json") or {}
        established = {
            name
            for family in summary.values()
            if isinstance(family, dict)
            for name, peer in family.get("peers", {}).items()
            if peer.get("state") == "Established"
        }
        alive = {peer.get("peer") for peer in self.ask("show bfd peers json") or [] if peer.get("status") == "up"}
        return len(established & alive)

    def bfd_downs_but(self, addresses: set[str]) -> int | None:
        """How often BFD has lost a neighbour since it started, without those neighbours; None where bfdd does not say."""
        peers = self.ask("show bfd peers counters json")
        if peers is None:
            return None
        return sum(int(peer.get("session-down", 0)) for peer in peers if peer.get("peer") not in addresses)


def start(network: Network, folder: Path, bfd: Bfd) -> dict[str, Routing]:
    """FRR in every router, with sessions between all that need one. Raises Fault when they do not come up."""
    folder.mkdir(parents=True)
    for each in (folder, *folder.parents):
        if each.is_relative_to(scratch.path_of(Owner.me())):
            each.chmod(0o711)  # the daemons' user reaches its own folders and lists nothing
    started = {role: start_one(network, role, folder / role, bfd) for role in plan.ROUTERS}
    wait_for_sessions(started)
    return started


def start_one(network: Network, role: str, folder: Path, bfd: Bfd) -> Routing:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for old in (*folder.glob("*.vty"), *folder.glob("*.api"), *folder.glob("*.pid"), *folder.glob("*.sock")):
        old.unlink()
    shutil.chown(folder, USER, USER)
    config = folder / "frr.conf"
    config.write_text(configuration(role, bfd))
    empty = folder / "empty.conf"  # a daemon by itself does not understand the lines of the others; vtysh gives each its own
    empty.write_text("")
    processes = []
    for daemon in ORDER:
        command = [
            *PRIORITY[daemon],
            str(DAEMONS / daemon),
            *("--vty_socket", str(folder), "--config_file", str(empty), "--socket", str(folder / "zserv.api")),
            *("--pid_file", str(folder / f"{daemon}.pid"), "--user", USER, "--group", USER, "--vty_port", "0"),
            *("--log", f"file:{folder / f'{daemon}.log'}"),
            *(option.format(folder=folder) for option in OPTIONS[daemon]),
        ]
        output = folder / f"{daemon}.out"
        process = Process(network.namespace(role), command, output, output)
        processes.append(process)
        ready = folder / (f"{daemon}.vty")
        if not wait_until(lambda ready=ready, process=process: ready.exists() or process.exit_status is not None, PATIENCE_S):  # type: ignore[misc]
            raise Fault(f"{daemon} in {role} does not get ready")
        if process.exit_status is not None:
            raise Fault(f"{daemon} in {role} {process.how_it_ended()}: {' '.join(process.last_words())}")
    load = ["vtysh", "--vty_socket", str(folder), "--inputfile", str(config)]
    done = subprocess.run(load, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode or "Unknown command" in done.stdout:
        raise Fault(f"{role}: FRR does not take its configuration: {done.stdout.strip()[-300:]}")
    return Routing(role, folder, tuple(processes))


def wait_for_sessions(started: dict[str, Routing]) -> None:
    for role, routing in started.items():
        wanted = len(plan.GATEWAYS) if role in (plan.INSIDE, plan.OUTSIDE) else len((plan.INSIDE, plan.OUTSIDE))
        if not wait_until(lambda routing=routing, wanted=wanted: routing.neighbours_up() >= wanted, PATIENCE_S):  # type: ignore[misc]
            raise Fault(f"the router {role} has {routing.neighbours_up()} neighbours, not {wanted}")


def missing() -> dict[str, str]:
    """Programs that are not here, with how to get them."""
    how = "apt-get install frr; the lab starts its own, so the service may be off"
    found = {daemon: how for daemon in ORDER if not (DAEMONS / daemon).exists()}
    return found if shutil.which("vtysh") else {**found, "vtysh": how}


# ---- configuration


def configuration(role: str, bfd: Bfd) -> str:
    """frr.conf of a router of `plan.ROUTERS`."""
    if role == plan.INSIDE:
        return _frame(role, bfd, plan.AS_INSIDE, str(plan.INSIDE4), _inside(), [ZEBRA])
    if role == plan.OUTSIDE:
        return _frame(role, bfd, plan.AS_OUTSIDE, str(plan.OUTSIDE4), _outside(), [ZEBRA])
    node = next(node for node in plan.NODES if node.name == role)
    return _frame(role, bfd, node.as_number, str(node.lan4), _gateway(), _filters())


def _frame(role: str, bfd: Bfd, as_number: int, router_id: str, body: Sequence[str], filters: Sequence[str]) -> str:
    lines = [
        "frr defaults traditional",
        f"hostname {role}",
        *filters,
        "bfd",
        " profile fast",
        f"  detect-multiplier {bfd.multiplier}",
        f"  receive-interval {bfd.interval_ms}",
        f"  transmit-interval {bfd.interval_ms}",
        " exit",
        "exit",
        f"router bgp {as_number}",
        f" bgp router-id {router_id}",
        " no bgp ebgp-requires-policy",
        " no bgp default ipv4-unicast",
        " no bgp network import-check",
        # The gateways have AS numbers of their own, and are equally good.
        " bgp bestpath as-path multipath-relax",
        *(f" {line}" for line in body),
        "exit",
    ]
    return "\n".join(lines) + "\n"


def _neighbour(address: object, as_number: int) -> list[str]:
    return [
        f"neighbor {address} remote-as {as_number}",
        f"neighbor {address} bfd profile fast",
        f"neighbor {address} advertisement-interval 0",
        f"neighbor {address} timers connect 1",
    ]


def _inside() -> list[str]:
    """Towards the clients: it learns the prefix from every gateway, and uses all of them."""
    return [
        *(line for node in plan.NODES for line in _neighbour(node.lan6, node.as_number)),
        "address-family ipv6 unicast",
        *(f" neighbor {node.lan6} activate" for node in plan.NODES),
        " maximum-paths 16",
        *(f" network {plan.sources6(number)}" for number in range(1, len(plan.CLIENTS) + 1)),
        "exit-address-family",
    ]


def _outside() -> list[str]:
    """Towards the server: it learns the whole pool from every gateway, and each part of it from its owner."""
    return [
        *(line for node in plan.NODES for line in _neighbour(node.lan4, node.as_number)),
        "address-family ipv4 unicast",
        *(f" neighbor {node.lan4} activate" for node in plan.NODES),
        " maximum-paths 16",
        f" network {plan.SERVER4}/32",
        f" network {plan.SERVER_LINK4}",
        "exit-address-family",
    ]


def _gateway() -> list[str]:
    return [
        *_neighbour(plan.INSIDE6, plan.AS_INSIDE),
        *_neighbour(plan.OUTSIDE4, plan.AS_OUTSIDE),
        "address-family ipv4 unicast",
        " redistribute kernel route-map TRANSLATED4",
        f" neighbor {plan.OUTSIDE4} activate",
        f" neighbor {plan.OUTSIDE4} route-map OWN out",
        "exit-address-family",
        "address-family ipv6 unicast",
        " redistribute kernel route-map TRANSLATED6",
        f" neighbor {plan.INSIDE6} activate",
        f" neighbor {plan.INSIDE6} route-map OWN out",
        "exit-address-family",
    ]


def _permit(name: str, *matches: str) -> list[str]:
    """A route-map that permits what matches."""
    return [f"route-map {name} permit 10", *(f" match {match}" for match in matches), "exit"]


def _filters() -> list[str]:
    return [
        f"ip prefix-list POOL4 permit {plan.POOLS4} le 32",
        f"ip prefix-list POOL4 permit {plan.STATELESS4} le 32",
        f"ipv6 prefix-list PREF64 permit {plan.PREF64}",
        # No gateway is a way to another router: what was learned is not passed on.
        "bgp as-path access-list LOCAL permit ^$",
        *_permit("TRANSLATED4", "ip address prefix-list POOL4", f"metric {METRIC}"),
        *_permit("TRANSLATED6", "ipv6 address prefix-list PREF64", f"metric {METRIC}"),
        *_permit("OWN", "as-path LOCAL"),
    ]
