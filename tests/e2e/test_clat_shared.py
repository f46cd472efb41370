# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A CLAT that shares the only IPv6 address of its host: the kernel masquerades it and keeps both apart."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading

from kernel import forwarding, remains
from network import CLIENT6, PATIENCE, SERVER4, SERVER_SYNTHESIZED, WELL_KNOWN_PREFIX, Network, Running, create_socket
from pref64 import OWN, RESOLVER, Option, Pref64Network
from test_clat_addresses import LINK, address6, datagram_returns, take_the_64
from test_clat_faults import RUN_TIME, USAGE, one_sentence
from test_clat_moves import address_of, reaches

# Counts what must never be on the link.
WATCH = """
table ip6 watch {
    chain pre {
        type filter hook prerouting priority -300;
        iifname "down0" ip6 saddr fd00::/8 counter
    }
}"""
# A packet that belongs to no connection: conntrack does not assign it, so it is not masqueraded.
STRAY = """
from scapy.layers.inet import IP, TCP
from scapy.sendrecv import send
send(IP(src="192.0.0.1", dst="192.0.0.171") / TCP(sport=1, dport=2, flags="RA"), verbose=False)
"""


def shared(net: Network, *options: str) -> Running:
    """A CLAT on a host that has one address and no /64."""
    take_the_64(net)
    return net.clat("auto", *options)


def tables(net: Network) -> list[dict]:
    """The tables of nf_tables in the client."""
    listed = json.loads(net.run(net.client, "nft", "-j", "list", "ruleset").stdout)["nftables"]
    return [entry["table"] for entry in listed if "table" in entry]


def counted(net: Network, name: str, *table: str) -> int:
    """Packets that the only counter of a table has seen."""
    listed = json.loads(net.run(name, "nft", "-j", "list", "table", *table).stdout)["nftables"]
    expressions = [part for entry in listed if "rule" in entry for part in entry["rule"]["expr"]]
    [counter] = [part["counter"] for part in expressions if "counter" in part]
    return counter["packets"]


def pair(net: Network, kind: socket.SocketKind) -> tuple[socket.socket, socket.socket]:
    """Sockets of the host with the same port: one of IPv4, one of IPv6 that asks for the synthesized address itself."""
    four = create_socket(net.client, socket.AF_INET, kind)
    six = create_socket(net.client, socket.AF_INET6, kind)
    four.bind(("192.0.0.1", 5000))
    six.bind((CLIENT6, 5000))
    for end in (four, six):
        end.settimeout(PATIENCE)
    return four, six


def test_host_and_clat_share_an_address(net: Network) -> None:
    """Nobody says anything: log and status say it, all protocols pass, and nothing is left, even after SIGKILL."""
    before = forwarding(net)
    net.run(net.router, "nft", "-f", "-", input=WATCH)
    clat = shared(net)
    said = f"shares {CLIENT6} with this host (wan0 has no /64): the kernel masquerades this internal address"
    assert said in clat.log() and "datapath tun" in clat.log()
    assert address6(net)["origin"].startswith(said)
    status = net.run(net.client, str(net.program), "show", "status").stdout
    assert f"shares {CLIENT6} with this host" in status
    [table] = tables(net)
    assert (table["family"], table["name"]) == ("ip6", "diolkos0")
    rules = net.run(net.client, "nft", "list", "table", "ip6", "diolkos0").stdout
    address = address_of(clat.log())
    assert "flags owner" in rules, rules
    assert f'ip6 saddr {address} oif "wan0" masquerade' in rules, rules
    assert "type nat hook postrouting priority srcnat; policy accept;" in rules
    # Others cannot take the table away.
    net.run(net.client, "nft", "flush", "ruleset")
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    assert datagram_returns(net, 500) and datagram_returns(net, 4000)
    net.run(net.client, sys.executable, "-c", STRAY)
    net.until(lambda: counted(net, net.client, "ip6", "diolkos0") >= 1)
    assert counted(net, net.router, "ip6", "watch") == 0, "the internal address was on the link"
    assert clat.stop(signal.SIGKILL) != 0
    # The way of what the device sent ends by itself.
    assert (tables(net), [left for left in remains(net) if " expires " not in left]) == ([], [])
    clat = net.clat("auto", "--v6", "shared")
    assert f"shares {CLIENT6} with this host (clat.v6 says so)" in clat.log()
    assert address_of(clat.log()) == address
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    assert clat.stop() == 0
    assert (tables(net), remains(net), forwarding(net)) == ([], [], before)


def test_the_same_port_of_both(net: Network) -> None:
    """The host's own flow and the CLAT's have the same protocol, ports and addresses on the wire: each gets its own answers."""
    shared(net)
    with create_socket(net.server, socket.AF_INET6, socket.SOCK_DGRAM) as there:
        there.settimeout(PATIENCE)
        there.bind((SERVER_SYNTHESIZED, 9000))
        four, six = pair(net, socket.SOCK_DGRAM)
        with four, six:
            four.connect((SERVER4, 9000))
            six.connect((SERVER_SYNTHESIZED, 9000))
            for _ in range(3):
                for end, word in ((six, b"six"), (four, b"four")):
                    end.send(word)
                    said, peer = there.recvfrom(100)
                    assert (said, peer[0]) == (word, CLIENT6)
                    there.sendto(b"to " + word, peer)
                assert (six.recv(100), four.recv(100)) == (b"to six", b"to four")
    with create_socket(net.server, socket.AF_INET6, socket.SOCK_STREAM) as there:
        there.settimeout(PATIENCE)
        there.bind((SERVER_SYNTHESIZED, 9000))
        there.listen()
        four, six = pair(net, socket.SOCK_STREAM)
        ports = []
        with four, six:
            for end, address, word in ((four, SERVER4, b"four"), (six, SERVER_SYNTHESIZED, b"six")):
                end.connect((address, 9000))
                accepted, peer = there.accept()
                ports.append(peer[1])
                with accepted:
                    end.sendall(word)
                    assert accepted.recv(100) == word
                    accepted.sendall(b"to " + word)
                assert end.recv(100) == b"to " + word
            assert len(set(ports)) == 2
    # The same identifier of an echo.
    done = []
    six_pings = threading.Thread(target=lambda: done.append(net.ping("-c3", "-e77", to=SERVER_SYNTHESIZED)))
    six_pings.start()
    assert "3 received" in net.ping("-c3", "-e77").stdout
    six_pings.join()
    assert "3 received" in done[0].stdout


def test_a_narrow_path_behind_the_router(net: Network) -> None:
    """Packet Too Big is for the shared address, and reaches the IPv4 socket: a long stream passes."""
    shared(net)
    net.ip(net.router, "link", "set", "out0", "mtu", "1300")
    listener = create_socket(net.server, socket.AF_INET6, socket.SOCK_STREAM)
    here = create_socket(net.client, socket.AF_INET, socket.SOCK_STREAM)
    with listener, here:
        listener.bind((SERVER_SYNTHESIZED, 9000))
        listener.listen()
        for end in (listener, here):
            end.settimeout(PATIENCE)
        here.connect((SERVER4, 9000))
        there, _ = listener.accept()
        with there:
            there.settimeout(PATIENCE)
            sender = threading.Thread(target=here.sendall, args=(b"x" * 100_000,))
            sender.start()
            got = 0
            while got < 100_000:
                got += len(there.recv(100_000))
            sender.join()
    # RFC 7915 section 5.2: 20 bytes less than the path's.
    cached = net.run(net.client, "ip", "-4", "route", "get", SERVER4).stdout
    assert "mtu 1280" in cached, cached


def test_it_cannot_be_shared_with_tc(net: Network) -> None:
    """Conntrack does it, which the fast path bypasses; each refusal says so."""
    code, message = net.refused("clat", "--uplink", "wan0", "--v6", "shared", "--datapath", "tc")
    assert code == USAGE and "clat.v6" in message and "conntrack" in one_sentence(message)
    take_the_64(net)
    code, message = net.refused("clat", "--uplink", "wan0", "--pref64", WELL_KNOWN_PREFIX, "--datapath", "tc")
    assert code == RUN_TIME and f"wan0 has only the address {CLIENT6}" in message
    assert "conntrack" in one_sentence(message)
    prefix = ("--v6-prefix", "2001:2:0:f00::/56")
    code, message = net.refused("clat", "--uplink", "wan0", "--v6", "shared", *prefix)
    assert code == USAGE and "clat.v6_prefix" in one_sentence(message)
    assert remains(net) == []


def test_a_64_comes_later_and_goes(pref64: Pref64Network) -> None:
    """The CLAT shares the address until SLAAC brings a /64, moves to an address of its own, and shares again when it goes."""
    pref64.reach(OWN)
    take_the_64(pref64)
    clat = pref64.clat("auto", "--pref64", "auto", "--resolver", RESOLVER, ready=False)
    pref64.until(lambda: "waiting for a translation prefix" in clat.log())
    pref64.advertise(Option(OWN))
    pref64.until(lambda: " ready: " in clat.log())
    assert f"shares {CLIENT6} with this host" in clat.log()
    pref64.until(lambda: reaches(pref64))
    pref64.ip(pref64.client, "address", "add", "2001:2:0:1::77/64", "dev", "wan0", "nodad")
    pref64.until(lambda: f"made from {LINK}, the /64 of wan0" in clat.log())
    pref64.until(lambda: clat.log().count(" ready: ") == 2)
    assert tables(pref64) == []
    pref64.until(lambda: reaches(pref64))
    pref64.ip(pref64.client, "address", "del", "2001:2:0:1::77/64", "dev", "wan0")
    pref64.until(lambda: clat.log().count(f"shares {CLIENT6} with this host") == 2)
    pref64.until(lambda: clat.log().count(" ready: ") == 3)
    pref64.until(lambda: reaches(pref64))
    # Without any address there is nothing to share.
    pref64.ip(pref64.client, "address", "del", f"{CLIENT6}/128", "dev", "wan0")
    pref64.until(lambda: "wan0 no longer has an address that could be shared" in clat.log())
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_a_reload_shares_the_address(net: Network) -> None:
    """From an address of its own with the fast path to the host's, and back: sockets of applications stay."""
    file = net.scratch / "clat.toml"
    head = '[translator]\ninterfaces = ["wan0"]\npref64 = ["64:ff9b::/96"]\n'
    file.write_text(head)
    clat = net.clat("auto", "--config", str(file))
    with create_socket(net.client, socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.connect((SERVER4, 9000))
        for text, words in (
            (head + '[clat]\nv6 = "shared"\n', f"shares {CLIENT6} with this host"),
            (head, f"made from {LINK}"),
        ):
            said = clat.log().count(words)
            file.write_text(text)
            net.run(net.client, str(net.program), "reload")
            net.until(lambda words=words, said=said: clat.log().count(words) == said + 1)
            net.until(lambda: reaches(net))
            assert here.getsockname()[0] == "192.0.0.1"
    assert tables(net) == []
    assert clat.stop() == 0
    assert remains(net) == []
