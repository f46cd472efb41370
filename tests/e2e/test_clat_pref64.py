# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A CLAT that learns its prefix from the network, follows it, and believes no nonsense."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys

import pytest
from diolkos_lab.topology import mounts
from kernel import forwarding, remains
from network import CLIENT6, ROUTER6, SERVER4, Running
from pref64 import OTHER, OWN, RESOLVER, WELL_KNOWN_ADDRESSES, Option, Pref64Network, embed

AUTO = ("--pref64", "auto", "--resolver", RESOLVER)
BEHIND_64 = "2001:db8:122:344::/64"
BEHIND_32 = "2001:db8::/32"

# Tries to reach the server by TCP, and says which error it met.
CONNECT = f"""
import socket
tcp = socket.socket()
tcp.settimeout(5)
try:
    tcp.connect(("{SERVER4}", 9))
except OSError as error:
    print(error.errno)
"""


def started(net: Pref64Network, datapath: str = "tc", *options: str, **more) -> Running:
    """A CLAT that looks for its prefix."""
    clat = net.clat(datapath, *(options or AUTO), **more)
    net.until(lambda: "waiting for a translation prefix" in clat.log())
    return clat


def reaches(net: Pref64Network) -> bool:
    """The server answers."""
    return net.ping("-c1", "-W0.3").returncode == 0


def both(prefix: str) -> list[str]:
    """What a DNS64 with this prefix says of ipv4only.arpa."""
    return [embed(prefix, v4) for v4 in WELL_KNOWN_ADDRESSES]


def test_from_a_resolver(pref64: Pref64Network, datapath: str) -> None:
    """unbound as DNS64: the prefix is found, said, and used; nothing is left at the end."""
    before = forwarding(pref64)
    pref64.reach(OWN)
    pref64.unbound(OWN)
    clat = started(pref64, datapath)
    assert f"prefix {OWN}" in clat.log()
    assert "3 received" in pref64.ping("-c3").stdout, clat.log()
    (row,) = pref64.prefixes()
    assert (row["prefix"], row["source"], row["from"], row["in_force"]) == (OWN, "resolver", f"[{RESOLVER}]:53", True)
    assert 3500 < row["expires_in_s"] <= 3600
    config = pref64.run(pref64.client, str(pref64.program), "show", "config").stdout
    assert f'pref64 = ["{OWN}"]' in config
    counters = pref64.counters()
    assert (counters["pref64.questions"], counters["pref64.revealed"]) == (1, 1)
    assert clat.stop() == 0
    assert remains(pref64) == []
    assert forwarding(pref64) == before


@pytest.mark.parametrize("prefix", [BEHIND_64, BEHIND_32])
def test_other_lengths(pref64: Pref64Network, prefix: str) -> None:
    """The places of the IPv4 address tell the length."""
    pref64.reach(prefix)
    pref64.resolver_says(*both(prefix))
    clat = started(pref64)
    assert f"prefix {prefix}" in clat.log()
    assert "3 received" in pref64.ping("-c3").stdout, clat.log()


def test_a_long_answer_comes_over_the_uplink_too(pref64: Pref64Network) -> None:
    """Another route leads to the resolver's address; neither the datagram nor the connection after it takes that."""
    pref64.reach(OWN)
    pref64.ip(pref64.client, "link", "add", "other0", "type", "veth", "peer", "other1")
    pref64.ip(pref64.client, "link", "set", "other0", "up")
    pref64.ip(pref64.client, "route", "add", f"{RESOLVER}/128", "dev", "other0")
    pref64.truncating_resolver(*both(OWN))
    clat = started(pref64)
    assert f"prefix {OWN} from resolver [{RESOLVER}]:53 (RFC 7050)" in clat.log()


def test_from_the_resolvers_of_the_host(pref64: Pref64Network) -> None:
    """/etc/resolv.conf says whom to ask; one that is silent costs time only."""
    pref64.reach(OWN)
    pref64.unbound(OWN)
    file = pref64.scratch / "resolv.conf"
    file.write_text(f"nameserver {ROUTER6}\nnameserver 2001:2:0:1::99\nnameserver {RESOLVER}\n")
    inside = f'mount --bind {file} /etc/resolv.conf && exec "$0" "$@"'
    wrapper = tuple(mounts.own(["sh", "-c", inside]))
    clat = started(pref64, "tc", "--pref64", "auto", wrapper=wrapper)
    assert f"resolver [{RESOLVER}]:53 (RFC 7050)" in clat.log()
    assert "3 received" in pref64.ping("-c3").stdout


def test_from_a_router(pref64: Pref64Network, datapath: str) -> None:
    """One that advertises when it is solicited: it need not be waited for."""
    pref64.reach(OWN)
    pref64.answer_solicitations(Option(OWN))
    clat = started(pref64, datapath)
    assert f"prefix {OWN} from router {pref64.router_address()} (RFC 8781), for 1800 s" in clat.log()
    assert "3 received" in pref64.ping("-c3").stdout, clat.log()
    (row,) = pref64.prefixes()
    assert (row["source"], row["from"], row["in_force"]) == ("router", pref64.router_address(), True)
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_the_router_goes_before_the_resolver(pref64: Pref64Network) -> None:
    """RFC 8781 section 5.1; when the router takes its prefix back, the resolver's is used."""
    pref64.reach(OWN, OTHER)
    pref64.unbound(OTHER)
    clat = started(pref64)
    assert f"prefix {OTHER}" in clat.log()
    pref64.advertise(Option(OWN))
    pref64.until(lambda: pref64.in_force() == OWN)
    assert "3 received" in pref64.ping("-c3").stdout, clat.log()
    assert [row["prefix"] for row in pref64.prefixes()] == [OWN, OTHER]
    pref64.advertise(Option(OWN, lifetime=0))
    pref64.until(lambda: pref64.in_force() == OTHER)
    pref64.until(lambda: reaches(pref64))


def test_the_prefix_changes(pref64: Pref64Network, datapath: str) -> None:
    """Device, address and sockets stay; the IPv6 address and the way follow; traffic goes on by itself."""
    pref64.reach(OWN, OTHER)
    clat = started(pref64, datapath, ready=False)
    pref64.advertise(Option(OWN))
    pref64.until(lambda: " ready: " in clat.log())
    before = pref64.ip_json(pref64.client, "address", "show", "dev", "diolkos0")[0]
    first = clat.log().split("<-> ")[1].split()[0]
    ping = pref64.start(pref64.client, "ping", "-i0.01", "-c600", "-W5", SERVER4, stdout=subprocess.PIPE, text=True)
    pref64.until(lambda: pref64.counters()["slow.translated_4to6"] + pref64.counters().get("fast.translated_4to6", 0) > 50)
    pref64.advertise(Option(OWN, lifetime=0), Option(OTHER))
    pref64.until(lambda: pref64.in_force() == OTHER)
    said, _ = ping.communicate(timeout=30)
    received = int(said.split(" received")[0].split()[-1])
    # Echo requests on their way through the old prefix may be lost, and no others.
    assert received >= 590, said + clat.log()
    assert "unreachable" not in said
    after = pref64.ip_json(pref64.client, "address", "show", "dev", "diolkos0")[0]
    assert (before["ifindex"], before["addr_info"]) == (after["ifindex"], after["addr_info"])
    second = clat.log().split("<-> ")[2].split()[0]
    assert first != second, "it is made for the prefix"
    assert f"prefix {OTHER}, datapath" in clat.log()
    counters = pref64.counters()
    assert counters["slow.translated_6to4"] + counters.get("fast.translated_6to4", 0) >= 590, "they go on counting"
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_a_fixed_address_outlives_a_change(pref64: Pref64Network) -> None:
    """An address that the operator gave is not tried out again: we would hear ourselves."""
    pref64.reach(OWN, OTHER)
    pref64.sysctl(pref64.client, "net.ipv6.conf.wan0.dad_transmits", "1")
    clat = started(pref64, "tc", *AUTO, "--v6", "2001:2:0:1::464", ready=False)
    for prefix in (OWN, OTHER):
        pref64.advertise(Option(OWN, lifetime=0), Option(prefix))
        pref64.until(lambda prefix=prefix: f"prefix {prefix}, datapath" in clat.log())
        assert "3 received" in pref64.ping("-c3").stdout, clat.log()


def test_withdrawn_and_back(pref64: Pref64Network, datapath: str) -> None:
    """Without a prefix there is no IPv4 route, so that applications fail at once; with the next one there is again."""
    pref64.reach(OWN)
    clat = started(pref64, datapath, ready=False)
    assert pref64.ip_json(pref64.client, "-4", "route", "show") == []
    pref64.advertise(Option(OWN))
    pref64.until(lambda: " ready: " in clat.log())
    assert pref64.routes() == ["default"]
    pref64.advertise(Option(OWN, lifetime=0))
    pref64.until(lambda: pref64.routes() == [])
    assert "no longer has a translation prefix: IPv4 routes are removed" in clat.log()
    assert pref64.run(pref64.client, sys.executable, "-c", CONNECT).stdout.strip() == str(errno.ENETUNREACH)
    assert pref64.prefixes() == []
    assert 'pref64 = "auto"' in pref64.run(pref64.client, str(pref64.program), "show", "config").stdout
    pref64.advertise(Option(OWN))
    pref64.until(lambda: pref64.routes() == ["default"])
    assert "3 received" in pref64.ping("-c3").stdout, clat.log()
    assert clat.log().count("ready: ") == 2
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_the_prefix_changes_while_the_device_is_down(pref64: Pref64Network, datapath: str) -> None:
    """The program goes on, and leaves the device down; set up again, it has its routes and the new prefix."""
    pref64.reach(OWN, OTHER)
    clat = started(pref64, datapath, ready=False)
    pref64.advertise(Option(OWN))
    pref64.until(lambda: " ready: " in clat.log())
    pref64.run(pref64.client, "ip", "link", "set", "diolkos0", "down")
    pref64.until(lambda: "diolkos0 is down: nothing can pass until it is up" in clat.log())
    pref64.advertise(Option(OWN, lifetime=0), Option(OTHER))
    pref64.until(lambda: f"prefix {OTHER}, datapath" in clat.log() or clat.process.poll() is not None)
    assert clat.process.poll() is None, clat.log()
    pref64.advertise(Option(OTHER, lifetime=0))
    pref64.until(lambda: "no longer has a translation prefix" in clat.log())
    pref64.advertise(Option(OWN))
    pref64.until(lambda: clat.log().count(" ready: ") == 3 or clat.process.poll() is not None)
    assert clat.process.poll() is None, clat.log()
    (link,) = pref64.ip_json(pref64.client, "link", "show", "diolkos0")
    assert "UP" not in link["flags"]
    pref64.run(pref64.client, "ip", "link", "set", "diolkos0", "up")
    pref64.until(lambda: reaches(pref64))
    assert pref64.in_force() == OWN
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_it_expires(pref64: Pref64Network) -> None:
    """A router that is not heard any more is believed for as long as it said."""
    pref64.reach(OWN)
    clat = started(pref64, ready=False)
    pref64.advertise(Option(OWN, lifetime=8))
    pref64.until(lambda: " ready: " in clat.log())
    assert pref64.prefixes()[0]["expires_in_s"] <= 8
    pref64.until(lambda: pref64.routes() == [])
    # Before that it was asked for again.
    counters = pref64.counters()
    assert counters["pref64.solicitations"] >= 2 and counters["pref64.questions"] >= 2


def test_an_answer_is_refreshed_before_it_ends(pref64: Pref64Network) -> None:
    """Ten seconds before its TTL, which counts as half a minute at least: the DNS64's new prefix is used."""
    pref64.reach(OWN, OTHER)
    pref64.resolver_says("ttl=5", *both(OWN))
    clat = started(pref64)
    assert 25 <= pref64.prefixes()[0]["expires_in_s"] <= 30
    pref64.resolver_says("ttl=5", *both(OTHER))
    pref64.until(lambda: pref64.in_force() == OTHER, patience=25)
    assert "no longer has a translation prefix" not in clat.log()
    pref64.until(lambda: reaches(pref64))
    assert clat.log().count("ready: ") == 2


def test_another_address_may_mean_another_network(pref64: Pref64Network) -> None:
    """All is looked for again at once, and what is known holds until then."""
    pref64.reach(OWN, OTHER)
    pref64.resolver_says(*both(OWN))
    clat = started(pref64)
    pref64.resolver_says(*both(OTHER))
    pref64.ip(pref64.client, "address", "add", "2001:2:0:7::2/64", "dev", "wan0", "nodad")
    pref64.until(lambda: pref64.in_force() == OTHER)
    pref64.until(lambda: reaches(pref64))
    assert pref64.counters()["pref64.questions"] == 2, clat.log()


def test_the_uplink_comes_to_another_network(pref64: Pref64Network, datapath: str) -> None:
    """Its prefix, and with it the CLAT's address, and the translation prefix are others: all is followed."""
    pref64.reach(OWN, OTHER)
    pref64.resolver_says(*both(OWN))
    clat = started(pref64, datapath)
    assert reaches(pref64)
    pref64.resolver_says(*both(OTHER))
    pref64.ip(pref64.client, "address", "del", f"{CLIENT6}/64", "dev", "wan0")
    pref64.until(lambda: "no longer has an address" in clat.log())
    assert pref64.routes() == []
    pref64.ip(pref64.router, "address", "add", "2001:2:0:8::1/64", "dev", "down0", "nodad")
    pref64.ip(pref64.client, "address", "add", "2001:2:0:8::2/64", "dev", "wan0", "nodad")
    pref64.ip(pref64.client, "route", "replace", "default", "via", "2001:2:0:8::1")
    pref64.until(lambda: pref64.in_force() == OTHER and "<-> 2001:2:0:8:" in clat.log())
    pref64.until(lambda: reaches(pref64))
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_it_waits_for_an_address(pref64: Pref64Network) -> None:
    """A router's first advertisement brings the prefix before the kernel has an address that is fit for use."""
    pref64.reach(OWN)
    pref64.ip(pref64.client, "address", "del", f"{CLIENT6}/64", "dev", "wan0")
    clat = started(pref64, ready=False)
    pref64.advertise(Option(OWN))
    pref64.until(lambda: "no global IPv6 address" in clat.log())
    pref64.ip(pref64.client, "address", "add", f"{CLIENT6}/64", "dev", "wan0", "nodad")
    pref64.ip(pref64.client, "route", "replace", "default", "via", ROUTER6)
    pref64.until(lambda: "ready: " in clat.log())
    assert "3 received" in pref64.ping("-c3").stdout


LIES = {
    "none of the addresses": ["2001:db8::1", "2001:db8::2"],
    "one of the two": [embed(OWN, "192.0.0.170")],
    "each of another prefix": [embed(OWN, "192.0.0.170"), embed(OTHER, "192.0.0.171")],
    "twice in each": ["2001:db8:c000:aa::c000:aa", "2001:db8:c000:ab::c000:ab"],
    "mapped IPv4 addresses": ["::ffff:192.0.0.170", "::ffff:192.0.0.171"],
    "multicast": ["ff0e::192.0.0.170", "ff0e::192.0.0.171"],
    "no such name": ["3"],
    "no address": [],
}


@pytest.mark.parametrize("says", LIES.values(), ids=LIES.keys())
def test_resolvers_that_reveal_nothing(pref64: Pref64Network, says: list[str]) -> None:
    """It goes on waiting and asking; a signal ends it, and nothing is left."""
    pref64.resolver_says(*says)
    clat = started(pref64, ready=False)
    pref64.until(lambda: "no translation prefix is known to the resolver" in clat.log())
    assert pref64.counters()["pref64.denied"] == 1
    assert pref64.prefixes() == []
    assert "ready" not in clat.log()
    assert clat.stop(signal.SIGINT) == 0
    assert remains(pref64) == []


def test_resolvers_that_fail(pref64: Pref64Network) -> None:
    """A failure is no denial: it is asked again soon, and what is true in the end is used."""
    pref64.reach(OWN)
    pref64.resolver_says("2")
    clat = started(pref64, ready=False)
    pref64.until(lambda: pref64.counters()["pref64.unanswered"] >= 2)
    pref64.resolver_says(*both(OWN))
    pref64.until(lambda: " ready: " in clat.log())
    assert "3 received" in pref64.ping("-c3").stdout


@pytest.mark.parametrize(
    ("option", "wrong", "is_advertisement"),
    [
        (Option(), {"ip": "hlim=254, "}, False),
        (Option(), {"ip": 'src="2001:2:0:1::1", '}, False),
        (Option(), {"ra": "code=1, "}, False),
        (Option(), {"ra": "cksum=0x1234, "}, False),
        ("Raw(bytes.fromhex('2600'))", {}, False),
        (Option(code=7), {}, True),
        (Option("ff0e::/96"), {}, True),
        (Option(lifetime=0), {}, True),
    ],
    ids=["forwarded", "not link-local", "code", "checksum", "option without length", "length code", "multicast", "lifetime"],
)
def test_advertisements_that_say_nothing(
    pref64: Pref64Network, option: Option | str, wrong: dict, is_advertisement: bool
) -> None:
    """What RFC 4861 section 6.1.2 forbids is refused and counted; what RFC 8781 section 4 tells to ignore is ignored."""
    clat = started(pref64, ready=False)
    pref64.until(lambda: pref64.counters()["pref64.solicitations"] >= 1)
    pref64.advertise(option, **wrong)
    counter = "pref64.advertisements" if is_advertisement else "pref64.advertisements_refused"
    pref64.until(lambda: pref64.counters()[counter] == 1)
    assert pref64.prefixes() == []
    assert "ready" not in clat.log()


def test_nobody_is_asked_through_the_translator(pref64: Pref64Network) -> None:
    """A resolver that only the CLAT leads to cannot say where the CLAT should be."""
    pref64.reach(OWN)
    pref64.unbound(OWN)
    clat = started(pref64, "tc", *AUTO, "--resolver", SERVER4, "--log", "debug")
    assert reaches(pref64)
    # All is asked again, and the first one is silent now.
    pref64.run(pref64.server, "nft", "add table ip6 quiet; add chain ip6 quiet in { type filter hook input priority 0; }")
    pref64.run(pref64.server, "nft", f"add rule ip6 quiet in ip6 daddr {RESOLVER} udp dport 53 drop")
    pref64.ip(pref64.client, "address", "add", "2001:2:0:7::2/64", "dev", "wan0", "nodad")
    pref64.until(lambda: f"resolver {SERVER4}:53 does not answer: it is behind this translator" in clat.log())


def test_a_prefix_that_contradicts_the_configuration(pref64: Pref64Network) -> None:
    """What the network says does not end the program."""
    pref64.reach(OTHER)
    file = pref64.scratch / "pool.toml"
    file.write_text(f'[icmp]\nsource_pool6 = ["{embed(OWN, "198.51.100.0")}/120"]\n')
    clat = started(pref64, "tc", *AUTO, "--config", str(file), ready=False)
    pref64.advertise(Option(OWN))
    pref64.until(lambda: f"the prefix {OWN} cannot be used" in clat.log())
    pref64.advertise(Option(OWN, lifetime=0), Option(OTHER))
    pref64.until(lambda: " ready: " in clat.log())
    assert "3 received" in pref64.ping("-c3").stdout


def test_a_file_says_auto(pref64: Pref64Network) -> None:
    """`check` prints it; where nobody could find a prefix, it is refused."""
    file = pref64.scratch / "auto.toml"
    text = '[translator]\ninterfaces = ["wan0"]\npref64 = "auto"\n[clat]\nresolvers = ["{resolver}"]\n'
    file.write_text(text.format(resolver=RESOLVER))
    checked = pref64.run(pref64.client, str(pref64.program), "check", str(file)).stdout
    assert 'pref64 = "auto"' in checked and f'resolvers = ["{RESOLVER}"]' in checked
    pref64.reach(OWN)
    pref64.unbound(OWN)
    clat = pref64.clat("tc", "--config", str(file))
    assert f"prefix {OWN}" in clat.log()
    assert clat.stop() == 0
    for mode in ("siit", "nat64"):
        code, message = pref64.refused(mode, "--config", str(file))
        assert code == 2 and f"{file}:3:10: translator.pref64: a router does not discover its prefix" in message
    code, message = pref64.refused("clat", "--uplink", "wan0", "--pref64", "sometimes")
    assert code == 2 and "neither an IPv6 prefix nor `auto`" in message
