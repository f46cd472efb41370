# SPDX-License-Identifier: Apache-2.0 OR MIT
"""VXLAN through every translator: with a TCP segment inside, the checksum that is left to the device is the segment's, and
that of the tunnel is whole."""

from __future__ import annotations

import hashlib
import socket

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import BOUND, Nat64Network
from network import SERVER4, SERVER_SYNTHESIZED, Network, create_socket
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_clat_offloads import NOT_NEUTRAL6, wrong_checksums

VXLAN_PORT = "4789"
INNER = {"six": "198.18.7.6", "four": "198.18.7.4"}


def add_tunnel(net: Network, name: str, end: str, local: str, remote: str) -> None:
    """One end of a tunnel in which every datagram has a checksum: IPv6 demands it, IPv4 is told to."""
    with_checksum = [] if ":" in local else ["udpcsum"]
    net.run(name, "ip", "link", "add", "vx0", "address", f"02:00:00:00:07:0{INNER[end][-1]}", "type", "vxlan", "id", "7",
            "dstport", VXLAN_PORT, "nolearning", "local", local, "remote", remote, *with_checksum)  # fmt: skip
    # Below 1280 there is no IPv6 inside.
    net.run(name, "ip", "link", "set", "vx0", "mtu", "1200", "up")
    net.run(name, "ip", "address", "add", f"{INNER[end]}/24", "dev", "vx0")


def exchange(name: str, source: str, other: str, to: str, size: int) -> None:
    """A TCP connection through the tunnel, and data both ways."""
    listener = create_socket(other, socket.AF_INET, socket.SOCK_STREAM)
    asker = create_socket(name, socket.AF_INET, socket.SOCK_STREAM)
    with listener, asker:
        listener.bind((to, 4000))
        listener.listen()
        asker.bind((source, 0))
        for sock in (listener, asker):
            sock.settimeout(10)
        asker.connect((to, 4000))
        answerer, _ = listener.accept()
        with answerer:
            for sender, receiver in ((asker, answerer), (answerer, asker)):
                data = hashlib.shake_128(to.encode()).digest(size)
                sender.sendall(data)
                received = b""
                while len(received) < size:
                    received += receiver.recv(size)
                assert received == data


def talk(net: Network, six: str, four: str) -> None:
    """Connections both ways; no receiver finds a checksum wrong, inside or outside."""
    exchange(six, INNER["six"], four, INNER["four"], 1000)
    exchange(four, INNER["four"], six, INNER["six"], 100_000)
    assert (wrong_checksums(net, six), wrong_checksums(net, four)) == ({}, {})


def finish_checksums_at(net: Network, name: str, *links: str) -> None:
    """Have the kernel compute what a virtual link would leave undone, so that the receivers look at every checksum."""
    for link in links:
        net.run(name, "ethtool", "-K", link, "tx", "off")


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_through_a_siit(siit: SiitNetwork) -> None:
    """Plain datagrams take the fast path, tunnelled segments the slow one. Before drivers, every checksum is finished."""
    finish_checksums_at(siit, siit.translator, "b4", "b6")
    siit.siit()
    add_tunnel(siit, siit.v6, "six", V6, V4_IN_IPV6)
    add_tunnel(siit, siit.v4, "four", V4, V6_MAPPED)
    talk(siit, siit.v6, siit.v4)
    counters = siit.counters()
    if siit.path() == "fast" and siit.datapath != "xdp":
        assert counters["fast.decline_offload"] > 0
    if siit.path() == "fast":
        assert counters["fast.translated_6to4"] > 0


@pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)
def test_through_a_nat64(nat64: Nat64Network) -> None:
    """The node's end has a binding of the operator's; the ports of what it sends are changed."""
    finish_checksums_at(nat64, nat64.translator, "b4", "b6")
    nat64.nat64()
    nat64.bind("add", "udp", f"{BOUND}:{VXLAN_PORT}", f"[{V6}]:{VXLAN_PORT}")
    add_tunnel(nat64, nat64.v6, "six", V6, V4_IN_IPV6)
    add_tunnel(nat64, nat64.v4, "four", V4, BOUND)
    talk(nat64, nat64.v6, nat64.v4)
    assert nat64.drops() == {}
    if nat64.path() == "fast" and nat64.datapath != "xdp":
        assert nat64.counters()["fast.decline_offload"] > 0


def test_through_a_clat(net: Network, datapath: str) -> None:
    """With an address with which checksums change."""
    finish_checksums_at(net, net.router, "down0", "out0")
    net.clat(datapath, "--v6", NOT_NEUTRAL6)
    add_tunnel(net, net.client, "four", "192.0.0.1", SERVER4)
    add_tunnel(net, net.server, "six", SERVER_SYNTHESIZED, NOT_NEUTRAL6)
    talk(net, net.server, net.client)
    if datapath != "tun":
        assert net.counters()["fast.decline_offload"] > 0
