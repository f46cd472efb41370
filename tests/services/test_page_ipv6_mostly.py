# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/networks/ipv6-mostly.md: the router of the page, a laptop without an IPv4 address, and a printer that has one."""

from __future__ import annotations

from collections.abc import Callable

import servers
from machine import Machine
from network import Network
from pages import DNSMASQ, Page, Wires, radvd_of_environment
from test_option108 import CONF, UNIT, of_the_page

TEXT = b"a page by IPv4\n"


def test_every_command_of_the_page(wires: Wires, machine: Callable[[Network, str], Machine]) -> None:
    """The laptop has IPv4 without an address, by the CLAT; the printer has an address."""
    wires.lay(
        ("server", "eth0", "router", "wan0"),
        ("link", "port1", "router", "lan0"),
        ("link", "port2", "laptop", "eth0"),
        ("link", "port3", "printer", "eth0"),
    )
    wires.join("link", "port1", "port2", "port3")
    wires.batch(wires.v4, "address add 198.51.100.2/24 dev eth0", "route add 192.0.2.0/29 via 198.51.100.1")
    servers.names(wires)
    servers.web(wires, {"index.html": TEXT})

    router, laptop, printer = (machine(wires, wires.of(box)) for box in ("router", "laptop", "printer"))
    radvd_of_environment(router)
    router.file("/etc/systemd/system/dnsmasq.service", DNSMASQ)
    router.file("/etc/dnsmasq.d/README", "")  # the folder is there, as the package makes it
    for host in (laptop, printer):
        host.file("/etc/resolv.conf", "")
        host.file("/etc/dhcpcd.conf", CONF)
        host.file("/etc/systemd/system/dhcpcd.service", UNIT)
    laptop.file("/etc/dhcpcd.conf", of_the_page("/etc/dhcpcd.conf") + CONF)
    for file in ("/etc/systemd/system/dhcpcd.service.d/diolkos.conf", "/etc/diolkos/option108-eth0.env"):
        laptop.file(file, of_the_page(file))
    for box in (router, laptop, printer):
        box.boot()

    Page("ipv6-mostly.md", {"router": router, "laptop": laptop, "printer": printer}).follow()
    # It has no address because the server told it so, and not because it never asked.
    laptop.until(lambda: "IPv6-Only Preferred received" in laptop.journal("dhcpcd.service"), laptop.journal)
    assert "IPv6-Only Preferred" not in printer.journal("dhcpcd.service")
