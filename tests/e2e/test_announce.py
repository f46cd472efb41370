# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Neighbours without routes: the translator answers ARP, neighbour solicitations and echo for the addresses that it serves
(RFC 826, RFC 5227, RFC 4861, RFC 4862). The bytes of its answers are the business of `crates/router/tests/answers`."""

from __future__ import annotations

import signal
import socket
import time

import pytest
from nat64 import TRANSLATOR, V6_OTHER, Nat64Network, ask
from network import Running, create_socket
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet
from siit import PREF64, TRANSLATOR4, V4, V4_IN_IPV6, V6, SiitNetwork

ETH_P_ALL = 3
PLACES = ["tc", "clsact", "inline", "direct"]
# On the link of the IPv4 host, as is everything here.
POOL, FIRST, SECOND = "198.51.100.8/29", "198.51.100.8", "198.51.100.9"
MAPPED, OWN = "198.51.100.16", "198.51.100.17"

NAT64 = f"""{TRANSLATOR}
[[nat64.pool4]]
address = "{POOL}"

[[announce]]
interface = "b4"
duplicate_detection = false

[[announce]]
interface = "b6"
addresses = ["{PREF64}"]
"""
SIIT = f"""
[translator]
mode = "siit"
pref64 = ["{PREF64}"]

[[eam]]
v4 = "{MAPPED}"
v6 = "{V6}"

[siit]
routes4 = ["{MAPPED}/31"]

[[announce]]
interface = "b4"
addresses = ["{MAPPED}/31"]
echo = ["{OWN}"]
duplicate_detection = false

[[announce]]
interface = "b6"
addresses = ["{V4_IN_IPV6}"]
duplicate_detection = false
"""


def unroute(net: SiitNetwork) -> None:
    """Leave the two hosts nothing but their links, of which the translation prefix is one, too."""
    net.run(net.v4, "ip", "route", "del", "default")
    net.run(net.v6, "ip", "-6", "route", "del", "default")
    net.run(net.v6, "ip", "-6", "route", "add", PREF64, "dev", "a0")


def mac(net: SiitNetwork, name: str, link: str) -> str:
    """A link-layer address."""
    return net.ip_json(name, "link", "show", link)[0]["address"]


def answering(net: SiitNetwork, running: Running, *addresses: str) -> None:
    """Wait until all of these are answered for."""
    net.until(lambda: all(f"answering for {address}\n" in running.log() for address in addresses))


def ping(net: SiitNetwork, name: str, to: str) -> bool:
    """Whether a ping is answered."""
    return net.run(name, "ping", "-c1", "-W3", to, check=False).returncode == 0


class Tap:
    """Sends frames on a host's link and hears those that come."""

    def __init__(self, net: SiitNetwork, name: str, link: str = "a0") -> None:
        self.mac = mac(net, name, link)
        self.socket = create_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.bind((link, ETH_P_ALL))
        self.socket.settimeout(0.1)

    def send(self, frame: Packet) -> None:
        """Send a frame as it is."""
        self.socket.send(bytes(frame))

    def hear(self, pick, patience: float = 10) -> Packet:
        """The first frame that is picked and that this host has not sent."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            try:
                frame = Ether(self.socket.recv(65535))
            except TimeoutError:
                continue
            if frame.src != self.mac and pick(frame):
                return frame
        raise AssertionError("nothing was heard")


@pytest.mark.parametrize("nat64", PLACES, indirect=True)
def test_nodes_reach_ipv4_through_a_nat64_without_any_route(nat64: Nat64Network) -> None:
    """The pool is on the link of the IPv4 host, and the translation prefix on that of the IPv6 host."""
    unroute(nat64)
    assert not ping(nat64, nat64.v6, V4_IN_IPV6)
    running = nat64.nat64(NAT64)
    answering(nat64, running, FIRST, SECOND, PREF64)
    assert ping(nat64, nat64.v6, V4_IN_IPV6)
    server = nat64.socket(V4, 7007)
    for port, node in ((5001, V6), (5002, V6_OTHER)):
        peer, _ = ask(nat64.socket(node, port), (V4_IN_IPV6, 7007), server)
        assert peer in {f"198.51.100.{n}" for n in range(8, 16)}
    listener = nat64.listener(V4, 8080)
    connection = nat64.connect(V6, (V4_IN_IPV6, 8080))
    accepted, _ = listener.accept()
    accepted.sendall(b"hello")
    assert connection.recv(5) == b"hello"
    counters = nat64.counters()
    assert counters["answer.arp"] >= 1 and counters["answer.neighbour"] >= 1
    assert counters["announce.conflicts"] == 0 and counters["answer.failed"] == 0
    assert counters["announce.announcements"] >= 8 and counters["announce.probes"] == 0


@pytest.mark.parametrize("siit", PLACES, indirect=True)
def test_nodes_reach_each_other_through_a_siit_without_any_route(siit: SiitNetwork) -> None:
    """An address of a node is the node's to answer echo for, and an address of the translator's own is its own."""
    unroute(siit)
    siit.configure(SIIT)
    answering(siit, siit.siit(), MAPPED, OWN, V4_IN_IPV6)
    assert ping(siit, siit.v4, MAPPED)
    assert siit.counters()["answer.echo4"] == 0
    assert ping(siit, siit.v4, OWN)
    assert siit.counters()["answer.echo4"] == 1
    assert ping(siit, siit.v6, V4_IN_IPV6)


def test_what_is_answered_and_what_is_not(siit: SiitNetwork) -> None:
    """Tags with VLAN 0 are no VLAN. Nothing is answered for other addresses, or by other interfaces."""
    siit.configure(SIIT)
    answering(siit, siit.siit(), MAPPED, OWN, V4_IN_IPV6)
    tap, ours = Tap(siit, siit.v4), mac(siit, siit.translator, "b4")
    ether = Ether(dst="ff:ff:ff:ff:ff:ff", src=tap.mac)

    def request(about: str, sender: str = V4) -> ARP:
        return ARP(op=1, hwsrc=tap.mac, psrc=sender, hwdst="00:00:00:00:00:00", pdst=about)

    def is_reply(frame: Packet, about: str) -> bool:
        return ARP in frame and frame[ARP].op == 2 and frame[ARP].psrc == about

    # Those that have no answer go first; each question after them has one.
    for unanswered in (
        ether / Dot1Q(vlan=5) / request(MAPPED),
        ether / request(V4_OTHER := "198.51.100.18"),
        ether / request(MAPPED, sender=OWN),
    ):
        tap.send(unanswered)
    tap.send(ether / Dot1Q(vlan=0, prio=5) / request(MAPPED))
    reply = tap.hear(lambda frame: ARP in frame and frame[ARP].op == 2)
    assert is_reply(reply, MAPPED) and Dot1Q not in reply and len(reply) == 42
    assert (reply.src, reply.dst, reply[ARP].hwsrc, reply[ARP].pdst) == (ours, tap.mac, ours, V4)
    tap.send(ether / request(OWN, sender="0.0.0.0"))
    assert is_reply(tap.hear(lambda frame: ARP in frame and frame[ARP].op == 2), OWN)
    # Of the kernel: it knows its own, and nobody else's.
    tap.send(ether / request(V4_OTHER))
    tap.send(ether / request(TRANSLATOR4))
    assert is_reply(tap.hear(lambda frame: ARP in frame and frame[ARP].op == 2), TRANSLATOR4)

    tap6, ours6 = Tap(siit, siit.v6), mac(siit, siit.translator, "b6")
    group, group_mac = "ff02::1:ff33:6402", "33:33:ff:33:64:02"
    probe = Ether(dst=group_mac, src=tap6.mac) / IPv6(src="::", dst=group, hlim=255) / ICMPv6ND_NS(tgt=V4_IN_IPV6)
    tap6.send(probe)
    told = tap6.hear(lambda frame: ICMPv6ND_NA in frame and frame[ICMPv6ND_NA].tgt == V4_IN_IPV6 and frame.dst != tap6.mac)
    assert (told.src, told[IPv6].dst, told[ICMPv6ND_NA].S, told[ICMPv6ND_NA].O) == (ours6, "ff02::1", 0, 1)
    asked = Ether(dst=group_mac, src=tap6.mac) / IPv6(src=V6, dst=group, hlim=255) / ICMPv6ND_NS(tgt=V4_IN_IPV6)
    tap6.send(asked / ICMPv6NDOptSrcLLAddr(lladdr=tap6.mac))
    told = tap6.hear(lambda frame: ICMPv6ND_NA in frame and frame[ICMPv6ND_NA].S == 1)
    assert (told.dst, told[IPv6].dst, told[ICMPv6NDOptDstLLAddr].lladdr) == (tap6.mac, V6, ours6)
    counters = siit.counters()
    assert counters["answer.decline_conflict"] == 1 and counters["announce.conflicts"] == 1
    assert counters["answer.duplicate"] == 1


def test_an_address_that_another_has_is_left_to_it(nat64: Nat64Network) -> None:
    """RFC 5227 section 2.1.1: all of the pool but that address are answered for, and the log names who has it."""
    nat64.run(nat64.v4, "ip", "address", "add", f"{SECOND}/24", "dev", "a0")
    unroute(nat64)
    running = nat64.nat64(NAT64.replace("duplicate_detection = false\n", ""))
    answering(nat64, running, FIRST, "198.51.100.15")
    said = [line for line in running.log().splitlines() if f"has {SECOND}, too" in line]
    assert said and mac(nat64, nat64.v4, "a0") in said[0] and "does not answer for it" in said[0]
    assert f"answering for {SECOND}\n" not in running.log()
    counters = nat64.counters()
    # It is tried again after seconds.
    assert counters["announce.conflicts"] >= 1 and counters["announce.probes"] >= 8 * 3 - 2
    assert counters["announce.defences"] == 0


def test_a_router_whose_addresses_another_has_is_not_ready(nat64: Nat64Network) -> None:
    """Their packets go to the other node. Whoever decides by the status which router nodes use must not choose this one."""

    def obstacles() -> list[tuple[str, str]]:
        found = nat64.status(nat64.translator)["findings"]
        return [(its["reason"], its["text"]) for its in found if its["kind"] == "obstacle"]

    nat64.run(nat64.v4, "ip", "address", "add", f"{SECOND}/24", "dev", "a0")
    unroute(nat64)
    running = nat64.nat64(NAT64.replace("duplicate_detection = false\n", ""))
    # First of all addresses, then of one, that it may not have them.
    said = f"b4: another node answers for {SECOND} of this translator"
    nat64.until(lambda: [(reason, text[: len(said)]) for reason, text in obstacles()] == [("unannounced", said)])
    assert nat64.status(nat64.translator)["state"] == "waiting"
    nat64.run(nat64.v4, "ip", "address", "del", f"{SECOND}/24", "dev", "a0")
    # It stays so while the address is tried again, at longer and longer intervals, and ends when it is held.
    nat64.until(lambda: f"answering for {SECOND}\n" in running.log(), 60)
    nat64.until(lambda: obstacles() == [])


def test_an_address_that_is_claimed_later_is_defended_once(siit: SiitNetwork) -> None:
    """RFC 5227 section 2.4: one announcement within ten seconds, however often another claims the address."""
    siit.configure(SIIT)
    running = siit.siit()
    answering(siit, running, MAPPED, OWN, V4_IN_IPV6)
    siit.until(lambda: siit.counters()["announce.announcements"] == 2 * 2 + 3)
    tap, ours = Tap(siit, siit.v4), mac(siit, siit.translator, "b4")
    claim = Ether(dst="ff:ff:ff:ff:ff:ff", src=tap.mac) / ARP(op=1, hwsrc=tap.mac, psrc=MAPPED, pdst=MAPPED)
    tap.send(claim)
    tap.send(claim)
    defence = tap.hear(lambda frame: ARP in frame and frame[ARP].psrc == MAPPED)
    assert (defence.src, defence.dst, defence[ARP].op, defence[ARP].pdst) == (ours, "ff:ff:ff:ff:ff:ff", 1, MAPPED)
    siit.until(lambda: siit.counters()["announce.conflicts"] == 2)
    assert siit.counters()["announce.defences"] == 1
    said = [line for line in running.log().splitlines() if f"{tap.mac} has {MAPPED}, too" in line]
    assert len(said) == 1 and "keeps answering" in said[0]


@pytest.mark.parametrize("is_in_it", [False, True], ids=["unknown", "known"])
def test_what_is_claimed_in_a_vlan_is_no_conflict(siit: SiitNetwork, is_in_it: bool) -> None:
    """A VLAN is a network of its own, whether this host is in it or not."""
    if is_in_it and not siit.has_vlan(siit.translator, "b4", 5):
        pytest.skip("this kernel has no VLANs")
    siit.configure(SIIT)
    answering(siit, siit.siit(), MAPPED, OWN, V4_IN_IPV6)
    tap = Tap(siit, siit.v4)
    ether = Ether(dst="ff:ff:ff:ff:ff:ff", src=tap.mac)
    tap.send(ether / Dot1Q(vlan=5) / ARP(op=1, hwsrc=tap.mac, psrc=MAPPED, pdst=MAPPED))
    tap.send(ether / ARP(op=1, hwsrc=tap.mac, psrc=OWN, pdst=OWN))
    defence = tap.hear(lambda frame: ARP in frame and frame[ARP].op == 1 and siit.counters()["announce.defences"] > 0)
    assert defence[ARP].psrc in (MAPPED, OWN)
    counters = siit.counters()
    assert (counters["announce.conflicts"], counters["announce.defences"]) == (1, 1)


def test_an_interface_that_comes_up_late(siit: SiitNetwork) -> None:
    """What cannot be said while it is down keeps no address from being answered for later."""
    siit.run(siit.translator, "ip", "link", "set", "b4", "down")
    siit.configure(SIIT)
    running = siit.siit()
    siit.until(lambda: "b4: cannot receive from neighbours now" in running.log())
    siit.run(siit.translator, "ip", "link", "set", "b4", "up")
    answering(siit, running, MAPPED, OWN, V4_IN_IPV6)
    tap = Tap(siit, siit.v4)
    for address in (MAPPED, OWN):
        tap.send(Ether(dst="ff:ff:ff:ff:ff:ff", src=tap.mac) / ARP(op=1, hwsrc=tap.mac, psrc=V4, pdst=address))
        tap.hear(lambda frame, address=address: ARP in frame and frame[ARP].op == 2 and frame[ARP].psrc == address)


def test_nobody_is_asked_without_a_link(siit: SiitNetwork) -> None:
    """RFC 4862 section 5.4: the address of a neighbour whose link comes up late is left to it."""
    siit.sysctl(siit.v6, "net.ipv6.conf.a0.keep_addr_on_down", "1")
    siit.ip(siit.v6, "address", "add", f"{V4_IN_IPV6}/128", "dev", "a0", "nodad")
    siit.run(siit.v6, "ip", "link", "set", "a0", "down")
    siit.configure(SIIT.replace("duplicate_detection = false\n", ""))
    running = siit.siit()
    answering(siit, running, MAPPED, OWN)
    siit.run(siit.v6, "ip", "link", "set", "a0", "up")
    siit.until(lambda: f"has {V4_IN_IPV6}, too: diolkos does not answer for it" in running.log())
    assert f"answering for {V4_IN_IPV6}\n" not in running.log()


def test_a_reload_changes_what_is_answered_for(siit: SiitNetwork) -> None:
    """What stays is not tried out again; what is gone is not answered for."""
    siit.configure(SIIT)
    running = siit.siit()
    answering(siit, running, MAPPED, OWN, V4_IN_IPV6)
    assert siit.reload(SIIT.replace(f'addresses = ["{MAPPED}/31"]', f'addresses = ["{OWN}"]')) == (0, "")
    assert ping(siit, siit.v4, OWN)
    assert not ping(siit, siit.v4, MAPPED)
    assert siit.reload(SIIT[: SIIT.index("[[announce]]")]) == (0, "")
    assert not any(name.startswith("answer.") for name in siit.counters())
    assert siit.reload(SIIT) == (0, "")
    siit.until(lambda: ping(siit, siit.v4, MAPPED))


def test_an_interface_with_another_address_announces_it(siit: SiitNetwork) -> None:
    """Neighbours learn the new link-layer address (RFC 4861 section 7.2.6)."""
    siit.configure(SIIT)
    answering(siit, siit.siit(), MAPPED, OWN, V4_IN_IPV6)
    tap = Tap(siit, siit.v4)
    siit.run(siit.translator, "ip", "link", "set", "b4", "address", "02:00:00:00:00:77")
    told = tap.hear(lambda frame: ARP in frame and frame[ARP].psrc == MAPPED and frame[ARP].hwsrc == "02:00:00:00:00:77")
    assert told[ARP].pdst == MAPPED
    assert ping(siit, siit.v4, MAPPED)


def test_a_link_that_comes_back_is_told_again(siit: SiitNetwork) -> None:
    """There may be other neighbours behind it."""
    siit.configure(SIIT)
    answering(siit, siit.siit(), MAPPED, OWN, V4_IN_IPV6)
    siit.until(lambda: siit.counters()["announce.announcements"] == 2 * 2 + 3)
    siit.run(siit.v4, "ip", "link", "set", "a0", "down")
    siit.until(lambda: "LOWER_UP" not in siit.ip_json(siit.translator, "link", "show", "b4")[0]["flags"])
    siit.run(siit.v4, "ip", "link", "set", "a0", "up")
    siit.until(lambda: siit.counters()["announce.announcements"] == 2 * 2 * 2 + 3)
    assert ping(siit, siit.v4, MAPPED)


@pytest.mark.parametrize("nat64", ["tc", "clsact"], indirect=True)
def test_answers_stay_with_the_sessions(nat64: Nat64Network) -> None:
    """A NAT64 with a state file goes on in the kernel when it ends, and neighbours that forget are told still."""
    unroute(nat64)
    text = NAT64.replace("[[nat64", f'[nat64]\nstate = "{nat64.scratch}/state"\n\n[[nat64', 1)
    running = nat64.nat64(text)
    answering(nat64, running, FIRST, PREF64)
    server, node = nat64.socket(V4, 7007), nat64.socket(V6, 5001)
    peer = ask(node, (V4_IN_IPV6, 7007), server)
    running.stop(signal.SIGKILL)
    for name in (nat64.v4, nat64.v6):
        nat64.run(name, "ip", "neighbour", "flush", "all")
    assert ask(node, (V4_IN_IPV6, 7007), server) == peer
    again = nat64.nat64(text)
    answering(nat64, again, FIRST, PREF64)
    assert ask(node, (V4_IN_IPV6, 7007), server) == peer
    assert nat64.diolkos("stop")[0] == 0
    nat64.until(lambda: not ping(nat64, nat64.v6, V4_IN_IPV6))
    assert "clsact" not in nat64.run(nat64.translator, "tc", "qdisc", "show", "dev", "b4").stdout


def test_nothing_is_left(siit: SiitNetwork) -> None:
    """Groups, programs and queueing disciplines are as before."""

    def found() -> tuple[str, ...]:
        groups = siit.run(siit.translator, "ip", "maddress", "show", "dev", "b6").stdout
        return groups, *(siit.run(siit.translator, "tc", "qdisc", "show", "dev", link).stdout for link in ("b4", "b6"))

    before = found()
    siit.configure(SIIT.replace("[translator]\n", '[translator]\nhook = "clsact"\n'))
    running = siit.siit()
    answering(siit, running, MAPPED, OWN, V4_IN_IPV6)
    during = found()
    assert "ff02::1:ff33:6402" in during[0] and all("clsact" in qdisc for qdisc in during[1:])
    assert running.stop() == 0
    siit.until(lambda: found() == before)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('"b4"', '"lo"'), 'announce[0].interface: "lo" has no Ethernet header'),
        ((f'"{MAPPED}/31"', f'"{MAPPED}/31", "{TRANSLATOR4}"'), f"announce[0].addresses: {TRANSLATOR4} is an address of this"),
        (('"b4"', '"b9"'), "there is no network interface `b9`"),
    ],
)
def test_what_this_host_contradicts_is_refused(siit: SiitNetwork, change: tuple[str, str], expected: str) -> None:
    """In a sentence, and before anything is changed."""
    text = SIIT.replace(*change).replace(f'routes4 = ["{MAPPED}/31"]', 'routes4 = ["198.51.100.0/24"]')
    siit.configure(text)
    running = siit.siit(ready=False)
    assert running.wait() in (1, 2)
    assert expected in running.log()
    assert siit.leftovers() == []
