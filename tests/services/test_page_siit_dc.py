# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/networks/siit-dc.md: a client with IPv4 only, a server with IPv6 only, and the border of the page between them."""

from __future__ import annotations

from collections.abc import Callable

from machine import Machine
from network import Network
from pages import Bare, Page, Wires, settings_of_package


def test_every_command_of_the_page(wires: Wires, machine: Callable[[Network, str], Machine]) -> None:
    """By a mapping of addresses, and by bindings of ports."""
    wires.lay(("client", "eth0", "border", "wan0"), ("border", "dc0", "server", "eth0"))
    client = Bare(wires, wires.of("client"))
    routes = ("route add 192.0.2.80/28 via 198.51.100.1",)
    wires.batch(client.name, "address add 198.51.100.2/24 dev eth0", *routes)

    border, server = (machine(wires, wires.of(box)) for box in ("border", "server"))
    settings_of_package(server, "nginx")
    for box in (border, server):
        box.boot()
    server.run("mkdir", "-p", "/var/www/html", "/var/log/nginx", "/var/lib/nginx")  # the package has these, too

    Page("siit-dc.md", {"client": client, "border": border, "server": server}).follow()
