# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A router that advertises itself with radvd, and a host that has its address and its default route from there only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from network import Network
from siit import TRANSLATOR6, V6, SiitNetwork

RADVD = os.environ.get("RADVD", "radvd")
CONFIG = """
interface {link} {{
    AdvSendAdvert on;
    MinRtrAdvInterval 3;
    MaxRtrAdvInterval 4;
    AdvDefaultLifetime 600;
    prefix {prefix} {{ }};
}};
"""


def radvd(net: Network, name: str, config: str) -> Path:
    """Start radvd in a namespace; the file in which it says what it does."""
    folder = net.scratch / f"radvd-{len(net.running)}"
    folder.mkdir()
    (folder / "conf").write_text(config)
    log = folder / "log"
    files = ("--config", str(folder / "conf"), "--pidfile", str(folder / "pid"))
    with log.open("w") as sink:
        net.start(name, RADVD, "--nodaemon", "--logmethod", "stderr", *files, stdout=sink, stderr=sink)
    return log


def knows_pref64() -> bool:
    """Whether this radvd can advertise a translation prefix: 2.20 and later can."""
    version = subprocess.run([RADVD, "--version"], check=False, capture_output=True, text=True).stderr
    return tuple(int(part) for part in version.split()[1].split(".")[:2]) >= (2, 20)


def advertise(net: SiitNetwork) -> None:
    """Let the translator advertise itself to the IPv6 host, which forgets all that it was given by hand.

    Its address is the same as before.
    """
    net.run(net.v6, "ip", "-6", "route", "flush", "default")
    net.run(net.v6, "ip", "-6", "address", "flush", "dev", "a0", "scope", "global")
    # As which host of a prefix it is known. It must not be set after an advertisement has come.
    net.run(net.v6, "ip", "token", "set", "::2", "dev", "a0")
    radvd(net, net.translator, CONFIG.format(link="b6", prefix="2001:db8:6::/64"))
    net.until(lambda: default_router(net, net.v6, "a0") is not None)
    net.until(lambda: V6 in net.run(net.v6, "ip", "-6", "address", "show", "dev", "a0", "scope", "global").stdout)
    net.until(lambda: net.run(net.v6, "ping", "-c1", "-W0.2", TRANSLATOR6, check=False).returncode == 0)


def default_router(net: Network, name: str, link: str) -> str | None:
    """The link-local address of the router that a host has learnt on a link."""
    routes = net.ip_json(name, "-6", "route", "show", "default", "dev", link, "proto", "ra")
    return next((route["gateway"] for route in routes), None)


def ask_whether_it_is_there(net: Network, name: str, link: str) -> None:
    """Have a host test that its default router can be reached, as it does by itself now and then (RFC 4861 section 7.3)."""
    router = default_router(net, name, link)
    assert router is not None, "there is no default route"

    def neighbour() -> dict:
        return net.ip_json(name, "-6", "neigh", "show", "to", router, "dev", link)[0]

    known = neighbour()
    # What is not said here is forgotten. That it is a router must not be.
    assert "router" in known, known
    again = ("lladdr", known["lladdr"], "router", "nud", "probe")
    net.run(name, "ip", "-6", "neigh", "change", router, "dev", link, *again)
    net.until(lambda: neighbour()["state"] != ["PROBE"])
    assert neighbour()["state"] == ["REACHABLE"], neighbour()
