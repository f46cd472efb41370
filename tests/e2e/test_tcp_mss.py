# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TCP over a link that is narrower than both hosts know, while the sender hears no ICMP error: `translator.tcp_mss`.

A link of the translator carries 1400 bytes and the hosts' links 9000, so that both announce segments that are too long for it.
The hosts drop what the translator says of that. What the translator sends has a whole checksum, which the hosts verify.
"""

from __future__ import annotations

import contextlib
import json
import socket

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import BOUND, CONFIG, Nat64Network
from network import SERVER4, SERVER_SYNTHESIZED, Network, create_socket
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from siit import CONFIG as SIIT_CONFIG
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork

NARROW = 1400
# Headers of IPv6 and TCP.
HEADERS = 60
MIB = 1 << 20

DEAF = """
table inet deaf {
    counter unheard { }
    chain in {
        type filter hook input priority 0;
        icmp type { destination-unreachable, time-exceeded, parameter-problem } counter name unheard drop
        icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } counter name unheard drop
    }
}
"""


def deafen(net: Network, *names: str) -> None:
    """Have hosts drop every ICMP error."""
    for name in names:
        net.run(name, "nft", "-f", "-", input=DEAF)


def unheard(net: Network, name: str) -> int:
    """How many of them a host has dropped."""
    shown = json.loads(net.run(name, "nft", "-j", "list", "counters").stdout)
    return sum(entry["counter"]["packets"] for entry in shown["nftables"] if "counter" in entry)


def squeeze(net: SiitNetwork, link: str) -> None:
    """Make a link of the translator narrow, towards a host that does not know it."""
    net.ip(net.translator, "link", "set", link, "mtu", str(NARROW))
    for each in ("b4", "b6"):
        net.run(net.translator, "ethtool", "-K", each, "tx", "off")
    deafen(net, net.v4, net.v6)


def with_mss(text: str, mss: str | int) -> str:
    """A configuration with the key."""
    return text.replace("[translator]\n", f"[translator]\ntcp_mss = {json.dumps(mss)}\n")


def connected(net: Network, client: tuple[str, str], to: str, server: tuple[str, str]) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection. client, server: namespace and address."""
    sockets = []
    for name, address in (server, client):
        sock = create_socket(name, socket.AF_INET6 if ":" in address else socket.AF_INET)
        sock.settimeout(30)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, 4000 if not sockets else 0))
        sockets.append(sock)
    listener, asking = sockets
    listener.listen(1)
    asking.connect((to, 4000))
    answering, _ = listener.accept()
    listener.close()
    answering.settimeout(30)
    return asking, answering


def carries(sender: socket.socket, receiver: socket.socket, most: int) -> None:
    """A mebibyte arrives, in segments of at most so many bytes."""
    assert sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= most
    data, got = bytes(range(256)) * (MIB // 256), b""
    sender.settimeout(0)
    receiver.settimeout(30)
    sent = 0
    while len(got) < MIB:
        with contextlib.suppress(BlockingIOError):
            sent += sender.send(data[sent:])
        got += receiver.recv(MIB)
    assert got == data


def stalls(net: Network, sender: socket.socket, receiver: socket.socket, name: str) -> None:
    """The translator, or its kernel, says again and again that it is too much, and nothing arrives."""
    sender.settimeout(0)
    sender.send(bytes(100_000))
    before = unheard(net, name)
    net.until(lambda: unheard(net, name) >= before + 3)
    receiver.settimeout(0)
    with pytest.raises(BlockingIOError):
        receiver.recv(1)


def clamped(net: Network) -> int:
    """How many SYNs the translator has lowered, on both paths."""
    counters = net.counters()
    return counters["slow.mss_clamped"] + counters.get("fast.mss_clamped", 0)


@pytest.mark.parametrize("link", ["b4", "b6"])
@pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)
def test_a_nat64_between_links_of_different_mtu(nat64: Nat64Network, link: str) -> None:
    """By default all data passes; without the clamp it stalls. Both ways, and whoever begins."""
    squeeze(nat64, link)
    nat64.nat64()
    nat64.bind("add", "tcp", f"{BOUND}:4000", f"[{V6}]:4000")
    inside, outside = (nat64.v6, V6), (nat64.v4, V4)
    for client, to, server in ((inside, V4_IN_IPV6, outside), (outside, BOUND, inside)):
        before = clamped(nat64)
        asking, answering = connected(nat64, client, to, server)
        # The SYN and its answer.
        assert clamped(nat64) == before + 2
        carries(asking, answering, NARROW - HEADERS)
        carries(answering, asking, NARROW - HEADERS)
        asking.close()
        answering.close()
    assert nat64.drops() == {}

    assert nat64.reload(with_mss(CONFIG, "off"))[0] == 0
    before = clamped(nat64)
    asking, answering = connected(nat64, inside, V4_IN_IPV6, outside)
    towards_v4 = link == "b4"
    sender, receiver = (asking, answering) if towards_v4 else (answering, asking)
    stalls(nat64, sender, receiver, nat64.v6 if towards_v4 else nat64.v4)
    assert clamped(nat64) == before


@pytest.mark.parametrize("link", ["b4", "b6"])
@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_a_siit_between_links_of_different_mtu(siit: SiitNetwork, link: str) -> None:
    """The same without state. With a fast path, it lowers the SYNs itself."""
    squeeze(siit, link)
    assert ", MSS 1340, datapath" in siit.siit().log()
    said = siit.run(siit.translator, str(siit.program), "trace", "--mss", "8000", f"tcp {V4}:5 to {V6_MAPPED}:6").stdout
    assert "mss          the SYN announces 8000 bytes and leaves with 1340 (translator.tcp_mss)\n" in said
    inside, outside = (siit.v6, V6), (siit.v4, V4)
    for client, to, server in ((inside, V4_IN_IPV6, outside), (outside, V6_MAPPED, inside)):
        asking, answering = connected(siit, client, to, server)
        carries(asking, answering, NARROW - HEADERS)
        carries(answering, asking, NARROW - HEADERS)
    counters = siit.counters()
    assert counters[f"{siit.path()}.mss_clamped"] == 4, counters

    assert siit.reload(with_mss(SIIT_CONFIG, "off"))[0] == 0
    asking, answering = connected(siit, outside, V6_MAPPED, inside)
    towards_v4 = link == "b4"
    sender, receiver = (answering, asking) if towards_v4 else (asking, answering)
    stalls(siit, sender, receiver, siit.v6 if towards_v4 else siit.v4)
    assert clamped(siit) == 4


@pytest.mark.parametrize("nat64", ["auto", "direct"], indirect=True)
def test_a_number_for_a_path_that_is_narrow_elsewhere(nat64: Nat64Network) -> None:
    """A route's MTU is not looked at: the operator says what fits. iperf3, both ways."""
    nat64.narrow(1280)
    deafen(nat64, nat64.v4, nat64.v6)
    nat64.nat64(with_mss(CONFIG, 1220))
    for direction in ((), ("--reverse",)):
        server = nat64.start(nat64.v4, "iperf3", "--server", "--one-off", "--bind", V4)
        nat64.until(lambda: ":5201" in nat64.run(nat64.v4, "ss", "-Hltn").stdout)
        client = ("iperf3", "--client", V4_IN_IPV6, "--bytes", "32M", "--json", "--connect-timeout", "20000", *direction)
        done = json.loads(nat64.run(nat64.v6, *client).stdout)
        # It ends when the sender has sent all: the receiver counts what has come by then.
        assert done["end"]["sum_received"]["bytes"] >= MIB, done
        server.wait(20)
    assert nat64.drops() == {}


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_an_option_behind_others_takes_the_slow_path(siit: SiitNetwork) -> None:
    """At an odd byte, with another option in front; its checksum is right. Without the option, none is added."""
    siit.siit()
    tap = create_socket(siit.v4, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    tap.bind(("a0", 0x0800))
    tap.settimeout(20)
    raw = create_socket(siit.v6, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_TCP)
    raw.bind((V6, 0))
    for number, (sent, expected) in enumerate(
        [
            ([("NOP", None), ("MSS", 9100), ("WScale", 7)], 9000 - HEADERS),
            ([("WScale", 7), ("MSS", 1000), ("NOP", None), ("NOP", None)], 1000),
            ([("WScale", 7), ("NOP", None)], None),
        ]
    ):
        segment = IPv6(src=V6, dst=V4_IN_IPV6) / TCP(sport=5000 + number, dport=4000, flags="S", options=sent)
        raw.sendto(bytes(IPv6(bytes(segment)).payload), (V4_IN_IPV6, 0))
        while True:
            got = IP(tap.recv(2000)[14:])
            if got.proto == socket.IPPROTO_TCP and got.sport == 5000 + number:
                break
        options = dict(got[TCP].options)
        assert options.get("MSS") == expected
        assert options["WScale"] == 7
        again = got.copy()
        del again[TCP].chksum
        assert IP(bytes(again))[TCP].chksum == got[TCP].chksum
    counters = siit.counters()
    assert counters["slow.mss_clamped"] == 1
    assert siit.path() == "slow" or counters["fast.decline_mss"] >= 3


def test_a_clat_that_routes_for_others(net: Network, datapath: str) -> None:
    """A host behind the CLAT announces what its own link carries; the server learns what the uplink carries."""
    net.ip(net.client, "link", "set", "wan0", "mtu", str(NARROW))
    net.clat(datapath)
    behind = net.add_network_behind()
    deafen(net, net.server)
    asking, answering = connected(net, (behind, "198.18.5.2"), SERVER4, (net.server, SERVER_SYNTHESIZED))
    assert clamped(net) >= 1
    carries(answering, asking, NARROW - HEADERS)
    carries(asking, answering, NARROW - HEADERS)
