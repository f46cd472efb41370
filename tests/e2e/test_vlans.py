# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets with VLAN tags. VLAN 0 is a priority and no network: such packets are translated as any other, and the tag ends at
the translator. Packets of a VLAN, and of a VLAN in a VLAN, are not for the interface on which they come."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import BOUND, Nat64Network
from network import SERVER4, SERVER_SYNTHESIZED, Network, create_socket
from pref64 import OTHER, OWN, Option, Pref64Network
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_clat_offloads import ETH_P_ALL, NOT_NEUTRAL6, PACKET_AUXDATA, SOL_PACKET, machine
from test_clat_pref64 import started
from test_clat_traffic import UDP_ASK as ASK_SERVER
from test_clat_traffic import UDP_ECHO as SERVER_ECHO
from test_clat_traffic import server
from test_siit_traffic import UDP_ASK, UDP_ECHO, listen

TAGGED = Path(__file__).parent / "tagged.bpf.c"
# linux/if_packet.h
TP_STATUS_VLAN_VALID, PACKET_OUTGOING = 16, 4
# Tag control information from the inner tag to the outer one: priority 5, or 3, and the VLAN.
PRIORITY, STACKED_PRIORITIES = (0xA000,), (0x6000, 0xA000)
VLAN, VLAN_IN_VLAN, VLAN_IN_PRIORITY = (0xA005,), (0x6006, 0xA005), (0x6006, 0xA000)

PRIORITIES = pytest.mark.parametrize("tags", [PRIORITY, STACKED_PRIORITIES], ids=["one", "stacked"])
VLANS = pytest.mark.parametrize(
    "tags", [VLAN, VLAN_IN_VLAN, VLAN_IN_PRIORITY], ids=["vlan", "vlan-in-vlan", "vlan-in-priority"]
)
# Fragments, too: 20000 bytes.
SIZES = ("1", "1000", "20000")


def attach(net: Network, name: str, link: str, side: str, section: str, tags: tuple[int, ...]) -> None:
    """Have a program of tagged.bpf.c at a link, behind the translator's."""
    program = net.scratch / f"{name}-{link}-{section}.o"
    macros = (f"-DINNER={tags[0] if len(tags) > 1 else 'NONE'}", f"-DOUTER={tags[-1]}")
    include = f"-I/usr/include/{machine()}"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", *macros, include, "-c", TAGGED, "-o", program], check=True)
    net.run(name, "tc", "qdisc", "add", "dev", link, "clsact", check=False)
    net.run(name, "tc", "filter", "add", "dev", link, side, "prio", "60000",
            "bpf", "direct-action", "object-file", str(program), "section", f"classifier/{section}")  # fmt: skip


class Tap:
    """Everything that comes on a link, with what the kernel says about its tags."""

    def __init__(self, name: str, link: str) -> None:
        self.socket = create_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.bind((link, ETH_P_ALL))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setblocking(False)

    def tags(self) -> list[bool]:
        """Of each packet that has come, whether it has a tag."""
        found = []
        with self.socket:
            while True:
                try:
                    frame, told, _, address = self.socket.recvmsg(64, 64)
                except BlockingIOError:
                    return found
                status = struct.unpack_from("I", next(data for level, kind, data in told if kind == PACKET_AUXDATA))[0]
                if address[2] != PACKET_OUTGOING:
                    found.append(bool(status & TP_STATUS_VLAN_VALID) or frame[12:14] in (b"\x81\x00", b"\x88\xa8"))


def dropped_behind(net: Network, name: str, link: str) -> int:
    """Packets that the program `drop` has dropped at a link."""
    text = net.run(name, "tc", "-s", "qdisc", "show", "dev", link).stdout
    return int(re.search(r"clsact.*?\(dropped (\d+)", text, re.DOTALL)[1])


@PRIORITIES
@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_priorities_at_a_siit(siit: SiitNetwork, tags: tuple[int, ...]) -> None:
    """Both hosts tag what they send. Fragments take the slow path, and nothing leaves with a tag."""
    if len(tags) > 1:
        siit.offload("txvlan", "tx-vlan-stag-hw-insert")
    siit.siit()
    listen(siit, siit.v6, UDP_ECHO, V6)
    assert siit.script(siit.v4, UDP_ASK, V4, V6_MAPPED, "1").strip() == "all"
    for name in (siit.v4, siit.v6):
        attach(siit, name, "a0", "egress", "push", tags)
    taps = [Tap(name, "a0") for name in (siit.v4, siit.v6)]
    assert siit.script(siit.v4, UDP_ASK, V4, V6_MAPPED, *SIZES).strip() == "all"
    assert "3 received" in siit.run(siit.v6, "ping", "-c3", "-i0.2", "-W2", V4_IN_IPV6).stdout
    for tap in taps:
        seen = tap.tags()
        assert len(seen) > 6
        assert not any(seen)
    counters = siit.counters()
    assert {name: n for name, n in counters.items() if ".drop." in name and n} == {}
    if siit.datapath in ("direct", "xdp"):
        assert counters["fast.sent_direct"] > 6


@PRIORITIES
@pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)
def test_priorities_at_a_nat64(nat64: Nat64Network, tags: tuple[int, ...]) -> None:
    """The same with sessions."""
    if len(tags) > 1:
        nat64.offload("txvlan", "tx-vlan-stag-hw-insert")
    nat64.nat64()
    nat64.bind("add", "udp", f"{BOUND}:4000", f"[{V6}]:4000")
    listen(nat64, nat64.v6, UDP_ECHO, V6)
    listen(nat64, nat64.v4, UDP_ECHO, V4)
    for name in (nat64.v4, nat64.v6):
        attach(nat64, name, "a0", "egress", "push", tags)
    taps = [Tap(name, "a0") for name in (nat64.v4, nat64.v6)]
    assert nat64.script(nat64.v4, UDP_ASK, V4, BOUND, *SIZES).strip() == "all"
    assert nat64.script(nat64.v6, UDP_ASK, V6, V4_IN_IPV6, *SIZES).strip() == "all"
    assert "3 received" in nat64.run(nat64.v6, "ping", "-c3", "-i0.2", "-W2", V4_IN_IPV6).stdout
    for tap in taps:
        seen = tap.tags()
        assert len(seen) > 6
        assert not any(seen)
    assert nat64.drops() == {}


@PRIORITIES
def test_priorities_at_a_clat(net: Network, datapath: str, tags: tuple[int, ...]) -> None:
    """The router tags what comes from the uplink: plain packets, fragments, and errors of routers on the way."""
    net.clat(datapath, "--v6", NOT_NEUTRAL6)
    server(net, SERVER_ECHO, SERVER_SYNTHESIZED, "4000")
    assert net.ping("-c1").returncode == 0
    attach(net, net.router, "down0", "egress", "push", tags)
    assert net.run(net.client, sys.executable, "-c", ASK_SERVER, SERVER4, "4000", *SIZES).stdout == "all\n"
    assert "3 received" in net.ping("-c3").stdout
    assert "Time to live exceeded" in net.ping("-c1", "-t2").stdout
    counters = net.counters()
    assert {name: n for name, n in counters.items() if ".drop." in name and n} == {}
    if datapath != "tun":
        # The router's error comes from no address of the prefix.
        assert counters["fast.decline_fragment"] > 0 < counters["fast.decline_address"]


@VLANS
@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_vlans_at_a_siit(siit: SiitNetwork, tags: tuple[int, ...]) -> None:
    """No program translates them, and whoever comes behind finds them with their tags."""
    siit.siit()
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout
    before = siit.counters()
    for name, link, to in ((siit.v4, "b4", V6_MAPPED), (siit.v6, "b6", V4_IN_IPV6)):
        attach(siit, name, "a0", "egress", "push", tags)
        attach(siit, siit.translator, link, "ingress", "drop", tags)
        assert "0 received" in siit.run(name, "ping", "-c3", "-i0.2", "-W0.2", to, check=False).stdout
        assert dropped_behind(siit, siit.translator, link) >= 3
    assert siit.counters() == before


@VLANS
def test_vlans_at_a_clat(net: Network, datapath: str, tags: tuple[int, ...]) -> None:
    """The same at the uplink."""
    net.clat(datapath, "--v6", NOT_NEUTRAL6)
    assert net.ping("-c1").returncode == 0
    before = net.counters()
    attach(net, net.router, "down0", "egress", "push", tags)
    attach(net, net.client, "wan0", "ingress", "drop", tags)
    assert "0 received" in net.ping("-c3", "-W0.2").stdout
    assert dropped_behind(net, net.client, "wan0") >= 3
    after = net.counters()
    sent = {f"{path}.translated_4to6" for path in ("fast", "slow")}
    assert {name for name in after if after[name] != before[name]} <= sent


@pytest.mark.parametrize("is_in_it", [False, True], ids=["unknown", "known"])
def test_routers_of_a_vlan_are_not_believed(pref64: Pref64Network, is_in_it: bool) -> None:
    """Their prefix is that of another network, whether this host is in it or not."""
    if is_in_it and not pref64.has_vlan(pref64.client, "wan0", 5):
        pytest.skip("this kernel has no VLANs")
    started(pref64, ready=False)
    pref64.until(lambda: pref64.counters()["pref64.solicitations"] >= 1)
    attach(pref64, pref64.router, "down0", "egress", "push", VLAN)
    pref64.advertise(Option(OTHER))
    pref64.run(pref64.router, "tc", "qdisc", "del", "dev", "down0", "clsact")
    pref64.advertise(Option(OWN))
    pref64.until(lambda: pref64.in_force() is not None)
    assert [row["prefix"] for row in pref64.prefixes()] == [OWN]
    assert pref64.counters()["pref64.advertisements"] == 1
