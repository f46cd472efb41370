# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Hosts that learn this router from its advertisements (radvd) keep it: its neighbour advertisements say that it is one.

A host deletes its default route through a router whose neighbour advertisement has the Router flag clear (RFC 4861
section 7.2.5). The kernel sets that flag by `forwarding` of the interface, and by nothing else.
"""

from __future__ import annotations

import signal

import pytest
from advertising import CONFIG as ADVERTISED
from advertising import advertise, ask_whether_it_is_there, default_router, radvd
from nat64 import Nat64Network
from network import Network
from siit import V4_IN_IPV6, V6_MAPPED, SiitNetwork

EVERYWHERE = ["tc", "tun", "inline", "direct", "xdp"]


def settings(net: SiitNetwork) -> dict[str, str]:
    """All that a router changes, and whether advertisements are accepted."""
    accepts = {link: net.sysctl(net.translator, f"net.ipv6.conf.{link}.accept_ra") for link in ("b4", "b6", "default")}
    return {**net.forwarding(), **accepts}


@pytest.mark.parametrize("nat64", EVERYWHERE, indirect=True)
def test_hosts_keep_a_nat64_as_their_router(nat64: Nat64Network) -> None:
    """They ask again and again. At the end, and after a kill at the next one, the settings are as before."""
    before = settings(nat64)
    advertise(nat64)
    running = nat64.nat64()
    ping = ("ping", "-c1", "-W0.3", V4_IN_IPV6)
    nat64.until(lambda: nat64.run(nat64.v6, *ping, check=False).returncode == 0)
    for _ in range(3):
        ask_whether_it_is_there(nat64, nat64.v6, "a0")
        nat64.run(nat64.v6, "ping", "-c1", "-W2", V4_IN_IPV6)
    assert "neighbours see an IPv6 router on b" in running.log()
    assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    running = nat64.nat64()
    ask_whether_it_is_there(nat64, nat64.v6, "a0")
    nat64.until(lambda: nat64.run(nat64.v6, *ping, check=False).returncode == 0)
    # Nor does the kernel's own talk on the device count.
    assert nat64.drops() == {}
    assert running.stop() == 0
    assert settings(nat64) == before


@pytest.mark.parametrize("siit", EVERYWHERE, indirect=True)
def test_hosts_keep_a_siit_as_their_router(siit: SiitNetwork) -> None:
    """So does the host that the IPv4 side reaches."""
    advertise(siit)
    siit.siit()
    for _ in range(2):
        ask_whether_it_is_there(siit, siit.v6, "a0")
        siit.run(siit.v6, "ping", "-c1", "-W2", V4_IN_IPV6)
        siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED)


@pytest.mark.parametrize("siit", ["tc"], indirect=True)
def test_somebody_says_that_it_is_no_router(siit: SiitNetwork) -> None:
    """Packets are forwarded still, but hosts delete their route. That is said, and a reload makes a router of it again."""
    setting = "net.ipv6.conf.b6.forwarding"
    running = siit.siit()
    siit.sysctl(siit.translator, setting, "0")
    said = "hosts on b6 delete their default route through this router"
    siit.until(lambda: said in running.log())
    siit.until(lambda: said in siit.run(siit.translator, str(siit.program), "show", "status", check=False).stdout)
    assert siit.diolkos("reload") == (0, "")
    assert siit.sysctl(siit.translator, setting) == "1"
    siit.until(lambda: f"no longer: {said}" in running.log())


@pytest.mark.parametrize("siit", ["tc", "direct"], indirect=True)
def test_a_router_keeps_its_own_default_route(siit: SiitNetwork) -> None:
    """To make a router of one interface would take away what the kernel learnt from advertisements on others."""
    siit.sysctl(siit.v4, "net.ipv6.conf.a0.forwarding", "1")
    radvd(siit, siit.v4, ADVERTISED.format(link="a0", prefix="2001:db8:4::/64"))
    siit.until(lambda: default_router(siit, siit.translator, "b4") is not None)
    siit.config.write_text(siit.config.read_text().replace('interfaces = ["b4", "b6"]', 'interfaces = ["b6"]'))
    before = settings(siit)
    running = siit.siit()
    assert siit.sysctl(siit.translator, "net.ipv6.conf.b6.forwarding") == "1"
    ask_whether_it_is_there(siit, siit.translator, "b4")
    assert default_router(siit, siit.translator, "b4") is not None
    assert running.stop() == 0
    assert default_router(siit, siit.translator, "b4") is not None
    assert settings(siit) == before


def test_the_host_of_a_clat_is_no_router_to_its_neighbours(net: Network) -> None:
    """It forwards IPv6 between its uplink and the TUN device, and is a host all the same (RFC 4861 section 6.3)."""
    net.clat("tun")
    assert net.sysctl(net.client, "net.ipv6.conf.wan0.forwarding") == "0"
    flags = net.run(net.router, "ip", "-6", "neigh", "show", "dev", "down0").stdout
    assert "2001:2:0:1::2" in flags
    assert "router" not in flags
    assert net.ping("-c1").returncode == 0
