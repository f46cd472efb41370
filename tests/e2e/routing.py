# SPDX-License-Identifier: Apache-2.0 OR MIT
"""FRR in the routers of a cluster and in its gateways: zebra, bgpd and bfdd.

Gateways announce the prefix and the pool of all as long as diolkos has its best routes for them at its TUN device. They do not
announce pools of their own, by which routers would find the owner of an address. So a packet meets any gateway (ECMP). If a
gateway falls silent, BFD says so.

Stages: files → zebra → bgpd and bfdd.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from network import Network
from plan import AS_ROUTER4, AS_ROUTER6, GATEWAYS, MORE_POOLS4, POOLS4, PREF64, ROUTER4, ROUTER6

DAEMONS = Path("/usr/lib/frr")
USER = "frr"  # that the package makes; its daemons refuse root
# By default zebra changes an IPv6 route by deleting it and adding another: packets between the two are lost.
OPTIONS = {"zebra": ("--v6-rr-semantics",), "bfdd": ("--bfdctl", "{folder}/bfdd.sock"), "bgpd": ()}
# With nexthop objects, zebra of FRR 8.4 can leave a gateway out of a route of several ways after its link went and came.
ZEBRA = "no zebra nexthop kernel enable\n"
# A gateway with another metric at its routes should get no packets.
PREFERRED = 1024
# A second of silence: on a machine with many tests, less would be lost by neighbours' load.
BFD = """bfd
 profile fast
  detect-multiplier 5
  receive-interval 200
  transmit-interval 200
 exit
exit
"""


@dataclass
class Routing:
    """FRR of all routers; `names` are their namespaces by role, `nodes` the gateways."""

    network: Network
    names: dict[str, str]
    nodes: tuple[str, ...]
    processes: dict[str, list[subprocess.Popen]] = field(default_factory=dict)

    def start(self, *roles: str) -> None:
        """Start the daemons of roles, all by default."""
        roles = roles or (ROUTER6, ROUTER4, *self.nodes)
        self.network.scratch.chmod(0o711)  # the daemons' user reaches its own folders and lists nothing
        for role in roles:
            folder = self._folder(role)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for daemon, text in (("zebra", ZEBRA), ("bfdd", BFD), ("bgpd", bgp(role, self.nodes))):
                (folder / f"{daemon}.conf").write_text(f"hostname {role}\n{text}")
            shutil.chown(folder, USER, USER)
            self.processes[role] = [self._started(role, "zebra")]
        for role in roles:
            self.network.until(lambda role=role: (self._folder(role) / "zserv.api").exists())
            self.processes[role] += [self._started(role, daemon) for daemon in ("bfdd", "bgpd")]

    def kill(self, role: str) -> None:
        """End them without a word to the neighbours."""
        for process in self.processes.pop(role):
            process.kill()
            process.wait()
            self.network.running.remove(process)

    def ways(self, role: str, destination: str) -> set[str]:
        """The gateways that a router uses for a destination."""
        shown = self.network.ip(self.names[role], "route", "show", "exact", destination)
        return set(re.findall(r"dev (gw\d) ", shown))  # a router's device is called as the gateway behind it

    def _folder(self, role: str) -> Path:
        return self.network.scratch / f"frr-{role}"

    def _started(self, role: str, daemon: str) -> subprocess.Popen:
        folder = self._folder(role)
        command = [
            *(str(DAEMONS / daemon), "--config_file", str(folder / f"{daemon}.conf")),
            *("--vty_socket", str(folder), "--socket", str(folder / "zserv.api"), "--vty_port", "0"),
            *("--pid_file", str(folder / f"{daemon}.pid"), "--user", USER, "--group", USER),
            *("--log", f"file:{folder / f'{daemon}.log'}"),
            *(option.format(folder=folder) for option in OPTIONS[daemon]),
        ]
        with (folder / f"{daemon}.out").open("w") as out:
            return self.network.start(self.names[role], *command, stdout=out, stderr=out)


def bgp(role: str, nodes: tuple[str, ...]) -> str:
    """What bgpd of a role is told."""
    gateways = [GATEWAYS[node] for node in nodes]
    if role == ROUTER6:
        neighbours = {gateway.link6[1]: gateway.as_number for gateway in gateways}
        return _frame(AS_ROUTER6, "198.18.0.6", neighbours, {"ipv6": ["maximum-paths 16"]})
    if role == ROUTER4:
        neighbours = {gateway.link4[1]: gateway.as_number for gateway in gateways}
        return _frame(AS_ROUTER4, "198.18.0.4", neighbours, {"ipv4": ["maximum-paths 16"]})
    gateway = GATEWAYS[role]
    filters = f"""ip prefix-list POOLS seq 1 permit {POOLS4}
ip prefix-list POOLS seq 2 permit {MORE_POOLS4}
ipv6 prefix-list PREF64 permit {PREF64}
route-map TRANSLATED4 permit 10
 match ip address prefix-list POOLS
 match metric {PREFERRED}
 set metric 0
exit
route-map TRANSLATED6 permit 10
 match ipv6 address prefix-list PREF64
 match metric {PREFERRED}
 set metric 0
exit
route-map NOTHING deny 10
exit
"""
    neighbours = {gateway.link6[0]: AS_ROUTER6, gateway.link4[0]: AS_ROUTER4}
    # No gateway is another's way to what it translates itself.
    families = {
        f"ipv{version}": [
            f"redistribute kernel route-map TRANSLATED{version}",
            f"neighbor {router} route-map NOTHING in",
        ]
        for version, router in ((4, gateway.link4[0]), (6, gateway.link6[0]))
    }
    return filters + _frame(gateway.as_number, gateway.link4[1], neighbours, families)


def _frame(number: int, router_id: str, neighbours: dict[str, int], families: dict[str, list[str]]) -> str:
    lines = [
        f"router bgp {number}",
        f" bgp router-id {router_id}",
        " no bgp ebgp-requires-policy",
        " no bgp default ipv4-unicast",
        " bgp bestpath as-path multipath-relax",
    ]
    for address, other in neighbours.items():
        about = ("bfd profile fast", "advertisement-interval 0", "timers connect 1")
        lines += [f" neighbor {address} {text}" for text in (f"remote-as {other}", *about)]
    for family, body in families.items():
        of_family = [address for address in neighbours if (":" in address) == (family == "ipv6")]
        lines += [f" address-family {family} unicast", *(f"  neighbor {address} activate" for address in of_family)]
        lines += [*(f"  {text}" for text in body), " exit-address-family"]
    return "\n".join([*lines, "exit"]) + "\n"
