# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/networks/pcp.md: a node with IPv6 only that opens a port, and a peer with IPv4 only that reaches it."""

from __future__ import annotations

from collections.abc import Callable

from machine import Machine
from network import Network
from pages import Bare, Page, Wires, libtorrent_of_environment


def test_every_command_of_the_page(wires: Wires, machine: Callable[[Network, str], Machine]) -> None:
    """By libtorrent, as Debian has it."""
    wires.lay(("peer", "eth0", "router", "wan0"), ("router", "lan0", "node", "eth0"))
    peer = Bare(wires, wires.of("peer"))
    wires.batch(peer.name, "address add 198.51.100.2/24 dev eth0")
    router, node = (machine(wires, wires.of(box)) for box in ("router", "node"))
    libtorrent_of_environment(node)
    for box in (router, node):
        box.boot()
    Page("pcp.md", {"peer": peer, "router": router, "node": node}).follow()
