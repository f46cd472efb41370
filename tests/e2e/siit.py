# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The smallest network in which a stateless translator makes sense.

    v4 a0 ── b4 translator b6 ── a0 v6

The IPv4 side is 198.51.100.0/24, the IPv6 side 2001:db8:6::/64. The IPv6 host is 192.0.2.2 by an explicit mapping, and
203.0.113.7 by an address in the translation prefix; the IPv4 host is known in IPv6 by the prefix alone.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from network import UNLIKE, Network, Running

V4 = "198.51.100.2"
TRANSLATOR4 = "198.51.100.1"
V6 = "2001:db8:6::2"
TRANSLATOR6 = "2001:db8:6::1"
PREF64 = "2001:db8:64::/96"
V4_IN_IPV6 = "2001:db8:64::c633:6402"
TRANSLATOR4_IN_IPV6 = "2001:db8:64::c633:6401"
V6_MAPPED = "192.0.2.2"
V6_EMBEDDED = "203.0.113.7"
V6_EMBEDDING = "2001:db8:64::cb00:7107"

CONFIG = f"""
[translator]
mode = "siit"
pref64 = ["{PREF64}"]

[[eam]]
v4 = "{V6_MAPPED}/32"
v6 = "{V6}/128"

[siit]
routes4 = ["192.0.2.0/24", "203.0.113.0/24"]
"""


@dataclass
class SiitNetwork(Network):
    """An IPv4 host, a translator's router, and an IPv6 host."""

    datapath: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.v4, self.translator, self.v6 = self.client, self.router, self.server
        self.config = self.scratch / "siit.toml"
        self.configure(CONFIG)

    def configure(self, text: str) -> None:
        """Write the configuration that is read next; the datapath is that of the test."""
        placed = 'placement = "{}"\ninterfaces = ["b4", "b6"]'
        keys = {"clsact": 'hook = "clsact"'} | {place: placed.format(place) for place in ("inline", "direct", "xdp")}
        if self.datapath in keys:
            text = text.replace("[translator]\n", f"[translator]\n{keys[self.datapath]}\n")
        self.config.write_text(text)

    def build(self) -> None:
        """Make namespaces, links, addresses and routes. All links have an MTU of 9000 bytes."""
        self.add_namespaces(self.v4, self.translator, self.v6)
        for name in (self.v4, self.translator, self.v6):
            # Whatever the host's own default is.
            for interface in ("all", "default"):
                self.sysctl(name, f"net.ipv4.conf.{interface}.rp_filter", "0")
        self.lay_links()
        self.set_up(self.v4, {"a0": [f"{V4}/24"]})
        self.set_up(self.translator, {"b4": [f"{TRANSLATOR4}/24"], "b6": [f"{TRANSLATOR6}/64"]})
        self.set_up(self.v6, {"a0": [f"{V6}/64"]})
        self.batch(self.v4, f"route add default via {TRANSLATOR4}")
        self.batch(self.v6, f"route add default via {TRANSLATOR6}", f"address add {V6_EMBEDDING}/128 dev lo")
        self.batch(self.translator, f"route add 2001:db8:64::cb00:7100/120 via {V6}")
        self.settle()
        self.until(lambda: self.run(self.v6, "ping", "-c1", "-W0.2", TRANSLATOR6, check=False).returncode == 0)

    def lay_links(self) -> None:
        """Make the links."""
        joints = ((self.v4, "b4"), (self.v6, "b6"))
        for at, (name, link) in enumerate(joints):
            far = f"{link} netns {self.translator} mtu 9000 index {UNLIKE + at}"
            self.batch(None, f"link add a0 netns {name} mtu 9000 type veth peer {far}")
        if self.datapath == "xdp":
            # A virtual Ethernet is no wire: its end takes frames of XDP only if it polls, which it does with GRO, and it leaves
            # checksums and VLAN tags to a device that is none.
            for name in (self.v4, self.v6):
                wire = ("gro", "on", "tx", "off", "txvlan", "off", "tx-vlan-stag-hw-insert", "off")
                self.run(name, "ethtool", "-K", "a0", *wire)

    def offload(self, *features: str) -> None:
        """Have the hosts leave checksums (`tx`) or VLAN tags (`txvlan`) to their virtual links with every placement."""
        for name in (self.v4, self.v6):
            for feature in features:
                self.run(name, "ethtool", "-K", "a0", feature, "on")

    def narrow(self, mtu: int) -> None:
        """Let the translator's routes to both hosts carry packets of at most so many bytes."""
        limit = ("mtu", "lock", str(mtu))
        self.run(self.translator, "ip", "route", "replace", "198.51.100.0/24", "dev", "b4", "src", TRANSLATOR4, *limit)
        self.run(self.translator, "ip", "-6", "route", "add", f"{V6}/128", "dev", "b6", *limit)

    def siit(self, *options: str, command: str = "siit", ready: bool = True) -> Running:
        """Start diolkos in the translator and wait until it is ready."""
        log = self.scratch / f"log-{len(self.running)}"
        if self.datapath != "auto":
            options = ("--datapath", {"tun": "tun"}.get(self.datapath, "tc"), *options)
        with log.open("w") as sink:
            arguments = [str(self.program), command, "--config", str(self.config), *options]
            process = self.start(self.translator, *arguments, stderr=sink, stdout=sink)
        running = Running(process, log)
        if ready:
            self.until(lambda: " ready: " in running.log() or process.poll() is not None)
            assert process.poll() is None, running.log()
        return running

    def diolkos(self, *arguments: str) -> tuple[int, str]:
        """Run diolkos in the translator; its exit code and its last words."""
        done = self.run(self.translator, str(self.program), *arguments, check=False)
        return done.returncode, done.stderr.strip()

    def reload(self, text: str) -> tuple[int, str]:
        """Write another configuration and have it read."""
        self.configure(text)
        return self.diolkos("reload")

    def counters(self) -> dict[str, int]:
        """Packets by fate."""
        shown = self.run(self.translator, str(self.program), "show", "counters", "--json").stdout
        return json.loads(shown)["counters"]

    def path(self) -> str:
        """What the counters of the path begin with that plain packets take."""
        return "slow" if self.datapath == "tun" else "fast"

    def script(self, name: str, code: str, *arguments: str) -> str:
        """What Python code prints in a namespace."""
        return self.run(name, sys.executable, "-c", code, *arguments).stdout

    def leftovers(self) -> list[str]:
        """What a translator could have left in its namespace."""
        found = [link["ifname"] for link in self.ip_json(self.translator, "link") if link["ifname"].startswith("dio")]
        for family in ("-4", "-6"):
            routes = self.run(self.translator, "ip", family, "route", "show", "table", "all").stdout.splitlines()
            found += [route for route in routes if "diolkos" in route]
        return found

    def forwarding(self) -> dict[str, str]:
        """Every forwarding setting of the translator's namespace."""
        find = 'grep -H . $(find /proc/sys/net/ipv?/conf -name "*forwarding*")'
        lines = self.run(self.translator, "sh", "-c", find).stdout.split()
        settings = dict(line.split(":", 1) for line in lines)
        return {"/".join(Path(path).parts[-4:]): value for path, value in sorted(settings.items()) if "diolkos" not in path}
