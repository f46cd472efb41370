# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The network gives the uplink another prefix by router advertisements, without warning (RFC 8978): the CLAT moves at once."""

from __future__ import annotations

import time

import pytest
from kernel import remains
from network import CLIENT6, ROUTER6, SERVER4, SERVER_SYNTHESIZED
from pref64 import OTHER, OWN, RESOLVER, Option, Pref64Network, embed
from test_clat_moves import address_of
from test_clat_reload import Talk

# The first 64 bits of the addresses in each prefix.
OLD, NEW = "2001:2:0:1:", "2001:2:0:8:"

# For a router to confirm what an uplink that came up brings along, and for another address: seconds.
LONG_ENOUGH = 20


def announced(prefix: str, preferred: int, valid: int = 7200) -> str:
    """A Prefix Information option (RFC 4861 section 4.6.2), as scapy takes it."""
    lifetimes = f"preferredlifetime={preferred}, validlifetime={valid}"
    return f"ICMPv6NDOptPrefixInfo(prefix='{prefix}:', prefixlen=64, L=1, A=1, {lifetimes})"


def configure_by_slaac(net: Pref64Network) -> None:
    """The client has no address but what it makes itself; its default router has a link-local address, which stays."""
    net.sysctl(net.client, "net.ipv6.conf.wan0.accept_ra", "2")
    net.ip(net.client, "address", "del", f"{CLIENT6}/64", "dev", "wan0")
    net.ip(net.client, "route", "replace", "default", "via", net.router_address(), "dev", "wan0")
    net.ip(net.router, "address", "add", f"{NEW}:1/64", "dev", "down0", "nodad")
    net.advertise(announced(OLD, 3600))
    net.until(lambda: held(net, OLD) == [False])


def held(net: Pref64Network, prefix: str) -> list[bool]:
    """For each address of the uplink in a prefix: whether it is deprecated."""
    (link,) = net.ip_json(net.client, "-6", "address", "show", "dev", "wan0", "scope", "global")
    return [bool(a.get("deprecated")) for a in link.get("addr_info", []) if a.get("local", "").startswith(prefix)]


@pytest.mark.parametrize("valid", [7200, 0], ids=["deprecated", "withdrawn"])
def test_another_prefix_without_warning(pref64: Pref64Network, datapath: str, valid: int) -> None:
    """New connections leave from the new prefix; those over the old one end with an error, and device and routes stay.

    A valid lifetime of 0 is a remaining one of two hours, or whatever the kernel makes of it (RFC 4862 section 5.5.3).
    """
    configure_by_slaac(pref64)
    clat = pref64.clat(datapath)
    assert address_of(clat.log()).startswith(OLD)
    link = pref64.ip_json(pref64.client, "link", "show", "diolkos0")
    talk = Talk(pref64)
    assert talk.goes_on() and talk.peer.startswith(OLD)
    pref64.advertise(announced(OLD, 0, valid), announced(NEW, 3600))
    pref64.until(lambda: f"<-> {NEW}" in clat.log())
    assert "is deprecated on wan0: moving to" in clat.log()
    assert False not in held(pref64, OLD) and held(pref64, NEW) == [False]
    # Its packets come from an address that the server knows nothing of.
    talk.here.sendall(b"x")
    with pytest.raises(ConnectionResetError):
        talk.here.recv(1)
    talk.close()
    other = Talk(pref64)
    assert other.peer.startswith(NEW) and other.goes_on()
    other.close()
    assert pref64.ip_json(pref64.client, "link", "show", "diolkos0") == link
    assert clat.stop() == 0
    assert remains(pref64) == []


@pytest.mark.parametrize("confirmed", [False, True], ids=["left", "confirmed"])
def test_the_link_moves_to_another_network(pref64: Pref64Network, confirmed: bool) -> None:
    """The kernel keeps the old prefix for hours, and the router here knows nothing of it. One that it confirms is kept."""
    configure_by_slaac(pref64)
    clat = pref64.clat("tc")
    assert address_of(clat.log()).startswith(OLD)
    pref64.ip(pref64.router, "link", "set", "down0", "down")
    pref64.until(lambda: "wan0 has no carrier" in clat.log())
    pref64.ip(pref64.router, "link", "set", "down0", "up")
    pref64.ip(pref64.router, "address", "add", f"{OLD if confirmed else NEW}:1/64", "dev", "down0", "nodad")
    pref64.until(lambda: clat.log().count(" ready: ") == 2)
    pref64.advertise(*([announced(OLD, 3600)] if confirmed else []), announced(NEW, 3600))
    pref64.until(lambda: held(pref64, NEW) == [False])
    if confirmed:
        time.sleep(LONG_ENOUGH)
        assert "has left" not in clat.log() and address_of(clat.log()).startswith(OLD)
    else:
        pref64.until(lambda: f"<-> {NEW}" in clat.log(), LONG_ENOUGH)
        assert "is of a network that the host has left on wan0: moving to" in clat.log()
        assert held(pref64, OLD) == [False], "the kernel has it still"
    assert "3 received" in pref64.ping("-c3").stdout, clat.log()
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_both_prefixes_change_at_once(pref64: Pref64Network, datapath: str) -> None:
    """That of the uplink and that of the NAT64, in one advertisement: the network is another one, and the CLAT is there."""
    pref64.reach(OWN, OTHER)
    configure_by_slaac(pref64)
    clat = pref64.clat(datapath, "--pref64", "auto", "--resolver", RESOLVER, ready=False)
    pref64.until(lambda: "waiting for a translation prefix" in clat.log())
    pref64.advertise(announced(OLD, 3600), Option(OWN))
    pref64.until(lambda: " ready: " in clat.log())
    first = Talk(pref64, embed(OWN, SERVER4))
    assert first.peer.startswith(OLD) and first.goes_on()
    pref64.advertise(announced(OLD, 0), announced(NEW, 3600), Option(OWN, lifetime=0), Option(OTHER))
    pref64.until(lambda: pref64.in_force() == OTHER and address_of(clat.log()).startswith(NEW))
    second = Talk(pref64, embed(OTHER, SERVER4))
    assert second.peer.startswith(NEW) and second.goes_on()
    # Back again, as after a router's restart.
    pref64.advertise(announced(OLD, 3600), announced(NEW, 0), Option(OWN), Option(OTHER, lifetime=0))
    pref64.until(lambda: pref64.in_force() == OWN and address_of(clat.log()).startswith(OLD))
    third = Talk(pref64, embed(OWN, SERVER4))
    assert third.peer == first.peer and third.goes_on()
    for talk in (first, second, third):
        talk.close()
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_a_prefix_is_deprecated_and_there_is_no_other(pref64: Pref64Network) -> None:
    """Addresses that are deprecated still work (RFC 4862 section 5.5.4): connections go on until there is another prefix."""
    configure_by_slaac(pref64)
    clat = pref64.clat("auto")
    talk = Talk(pref64, SERVER_SYNTHESIZED)
    pref64.advertise(announced(OLD, 0))
    pref64.until(lambda: held(pref64, OLD) == [True])
    assert talk.goes_on()
    assert pref64.run(pref64.client, "ping", "-6", "-c1", ROUTER6).returncode == 0
    pref64.advertise(announced(OLD, 3600))
    pref64.until(lambda: held(pref64, OLD) == [False])
    assert talk.goes_on()
    talk.close()
    assert "moving to" not in clat.log() and clat.log().count(" ready: ") == 1
