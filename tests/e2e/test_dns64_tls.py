# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Upstream by TLS (RFC 7858) in the strict profile (RFC 8310): whoever does not prove its name is asked nothing, and nobody
else hears what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from authority import Authority
from dns64 import DNS64, PREF64, RESOLVER, Dns64Network
from dot import NAME, Listener, resolver_by_tls
from network import Running

USAGE = 2
# The first label of the names that are asked for, as it stands in a message.
SPOKEN = b"\x07example"
V4 = ["2001:db8:64::c000:201", "2001:db8:64::c000:202"]
# What the resolvers of `dot` say of every name.
ANY = ["2001:db8:64::c000:24d"]


@pytest.fixture
def authority(dns64_network: Dns64Network) -> Authority:
    """Whom the DNS64 believes, and certificates: right, of another name, expired."""
    ours = Authority(dns64_network.scratch / "tls")
    ours.make()
    ours.issue("good", f"DNS:{NAME}")
    ours.issue("other", "DNS:other.example")
    ours.issue("old", f"DNS:{NAME}", old=True)
    return ours


def section(authority: Authority, *upstream: str, more: str = "") -> str:
    """A configuration."""
    listed = ", ".join(f'"{one}"' for one in upstream)
    return f"""
[dns64]
listen = ["[{DNS64}]:53"]
upstream = [{listed}]
upstream_ca = "{authority.certificate}"
pref64 = ["{PREF64}"]
timeout_ms = 500
{more}
"""


def at(port: int, name: str = NAME) -> str:
    """A resolver asked by TLS."""
    return f"tls://[{RESOLVER}]:{port}#{name}"


def started(net: Dns64Network, text: str) -> Running:
    """A DNS64."""
    return net.dns64("--config", str(net.config(text)))


def test_unbound_by_tls(dns64_network: Dns64Network, authority: Authority) -> None:
    """One connection for all questions, none of which can be read on the way; a resolver that begins anew is found again."""
    net = dns64_network
    resolver = net.unbound(tls=authority.of("good"))
    listener = Listener(net)
    running = started(net, section(authority, at(853)))
    listener.heard()
    assert net.dig("v4.example").data() == V4
    assert net.dig("both.example").data() == ["2001:db8::1"]
    # Longer than a datagram that no link fragments.
    assert len(net.dig("many.example", "AAAA", "+tcp").data()) == 100
    assert SPOKEN not in listener.heard()
    counters = net.counters()
    assert (counters["upstream.tls_connected"], counters["upstream.tls"]) == (1, 5)
    assert counters["upstream.udp"] == counters["upstream.tcp"] == counters["upstream.unreachable"] == 0
    assert f"upstream tls://{RESOLVER}#{NAME}" in running.log()

    assert resolver.stop() == 0
    net.unbound(tls=authority.of("good"))
    listener.heard()
    assert net.dig("short.example").data() == ["2001:db8:64::c000:201"]
    assert SPOKEN not in listener.heard()
    assert net.counters()["upstream.tls_connected"] == 2
    assert running.stop() == 0


def test_whoever_does_not_prove_its_name_hears_nothing(dns64_network: Dns64Network, authority: Authority) -> None:
    """Nor does the plain resolver at the same address, which would answer: the client gets SERVFAIL."""
    net = dns64_network
    net.unbound()
    stranger = Authority(net.scratch / "stranger")
    stranger.make()
    stranger.issue("good", f"DNS:{NAME}")
    listener = Listener(net)
    good = authority.of("good")
    hostile = [
        (authority.of("other"), "works", "upstream.tls_untrusted", "not valid for name"),
        (stranger.of("good"), "works", "upstream.tls_untrusted", "invalid peer certificate: BadSignature"),
        (authority.of("old"), "works", "upstream.tls_untrusted", "expired"),
        (good, "says_garbage", "upstream.tls_failed", ""),
        (good, "speaks_plain", "upstream.tls_failed", ""),
        (good, "speaks_tls12", "upstream.tls_failed", ""),
        (good, "is_silent_at_once", "upstream.timeout", "no answer"),
        (good, "is_silent", "upstream.timeout", "no answer"),
        (good, "cuts", "upstream.unreachable", "it closed the connection"),
    ]
    for port, (credentials, how, counter, said) in enumerate(hostile, 8530):
        resolver = resolver_by_tls(net, port, credentials, how)
        running = started(net, section(authority, at(port)))
        listener.heard()
        assert net.dig("v4.example").status == "SERVFAIL", how
        assert SPOKEN not in listener.heard(), how
        counters = net.counters()
        assert counters[counter] >= 1, (how, counters)
        assert counters["upstream.udp"] == counters["upstream.tcp"] == 0
        assert said in running.log()
        assert f"the resolver tls://[{RESOLVER}]:{port}#{NAME} failed: " in running.log()
        assert running.stop() == 0
        resolver.stop()


def test_the_next_resolver_is_asked(dns64_network: Dns64Network, authority: Authority) -> None:
    """If the operator has named one, which may be a plain one: it is asked as the configuration says."""
    net = dns64_network
    net.unbound()
    resolver_by_tls(net, 8530, authority.of("other"))
    resolver_by_tls(net, 8531, authority.of("good"))
    running = started(net, section(authority, at(8530), at(8531)))
    assert net.dig("v4.example").data() == ANY
    counters = net.counters()
    assert (counters["upstream.tls_untrusted"], counters["upstream.tls_connected"]) == (1, 1)
    assert running.stop() == 0
    # Whoever listens hears what a plain resolver is asked, and what tests by TLS look for.
    listener = Listener(net)
    started(net, section(authority, at(8530), RESOLVER))
    assert net.dig("v4.example").data() == V4
    assert SPOKEN in listener.heard()


def test_a_slow_name_keeps_nobody_else_from_asking(dns64_network: Dns64Network, authority: Authority) -> None:
    """The resolver never answers it, so the connection may be lost: there is another one at once."""
    net = dns64_network
    resolver_by_tls(net, 8530, authority.of("good"), "is_silent_of_slow")
    started(net, section(authority, at(8530)))
    for number in range(2):
        assert net.dig("slow.example").status == "SERVFAIL"
        assert net.dig(f"n{number}.example").data() == ANY
    assert net.counters()["upstream.unreachable"] == 0


def test_servers_of_little_patience(dns64_network: Dns64Network, authority: Authority) -> None:
    """One closes after each answer; one sends answers to other questions first."""
    net = dns64_network
    resolver_by_tls(net, 8530, authority.of("good"), "closes")
    resolver_by_tls(net, 8531, authority.of("good"), "lies")
    running = started(net, section(authority, at(8530)))
    for name in ("a.example", "b.example", "c.example"):
        assert net.dig(name).data() == ANY
    assert net.counters()["upstream.tls_connected"] == 6
    assert running.stop() == 0
    started(net, section(authority, at(8531)))
    assert net.dig("a.example").data() == ANY
    counters = net.counters()
    assert (counters["upstream.tls_connected"], counters["upstream.unexpected"]) == (1, 4)


def test_a_reload_changes_whom_it_trusts(dns64_network: Dns64Network, authority: Authority) -> None:
    """What another resolver has said is forgotten. An unusable file of authorities changes nothing."""
    net = dns64_network
    net.unbound()
    resolver_by_tls(net, 8530, authority.of("good"))
    running = started(net, section(authority, RESOLVER))
    assert net.dig("v4.example").data() == V4
    net.config(section(authority, at(8530)))
    assert net.once("reload", "--device", "dns64") == (0, "")
    assert net.dig("v4.example").data() == ANY
    assert "reloaded: dns64 on" in running.log()

    wrong = section(authority, at(8530)).replace(str(authority.certificate), "/absent.pem")
    net.config(wrong)
    code, said = net.once("reload", "--device", "dns64")
    assert (code, "dns64.upstream_ca: /absent.pem has no authority" in said) == (USAGE, True), said
    assert net.dig("a.example").data() == ANY
    assert net.once("dns64", "--config", str(net.config(wrong)), "--name", "second")[0] == USAGE

    # The same file with another authority in it: nothing of before is told.
    assert net.dig("a.example", "A").status == "NOERROR"
    stranger = Authority(net.scratch / "stranger")
    stranger.make()
    Path(authority.certificate).write_bytes(stranger.certificate.read_bytes())
    net.config(section(authority, at(8530)))
    assert net.once("reload", "--device", "dns64") == (0, "")
    assert net.dig("b.example").status == net.dig("a.example", "A").status == "SERVFAIL"


@pytest.mark.parametrize(
    ("upstream", "place"),
    [
        (f"tls://[{RESOLVER}]:853", "dns64.toml:4:12: dns64.upstream: `tls://[2001:2:0:2::2]:853` does not say which name"),
        (
            f"tls://{NAME}#{NAME}",
            "dns64.toml:4:12: dns64.upstream: `dns.example` in `tls://dns.example#dns.example` is not the",
        ),
        (f"tls://{RESOLVER}#a b", "is not a name that a certificate can have"),
    ],
)
def test_a_wrong_file(dns64_network: Dns64Network, authority: Authority, upstream: str, place: str) -> None:
    """Exit 2, and file, line and column."""
    code, message = dns64_network.once("check", str(dns64_network.config(section(authority, upstream))))
    assert (code, place in message) == (USAGE, True), message
