# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A NAT64 with ports of the router's only IPv4 address: nodes have these, and the router and its LAN have all others.

No packet of the router or of NAT44 goes to a node; none of a node reaches a socket of the router, leaves with another port than
its binding's, or with an address that the router has no more.
"""

from __future__ import annotations

import shutil
import socket
import struct

import pytest
from home import INSIDE, LAN, HomeNetwork, answered, is_of_nodes, shared
from logs import records, shown_bindings, to_file, until_listed
from nat64 import V4_OTHER, V6_ELSEWHERE, V6_OTHER, ask, in_ipv6, refusal
from siit import TRANSLATOR4, V4, V4_IN_IPV6, V6

NEW = "198.51.100.9"
paths = pytest.mark.parametrize("home", ["tc", "tun"], indirect=True)


def whole(sock: socket.socket, size: int) -> bytes:
    """So many bytes of a stream."""
    got = b""
    while len(got) < size:
        got += sock.recv(size - len(got))
    return got


@paths
def test_nodes_have_ports_of_the_routers_address(home: HomeNetwork) -> None:
    """The same one for all peers, from whom packets come in without being asked for; TCP, pings and errors."""
    home.nat64(shared())
    outside, other = home.socket(V4, 4000), home.socket(V4_OTHER, 4000)
    for _ in range(12):
        node = home.socket(V6)
        seen = ask(node, (V4_IN_IPV6, 4000), outside)
        assert seen[0] == TRANSLATOR4 and is_of_nodes(seen[1])
        assert ask(node, (in_ipv6(V4_OTHER), 4000), other) == seen
        # Nobody has asked this one.
        stranger = home.socket(V4_OTHER)
        stranger.sendto(b"unasked", seen)
        assert answered(node) == b"unasked"
        node.sendto(b"yes", (in_ipv6(V4_OTHER), stranger.getsockname()[1]))
        assert stranger.recvfrom(100) == (b"yes", seen)
    listener = home.listener(V4, 4000)
    for _ in range(6):
        connection = home.connect(V6, (V4_IN_IPV6, 4000))
        server, peer = listener.accept()
        assert peer[0] == TRANSLATOR4 and is_of_nodes(peer[1])
        for sender, receiver in ((connection, server), (server, connection)):
            receiver.settimeout(5)
            sender.sendall(b"x" * 300_000)
            assert whole(receiver, 300_000) == b"x" * 300_000
    assert (
        "3 received"
        in home.run(home.v6, "ping", "-c3", "-i0.2", "-W5", V4_IN_IPV6).stdout
    )
    assert refusal(home.socket(V6), (V4_IN_IPV6, 4001)) == "ECONNREFUSED"
    # A port of the pool that no node has: the NAT64 says so (RFC 6146 section 3.5.1.2).
    assert refusal(home.socket(V4), (TRANSLATOR4, 40999)) == "EHOSTUNREACH"
    assert home.drops("no_binding") == {}


@paths
def test_nodes_reach_each_other_by_the_shared_address(home: HomeNetwork) -> None:
    """A node that knows another one's address and port outside sees it there; so does a host of the LAN."""
    home.nat64(shared())
    outside = home.socket(V4, 4000)
    one, two = home.socket(V6), home.socket(V6_OTHER)
    at_one, at_two = (ask(sock, (V4_IN_IPV6, 4000), outside) for sock in (one, two))
    one.sendto(b"hello", (in_ipv6(at_two[0]), at_two[1]))
    question, peer = two.recvfrom(100)
    assert (question, peer[:2]) == (b"hello", (in_ipv6(at_one[0]), at_one[1]))
    two.sendto(b"back", peer)
    assert one.recvfrom(100)[0] == b"back"
    host = home.at(home.lan, LAN)
    host.sendto(b"from the LAN", at_two)
    question, peer = two.recvfrom(100)
    assert (question, peer[0]) == (b"from the LAN", in_ipv6(LAN))
    two.sendto(b"to the LAN", peer)
    assert host.recvfrom(100) == (b"to the LAN", at_two)
    assert ask(one, (in_ipv6(LAN), host.getsockname()[1]), host) == at_one


@paths
def test_the_router_keeps_what_is_its_own(home: HomeNetwork) -> None:
    """Services, also on ports of the pool; connections of the router and of its LAN from such ports; pings of and by both."""
    home.nat64(shared())
    outside = home.socket(V4, 4000)
    nodes = [home.socket(V6) for _ in range(20)]
    seen = {ask(node, (V4_IN_IPV6, 4000), outside)[1] for node in nodes}
    free = next(port for port in range(40000, 41000) if port not in seen)
    for port in (53, free):
        service = home.at(home.translator, "0.0.0.0", port)
        ask(home.socket(V4_OTHER), (TRANSLATOR4, port), service)
        tcp = home.at(home.translator, "0.0.0.0", port, socket.SOCK_STREAM)
        tcp.listen()
        client = home.connect(V4_OTHER, (TRANSLATOR4, port))
        tcp.accept()[0].sendall(b"the router")
        assert client.recv(100) == b"the router"
        # What it asks itself, from the same port.
        assert ask(service, (V4, 4000), outside) == (TRANSLATOR4, port)
    for name in (home.translator, home.lan):
        for port in (30000, free + 1):
            sock = home.at(name, "0.0.0.0", port)
            assert ask(sock, (V4, 4000), outside)[0] == TRANSLATOR4
        assert "1 received" in home.run(name, "ping", "-c1", "-W5", V4).stdout
    assert "1 received" in home.run(home.v4, "ping", "-c1", "-W5", TRANSLATOR4).stdout
    assert [answered(node) for node in nodes] == [b""] * len(nodes)
    assert home.drops() == {}


@paths
def test_a_port_in_use_is_not_replaced_by_another(home: HomeNetwork) -> None:
    """The LAN has a connection with the only port of the pool: the node's packet to the same peer is dropped, that to another
    one leaves with its port. Whoever came first keeps what it has."""
    home.nat64(shared("40000"))
    outside, other = home.socket(V4, 4000), home.socket(V4_OTHER, 4000)
    host, node = home.at(home.lan, LAN, 40000), home.socket(V6)
    assert ask(host, (V4, 4000), outside) == (TRANSLATOR4, 40000)
    with home.sniffed() as sniffer:
        node.sendto(b"lost", (V4_IN_IPV6, 4000))
        assert ask(node, (in_ipv6(V4_OTHER), 4000), other) == (TRANSLATOR4, 40000)
        assert not [packet for packet in sniffer.read() if b"lost" in packet]
    assert answered(outside) == b""
    outside.sendto(b"for the LAN", (TRANSLATOR4, 40000))
    assert answered(host) == b"for the LAN"
    assert ask(host, (V4, 4000), outside) == (TRANSLATOR4, 40000)
    # The other way round, the LAN gets another port, and the node keeps its own.
    assert ask(host, (V4_OTHER, 4000), other)[1] != 40000
    assert ask(node, (in_ipv6(V4_OTHER), 4000), other) == (TRANSLATOR4, 40000)


@paths
def test_fragments_find_the_node(home: HomeNetwork) -> None:
    """Later fragments have no ports."""
    for name, link in (
        (home.v4, "a0"),
        (home.translator, "b4"),
        (home.v6, "a0"),
        (home.translator, "b6"),
    ):
        home.batch(name, f"link set {link} mtu 1500")
    home.nat64(shared())
    outside, node = home.socket(V4, 4000), home.socket(V6)
    node.sendto(b"q" * 5000, (V4_IN_IPV6, 4000))
    question, peer = outside.recvfrom(9000)
    assert (question, peer[0]) == (b"q" * 5000, TRANSLATOR4) and is_of_nodes(peer[1])
    outside.sendto(b"a" * 5000, peer)
    assert answered(node) == b"a" * 5000
    stranger = home.socket(V4_OTHER)
    stranger.sendto(b"u" * 4000, peer)
    assert answered(node) == b"u" * 4000
    for name, to in (
        (home.v6, V4_IN_IPV6),
        (home.translator, V4),
        (home.lan, V4),
        (home.v4, TRANSLATOR4),
    ):
        assert "1 received" in home.run(name, "ping", "-c1", "-s3000", "-W5", to).stdout
    service = home.at(home.translator, "0.0.0.0", 53)
    stranger.sendto(b"s" * 4000, (TRANSLATOR4, 53))
    assert answered(service) == b"s" * 4000


@paths
def test_what_conntrack_cannot_assign_is_not_answered_by_the_router(
    home: HomeNetwork,
) -> None:
    """A segment with impossible flags to the port of a node: the router's TCP would reset the connection of the node."""
    home.nat64(shared())
    listener = home.listener(V4, 4000)
    connection = home.connect(V6, (V4_IN_IPV6, 4000))
    server, peer = listener.accept()
    with home.sniffed() as sniffer:
        raw = home.socket(V4, 0, socket.SOCK_RAW, socket.IPPROTO_TCP)
        for port in (4000, 4001):
            for flags in (0x03, 0x06, 0x00, 0x29):
                header = struct.pack(
                    "!HHIIBBHHH", port, peer[1], 7, 9, 5 << 4, flags, 1024, 0, 0
                )
                raw.sendto(header, peer)
        connection.sendall(b"still there")
        assert server.recv(100) == b"still there"
        resets = [p for p in sniffer.read() if p[9] == 6 and p[33] & 4]
    assert resets == []


@paths
def test_the_address_changes_under_sessions(home: HomeNetwork) -> None:
    """Sessions of the old address end, and the log says so with that address; nothing leaves with it any more. Static bindings
    go on with the new one, and so does the router."""
    log = home.scratch / "bindings.json"
    static = f'\n[[nat64.static]]\nprotocol = "udp"\nv4 = "{INSIDE}:40443"\nv6 = "[{V6}]:443"\n'
    running = home.nat64(to_file(log, shared() + static))
    until_listed(home, log)
    outside = home.socket(V4, 4000)
    nodes = [home.socket(V6, 5000 + at) for at in range(40)]
    ports = {ask(node, (V4_IN_IPV6, 4000), outside)[1] for node in nodes}
    server = home.socket(V6, 443)
    stranger = home.socket(V4_OTHER, 4000)
    assert ask(stranger, (TRANSLATOR4, 40443), server)[0] == in_ipv6(V4_OTHER)
    host = home.at(home.lan, LAN)
    ask(host, (V4, 4000), outside)
    home.renumber(TRANSLATOR4, None)
    with home.sniffed() as sniffer:
        home.renumber(None, NEW)
        home.until_shared(running, NEW)
        for node in nodes:
            seen = ask(node, (V4_IN_IPV6, 4000), outside)
            assert seen[0] == NEW and is_of_nodes(seen[1])
        # The same flow as before the change.
        assert ask(stranger, (NEW, 40443), server)[0] == in_ipv6(V4_OTHER)
        assert ask(host, (V4, 4000), outside)[0] == NEW
        server.sendto(b"to the old flow", (in_ipv6(V4_OTHER), 4000))
        assert ask(nodes[0], (V4_IN_IPV6, 4000), outside)[0] == NEW
        assert sniffer.sources() == {NEW}
    assert f"b4 has {NEW} in place of {TRANSLATOR4}: " in running.log()
    assert "address_changed" in running.log()
    gone = [r for r in records(log) if r["event"] == "binding-deleted"]
    assert {r["address"] for r in gone} == {TRANSLATOR4}
    assert {r["port"] for r in gone} == ports | {40443}
    begun = [r["address"] for r in records(log) if r["event"] == "binding-created"]
    assert INSIDE not in begun and NEW in begun


@paths
def test_ten_thousand_sessions_end_and_no_others(home: HomeNetwork) -> None:
    """Those of another pool stay."""
    running = home.nat64(
        shared()
        + '\n[[nat64.pool4]]\naddress = "192.0.2.2"\nsources = ["2001:db8:7::/64"]\n'
    )
    kept = home.socket(V6_ELSEWHERE, 4711)
    kept.sendto(b"kept", (V4_IN_IPV6, 4000))
    home.until(lambda: len(shown_bindings(home)) == 1)
    before = shown_bindings(home)
    nodes = [home.socket(V6) for _ in range(400)]

    def has_all() -> bool:
        """Queues may be too short for so many at once."""
        for port in range(4001, 4026):
            for node in nodes:
                node.sendto(b"one of many", (V4_IN_IPV6, port))
        return home.counters()["state.sessions"] > len(nodes) * 25

    home.until(has_all)
    home.renumber(TRANSLATOR4, None)
    with home.sniffed() as sniffer:
        home.renumber(None, NEW)
        home.until_shared(running, NEW)
        assert shown_bindings(home) == before
        outside = home.socket(V4, 4000)
        assert ask(nodes[0], (V4_IN_IPV6, 4000), outside)[0] == NEW
        assert sniffer.sources() == {NEW}
    assert (
        f": {len(nodes) * 25} sessions of {TRANSLATOR4} have ended (address_changed)"
        in running.log()
    )


@paths
def test_without_an_address(home: HomeNetwork) -> None:
    """`status` says so, nothing leaves, and sessions go on if the same address comes back."""
    running = home.nat64(shared())
    outside, node = home.socket(V4, 4000), home.socket(V6)
    before = ask(node, (V4_IN_IPV6, 4000), outside)

    def has_none() -> bool:
        return any("b4 has no IPv4 address" in text for text in home.wrong())

    for times in (2, 3, 4):
        # The log is ahead of the status: otherwise the next time without an address could be that of before.
        home.until(lambda: not has_none())
        home.renumber(TRANSLATOR4, None)
        home.until(has_none)
        with home.sniffed() as sniffer:
            node.sendto(b"lost", (V4_IN_IPV6, 4000))
            home.renumber(None, TRANSLATOR4)
            home.until_shared(running, TRANSLATOR4, times)
            assert ask(node, (V4_IN_IPV6, 4000), outside) == before
            assert sniffer.sources() == {TRANSLATOR4}
    assert "address_changed" not in running.log()


def test_nobody_else_is_taken_for_the_nat64(home: HomeNetwork) -> None:
    """A host of the LAN that uses the address inside gets no port of nodes: its packets do not leave."""
    home.nat64(shared())
    home.batch(home.lan, f"address add {INSIDE}/32 dev lo")
    for name in ("all", "l4"):
        home.sysctl(home.translator, f"net.ipv4.conf.{name}.rp_filter", "0")
    with home.sniffed() as sniffer:
        home.at(home.lan, INSIDE, 40001).sendto(b"forged", (V4, 4000))
        assert (
            ask(home.at(home.lan, LAN), (V4, 4000), home.socket(V4, 4000))[0]
            == TRANSLATOR4
        )
        assert not [packet for packet in sniffer.read() if b"forged" in packet]


def test_it_starts_before_there_is_an_address(home: HomeNetwork) -> None:
    """And secondary addresses stay with the router."""
    home.renumber(TRANSLATOR4, None)
    home.configure(shared())
    running = home.siit(command="nat64", ready=False)
    home.until(lambda: "b4 has no IPv4 address" in running.log())
    home.renumber(None, TRANSLATOR4)
    home.renumber(None, NEW)
    home.until_shared(running, TRANSLATOR4)
    outside, node = home.socket(V4, 4000), home.socket(V6)
    seen = ask(node, (V4_IN_IPV6, 4000), outside)
    assert seen[0] == TRANSLATOR4
    home.socket(V4_OTHER).sendto(b"not for a node", (NEW, seen[1]))
    assert answered(node) == b""


def test_a_reload_shares_and_unshares(home: HomeNetwork) -> None:
    """Ports that stay keep their bindings. The rules end with the key, and with the process."""
    running = home.nat64(shared("40000-40499"))
    outside, node = home.socket(V4, 4000), home.socket(V6)
    seen = ask(node, (V4_IN_IPV6, 4000), outside)
    assert home.reload(shared()) == (0, "")
    assert ask(node, (V4_IN_IPV6, 4000), outside) == seen
    assert (
        "table ip diolkos0" in home.run(home.translator, "nft", "list", "tables").stdout
    )
    assert home.reload(shared().replace('interface = "b4"\n', "")) == (0, "")
    assert "diolkos0" not in home.run(home.translator, "nft", "list", "tables").stdout
    assert home.reload(shared()) == (0, "")
    assert ask(node, (V4_IN_IPV6, 4000), outside)[0] == TRANSLATOR4
    said = home.diolkos("bind", "add", "udp", f"{INSIDE}:443", f"[{V6}]:443")
    assert said[0] == 2 and "not in the `ports`" in said[1]
    assert any(
        "net.ipv4.ip_local_reserved_ports=40000-40999" in text for text in home.wrong()
    )
    running.stop()
    assert "diolkos0" not in home.run(home.translator, "nft", "list", "tables").stdout


@pytest.mark.skipif(
    not all(map(shutil.which, ("dhcpcd", "dnsmasq"))),
    reason="no dhcpcd or no dnsmasq here",
)
def test_a_dhcp_server_gives_another_address(home: HomeNetwork) -> None:
    """A real client, whose lease is another one after the provider's server has forgotten it."""
    home.renumber(TRANSLATOR4, None)
    home.configure(shared())
    running = home.siit(command="nat64", ready=False)

    def serve(first: str) -> None:
        leases = home.scratch / f"leases-{first}"
        command = (
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--port=0",
            "--interface=a0", "--bind-interfaces", f"--dhcp-leasefile={leases}", f"--dhcp-range={first},{first},120",
            f"--dhcp-option=option:router,{V4}", "--dhcp-authoritative", "--no-ping",
        )  # fmt: skip
        home.servers = home.start(home.v4, *command, stdout=-3, stderr=-3)

    def ask_for_one() -> None:
        conf = home.scratch / "dhcpcd.conf"
        conf.write_text(
            "nodev\nnoipv4ll\nipv4only\nnoarp\nnohook resolv.conf\nscript /bin/true\n"
        )
        home.client_of_dhcp = home.start(
            home.translator, "dhcpcd", "-B", "-f", str(conf), "b4", stdout=-3, stderr=-3
        )

    outside, node = home.socket(V4, 4000), home.socket(V6)
    for first in ("198.51.100.77", "198.51.100.78"):
        serve(first)
        ask_for_one()
        home.until_shared(running, first)
        home.until(
            lambda first=first: (
                home.run(home.v4, "ping", "-c1", "-W0.2", first, check=False).returncode
                == 0
            )
        )
        assert ask(node, (V4_IN_IPV6, 4000), outside)[0] == first
        for process in (home.client_of_dhcp, home.servers):
            process.terminate()
            process.wait()
        # dhcpcd leaves the address to whoever starts next.
        home.run(home.translator, "ip", "-4", "address", "flush", "dev", "b4")
    assert "b4 has 198.51.100.78 in place of 198.51.100.77: " in running.log()
