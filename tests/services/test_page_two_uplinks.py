# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/networks/two-uplinks.md: two providers with a NAT64 each, and the host of the page between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import advertising
import pytest
import servers
from machine import Machine
from network import Network
from pages import Page, Wires

SERVER = "198.51.100.2"


@dataclass
class Provider:
    """One that gives its customers IPv6 only."""

    box: str
    number: int
    pool4: str

    @property
    def pref64(self) -> str:
        """Its translation prefix."""
        return f"2001:db8:{self.box}64::/96"

    def config(self) -> str:
        """Of its NAT64."""
        return f'[translator]\nmode = "nat64"\npref64 = ["{self.pref64}"]\n[[nat64.pool4]]\naddress = "{self.pool4}"\n'

    def start(self, wires: Wires) -> None:
        """Addresses, routes, NAT64 and router advertisements."""
        name = wires.of(self.box)
        wires.batch(
            name, f"address add 2001:db8:{self.box}::1/64 dev lan0 nodad", f"address add 10.0.{self.number}.1/30 dev wan0"
        )
        wires.batch(name, f"route add {SERVER}/32 via 10.0.{self.number}.2")
        wires.batch(wires.v4, f"address add 10.0.{self.number}.2/30 dev eth{self.number}")
        wires.batch(wires.v4, f"route add {self.pool4} via 10.0.{self.number}.1")
        config, log = wires.scratch / f"{self.box}.toml", wires.scratch / f"{self.box}.log"
        config.write_text(self.config())
        with log.open("w") as sink:
            wires.start(name, str(wires.program), "run", "--config", str(config), stdout=sink, stderr=sink)
        wires.until(lambda: " ready: " in log.read_text())
        advertising.radvd(wires, name, advertising.CONFIG.format(link="lan0", prefix=f"2001:db8:{self.box}::/64"))


def test_every_command_of_the_page(
    wires: Wires, machine: Callable[[Network, str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """IPv4 goes through the first provider, through the second one while the first is away, and through the first again."""
    wires.lay(
        ("host", "eth0", "a", "lan0"),
        ("host", "eth1", "b", "lan0"),
        ("server", "eth1", "a", "wan0"),
        ("server", "eth2", "b", "wan0"),
    )
    wires.batch(wires.v4, f"address add {SERVER}/32 dev lo")
    # It says as whom it knows who asks.
    monkeypatch.setattr(
        servers, "WEB", servers.WEB.replace("root {folder}/pages;", 'default_type text/plain; return 200 "$remote_addr\\n";')
    )
    servers.web(wires, {})
    for provider in (Provider("a", 1, "192.0.2.0/29"), Provider("b", 2, "203.0.113.0/29")):
        provider.start(wires)
    host = machine(wires, wires.of("host"))
    host.boot()

    Page("two-uplinks.md", {"host": host}).follow()
