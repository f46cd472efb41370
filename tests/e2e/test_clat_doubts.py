# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a CLAT can see of the network and not decide by itself: a prefix and an address that the operator gives are doubtful
until the first answer comes back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from network import CLIENT6, ROUTER6, Network
from pref64 import OTHER, OWN, RESOLVER, Option, Pref64Network, embed
from test_clat_moves import reaches

FAR = "2001:db8:9::464"


def kinds(net: Network) -> list[tuple[str, str]]:
    """Kinds and reasons of what is wrong."""
    return [(found["kind"], found["reason"]) for found in net.status()["findings"]]


def test_a_resolver_that_answers_an_error(pref64: Pref64Network) -> None:
    """Its code and its address are said, in the log and in the status."""
    pref64.resolver_says("5")
    clat = pref64.clat("auto", "--pref64", "auto", "--resolver", RESOLVER, ready=False)
    said = f"the resolver {RESOLVER} answers REFUSED"
    pref64.until(lambda: f"{said}; retrying" in clat.log())
    pref64.until(lambda: pref64.status()["obstacles"] == [f"no translation prefix is known: {said}"])
    pref64.reach(OWN)
    pref64.resolver_says(*(embed(OWN, address) for address in ("192.0.0.170", "192.0.0.171")))
    pref64.until(lambda: " ready: " in clat.log(), patience=60)
    assert kinds(pref64) == []


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_prefix_that_the_network_contradicts(pref64: Pref64Network, datapath: str) -> None:
    """It is an obstacle until an answer comes back, and an error of a router is none; then a trouble, because it works."""
    pref64.unbound(OTHER)
    pref64.ip(pref64.router, "route", "add", "unreachable", OWN)
    clat = pref64.clat(datapath, "--pref64", OWN, "--resolver", RESOLVER)
    pref64.until(lambda: kinds(pref64) == [("obstacle", "prefix_contradicted")])
    who = f"the resolver [{RESOLVER}]:53 (RFC 7050)"
    said = f"{who} says that the translation prefix is {OTHER}, and translator.pref64 is {OWN}"
    [obstacle] = pref64.status()["obstacles"]
    assert obstacle.startswith(f"{said}: nothing has come back yet")
    assert obstacle in clat.log()
    assert [(row["prefix"], row["source"], row["in_force"]) for row in pref64.prefixes()] == [
        (OWN, "configuration", True),
        (OTHER, "resolver", False),
    ]
    assert "Destination Host Unreachable" in pref64.ping("-c1").stdout
    assert pref64.counters()["slow.translated_6to4"] > 0
    assert kinds(pref64) == [("obstacle", "prefix_contradicted")]
    pref64.ip(pref64.router, "route", "del", "unreachable", OWN)
    pref64.reach(OWN)
    pref64.until(lambda: reaches(pref64))
    pref64.until(lambda: kinds(pref64) == [("trouble", "prefix_contradicted")])
    assert pref64.status()["state"] == "ready"
    # A router says it, too: nothing contradicts.
    pref64.advertise(Option(OWN))
    pref64.until(lambda: kinds(pref64) == [])


def test_a_prefix_that_is_compared_costs_no_processor_time(pref64: Pref64Network) -> None:
    """When the time that a router is waited for is over, and when what was said ends, nothing is left to be done."""
    pref64.unbound(OWN)
    clat = pref64.clat("tun", "--pref64", OWN, "--resolver", RESOLVER)
    pref64.advertise(Option(OWN, lifetime=8))
    pref64.until(lambda: [row["source"] for row in pref64.prefixes()] != ["configuration"])
    pref64.until(lambda: "router" not in [row["source"] for row in pref64.prefixes()])
    threads = Path(f"/proc/{clat.process.pid}/task")

    def used_ns() -> int:
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads.iterdir())

    before, began = used_ns(), time.monotonic_ns()
    assert pref64.ping("-c101", "-i0.02").returncode is not None
    assert used_ns() - before < (time.monotonic_ns() - began) / 4


def test_an_address_that_leads_elsewhere(net: Network) -> None:
    """Nobody on the link has the prefix: it is said until an answer shows that it is routed here."""
    clat = net.clat("auto", "--pref64", "64:ff9b::/96", "--v6", FAR)
    assert "not ready: 192.0.0.1 <-> " in clat.log()
    said = f"{FAR} (clat.v6) is in no prefix of wan0 (2001:2:0:1::/64)"
    net.until(lambda: [obstacle[: len(said)] for obstacle in net.status()["obstacles"]] == [said])
    assert "clat.v6_prefix" in net.status()["obstacles"][0]
    assert not reaches(net)
    # The host gives the prefix to another link: then it is routed here, as all can see.
    net.ip(net.client, "address", "add", "2001:db8:9::1/64", "dev", "lo")
    net.until(lambda: kinds(net) == [])
    net.ip(net.client, "address", "del", "2001:db8:9::1/64", "dev", "lo")
    net.until(lambda: kinds(net) == [("obstacle", "address_elsewhere")])
    net.ip(net.router, "route", "add", FAR, "via", CLIENT6)
    net.until(lambda: reaches(net))
    net.until(lambda: kinds(net) == [])
    net.until(lambda: "\n" in clat.log() and clat.log().count(" ready: ") >= 2)


def test_policies_that_the_fast_path_bypasses(net: Network) -> None:
    """They are named while they are there; those of IPv4 have seen the host's packets before they are translated."""
    net.clat("tc", "--pref64", "64:ff9b::/96")
    assert reaches(net)

    def policy(order: str, *selector: str) -> None:
        net.run(net.client, "ip", "xfrm", "policy", order, "dir", "out", *selector)

    here, there = ("src", "10.0.0.0/8", "dst", "10.0.0.0/8"), ("src", "::/0", "dst", "64:ff9b::/96")
    policy("add", *here, "action", "block")
    policy("add", *there, "action", "block")
    net.until(lambda: kinds(net) == [("trouble", "ipsec")])
    assert reaches(net), "no policy has seen it"
    policy("del", *there)
    net.until(lambda: kinds(net) == [])


def test_a_configured_prefix_is_shown_without_a_route(net: Network) -> None:
    """It is no other because nothing can pass."""
    net.ip(net.client, "route", "del", "default")
    clat = net.clat("auto", "--pref64", "64:ff9b::/96", ready=False)
    net.until(lambda: "waiting: no IPv6 route" in clat.log())
    # Its address may have become usable a moment ago; then that is what it waited for last.
    net.until(lambda: "no IPv6 route" in net.status()["obstacles"][0])
    status = net.status()
    assert (status["state"], status["prefixes"]) == ("waiting", ["64:ff9b::/96"])
    net.ip(net.client, "route", "add", "default", "via", ROUTER6)
    net.until(lambda: net.status()["state"] == "ready")
