# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Routes that change while packets flow: they are obeyed, and nothing is lost on the way from one router to another."""

from __future__ import annotations

import subprocess

import pytest
from network import ROUTER6, SERVER6, Network

OTHER6 = "2001:2:0:1::99"
PREFIX = "64:ff9b::/96"


def add_other_router(net: Network) -> None:
    """A second way from the client's link into the router, with a link-layer address and an interface of its own.

    wan0 ── down0 ┐
                  ├ lan0 (ROUTER6)
       port1 ─────┘
         └── down1 (OTHER6)
    """
    net.ip(net.router, "link", "add", "lan0", "type", "bridge")
    net.ip(net.router, "link", "add", "port1", "type", "veth", "peer", "name", "down1")
    for port in ("down0", "port1"):
        net.ip(net.router, "link", "set", port, "master", "lan0")
    net.ip(net.router, "address", "flush", "dev", "down0")
    for link, address in (("lan0", ROUTER6), ("down1", OTHER6)):
        net.ip(net.router, "link", "set", link, "up")
        net.ip(net.router, "address", "add", f"{address}/64", "dev", link, "nodad")
    net.ip(net.router, "link", "set", "port1", "up")
    net.ip(net.client, "neighbour", "flush", "dev", "wan0")
    for router in (ROUTER6, OTHER6):
        net.until(lambda router=router: net.ping("-6", "-c1", "-W0.2", to=router).returncode == 0)
    # The answers come back over lan0 whatever way the questions took.
    net.ip(net.router, "route", "add", "2001:2:0:1::/64", "dev", "lan0", "metric", "1")
    net.until(lambda: net.ping("-6", "-c1", "-W0.2", to=SERVER6).returncode == 0)


def arrived(net: Network, link: str) -> int:
    """Packets that the router received on a link."""
    return net.ip_json(net.router, "-s", "link", "show", link)[0]["stats64"]["rx"]["packets"]


def await_traffic(net: Network, link: str) -> None:
    """Packets arrive there by the dozen, which Neighbour Discovery alone would not do."""
    before = arrived(net, link)
    net.until(lambda: arrived(net, link) >= before + 24)


@pytest.mark.parametrize(
    ("there", "back"),
    [
        (("route", "replace", "default", "via", OTHER6), ("route", "replace", "default", "via", ROUTER6)),
        (("route", "add", "64:ff9b::c000:0/112", "via", OTHER6), ("route", "del", "64:ff9b::c000:0/112")),
        (("rule", "add", "to", PREFIX, "table", "100"), ("rule", "del", "to", PREFIX, "table", "100")),
    ],
    ids=["another-router", "a-route-inside-the-prefix", "a-policy-rule"],
)
def test_the_way_changes_under_traffic(net: Network, datapath: str, there: tuple[str, ...], back: tuple[str, ...]) -> None:
    """Traffic moves to the other router and back again; each of 400 echo requests is answered."""
    add_other_router(net)
    net.ip(net.client, "route", "add", "default", "via", OTHER6, "table", "100")
    clat = net.clat(datapath)
    ping = net.start(net.client, "ping", "-i0.01", "-c400", "-W5", "192.0.0.171", stdout=subprocess.PIPE, text=True)
    unused = arrived(net, "down1")
    await_traffic(net, "lan0")
    assert arrived(net, "down1") < unused + 12, "the other router is not used yet"
    net.ip(net.client, *there)
    await_traffic(net, "down1")
    net.ip(net.client, *back)
    # The last packets for the other router may be on their way; then no more come.
    last = -1
    while last != (last := arrived(net, "down1")):
        before = net.counters()
        net.until(lambda before=before: translated(net.counters()) >= translated(before) + 12)
    said, _ = ping.communicate(timeout=30)
    assert "400 received" in said, said + clat.log()


def translated(counters: dict[str, int]) -> int:
    """Packets to IPv6, on whatever path."""
    return counters.get("fast.translated_4to6", 0) + counters["slow.translated_4to6"]


def test_several_paths_are_used(net: Network, datapath: str) -> None:
    """With two routers of equal right each destination has one, and over many both are used."""
    add_other_router(net)
    servers = range(1, 25)
    for host in servers:
        net.ip(net.server, "address", "add", f"64:ff9b::808:{0x800 + host:x}/128", "dev", "lo", "nodad")
    clat = net.clat(datapath)
    hops = [word for router in (ROUTER6, OTHER6) for word in ("nexthop", "via", router, "dev", "wan0")]
    net.ip(net.client, "route", "replace", "default", *hops)
    net.until(lambda: settled(net, "192.0.0.171"))
    before = {link: arrived(net, link) for link in ("lan0", "down1")}

    def spread() -> bool:
        for host in servers:
            done = net.ping("-c8", "-l8", "-i2", to=f"8.8.8.{host}")
            assert "8 received" in done.stdout, done.stdout + clat.log()
        return all(arrived(net, link) >= count + 16 for link, count in before.items())

    # Until the routes have settled, one of the two routers gets all packets.
    net.until(spread)


def settled(net: Network, to: str) -> bool:
    """Routes are obeyed and answers come."""
    return net.ping("-c1", "-W0.2", to=to).returncode == 0


def test_without_a_route_packets_are_counted(net: Network, datapath: str) -> None:
    """The translator drops what the kernel would not send, counts it and says so; with the route back, nothing is lost."""
    clat = net.clat(datapath)
    assert "3 received" in net.ping("-c3").stdout
    net.ip(net.client, "route", "add", "unreachable", PREFIX)
    net.until(lambda: net.ping("-c1", "-W0.2").returncode != 0)
    before = net.counters()
    assert "Destination Net Unreachable" in net.ping("-c10", "-W0.2").stdout, clat.log()
    after = net.counters()
    assert after["slow.drop.no_route"] == before["slow.drop.no_route"] + 10
    assert translated(after) == translated(before), clat.log()
    assert after["slow.translated_6to4"] + after.get("fast.translated_6to4", 0) >= 3
    net.ip(net.client, "route", "del", "unreachable", PREFIX)
    net.until(lambda: settled(net, "192.0.0.171"))
    assert "100 received" in net.ping("-c100", "-i0.01").stdout
