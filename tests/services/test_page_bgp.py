# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/networks/bgp.md: FRR in the router and in the gateway of the page, and a host that knows IPv6 only."""

from __future__ import annotations

from collections.abc import Callable

import servers
from machine import Machine
from network import Network
from pages import Bare, Page, Wires, radvd_of_environment, settings_of_package

TEXT = b"a page by IPv4\n"


def test_every_command_of_the_page(wires: Wires, machine: Callable[[Network, str], Machine]) -> None:
    """The router learns where the NAT64 is, and that it is gone."""
    wires.lay(
        ("server", "eth0", "core", "wan0"),
        ("host", "eth0", "core", "lan0"),
        ("gw", "eth0", "core", "gw0"),
    )
    wires.batch(wires.v4, "address add 198.51.100.2/24 dev eth0", "route add default via 198.51.100.1")
    servers.names(wires)
    servers.web(wires, {"index.html": TEXT})

    core, gw = (machine(wires, wires.of(box)) for box in ("core", "gw"))
    radvd_of_environment(core)
    for box in (core, gw):
        settings_of_package(box, "frr")
        settings_of_package(box, "pam.d")  # vtysh asks PAM
        box.boot()

    Page("bgp.md", {"core": core, "gw": gw, "host": Bare(wires, wires.of("host"))}).follow()
