# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A CLAT whose uplink is a tunnel over this very CLAT: nothing is sent into it, and it is said.
Other packets that go round run out of hops, and are named as on a router."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from network import SERVER4, WELL_KNOWN_PREFIX, Network

INNER = "2001:db8:7::4"
ROUTER = "2001:db8:7::1"
NOBODY = "192.0.0.10"
OUTSIDE = "198.18.9.1"
WRAPPER = Path(__file__).with_name("wrapper.py")


def translated(net: Network) -> int:
    """Packets, by both paths."""
    return sum(packets for name, packets in net.counters().items() if ".translated_" in name)


def add_tunnel(net: Network) -> None:
    """A VXLAN to the server, by which the client has IPv6; a router in it is known, and is not there."""
    net.run(net.client, "ip", "link", "add", "vx0", "type", "vxlan", "id", "7", "dstport", "4789", "remote", SERVER4)
    net.run(net.client, "ip", "link", "set", "vx0", "mtu", "1400", "up")
    net.run(net.client, "ip", "address", "add", f"{INNER}/64", "dev", "vx0", "nodad")
    net.run(net.client, "ip", "neighbour", "add", ROUTER, "lladdr", "02:00:00:00:07:01", "dev", "vx0", "nud", "permanent")
    net.run(net.client, "ip", "route", "add", WELL_KNOWN_PREFIX, "via", ROUTER, "dev", "vx0")
    net.run(net.client, "ip", "address", "add", f"{OUTSIDE}/24", "dev", "wan0")


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_tunnel_over_this_very_clat(net: Network, datapath: str) -> None:
    """It is found before the first packet is sent. With a route of its own for the tunnel packets pass, until it is gone."""
    add_tunnel(net)
    clat = net.clat(datapath, "--uplink", "vx0", ready=False)
    said = f"the tunnel vx0 sends its own packets, to {SERVER4}, through this CLAT"
    net.until(lambda: said in clat.log())
    net.run(net.client, "ping", "-f", "-c200", "-W0.1", NOBODY, check=False)
    status = net.status()
    assert [found["kind"] for found in status["findings"]] == ["obstacle"], status
    assert said in status["obstacles"][0], status
    assert translated(net) == 0
    net.run(net.client, "ip", "route", "add", f"{SERVER4}/32", "dev", "wan0")
    net.until(lambda: net.status()["state"] == "ready")
    net.run(net.client, "ip", "route", "del", f"{SERVER4}/32", "dev", "wan0")
    net.until(lambda: net.status()["state"] == "waiting")
    assert said in net.status()["obstacles"][0]


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_packets_that_run_out_of_hops(net: Network, datapath: str) -> None:
    """As many as a loop makes are told, and that they are over."""
    clat = net.clat(datapath)
    flood = net.start(net.client, "ping", "-q", "-f", "-l", "100", "-t", "1", SERVER4, stdout=-3)
    net.until(lambda: "a routing loop: " in clat.log())
    net.until(lambda: [(found["kind"], found["reason"]) for found in net.status()["findings"]] == [("trouble", "loop")])
    [found] = net.status()["findings"]
    assert re.search(rf"one of them from 192\.0\.0\.1 to {SERVER4}", found["text"]), found
    flood.terminate()
    net.until(lambda: "the routing loop is over" in clat.log(), patience=60)
    assert (net.status()["state"], net.status()["findings"]) == ("ready", [])


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_program_s_tunnel_over_this_very_clat(net: Network, datapath: str) -> None:
    """The kernel does not know where its packets go. That they go round is seen by what becomes of them."""
    net.start(net.client, sys.executable, str(WRAPPER), "vpn0", SERVER4)
    net.until(lambda: net.run(net.client, "ip", "link", "set", "vpn0", "mtu", "1400", "up", check=False).returncode == 0)
    net.run(net.client, "ip", "address", "add", f"{INNER}/64", "dev", "vpn0", "nodad")
    net.run(net.client, "ip", "route", "add", WELL_KNOWN_PREFIX, "dev", "vpn0")
    net.run(net.client, "ip", "address", "add", f"{OUTSIDE}/24", "dev", "wan0")
    net.run(net.client, "ip", "route", "add", f"{SERVER4}/32", "dev", "wan0")
    clat = net.clat(datapath, "--uplink", "vpn0")
    # Streams without an answer go on.
    floods = [net.start(net.client, "ping", "-q", "-i", "0.001", NOBODY, stdout=-3) for _ in range(6)]
    net.until(lambda: net.counters()["slow.drop.no_route"] > 0)
    net.until(lambda: net.status()["state"] == "ready")
    for flood in floods:
        flood.terminate()
    clat.stop()
    clat = net.clat(datapath, "--uplink", "vpn0")
    net.run(net.client, "ip", "route", "del", f"{SERVER4}/32", "dev", "wan0")
    net.run(net.client, "ping", "-c1", "-W0.1", NOBODY, check=False)
    # A slow machine sees first that nothing is answered.
    said = "what is sent through vpn0 comes back to be sent again"
    net.until(lambda: any(said in obstacle for obstacle in net.status()["obstacles"]), patience=60)
    assert said in clat.log()
    sent = translated(net)
    net.run(net.client, "ping", "-c5", "-i0.1", "-W0.1", NOBODY, check=False)
    assert translated(net) == sent
    net.run(net.client, "ip", "route", "add", f"{SERVER4}/32", "dev", "wan0")
    net.until(lambda: net.status()["state"] == "ready")
