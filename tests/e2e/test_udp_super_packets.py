# SPDX-License-Identifier: Apache-2.0 OR MIT
"""UDP super-packets, as a QUIC sender makes them: one write that is many datagrams crosses every translator in one piece."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import Nat64Network, ask
from network import SERVER4, SERVER_SYNTHESIZED, Network, create_socket
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_clat_offloads import NOT_NEUTRAL6, wrong_checksums
from test_clat_traffic import fast
from test_tunnels import finish_checksums_at

# linux/udp.h
UDP_SEGMENT = 103
# linux/in.h
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
PORT = 4000
DATAGRAMS = 41  # in one write
# With a datagram of 1232 bytes and more IPv4 has DF, and with a smaller one an identification for each.
SIZES = [1200, 1400]


@contextmanager
def sockets(four: str, address4: str, six: str, address6: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A UDP socket on each side."""
    ours = create_socket(four, socket.AF_INET, socket.SOCK_DGRAM)
    theirs = create_socket(six, socket.AF_INET6, socket.SOCK_DGRAM)
    with ours, theirs:
        ours.bind((address4, PORT))
        theirs.bind((address6, PORT))
        for sock in (ours, theirs):
            sock.settimeout(10)
        yield ours, theirs


def send_whole(sender: socket.socket, to: tuple, receiver: socket.socket, size: int) -> None:
    """Datagrams of a size and a shorter one in one write; the receiver gets each as it was, in order."""
    if sender.family == socket.AF_INET:
        # As RFC 9000 section 14 demands: without DF, the translator has to cut whatever may not fit.
        sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
    sent = [bytes([number]) * size for number in range(DATAGRAMS - 1)] + [b"the rest"]
    assert sender.sendto(b"".join(sent), to) == sum(map(len, sent))
    assert [receiver.recv(2000) for _ in sent] == sent


def moved(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What crossed between two readings of the counters, and into how many parts it was cut."""
    names = [name for name in after if ".translated_" in name or name == "slow.originated"]
    return {name: after[name] - before[name] for name in names if after[name] != before[name]}


def packets(datapath: str) -> int:
    """In how many packets the datagrams of one write arrive. A driver with a program of XDP gets no super-packets: on a
    virtual Ethernet, the sender's end cuts them."""
    return DATAGRAMS if datapath == "xdp" else 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_through_a_siit(siit: SiitNetwork, size: int) -> None:
    """Both ways, with receivers that look at every checksum."""
    finish_checksums_at(siit, siit.translator, "b4", "b6")
    siit.siit()
    with sockets(siit.v4, V4, siit.v6, V6) as (four, six):
        for sender, to, receiver, way in (
            (four, (V6_MAPPED, PORT), six, "4to6"),
            (six, (V4_IN_IPV6, PORT), four, "6to4"),
        ):
            before = siit.counters()
            send_whole(sender, to, receiver, size)
            assert moved(before, siit.counters()) == {f"{siit.path()}.translated_{way}": packets(siit.datapath)}
    assert (wrong_checksums(siit, siit.v4), wrong_checksums(siit, siit.v6)) == ({}, {})


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)
def test_through_a_nat64(nat64: Nat64Network, size: int) -> None:
    """The session is there already; the port changes, and so does the checksum."""
    finish_checksums_at(nat64, nat64.translator, "b4", "b6")
    nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, PORT)
    mapped = ask(inside, (V4_IN_IPV6, PORT), outside)
    for sender, to, receiver, way in (
        (inside, (V4_IN_IPV6, PORT), outside, "6to4"),
        (outside, mapped, inside, "4to6"),
    ):
        before = nat64.counters()
        send_whole(sender, to, receiver, size)
        assert moved(before, nat64.counters()) == {f"{nat64.path()}.translated_{way}": packets(nat64.datapath)}
    assert nat64.drops() == {}
    assert (wrong_checksums(nat64, nat64.v4), wrong_checksums(nat64, nat64.v6)) == ({}, {})


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("v6", ["auto", NOT_NEUTRAL6], ids=["neutral", "not-neutral"])
def test_through_a_clat(net: Network, datapath: str, v6: str, size: int) -> None:
    """With an address with which checksums stay, and with one with which they change."""
    # At down0 as well, the router would cut what comes to the client.
    finish_checksums_at(net, net.router, "out0")
    net.clat(datapath, "--v6", v6)
    path = "fast" if fast(datapath) else "slow"
    with sockets(net.client, "192.0.0.1", net.server, SERVER_SYNTHESIZED) as (four, six):
        four.sendto(b"hello", (SERVER4, PORT))
        _, ours = six.recvfrom(100)
        for sender, to, receiver, way in (
            (four, (SERVER4, PORT), six, "4to6"),
            (six, ours[:2], four, "6to4"),
        ):
            before = net.counters()
            send_whole(sender, to, receiver, size)
            assert moved(before, net.counters()) == {f"{path}.translated_{way}": 1}
    assert (wrong_checksums(net, net.server), wrong_checksums(net, net.client)) == ({}, {})
