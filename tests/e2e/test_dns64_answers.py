# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a client gets from `diolkos dns64`, seen with dig, getent and unbound upstream (RFC 6147, RFC 7050, RFC 8880)."""

from __future__ import annotations

import pytest
from diolkos_lab.topology import mounts
from dns64 import DNS64, PREF64, RESOLVER, Dns64Network


@pytest.fixture
def dns64(dns64_network: Dns64Network) -> Dns64Network:
    """With unbound upstream."""
    dns64_network.unbound()
    return dns64_network


def test_names_with_a_records_get_aaaa_records(dns64: Dns64Network) -> None:
    """And A records stay as they are."""
    dns64.dns64()
    assert dns64.dig("v4.example").data() == ["2001:db8:64::c000:201", "2001:db8:64::c000:202"]
    assert dns64.dig("v4.example", "A").data("A") == ["192.0.2.1", "192.0.2.2"]
    assert dns64.counters()["answer.synthesised"] == 1


def test_every_prefix_gives_addresses(dns64: Dns64Network) -> None:
    """Of any length that RFC 6052 has."""
    dns64.dns64("--pref64", PREF64, "--pref64", "2001:db8:122::/48")
    assert dns64.dig("short.example").data() == ["2001:db8:122:c000:2:100::", "2001:db8:64::c000:201"]


def test_real_aaaa_records_are_untouched(dns64: Dns64Network) -> None:
    """Whether or not there are A records too."""
    dns64.dns64()
    assert dns64.dig("both.example").data() == ["2001:db8::1"]
    assert dns64.dig("v6.example").data() == ["2001:db8::1"]


def test_excluded_addresses_are_never_given(dns64: Dns64Network) -> None:
    """IPv4-mapped ones count as absent (RFC 6147 section 5.1.4)."""
    dns64.dns64()
    assert dns64.dig("mapped.example").data() == ["2001:db8:64::c000:201"]
    assert dns64.dig("mixed.example").data() == ["2001:db8::2"]


def test_chains_are_whole(dns64: Dns64Network) -> None:
    """CNAME and DNAME records stand in front of the synthetic ones."""
    dns64.dns64()
    reply = dns64.dig("www.example")
    assert [line[3] for line in reply.answers] == ["CNAME", "CNAME", "AAAA", "AAAA"]
    reply = dns64.dig("h.old.example")
    assert [line[3] for line in reply.answers] == ["DNAME", "CNAME", "AAAA"]
    assert reply.data() == ["2001:db8:64::c000:209"]


def test_ttls(dns64: Dns64Network) -> None:
    """The A record's, or that of the denial (here 120), whichever is less."""
    dns64.dns64()
    assert dns64.dig("short.example").ttls() == [7]
    assert dns64.dig("long.example").ttls() == [120]


def test_denials(dns64: Dns64Network) -> None:
    """No such name, and no such record."""
    dns64.dns64()
    assert dns64.dig("absent.example").status == "NXDOMAIN"
    reply = dns64.dig("none.example")
    assert (reply.status, reply.answers) == ("NOERROR", [])
    assert "SOA" in reply.text


def test_names_of_synthetic_addresses(dns64: Dns64Network) -> None:
    """dig -x finds the IPv4 node's name."""
    dns64.dns64()
    reply = dns64.dig("-x", "2001:db8:64::c000:201")
    assert reply.data("CNAME") == ["1.2.0.192.in-addr.arpa."]
    assert reply.data("PTR") == ["v4.example."]
    assert dns64.dig("-x", "2001:db8:64::c000:202").status == "NXDOMAIN"


def test_ipv4only_arpa_needs_no_upstream(dns64_network: Dns64Network) -> None:
    """RFC 8880: the prefix is found even while nobody answers upstream."""
    net = dns64_network
    net.dns64()
    reply = net.dig("ipv4only.arpa")
    assert reply.data() == ["2001:db8:64::c000:aa", "2001:db8:64::c000:ab"]
    assert "aa" in reply.flags
    assert net.dig("ipv4only.arpa", "A").data("A") == ["192.0.0.170", "192.0.0.171"]
    assert net.dig("x.ipv4only.arpa").status == "NXDOMAIN"
    assert net.dig("-x", "192.0.0.170").data("PTR") == ["ipv4only.arpa."]
    assert net.dig("-x", "2001:db8:64::c000:ab").data("PTR") == ["ipv4only.arpa."]
    assert net.counters()["upstream.udp"] == 0


def test_getent_finds_ipv4_only_servers(dns64: Dns64Network) -> None:
    """The host's own resolver library, with the DNS64 in resolv.conf."""
    dns64.dns64()
    resolv = dns64.scratch / "resolv.conf"
    resolv.write_text(f"nameserver {DNS64}\n")
    script = f"mount --bind {resolv} /etc/resolv.conf && getent ahostsv6 v4.example"
    found = dns64.run(dns64.client, *mounts.own(["sh", "-c", script])).stdout
    assert "2001:db8:64::c000:201" in found


def test_validating_clients_synthesise_themselves(dns64: Dns64Network) -> None:
    """CD and DO together (RFC 6147 section 5.5)."""
    dns64.dns64()
    assert dns64.dig("v4.example", "AAAA", "+cdflag", "+dnssec").answers == []
    reply = dns64.dig("v4.example", "AAAA", "+dnssec")
    assert len(reply.data()) == 2
    assert "ad" not in reply.flags
    assert len(dns64.dig("v4.example", "AAAA", "+cdflag").data()) == 2


def test_what_does_not_validate_is_not_synthesised(dns64_network: Dns64Network) -> None:
    """With a resolver that validates and finds the zone bogus; CD gets what there is."""
    net = dns64_network
    net.unbound(bogus=True)
    net.dns64()
    assert net.dig("v4.example", server=RESOLVER).status == "SERVFAIL", "that is what it says itself"
    assert net.dig("v4.example").status == "SERVFAIL"
    assert net.dig("v6.example", "AAAA", "+dnssec").status == "SERVFAIL"
    assert net.counters()["answer.synthesised"] == 0
    assert len(net.dig("v4.example", "AAAA", "+cdflag").data()) == 2


def test_long_answers_need_tcp_on_both_sides(dns64: Dns64Network) -> None:
    """A hundred addresses do not fit into a datagram: TC, then TCP."""
    dns64.dns64()
    reply = dns64.dig("many.example", "AAAA", "+ignore")
    assert "tc" in reply.flags
    assert reply.answers == []
    assert len(dns64.dig("many.example").data()) == 100, "dig comes again by TCP"
    counters = dns64.counters()
    assert counters["upstream.tcp"] == 1, "the A question; the AAAA answer is short"
    assert counters["truncated"] == 2


@pytest.mark.parametrize(("options", "fits"), [(("+noedns",), False), (("+bufsize=512",), False), ((), True)])
def test_each_client_has_its_own_limit(dns64: Dns64Network, options: tuple[str, ...], fits: bool) -> None:
    """512 bytes without EDNS, else what the client says, up to 1232."""
    dns64.dns64("--pref64", PREF64, *(o for n in range(1, 10) for o in ("--pref64", f"2001:db8:{n}::/96")))
    reply = dns64.dig("v4.example", "AAAA", "+ignore", *options)
    assert ("tc" not in reply.flags) == fits
    assert len(reply.data()) == (20 if fits else 0)
    assert ("EDNS: version: 0" in reply.text) == ("+noedns" not in options)


def test_tcp_connections_carry_many_questions(dns64: Dns64Network) -> None:
    """One after the other on one connection (RFC 7766)."""
    dns64.dns64()
    names = ["v4.example", "both.example", "www.example", "v4.example"]
    command = ["dig", f"@{DNS64}", "+tcp", "+keepopen", "+short"]
    for name in names:
        command += [name, "AAAA"]
    found = dns64.run(dns64.client, *command).stdout.split()
    assert len([line for line in found if ":" in line]) == 7
    assert dns64.counters()["query_tcp"] == 4


def test_answers_are_kept_and_age(dns64: Dns64Network) -> None:
    """The second client gets the first one's answer, in its own spelling, older by what has passed."""
    dns64.dns64()
    first = dns64.dig("v4.example").ttls()[0]
    asked = dns64.counters()["upstream.udp"]
    dns64.until(lambda: dns64.dig("V4.eXample").ttls()[0] < first)
    reply = dns64.dig("V4.eXample")
    assert reply.answers[0][0] == "V4.eXample."
    dns64.dig("absent.example")
    dns64.dig("absent.example")
    counters = dns64.counters()
    assert counters["upstream.udp"] == asked + 1
    assert counters["cache_hit"] >= 3


def test_several_addresses_of_both_families(dns64: Dns64Network) -> None:
    """And `[::]` answers from the address that was asked."""
    dns64.ip(dns64.router, "address", "add", "2001:2:0:1::64/64", "dev", "down0", "nodad")
    dns64.run(dns64.router, "ip", "address", "add", "192.0.2.65/24", "dev", "down0")
    dns64.run(dns64.client, "ip", "address", "add", "192.0.2.66/24", "dev", "wan0")
    dns64.dns64("--listen", "[::]:53", "--listen", "0.0.0.0:53", "--listen", f"[{DNS64}]:5353")
    for server in (DNS64, "2001:2:0:1::64", "192.0.2.65"):
        assert len(dns64.dig("v4.example", server=server).data()) == 2, server
        assert len(dns64.dig("v4.example", "AAAA", "+tcp", server=server).data()) == 2, server
    assert len(dns64.dig("v4.example", "AAAA", "-p", "5353").data()) == 2


def test_ranges_have_prefixes_of_their_own(dns64: Dns64Network) -> None:
    """RFC 6147 section 5; the file says everything, and `run` needs no translator."""
    config = dns64.config(f"""
[dns64]
listen = ["[{DNS64}]:53"]
upstream = ["[{RESOLVER}]:53"]
pref64 = ["{PREF64}"]

[[dns64.range]]
v4 = "192.0.2.2/32"
pref64 = ["2001:db8:46::/96"]

[[dns64.range]]
v4 = "192.0.2.9/32"
pref64 = []
""")
    dns64.diolkos("run", "--config", str(config))
    assert dns64.dig("v4.example").data() == ["2001:db8:46::c000:202", "2001:db8:64::c000:201"]
    assert dns64.dig("h.new.example").answers == []


def test_the_prefix_of_the_translator_beside(dns64_network: Dns64Network) -> None:
    """A DNS64 without a prefix of its own takes the first one of the translator in its file, and says if another is given."""
    net = dns64_network
    net.unbound()
    translator = '[translator]\nmode = "siit"\npref64 = ["2001:db8:77::/96", "2001:db8:78::/96"]\n'
    section = f'[dns64]\nlisten = ["[{DNS64}]:53"]\nupstream = ["{RESOLVER}"]\n'
    running = net.dns64("--config", str(net.config(translator + section)))
    assert net.dig("v4.example").data() == ["2001:db8:77::c000:201", "2001:db8:77::c000:202"]
    assert [prefix["prefix"] for prefix in net.prefixes()] == ["2001:db8:77::/96"]
    assert "warning: " not in running.log()
    assert running.stop() == 0
    path = net.config(translator + section + 'pref64 = ["2001:db8:99::/96"]\n')
    code, said = net.once("check", str(path))
    assert code == 0
    (warning,) = [line for line in said.splitlines() if "warning: " in line]
    assert "dns64.toml:7:11: dns64.pref64[0]: " in warning
    for value in ("2001:db8:77::/96, 2001:db8:78::/96", "2001:db8:99::/96"):
        assert value in warning
