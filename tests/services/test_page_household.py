# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/networks/household.md: a router with one address of a DHCP server, a laptop with IPv6 only, and a tv with IPv4 only."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import servers
from machine import Machine
from network import Network
from pages import Bare, Page, Wires
from test_option108 import CONF, UNIT


def test_every_command_of_the_page(
    wires: Wires, machine: Callable[[Network, str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hosts leave with the router's address, each with its own ports; so they do after it has changed."""
    wires.lay(
        ("server", "eth0", "router", "wan0"),
        ("link", "port1", "router", "lan0"),
        ("link", "port2", "laptop", "eth0"),
        ("link", "port3", "tv", "eth0"),
    )
    wires.join("link", "port1", "port2", "port3")
    wires.batch(wires.v4, "address add 198.51.100.2/24 dev eth0")
    # It says as whom it knows who asks.
    answer = 'default_type text/plain; return 200 "$remote_addr port $remote_port\\n";'
    monkeypatch.setattr(servers, "WEB", servers.WEB.replace("root {folder}/pages;", answer))
    servers.web(wires, {})
    provider = (
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--port=0", "--interface=eth0",
        "--bind-interfaces", f"--dhcp-leasefile={wires.scratch}/leases", "--dhcp-range=198.51.100.70,198.51.100.79,1h",
    )  # fmt: skip
    wires.start(wires.v4, *provider, stdout=-3, stderr=-3)
    laptop, tv = wires.of("laptop"), wires.of("tv")
    wires.batch(laptop, "address add 2001:db8:6::10/64 dev eth0 nodad", "route add default via 2001:db8:6::1")
    wires.batch(tv, "address add 192.168.6.10/24 dev eth0", "route add default via 192.168.6.1")
    router = machine(wires, wires.of("router"))
    router.file("/etc/resolv.conf", "")
    router.file("/etc/nftables.conf", "")
    router.file("/etc/dhcpcd.conf", CONF)
    router.file("/etc/systemd/system/dhcpcd.service", UNIT)
    router.boot()
    boxes = {"router": router, "laptop": Bare(wires, laptop), "tv": Bare(wires, tv)}
    Page("household.md", boxes).follow()
