# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos trace` says what becomes of a packet before it comes; the packet then confirms it, and asking changes nothing."""

from __future__ import annotations

import json

import pytest
from nat64 import BOUND, V6_OTHER, Nat64Network, ask, in_ipv6, is_pooled, refusal, with_keys
from network import SERVER4, Network
from siit import PREF64, TRANSLATOR6, V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork

every_way = pytest.mark.parametrize("nat64", ["tc", "tun", "direct"], indirect=True)


def trace(net: Network, packet: str, *options: str, host: str = "") -> dict:
    """The answer as JSON, of the router or of another host. Counters are afterwards as before."""
    before = net.counters()
    text = net.run(host or net.router, str(net.program), "trace", "--json", *options, packet).stdout
    assert net.counters() == before
    return json.loads(text)


def told(report: dict, step: str) -> str:
    """The sentences about a step."""
    return "; ".join(row["text"] for row in report["steps"] if row["step"] == step)


@every_way
def test_a_datagram_out_and_its_answer(nat64: Nat64Network) -> None:
    """A new binding and session are told and not made; those that there are, are found, and the ports are the real ones."""
    nat64.nat64()
    out = f"udp {V6} 4711 > {V4_IN_IPV6} 53"
    report = trace(nat64, out)
    assert (report["verdict"], report["arrives"], report["reason"]) == ("forward", True, None)
    assert told(report, "destination") == f"{V4_IN_IPV6} is {V4} by the translation prefix {PREF64} (RFC 6052)"
    assert "would be opened" in told(report, "binding") and "would be opened" in told(report, "session")
    assert is_pooled(report["sent"][0]["packet"]["src"])
    assert report["route"] == f"to {V4}: through b4"
    assert nat64.shown("bindings") == nat64.shown("sessions") == []

    client, server = nat64.socket(V6, 4711), nat64.socket(V4, 53)
    address, port = ask(client, (V4_IN_IPV6, 53), server)
    known = trace(nat64, out)
    sent = known["sent"][0]["packet"]
    assert (sent["src"], sent["src_port"], sent["dst"], sent["dst_port"]) == (address, port, V4, 53)
    assert told(known, "binding").startswith(f"found: udp [{V6}]:4711 is {address}:{port} (dynamic")
    assert told(known, "session").startswith(f"found: with {V4}:53")
    back = trace(nat64, f"udp {V4} 53 > {address} {port}")["sent"][0]["packet"]
    assert (back["src"], back["dst"], back["dst_port"]) == (V4_IN_IPV6, V6, 4711)

    # The way that it names is that which it takes.
    way = nat64.path()
    assert known["path"] == way
    before = nat64.counters()[f"{way}.translated_6to4"]
    client.sendto(b"once more", (V4_IN_IPV6, 53))
    assert server.recv(100) == b"once more"
    nat64.until(lambda: nat64.counters()[f"{way}.translated_6to4"] == before + 1)


@every_way
def test_refusals_are_told_with_their_reason(nat64: Nat64Network) -> None:
    """Nobody's port, a port that others have been sent to, a limit: each as the counter has it afterwards."""
    nat64.nat64(with_keys('filtering = "address-dependent"', "max_sessions = 1"))
    stray = trace(nat64, f"udp {V4} 7000 > {BOUND} 9")
    assert (stray["verdict"], stray["reason"]) == ("drop", "no_binding")
    assert stray["answer"]["packet"]["icmp_type"] == 3
    assert refusal(nat64.socket(V4, 7000), (BOUND, 9)) == "EHOSTUNREACH"
    assert nat64.counters()["slow.drop.no_binding"] == 1

    address, port = ask(nat64.socket(V6, 4711), (V4_IN_IPV6, 53), nat64.socket(V4, 53))
    filtered = trace(nat64, f"udp 198.51.100.3 53 > {address} {port}")
    assert filtered["reason"] == "filtered"
    assert "has not sent to this address" in told(filtered, "filtering")
    assert refusal(nat64.socket("198.51.100.3", 53), (address, port)) == "EHOSTUNREACH"
    assert nat64.counters()["slow.drop.filtered"] == 1

    full = trace(nat64, f"udp {V6_OTHER} 4711 > {V4_IN_IPV6} 53")
    assert full["reason"] == "session_limit"
    assert f"host {V6_OTHER}/128 has 0 of" in told(full, "share")
    assert refusal(nat64.socket(V6_OTHER, 4711), (V4_IN_IPV6, 53)) == "EHOSTUNREACH"
    assert nat64.counters()["slow.drop.session_limit"] == 1


def test_sizes_hairpins_and_what_does_not_arrive(nat64: Nat64Network) -> None:
    """What is too big, what turns back, and what the kernel does not lead here."""
    nat64.nat64()
    too_big = trace(nat64, f"tcp ack {V4} 80 > {BOUND} 2000", "--length", "9000", "--df")
    assert (too_big["verdict"], too_big["reason"]) == ("drop", "too_big")
    nat64.bind("add", "udp", f"{BOUND}:2000", f"[{V6}]:2000")
    cut = trace(nat64, f"udp {V4} 53 > {BOUND} 2000", "--length", "3000")
    assert (cut["verdict"], len(cut["sent"])) == ("emitted", 3)
    turned = trace(nat64, f"udp {V6_OTHER} 5 > {in_ipv6(BOUND)} 2000")
    assert told(turned, "hairpin") and turned["sent"][0]["packet"]["dst"] == V6
    elsewhere = trace(nat64, f"udp {V4} 53 > {V4} 53")
    assert not elsewhere["arrives"] and "does not lead to diolkos0, but through b4" in told(elsewhere, "arrival")
    own = trace(nat64, f"udp {V6} 53 > {TRANSLATOR6} 53")
    assert not own["arrives"] and "is an address of this host" in told(own, "arrival")


def test_without_state(siit: SiitNetwork) -> None:
    """Mappings and prefixes of a SIIT, in both directions."""
    siit.siit()
    there = trace(siit, f"icmp echo 7 {V4} > {V6_MAPPED}")
    assert (there["verdict"], there["path"]) == ("forward", "fast")
    assert told(there, "destination") == f"{V6} is {V6_MAPPED} by the mapping {V6_MAPPED}/32 = {V6}/128 (RFC 7757)"
    assert told(there, "source") == f"{V4_IN_IPV6} is {V4} by the translation prefix {PREF64} (RFC 6052)"
    back = trace(siit, f"icmp reply 7 {V6} > {V4_IN_IPV6}", "--hop-limit", "1")
    assert (back["reason"], back["answer"]["packet"]["icmp_type"]) == ("hop_limit", 3)
    code, said = siit.diolkos("trace", "udp 192.0.2.1 > x")
    assert code == 2 and "`>` is no port" in said


def test_of_a_clat(net: Network) -> None:
    """The host's own address, both ways."""
    net.clat()
    out = trace(net, f"udp 192.0.0.1 5000 > {SERVER4} 53", host=net.client)
    assert (out["verdict"], out["arrives"]) == ("forward", True)
    assert "by the mapping 192.0.0.1/32" in told(out, "source")
    refused = trace(net, "udp 192.0.0.1 5000 > 198.51.100.9 53", host=net.client)
    assert refused["reason"] == "not_global_with_wkp"
