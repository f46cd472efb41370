# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host that has IPv6 only does towards IPv4 what one with both can do: by name, through a DNS64; by address in the
prefix; and by IPv4 address, behind a CLAT (RFC 6877). The programs are those that people use, and know of none of this.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass

import pytest
import servers
from diolkos_lab.topology import mounts
from nat64 import CONFIG, POOL, Nat64Network, ask, refusal
from siit import PREF64, TRANSLATOR4, TRANSLATOR6, V4, V4_IN_IPV6, V6

# Names are asked for at the DNS64, whatever the machine itself is set up with.
RESOLVER = f"nameserver {TRANSLATOR6}\noptions timeout:5 attempts:2\n"
SWITCH = "hosts: files dns\n"
WITH_FILES = 'for file in resolv.conf nsswitch.conf; do mount --bind "$1/$file" "/etc/$file" || exit; done; shift; exec "$@"'
PAGE = os.urandom(4 << 20)


@dataclass
class Host:
    """The IPv6 host, and what it calls the IPv4 one."""

    net: Nat64Network
    peer: str

    def run(self, *command: str, **options) -> str:
        """What a program prints that succeeds."""
        with_files = ("sh", "-c", WITH_FILES, "sh", str(self.net.scratch), *command)
        return self.net.run(self.net.v6, *mounts.own(with_files), **options).stdout

    def url(self, path: str) -> str:
        """Of a page there."""
        return f"http://{f'[{self.peer}]' if ':' in self.peer else self.peer}/{path}"


@pytest.fixture(params=["name", "prefix", "ipv4"])
def host(request: pytest.FixtureRequest, nat64: Nat64Network) -> Host:
    """One that calls its peer by name, by an address in the prefix, or by its IPv4 address."""
    (nat64.scratch / "resolv.conf").write_text(RESOLVER)
    (nat64.scratch / "nsswitch.conf").write_text(SWITCH)
    nat64.nat64()
    if request.param == "name":
        servers.names(nat64)
        with (nat64.scratch / "log-dns64").open("w") as log:
            where = ("--listen", f"[{TRANSLATOR6}]:53", "--upstream", V4, "--pref64", PREF64)
            nat64.start(nat64.translator, str(nat64.program), "dns64", *where, stderr=log)
        nat64.until(lambda: f"[{TRANSLATOR6}]:53 " in nat64.run(nat64.translator, "ss", "-Hlun").stdout)
    if request.param == "ipv4":
        nat64.clat_behind()
    return Host(nat64, {"name": "www.example", "prefix": V4_IN_IPV6, "ipv4": V4}[request.param])


def time_exceeded(nat64: Nat64Network) -> int:
    """How many packets the kernel of the translator's host has ended, with a message to the sender (RFC 1213, RFC 2466)."""
    said = nat64.run(nat64.translator, "nstat", "-asz", "IcmpOutTimeExcds", "Icmp6OutTimeExcds").stdout
    return sum(int(line.split()[1]) for line in said.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize("nat64", ["tc", "inline"], indirect=True)
def test_everything(nat64: Nat64Network, host: Host) -> None:
    """Pages, pings of every size, the route there, and load both ways."""
    servers.web(nat64, {"page": PAGE, "index.html": b"hello"})
    curl = ("curl", "--silent", "--fail", "--max-time", "20")
    assert host.run(*curl, host.url("")) == "hello"
    assert host.run(*curl, host.url("page"), text=False) == PAGE
    assert host.run(*curl, "--parallel", *[host.url("")] * 20) == "hello" * 20

    # Answers may be fragmented (RFC 7915 section 4). The host puts them together; a CLAT in between cannot: fragments of
    # ICMP messages are not translated (section 1.2).
    for size in ("0", "56", "1200") if host.peer == V4 else ("0", "56", "1200", "8900"):
        assert " 3 received" in host.run("ping", "-q", "-c3", "-i0.2", "-W2", "-M", "do", "-s", size, host.peer)

    # Kernels answer a host with few errors a second.
    for name in (nat64.v4, nat64.translator):
        nat64.sysctl(name, "net.ipv4.icmp_ratelimit", "0")
        nat64.sysctl(name, "net.ipv6.icmp.ratelimit", "0")
    before = time_exceeded(nat64)
    # Of a name's addresses traceroute takes the IPv4 one, unless told otherwise.
    family = "-4" if host.peer == V4 else "-6"
    ends = []
    for how in ("--icmp", "--tcp", "--udp"):
        hops = host.run("traceroute", family, "-n", "-q1", "-w3", "-m8", how, host.peer).splitlines()[1:]
        assert 2 <= len(hops) <= 6, (how, hops)
        assert not any("*" in hop for hop in hops), (how, hops)
        assert hops[-1].split()[1] == (V4 if host.peer == V4 else V4_IN_IPV6), hops
        # A CLAT is a hop of its own.
        ends.append(len(hops) - (2 if host.peer == V4 else 1))

    nat64.start(nat64.v4, "iperf3", "-s", stdout=subprocess.DEVNULL)
    nat64.until(lambda: ":5201" in nat64.run(nat64.v4, "ss", "-Hltn").stdout)
    tcp, udp = ("-n", "32M"), ("--udp", "--bitrate", "50M", "-n", "4M")
    for options in (tcp, (*tcp, "--reverse"), udp, (*udp, "--reverse")):
        report = json.loads(host.run("iperf3", "--json", "-c", host.peer, *options))
        # What is on its way when the sender has sent enough is not counted.
        assert report["end"]["sum_received"]["bytes"] > 1 << 20, options

    # Each line of a route is a probe that ended on its way. The kernel ended it in front of the translator or behind it, or the
    # translator did, which takes a hop only where packets cross its device.
    by_translator = sum(ends) - (time_exceeded(nat64) - before)
    assert nat64.drops("too_big") == ({"slow.drop.hop_limit": by_translator} if by_translator else {})


@pytest.mark.parametrize("nat64", ["tc", "inline", "tun"], indirect=True)
def test_a_gateway_with_one_address(nat64: Nat64Network) -> None:
    """The pool is a private one, and the kernel masquerades it behind the only address that the gateway has."""
    # Another network of nobody's; the IPv4 host has no route to it.
    nat64.run(nat64.v4, "ip", "route", "del", "default")
    nat64.run(nat64.translator, "nft", "-f", "-", input="""
        table ip gateway {
            chain post {
                type nat hook postrouting priority 100;
                oifname "b4" ip saddr 192.168.64.0/29 masquerade;
            }
        }""")  # fmt: skip
    nat64.nat64(CONFIG.replace(POOL, "192.168.64.0/29"))
    host = Host(nat64, V4_IN_IPV6)
    servers.web(nat64, {"page": PAGE})
    curl = ("curl", "--silent", "--fail", "--max-time", "20", host.url("page"))
    for _ in range(2):
        assert nat64.run(nat64.v6, *curl, text=False).stdout == PAGE
    assert " 3 received" in nat64.run(nat64.v6, "ping", "-q", "-c3", "-i0.2", "-W2", V4_IN_IPV6).stdout
    outside = nat64.socket(V4, 4000)
    inside = nat64.socket(V6)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    assert mapped[0] == TRANSLATOR4
    assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
    # The kernel lets in whom the node has sent to, and nobody else.
    assert refusal(nat64.socket(V4), mapped) == "ECONNREFUSED"
    assert nat64.drops() == {}
