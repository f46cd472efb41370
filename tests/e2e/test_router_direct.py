# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What is sent past the kernel's forwarding with the placement `direct`, and what is not.

The suites of SIIT and NAT64 run with this placement, too. Here are its own rules: each packet either leaves directly or
is forwarded by the kernel, with as many hops to live, and is counted by neither twice.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from direct import BOTH, DIRECT, FORWARDED, TO_IPV4, TO_IPV6, Probe
from kernel import HOOKS
from network import create_socket
from siit import (
    CONFIG,
    PREF64,
    TRANSLATOR4,
    TRANSLATOR4_IN_IPV6,
    V4,
    V4_IN_IPV6,
    SiitNetwork,
)

pytestmark = pytest.mark.parametrize("siit", ["direct"], indirect=True)


@BOTH
def test_each_way_is_counted(siit: SiitNetwork, probe, way) -> None:
    """The first packet waits for the neighbour in the kernel; those behind it are sent directly, and counted."""
    running = siit.siit()
    assert "direct between b4, b6" in running.log()
    siit.run(siit.translator, "ip", "neigh", "flush", "all")
    there = probe(way, 3)
    assert there.goes() == FORWARDED
    assert [there.goes() for _ in range(5)] == [DIRECT] * 5
    counters = siit.counters()
    assert counters["fast.sent_direct"] == 5
    assert counters["fast.translated_4to6"] + counters["fast.translated_6to4"] == 6


def test_netfilter_is_passed_by(siit: SiitNetwork, probe) -> None:
    """As is said: no hook of either family sees what is sent directly."""
    siit.siit()
    there, back = probe(TO_IPV6), probe(TO_IPV4)
    there.until(siit, DIRECT)
    back.until(siit, DIRECT)
    hooks = ("prerouting", "forward", "postrouting")
    chains = "\n".join(f"chain {h} {{ type filter hook {h} priority 0; udp dport 4000 counter drop; }}" for h in hooks)
    siit.run(siit.translator, "nft", "-f", "-", input=f"table inet seen {{\n{chains}\n}}")
    assert (there.goes(), back.goes()) == (DIRECT, DIRECT)
    assert siit.run(siit.translator, "nft", "list", "ruleset").stdout.count("packets 0 bytes 0") == 3


@BOTH
def test_the_next_hop_changes_its_link_layer_address(siit: SiitNetwork, probe, way) -> None:
    """Nobody tells the router; it finds out, as it does when it forwards."""
    siit.siit()
    there = probe(way)
    there.until(siit, DIRECT)
    change_neighbour(siit, way)
    assert there.goes() is None
    there.until(siit, DIRECT)


@BOTH
def test_the_next_hop_changes_its_link_layer_address_in_a_flood(siit: SiitNetwork, probe, way) -> None:
    """Most packets of a flood leave without the kernel's neighbour. It still hears that the neighbour is in use."""
    siit.siit()
    there = probe(way)
    there.until(siit, DIRECT)
    with flood(there):
        change_neighbour(siit, way)
        assert there.goes() is None
        there.until(siit, DIRECT)


@BOTH
def test_rules_about_ports(siit: SiitNetwork, probe, way) -> None:
    """What the kernel said about one port is no answer for another, however soon the packets follow each other."""
    siit.siit()
    there = probe(way)
    there.until(siit, DIRECT)
    family = "-6" if way is TO_IPV6 else "-4"
    siit.run(siit.translator, "ip", family, "rule", "add", "ipproto", "udp", "dport", "4001", "blackhole")
    with contextlib.closing(create_socket(getattr(siit, way[4]), there.hearer.family, socket.SOCK_DGRAM)) as other:
        other.bind((way[3], 4001))
        other.setblocking(False)
        # Until then an answer from before the rule may be used.
        began = ticks()
        siit.until(lambda: ticks() > began + 10_000_000)
        for _ in range(100):
            for port in (4000, 4001):
                there.sender.sendto(b"probe", (there.to, port))
        there.until(siit, DIRECT)
        with pytest.raises(BlockingIOError):
            other.recv(100)


def ticks() -> int:
    """The kernel's clock, which stands still within a tick, in nanoseconds; a tick is ten milliseconds at most."""
    return time.clock_gettime_ns(6)  # CLOCK_MONOTONIC_COARSE


def change_neighbour(siit: SiitNetwork, way: tuple[str, ...]) -> None:
    """Give the next hop another link-layer address, and leave the translator's router with the old one."""
    hearer, link = (siit.v6, "b6") if way is TO_IPV6 else (siit.v4, "b4")
    family = "ipv6" if way is TO_IPV6 else "ipv4"
    for key, value in (("delay_first_probe_time", "1"), ("retrans_time_ms", "100")):
        siit.sysctl(siit.translator, f"net.{family}.neigh.{link}.{key}", value)
    # Known once, not confirmed for long, and nobody but the program uses it.
    known = siit.ip_json(hearer, "link", "show", "a0")[0]["address"]
    siit.run(siit.translator, "ip", "neigh", "replace", way[3], "lladdr", known, "dev", link, "nud", "stale")
    siit.ip(hearer, "link", "set", "a0", "address", "02:00:00:00:00:77")


@contextlib.contextmanager
def flood(probe: Probe) -> Iterator[None]:
    """Many packets in each tick of the kernel's clock, to a port where nobody hears."""
    enough = threading.Event()

    def send() -> None:
        while not enough.is_set():
            for _ in range(100):
                with contextlib.suppress(OSError):
                    probe.sender.sendto(b"flood", (probe.to, 4001))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        enough.set()
        sender.join()


@pytest.mark.parametrize("kind", ["blackhole", "unreachable", "prohibit"])
@BOTH
def test_routes_that_are_none(siit: SiitNetwork, probe, way, kind: str) -> None:
    """The kernel drops, and says so where it should."""
    siit.siit()
    there = probe(way)
    there.until(siit, DIRECT)
    siit.ip(siit.translator, "route", "add", kind, way[3] + ("/128" if ":" in way[3] else "/32"))
    # A datagram of the wait before may come late.
    there.until(siit, None)
    siit.ip(siit.translator, "route", "del", kind, way[3] + ("/128" if ":" in way[3] else "/32"))
    there.until(siit, DIRECT)


def test_forwarding_is_switched_off(siit: SiitNetwork, probe) -> None:
    """IPv4 asks the interface from which a packet comes; IPv6 as a whole, and a single one is passed on by the kernel."""
    siit.siit()
    there, back = probe(TO_IPV6), probe(TO_IPV4)
    there.until(siit, DIRECT)
    back.until(siit, DIRECT)
    siit.sysctl(siit.translator, "net.ipv4.conf.b6.forwarding", "0")
    # A datagram of the wait before may come late.
    back.until(siit, None)
    assert there.goes() == DIRECT
    siit.sysctl(siit.translator, "net.ipv4.conf.b6.forwarding", "1")
    siit.sysctl(siit.translator, "net.ipv6.conf.b4.forwarding", "0")
    back.until(siit, DIRECT)
    there.until(siit, FORWARDED)


def test_an_exit_that_is_not_the_translator_s(siit: SiitNetwork, probe) -> None:
    """Rules of others between other interfaces hold."""
    siit.config.write_text(CONFIG.replace("pref64", 'placement = "direct"\ninterfaces = ["b4"]\npref64'))
    siit.sysctl(siit.translator, "net.ipv4.conf.all.forwarding", "1")
    siit.siit()
    there = probe(TO_IPV6)
    assert [there.goes() for _ in range(3)] == [FORWARDED] * 3
    assert siit.counters()["fast.sent_direct"] == 0


def embedded(v4: str) -> str:
    """Its IPv6 address in the prefix."""
    return PREF64.replace("::/96", "::" + v4)


def test_sources_that_cannot_be(siit: SiitNetwork) -> None:
    """One of the router's own is dropped by the kernel; one that lies elsewhere is the reverse-path filter's to judge."""
    siit.siit()
    neighbour = Probe(siit, TO_IPV4)
    neighbour.until(siit, DIRECT)
    neighbour.close()
    siit.ip(siit.v6, "address", "add", f"{TRANSLATOR4_IN_IPV6}/128", "dev", "lo")
    siit.ip(siit.v6, "address", "add", f"{embedded('192.88.1.1')}/128", "dev", "lo")
    for source, expected in ((TRANSLATOR4_IN_IPV6, None), (embedded("192.88.1.1"), FORWARDED)):
        back = Probe(siit, ("v6", source, V4_IN_IPV6, V4, "v4"))
        assert [back.goes() for _ in range(3)] == [expected] * 3
        back.close()
    siit.sysctl(siit.translator, "net.ipv4.conf.b6.rp_filter", "2")
    back = Probe(siit, ("v6", embedded("192.88.1.1"), V4_IN_IPV6, V4, "v4"))
    assert back.goes() is None
    back.close()


@BOTH
def test_one_interface_for_both_families(siit: SiitNetwork, probe, way) -> None:
    """A router with one arm: out where it came in."""
    six, link = "2001:db8:9::2", "2001:db8:9::1"
    siit.ip(siit.translator, "address", "add", f"{link}/64", "dev", "b4", "nodad")
    siit.ip(siit.v4, "address", "add", f"{six}/64", "dev", "a0", "nodad")
    siit.ip(siit.v4, "route", "add", PREF64, "via", link)
    siit.configure(CONFIG.replace("[siit]", f'[[eam]]\nv4 = "192.0.2.9"\nv6 = "{six}"\n\n[siit]'))
    siit.siit()
    there = probe({TO_IPV6: ("v4", V4, "192.0.2.9", six, "v4"), TO_IPV4: ("v4", six, V4_IN_IPV6, V4, "v4")}[way])
    there.until(siit, DIRECT)


def test_an_ipv6_router_for_ipv4(siit: SiitNetwork, probe) -> None:
    """The next hop of an IPv4 route may be of the other family (RFC 5549)."""
    siit.siit()
    link_local = next(a["local"] for a in siit.ip_json(siit.v4, "-6", "address", "show", "a0", "scope", "link")[0]["addr_info"])
    siit.run(siit.translator, "ip", "route", "add", f"{V4}/32", "via", "inet6", link_local, "dev", "b4")
    siit.run(siit.translator, "ip", "-4", "neigh", "flush", "all")
    back = probe(TO_IPV4)
    back.until(siit, DIRECT)
    assert V4 not in siit.run(siit.translator, "ip", "-4", "neigh", "show").stdout


@pytest.mark.parametrize("hook", HOOKS)
def test_an_interface_comes_again(siit: SiitNetwork, hook: str) -> None:
    """With another index: packets are translated there as before, and sent out of it."""
    siit.configure(CONFIG.replace("pref64", f'hook = "{hook}"\npref64'))
    running = siit.siit()
    for turn in (1, 2):
        siit.ip(siit.translator, "link", "del", "b4")
        siit.host("ip", "link", "add", "a0", "netns", siit.v4, "type", "veth", "peer", "b4", "netns", siit.translator)
        siit.until(lambda turn=turn: running.log().count("b4 is back") == turn)
        for name, link, address in ((siit.v4, "a0", V4), (siit.translator, "b4", TRANSLATOR4)):
            siit.run(name, "ip", "address", "add", f"{address}/24", "dev", link)
            siit.run(name, "ip", "link", "set", link, "up")
        siit.run(siit.v4, "ip", "route", "add", "default", "via", TRANSLATOR4)
        for family in ("ipv4", "ipv6"):
            siit.sysctl(siit.translator, f"net.{family}.conf.b4.forwarding", "1")
        for way in (TO_IPV6, TO_IPV4):
            there = Probe(siit, way)
            there.until(siit, DIRECT)
            there.close()
    assert running.stop() == 0
    assert siit.run(siit.translator, "tc", "filter", "show", "dev", "b4", "ingress").stdout == ""
