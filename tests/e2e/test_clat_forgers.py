# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a neighbour without any privilege on the host can bring about by forged packets on the uplink's link."""

from __future__ import annotations

from forgers import defend, flood, forge
from network import Running
from pref64 import OTHER, OWN, RESOLVER, WELL_KNOWN_ADDRESSES, Option, Pref64Network, embed

AUTO = ("--pref64", "auto", "--resolver", RESOLVER)
WELL_KNOWN = "64:ff9b::/96"
# One for each collision (RFC 7217 section 6, IDGEN_RETRIES), and the first.
CANDIDATES = 4


def started(net: Pref64Network, *options: str) -> Running:
    """A CLAT that looks for its prefix."""
    clat = net.clat("tc", *AUTO, *options, ready=False)
    net.until(lambda: "waiting for a translation prefix" in clat.log())
    return clat


def test_a_flood_of_advertisements(pref64: Pref64Network) -> None:
    """The program goes on, the true prefix is used afterwards, and the log stays readable."""
    clat = started(pref64)
    pref64.advertise(Option(WELL_KNOWN))
    pref64.until(lambda: " ready: " in clat.log())
    before = clat.log().count("\n")
    flood(pref64, 400)
    assert clat.process.poll() is None, clat.log()
    pref64.until(lambda: pref64.in_force() == WELL_KNOWN)
    assert "3 received" in pref64.ping("-c3").stdout
    assert clat.log().count("translation prefixes change too often") == 1
    lines = clat.log().count("\n") - before
    assert lines < 60, clat.log()
    assert clat.stop() == 0


def test_a_prefix_that_cannot_be_used_does_not_silence_the_resolvers(pref64: Pref64Network) -> None:
    """One advertisement, valid for 18 hours: the answer of the resolver is renewed all the same."""
    pref64.reach(OWN)
    pref64.resolver_says("ttl=30", *(embed(OWN, v4) for v4 in WELL_KNOWN_ADDRESSES))
    file = pref64.scratch / "pool.toml"
    file.write_text(f'[icmp]\nsource_pool6 = ["{embed(OTHER, "198.51.100.0")}/120"]\n')
    clat = started(pref64, "--config", str(file))
    pref64.until(lambda: pref64.in_force() == OWN)
    forge(pref64, "fe80::bad", f"pref64('{OTHER}', 65528)")
    pref64.until(lambda: f"the prefix {OTHER} cannot be used" in clat.log())
    assert pref64.in_force() == OWN
    pref64.until(lambda: pref64.counters()["pref64.revealed"] >= 2, patience=60)
    assert pref64.in_force() == OWN
    assert "3 received" in pref64.ping("-c3").stdout


def test_a_prefix_that_nobody_can_claim_does_not_end_the_search(pref64: Pref64Network) -> None:
    """A neighbour says that it has each address that is tried out; for the next prefix there is one."""
    pref64.sysctl(pref64.client, "net.ipv6.conf.wan0.dad_transmits", "1")
    clat = started(pref64)
    defend(pref64, CANDIDATES)
    forge(pref64, "fe80::bad", f"pref64('{OWN}', 1800)")
    pref64.advertise(Option(WELL_KNOWN))
    pref64.until(lambda: " ready: " in clat.log())
    assert f"the prefix {OWN} cannot be used" in clat.log()
    assert "already the address of another host on wan0" in clat.log()
    assert pref64.in_force() == WELL_KNOWN
    assert "3 received" in pref64.ping("-c3").stdout


def test_addresses_that_were_defended_once_are_tried_again(pref64: Pref64Network) -> None:
    """The only prefix of the network is not given up because of one neighbour: a minute later it works."""
    pref64.sysctl(pref64.client, "net.ipv6.conf.wan0.dad_transmits", "1")
    clat = started(pref64)
    defend(pref64, CANDIDATES)
    pref64.advertise(Option(WELL_KNOWN))
    pref64.until(lambda: f"the prefix {WELL_KNOWN} cannot be used" in clat.log())
    assert "the network has no usable translation prefix" in clat.log()
    pref64.until(lambda: " ready: " in clat.log(), patience=120)
    assert "3 received" in pref64.ping("-c3").stdout


def test_an_advertised_mtu_below_that_of_all_paths(pref64: Pref64Network) -> None:
    """What the operator says of other links is no reason to end, and is said of this one no more."""
    file = pref64.scratch / "paths.toml"
    file.write_text("[translator]\nlowest_ipv6_mtu = 1400\n")
    clat = started(pref64, "--config", str(file))
    pref64.advertise(Option(WELL_KNOWN))
    pref64.until(lambda: " ready: " in clat.log())
    forge(pref64, "fe80::bad", "mtu(1300)", "prefix_information('2001:2:0:1::/64', 7200, 3600)")
    pref64.until(lambda: "1300 for IPv6" in clat.log())
    assert "3 received" in pref64.ping("-c3").stdout
    assert clat.process.poll() is None
