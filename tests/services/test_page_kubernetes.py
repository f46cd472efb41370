# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/networks/kubernetes.md: a pod of IPv6 only, its node, and a NAT64 between the node and the IPv4 Internet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import cni
import servers
from machine import Machine
from network import Network
from pages import Page, Wires


def test_every_command_of_the_page(wires: Wires, machine: Callable[[Network, str], Machine]) -> None:
    """The pod gets IPv4 by the call that makes its interface, and loses it by the one that ends it."""
    wires.lay(("server", "eth0", "gateway", "wan0"), ("node", "eth0", "gateway", "lan0"))
    wires.batch(wires.v4, "address add 198.51.100.2/24 dev eth0", "route add default via 198.51.100.1")
    servers.web(wires, {"index.html": b"a page by IPv4\n"})

    gateway, node = (machine(wires, wires.of(box)) for box in ("gateway", "node"))
    with_plugin(node)
    for box in (gateway, node):
        box.boot()

    Page("kubernetes.md", {"gateway": gateway, "node": node}).follow()
    assert node.run("pgrep", "diolkos", check=False).stdout == ""


def with_plugin(machine: Machine) -> None:
    """Give a machine that has not booted the plugin, as the package does, and the tool of the page.

    The tool is the specification's own where CNITOOL names it.
    """
    usr = machine.folder / "usr"
    (usr / "lib" / "cni").mkdir()
    plugin = machine.network.program.with_name("diolkos-cni")
    shutil.copy(plugin, usr / "lib" / "cni")
    shutil.copy(os.environ.get("CNITOOL", Path(cni.__file__)), usr / "bin" / "cnitool")
    (usr / "bin" / "cnitool").chmod(0o755)
