# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Somebody switches forwarding off below a running translator: it says so, and a reload switches it on again."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel import forwarding
from nat64 import Nat64Network
from network import Network
from siit import V4_IN_IPV6, SiitNetwork
from test_router_moves import both_reach

# Linux 6.17 and later.
PER_INTERFACE = Path("/proc/sys/net/ipv6/conf/lo/force_forwarding").exists()
ALL6 = "net.ipv6.conf.all.forwarding"


@pytest.mark.parametrize("siit", ["tun", "direct", "xdp"], indirect=True)
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("net.ipv4.conf.b4.forwarding", "IPv4 forwarding is off on b4:"),
        ("net.ipv4.conf.diolkos0.forwarding", "IPv4 forwarding is off on diolkos0:"),
        ("net.ipv6.conf.b6.force_forwarding", "IPv6 forwarding is off on b6:"),
    ],
)
def test_it_is_said_and_a_reload_switches_it_on(siit: SiitNetwork, setting: str, said: str) -> None:
    """The operator's hand counts until the reload; at the end everything is as it was before the start."""
    if "force" in setting and not PER_INTERFACE:
        pytest.skip("this kernel forwards IPv6 on all interfaces or on none")
    before = siit.forwarding()
    running = siit.siit()
    assert both_reach(siit)
    assert "forwarding is off" not in running.log()
    siit.sysctl(siit.translator, setting, "0")
    siit.until(lambda: said in running.log())
    assert "`diolkos reload` switches it on again" in running.log()
    assert siit.sysctl(siit.translator, setting) == "0"
    assert siit.diolkos("reload") == (0, "")
    assert "forwarding was switched off: switching it on again" in running.log()
    assert f"no longer: {said.removesuffix(':')}" in running.log()
    assert both_reach(siit)
    assert running.stop() == 0
    assert siit.forwarding() == before


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
@pytest.mark.parametrize(("setting", "family"), [("net.ipv4.ip_forward", "IPv4"), ("net.ipv6.conf.all.forwarding", "IPv6")])
def test_a_host_that_was_a_router(siit: SiitNetwork, setting: str, family: str) -> None:
    """Nothing had to be changed at the start. What a reload changes is put back to what the operator made of it."""
    siit.sysctl(siit.translator, setting, "1")
    after = {name: "0" if family.lower() in name else value for name, value in siit.forwarding().items()}
    running = siit.siit()
    assert both_reach(siit)
    siit.sysctl(siit.translator, setting, "0")
    siit.until(lambda: f"{family} forwarding is off on b4, b6, diolkos0: packets from there do not pass" in running.log())
    assert not both_reach(siit)
    assert siit.diolkos("reload") == (0, "")
    assert both_reach(siit)
    assert running.stop() == 0
    assert siit.forwarding() == after


def test_switched_on_by_hand(siit: SiitNetwork) -> None:
    """That it is over is said. Another setting that changes meanwhile says nothing new."""
    running = siit.siit("--datapath", "tun")
    siit.sysctl(siit.translator, "net.ipv4.conf.b4.forwarding", "0")
    siit.until(lambda: "IPv4 forwarding is off on b4" in running.log())
    assert not both_reach(siit)
    siit.sysctl(siit.translator, "net.ipv4.conf.b4.rp_filter", "2")
    siit.sysctl(siit.translator, "net.ipv4.conf.b4.forwarding", "1")
    siit.until(lambda: "no longer: IPv4 forwarding is off on b4" in running.log())
    assert running.log().count("IPv4 forwarding is off on b4: packets") == 1
    assert both_reach(siit)


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
def test_a_nat64(nat64: Nat64Network) -> None:
    """Its sessions go on after the reload."""
    before = nat64.forwarding()
    running = nat64.nat64()
    ping = ("ping", "-c1", "-W0.3", V4_IN_IPV6)
    nat64.until(lambda: nat64.run(nat64.v6, *ping, check=False).returncode == 0)
    nat64.sysctl(nat64.translator, "net.ipv4.conf.b4.forwarding", "0")
    nat64.until(lambda: "IPv4 forwarding is off on b4:" in running.log())
    assert nat64.run(nat64.v6, *ping, check=False).returncode != 0
    assert nat64.diolkos("reload") == (0, "")
    nat64.run(nat64.v6, *ping)
    assert running.stop() == 0
    assert nat64.forwarding() == before


def test_a_clat_without_ebpf(net: Network) -> None:
    """It has no reload: whoever switched forwarding off switches it on again."""
    setting = "net.ipv6.conf.wan0.force_forwarding" if PER_INTERFACE else ALL6
    before = forwarding(net)
    clat = net.clat("tun")
    assert net.ping("-c1").returncode == 0
    net.sysctl(net.client, setting, "0")
    net.until(lambda: "nothing can pass: IPv6 forwarding is off on " in clat.log())
    net.sysctl(net.client, setting, "1")
    net.until(lambda: clat.log().count(" ready: ") == 2)
    assert net.ping("-c1").returncode == 0
    assert clat.stop() == 0
    assert forwarding(net) == before
