# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kernel forgets an interface's IPv6 settings when its MTU falls below 1280 bytes, and all of them with the interface.
A translator puts back what it had set. What somebody has switched off stays off until a reload."""

from __future__ import annotations

import pytest
from kernel import forwarding
from nat64 import Nat64Network
from network import CLIENT6, ROUTER6, Network
from siit import PREF64, TRANSLATOR6, V4_IN_IPV6, V6, SiitNetwork
from test_forwarding import PER_INTERFACE
from test_router_moves import both_reach, ip

KEYS = ("force_forwarding", "forwarding", "addr_gen_mode", "ignore_routes_with_linkdown")
FORCED = "net.ipv6.conf.b6.force_forwarding"

per_interface = pytest.mark.skipif(not PER_INTERFACE, reason="this kernel forwards IPv6 on all interfaces or on none")


def settings(net: Network, name: str, interface: str) -> list[str]:
    """The IPv6 settings that a translator may change."""
    keys = [key for key in KEYS if PER_INTERFACE or key != "force_forwarding"]
    return [net.sysctl(name, f"net.ipv6.conf.{interface}.{key}") for key in keys]


def six(net: SiitNetwork) -> list[dict]:
    """IPv6 addresses of the translator's device."""
    return [a for link in net.ip_json(net.translator, "-6", "address", "show", "diolkos0") for a in link.get("addr_info", [])]


def connect(net: SiitNetwork) -> None:
    """Give b6 its address and its route again."""
    ip(net, "-6", "address", "replace", f"{TRANSLATOR6}/64", "dev", "b6", "nodad")
    ip(net, "-6", "route", "replace", "2001:db8:64::cb00:7100/120", "via", V6)


def narrow_and_widen(net: SiitNetwork) -> None:
    """The kernel removes IPv6 from b6, and makes it anew."""
    ip(net, "link", "set", "b6", "mtu", "1000")
    ip(net, "link", "set", "b6", "mtu", "9000")
    connect(net)


def make_again(net: SiitNetwork) -> None:
    """Another interface with the name b6."""
    ip(net, "link", "del", "b6")
    net.host("ip", "link", "add", "a0", "netns", net.v6, "mtu", "9000", "type", "veth",
             "peer", "b6", "netns", net.translator, "mtu", "9000")  # fmt: skip
    net.ip(net.v6, "address", "add", f"{V6}/64", "dev", "a0", "nodad")
    net.ip(net.v6, "link", "set", "a0", "up")
    ip(net, "link", "set", "b6", "up")
    connect(net)
    net.run(net.v6, "ip", "-6", "route", "add", "default", "via", TRANSLATOR6)


AGAIN = pytest.mark.parametrize("again", [narrow_and_widen, make_again])


def name_interfaces(net: SiitNetwork) -> None:
    """As an operator does; the placements inline and direct do it already."""
    if net.datapath in ("tc", "tun"):
        keys = 'interfaces = ["b4", "b6"]\nplacement = "device"\n'
        net.config.write_text(net.config.read_text().replace("[translator]\n", f"[translator]\n{keys}"))


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
def test_the_device_of_a_siit_loses_its_mtu(siit: SiitNetwork) -> None:
    """All that the kernel forgot is put back, without a reload, and the device has no address of the kernel's."""
    before = siit.forwarding()
    running = siit.siit()
    assert both_reach(siit)
    device = settings(siit, siit.translator, "diolkos0")
    for _ in range(2):
        ip(siit, "link", "set", "diolkos0", "mtu", "576")
        siit.until(lambda: both_reach(siit))
        siit.until(lambda: settings(siit, siit.translator, "diolkos0") == device)
    assert six(siit) == []
    assert "diolkos0 had lost the MTU of 9000 bytes, its IPv6 settings, the route to" in running.log()
    assert "forwarding is off" not in running.log()
    assert running.stop() == 0
    assert siit.forwarding() == before


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
def test_the_device_of_a_nat64_loses_its_mtu(nat64: Nat64Network) -> None:
    """Pings pass again."""
    before = nat64.forwarding()
    running = nat64.nat64()

    def reaches() -> bool:
        return nat64.run(nat64.v6, "ping", "-c1", "-W0.3", V4_IN_IPV6, check=False).returncode == 0

    nat64.until(reaches)
    device = settings(nat64, nat64.translator, "diolkos0")
    ip(nat64, "link", "set", "diolkos0", "mtu", "576")
    nat64.until(lambda: "diolkos0 had lost the MTU" in running.log())
    nat64.until(lambda: settings(nat64, nat64.translator, "diolkos0") == device)
    nat64.until(reaches)
    assert running.stop() == 0
    assert nat64.forwarding() == before


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
def test_a_device_that_goes_down_and_up_keeps_its_settings(siit: SiitNetwork) -> None:
    """Nothing else comes back with its routes."""
    running = siit.siit()
    device = settings(siit, siit.translator, "diolkos0")
    ip(siit, "link", "set", "diolkos0", "down")
    ip(siit, "link", "set", "diolkos0", "up")
    siit.until(lambda: both_reach(siit))
    assert settings(siit, siit.translator, "diolkos0") == device
    assert "IPv6 settings" not in running.log()


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
def test_ipv6_is_disabled_on_the_device(siit: SiitNetwork) -> None:
    """The log says so, and not that a privilege is missing. When it is enabled again, packets pass."""
    running = siit.siit()
    siit.sysctl(siit.translator, "net.ipv6.conf.diolkos0.disable_ipv6", "1")
    siit.until(lambda: f"cannot add the route to {PREF64}: IPv6 is disabled on diolkos0" in running.log())
    assert "permission" not in running.log()
    siit.sysctl(siit.translator, "net.ipv6.conf.diolkos0.disable_ipv6", "0")
    siit.until(lambda: both_reach(siit))


@per_interface
@AGAIN
@pytest.mark.parametrize("siit", ["tc", "tun", "inline", "direct", "xdp"], indirect=True)
def test_an_interface_of_a_router_loses_its_settings(siit: SiitNetwork, again) -> None:
    """Nobody has switched it off, so it is switched on again, and the log says so. The end restores what was before."""
    before = siit.forwarding()
    name_interfaces(siit)
    running = siit.siit()
    assert both_reach(siit)
    again(siit)
    siit.until(lambda: both_reach(siit))
    # Inline and direct, packets of the fast path pass before.
    siit.until(lambda: siit.sysctl(siit.translator, FORCED) == "1")
    siit.until(lambda: "the kernel had reset forwarding on b6: switching it on again" in running.log())
    assert running.stop() == 0
    assert siit.forwarding() == before


@per_interface
def test_without_named_interfaces(siit: SiitNetwork) -> None:
    """It was there at the start, so it is needed."""
    siit.siit("--datapath", "tun")
    narrow_and_widen(siit)
    siit.until(lambda: both_reach(siit))


@per_interface
@pytest.mark.parametrize("siit", ["tun"], indirect=True)
def test_what_somebody_switched_off_stays_off(siit: SiitNetwork) -> None:
    """Also when the kernel forgets it afterwards, until a reload."""
    name_interfaces(siit)
    running = siit.siit()
    siit.sysctl(siit.translator, FORCED, "0")
    siit.until(lambda: "IPv6 forwarding is off on b6:" in running.log())
    narrow_and_widen(siit)
    # What comes after it is seen, so it was seen, too.
    siit.sysctl(siit.translator, "net.ipv4.conf.b4.forwarding", "0")
    siit.until(lambda: "IPv4 forwarding is off on b4:" in running.log())
    assert siit.sysctl(siit.translator, FORCED) == "0"
    assert "the kernel had reset forwarding" not in running.log()
    assert siit.diolkos("reload") == (0, "")
    siit.until(lambda: both_reach(siit))


def test_a_clat_whose_device_loses_its_mtu(net: Network) -> None:
    """Without eBPF it needs what the kernel forgot."""
    before = forwarding(net)
    clat = net.clat("tun", "--v6", "2001:2:0:1::464")
    device = settings(net, net.client, "diolkos0")
    net.run(net.client, "ip", "link", "set", "diolkos0", "mtu", "576")
    net.until(lambda: "diolkos0 had lost the MTU of 1500 bytes, its IPv6 settings" in clat.log())
    net.until(lambda: settings(net, net.client, "diolkos0") == device)
    net.until(lambda: net.ping("-c1").returncode == 0)
    assert clat.stop() == 0
    assert forwarding(net) == before


@per_interface
def test_a_clat_whose_uplink_loses_its_settings(net: Network) -> None:
    """It is ready again when IPv6 is."""
    before = forwarding(net)
    clat = net.clat("tun", "--v6", "2001:2:0:1::464")
    for mtu in ("1000", "1500"):
        net.run(net.client, "ip", "link", "set", "wan0", "mtu", mtu)
    net.run(net.client, "ip", "-6", "address", "replace", f"{CLIENT6}/64", "dev", "wan0", "nodad")
    net.run(net.client, "ip", "-6", "route", "replace", "default", "via", ROUTER6)
    net.until(lambda: net.ping("-c1").returncode == 0)
    assert "the kernel had reset forwarding on wan0" in clat.log()
    assert clat.stop() == 0
    assert forwarding(net) == before
