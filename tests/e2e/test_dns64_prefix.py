# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A DNS64 that follows the prefix of its network (RFC 8781, RFC 7050), and what it does without one."""

from __future__ import annotations

from dns64 import DNS64, PREF64, RESOLVER, Dns64Network
from network import Running
from pref64 import OTHER, WELL_KNOWN_ADDRESSES, Option, embed

RUN_TIME, USAGE, MISSING = 1, 2, 3
AUTO = ("--pref64", "auto", "--uplink", "out0")
V4 = ["192.0.2.1", "192.0.2.2"]
# Longer than RFC 8781 has prefixes live that are about to be withdrawn, and shorter than what the zone says.
SHORT = 48


def started(net: Dns64Network, *options: str, wrapper: tuple[str, ...] = ()) -> Running:
    """A DNS64 that looks for its prefix."""
    running = net.dns64(*(options or AUTO), wrapper=wrapper)
    assert "waiting for a translation prefix" in running.log()
    return running


def synthetic(prefix: str) -> list[str]:
    """The addresses of v4.example."""
    return sorted(embed(prefix, v4) for v4 in V4)


def follows(net: Dns64Network, prefix: str | None) -> None:
    """Wait until this prefix is in force."""
    net.until(lambda: [row["prefix"] for row in net.prefixes() if row["in_force"]] == ([prefix] if prefix else []))


def status(net: Dns64Network) -> dict:
    """What `show status` says."""
    return net.status(net.router, "dns64")


def test_from_a_router(dns64_network: Dns64Network) -> None:
    """At first answers pass; then they follow what the router says, and cached ones with them."""
    net = dns64_network
    net.unbound()
    running = started(net)
    plain = net.dig("v4.example", "AAAA")
    assert (plain.status, plain.data()) == ("NOERROR", [])
    denial = next(line.split() for line in plain.text.splitlines() if "\tSOA\t" in line)
    assert int(denial[1]) <= 30, "a client is to ask again soon"
    assert net.dig("both.example").data() == ["2001:db8::1"]
    assert net.prefixes() == []
    assert "no translation prefix is known" in status(net)["obstacles"][0]

    net.advertise(Option(PREF64, 1800))
    follows(net, PREF64)
    net.until(lambda: (status(net)["obstacles"], status(net)["prefixes"]) == ([], [PREF64]))
    assert net.dig("v4.example").data() == synthetic(PREF64)
    name = "1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
    assert net.dig(name, "PTR").data("PTR") == ["v4.example."]
    (row,) = net.prefixes()
    assert (row["source"], row["in_force"]) == ("router", True)
    assert net.counters()["pref64.advertisements"] == 1

    net.advertise(Option(PREF64, 0), Option(OTHER, 1800))
    follows(net, OTHER)
    assert net.dig("v4.example").data() == synthetic(OTHER)

    net.advertise(Option(OTHER, 0))
    follows(net, None)
    assert net.dig("v4.example").data() == []
    assert "no translation prefix is known any more" in running.log()
    assert running.stop() == 0


def test_no_record_outlives_the_prefix(dns64_network: Dns64Network) -> None:
    """Its lifetime is less than the TTLs of the zone (120 and more); a later advertisement makes it less yet."""
    net = dns64_network
    net.unbound()
    started(net)
    net.advertise(Option(PREF64, 1800))
    follows(net, PREF64)
    assert 100 < net.dig("v4.example").ttls()[0] <= 120
    net.advertise(Option(PREF64, SHORT))
    net.until(lambda: net.prefixes()[0]["expires_in_s"] <= SHORT)
    for _ in range(2):
        reply = net.dig("v4.example")
        assert reply.data() == synthetic(PREF64)
        assert all(ttl <= SHORT for ttl in reply.ttls())
    assert all(ttl <= SHORT for ttl in net.dig("ipv4only.arpa").ttls())
    # Nobody confirms it any more, and upstream reveals none.
    net.advertise(Option(PREF64, 8))
    follows(net, None)
    assert net.dig("v4.example").data() == []


def test_from_a_resolver(dns64_network: Dns64Network) -> None:
    """Upstream gives ipv4only.arpa addresses in the prefix."""
    net = dns64_network
    net.unbound(reveals=tuple(embed(OTHER, v4) for v4 in WELL_KNOWN_ADDRESSES))
    started(net)
    follows(net, OTHER)
    (row,) = net.prefixes()
    assert (row["source"], row["from"]) == ("resolver", f"[{RESOLVER}]:53")
    reply = net.dig("v4.example")
    assert reply.data() == synthetic(OTHER)
    net.advertise(Option(PREF64, 1800))
    follows(net, PREF64)
    assert net.dig("v4.example").data() == synthetic(PREF64), "a router goes before a resolver (RFC 8781 section 5.1)"


def test_an_uplink_that_goes_and_comes_back(dns64_network: Dns64Network) -> None:
    """Without it nothing is synthesised; with it the search begins anew."""
    net = dns64_network
    net.unbound()
    running = started(net)
    net.advertise(Option(PREF64, 1800))
    follows(net, PREF64)
    net.ip(net.router, "link", "delete", "out0")
    net.until(lambda: "the uplink out0 is gone" in running.log())
    follows(net, None)
    net.host("ip", "link", "add", "out0", "netns", net.router, "type", "veth", "peer", "in0", "netns", net.server)
    for name, link, address in ((net.router, "out0", "2001:2:0:2::1"), (net.server, "in0", RESOLVER)):
        net.ip(name, "address", "add", f"{address}/64", "dev", link, "nodad")
        net.ip(name, "link", "set", link, "up")
    net.ip(net.server, "route", "add", "default", "via", "2001:2:0:2::1")
    net.settle()
    net.until(lambda: running.log().count("waiting for a translation prefix") == 2)
    net.advertise(Option(PREF64, 1800))
    follows(net, PREF64)
    assert net.dig("v4.example").data() == synthetic(PREF64)
    assert running.process.poll() is None


def test_what_the_search_needs(dns64_network: Dns64Network) -> None:
    """An uplink that exists, and the right to hear routers."""
    net = dns64_network
    always = ("dns64", "--listen", f"[{DNS64}]:5353", "--upstream", RESOLVER)
    code, said = net.once(*always, "--pref64", "auto")
    assert (code, "uplink" in said and "eth0" in said) == (USAGE, True), said
    code, said = net.once(*always, "--pref64", "auto", "--uplink", "wan9")
    assert (code, "there is no network interface `wan9`" in said) == (RUN_TIME, True), said
    without = ("setpriv", "--inh-caps=-net_raw", "--bounding-set=-net_raw")
    code, said = net.once(*always, *AUTO, wrapper=without)
    assert (code, "CAP_NET_RAW" in said) == (MISSING, True), said
    code, said = net.once(*always, *AUTO, "--pref64", PREF64)
    assert (code, "cannot be combined with" in said) == (USAGE, True), said


def test_errors_of_upstream(dns64_network: Dns64Network) -> None:
    """RFC 6147 section 5.1.2 has them count as empty answers; the operator may want to see them."""
    net = dns64_network
    net.resolver_that("refuses_aaaa")
    config = f'[dns64]\nlisten = ["[{DNS64}]:53"]\nupstream = ["{RESOLVER}"]\npref64 = ["{PREF64}"]\n'
    first = net.dns64("--config", str(net.config(config)))
    assert net.dig("any.example").data() == [embed(PREF64, "192.0.2.77")]
    assert first.stop() == 0
    net.dns64("--config", str(net.config(config + 'on_error = "pass"\n')))
    reply = net.dig("any.example")
    assert (reply.status, reply.data()) == ("REFUSED", [])
    assert net.dig("any.example", "A").data("A") == ["192.0.2.77"]
    code, said = net.once("check", str(net.config(config + 'on_error = "ignore"\n')))
    assert (code, '5:12: dns64.on_error: "ignore" is none of "synthesize" and "pass"' in said) == (USAGE, True), said
