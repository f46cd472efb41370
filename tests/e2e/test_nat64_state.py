# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a stateful translator remembers: mappings, filtering, bindings and connections."""

from __future__ import annotations

import itertools
import socket
import struct
import time

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import (
    BOUND,
    CONFIG,
    POOL,
    V4_OTHER,
    V6_OTHER,
    Nat64Network,
    ask,
    in_ipv6,
    refusal,
    with_keys,
)
from raw import ipv4_header
from siit import V4, V4_IN_IPV6, V6
from test_clat_faults import USAGE, one_sentence

# What is sent directly is sent by the programs of `inline`, and has no part in what the tables decide.
all_datapaths = pytest.mark.parametrize(
    "nat64", [path for path in ROUTER_DATAPATHS if path not in ("direct", "xdp")], indirect=True
)

V4_OTHER_IN_IPV6 = in_ipv6(V4_OTHER)
ADDRESS_DEPENDENT = with_keys('filtering = "address-dependent"')


# --- mappings and filtering (RFC 4787, RFC 5382)


@all_datapaths
def test_one_mapping_for_every_peer(nat64: Nat64Network) -> None:
    """Endpoint-independent mapping (REQ-1): a socket has one IPv4 address and port, whoever it speaks to."""
    nat64.nat64()
    inside = nat64.socket(V6)
    peers = [(V4, 4000), (V4, 4001), (V4_OTHER, 4000)]
    seen = {ask(inside, (in_ipv6(address), port), nat64.socket(address, port)) for address, port in peers}
    assert len(seen) == 1
    listeners = [nat64.listener(V4, 4000), nat64.listener(V4_OTHER, 4000)]
    seen = set()
    for listener, to in zip(listeners, (V4_IN_IPV6, V4_OTHER_IN_IPV6), strict=True):
        nat64.connect(V6, (to, 4000), port=6000)
        seen.add(listener.accept()[1])
    ((address, port),) = seen
    (tcp,) = (binding for binding in nat64.shown("bindings") if binding["protocol"] == "tcp")
    assert (tcp["v6"], tcp["v4"], tcp["sessions"]) == (f"[{V6}]:6000", f"{address}:{port}", 2)


def sent(nat64: Nat64Network) -> int:
    """Packets that nodes have sent, translated."""
    counters = nat64.counters()
    return counters.get("fast.translated_6to4", 0) + counters["slow.translated_6to4"]


@all_datapaths
def test_who_may_answer(nat64: Nat64Network) -> None:
    """Endpoint-independent filtering lets a stranger in; address-dependent filtering tells it that it may not."""
    nat64.nat64()
    inside, known, stranger = nat64.socket(V6), nat64.socket(V4, 4000), nat64.socket(V4_OTHER)
    mapped = ask(inside, (V4_IN_IPV6, 4000), known)
    assert ask(stranger, mapped, inside)[0] == V4_OTHER_IN_IPV6
    assert nat64.reload(ADDRESS_DEPENDENT) == (0, "")
    # It has been answered, and so is none any more: another binding.
    inside = nat64.socket(V6)
    mapped = ask(inside, (V4_IN_IPV6, 4000), known)
    assert ask(nat64.socket(V4), mapped, inside)[0] == V4_IN_IPV6
    assert refusal(nat64.socket(V4_OTHER), mapped) == "EHOSTUNREACH"
    assert nat64.counters()["slow.drop.filtered"] == 1
    # Other threads may read what comes from the other side, so it has to be seen that the datagram has left.
    before = sent(nat64)
    inside.sendto(b"come in", (V4_OTHER_IN_IPV6, 4000))
    nat64.until(lambda: sent(nat64) > before)
    assert ask(nat64.socket(V4_OTHER), mapped, inside)[0] == V4_OTHER_IN_IPV6


def test_ports(nat64: Nat64Network) -> None:
    """Parity is kept (REQ-4), RTCP stands beside RTP, a source keeps its address (REQ-2), and no port follows from another."""
    nat64.nat64()
    outside = nat64.socket(V4, 4000)
    seen = {port: ask(nat64.socket(V6, port), (V4_IN_IPV6, 4000), outside) for port in range(6000, 6040)}
    assert {port: mapped % 2 for port, (_, mapped) in seen.items()} == {port: port % 2 for port in seen}
    assert all(seen[port + 1][1] == seen[port][1] + 1 for port in range(6000, 6040, 2))
    assert len({address for address, _ in seen.values()}) == 1
    steps = [seen[port + 2][1] - seen[port][1] for port in range(6000, 6038, 2)]
    assert len(set(steps)) == len(steps)


def test_ports_are_preserved(nat64: Nat64Network) -> None:
    """If so configured, and as long as nobody else has the port; another gets one of the same parity."""
    nat64.nat64(with_keys("port_preservation = true").replace(POOL, BOUND))
    outside = nat64.socket(V4, 4000)
    assert ask(nat64.socket(V6, 6000), (V4_IN_IPV6, 4000), outside) == (BOUND, 6000)
    address, port = ask(nat64.socket(V6_OTHER, 6000), (V4_IN_IPV6, 4000), outside)
    assert address == BOUND
    assert port != 6000
    assert port % 2 == 0


# --- sessions that the fast path opens by itself


def v4_by_v6(nat64: Nat64Network) -> dict[str, str]:
    """How the IPv4 side sees each bound UDP port, by the tables."""
    return {binding["v6"]: binding["v4"] for binding in nat64.shown("bindings") if binding["protocol"] == "udp"}


def open_many(nat64: Nat64Network, outside: socket.socket, ports: range) -> dict[str, str]:
    """Ask from many ports of a node; how the peer saw each."""
    peer = (V4_IN_IPV6, 4000)
    seen = {port: ask(nat64.socket(V6, port), peer, outside) for port in ports}
    return {f"[{V6}]:{port}": f"{address}:{mapped}" for port, (address, mapped) in seen.items()}


def test_the_fast_path_opens_sessions(nat64: Nat64Network) -> None:
    """Of a node that opens many; the tables have every one of them, each port is what the peer saw, and none follows."""
    nat64.nat64()
    outside = nat64.socket(V4, 4000)
    # Further than one apart: what stands beside RTP is the controller's.
    seen = open_many(nat64, outside, range(6001, 6401, 4))
    counters = nat64.counters()
    assert counters["fast.translated_6to4"] > 80
    assert counters["slow.translated_6to4"] < 20
    assert v4_by_v6(nat64) == seen
    assert counters["state.sessions"] == counters["state.bindings"] == len(seen) == 100
    ports = [int(v4.rpartition(":")[2]) for v4 in seen.values()]
    assert all(port % 2 == 1 for port in ports)
    steps = [after - before for before, after in itertools.pairwise(ports)]
    assert len(set(steps)) > 90


def test_what_the_fast_path_opened_is_like_the_rest(nat64: Nat64Network) -> None:
    """It has one mapping for every peer, is found from the other side, survives a reload, and a port of it is taken."""
    nat64.nat64()
    outside, other = nat64.socket(V4, 4000), nat64.socket(V4_OTHER, 4000)
    before = open_many(nat64, outside, range(6001, 6201, 4))
    sockets = {name: sock for sock in nat64.sockets if (name := f"[{V6}]:{sock.getsockname()[1]}") in before}
    for name, sock in sockets.items():
        address, port = ask(sock, (V4_OTHER_IN_IPV6, 4000), other)
        assert f"{address}:{port}" == before[name]
    assert nat64.counters()["slow.translated_6to4"] < 20
    # A stranger is the controller's, which knows the binding.
    last, sock = list(sockets.items())[-1]
    address, _, port = before[last].rpartition(":")
    assert ask(nat64.socket(V4), (address, int(port)), sock)[0] == V4_IN_IPV6
    code, said = nat64.diolkos("bind", "add", "udp", before[last], f"[{V6_OTHER}]:53")
    assert (code, said.count(f"are bound to {last}")) == (USAGE, 1)
    assert nat64.reload(ADDRESS_DEPENDENT) == (0, "")
    assert v4_by_v6(nat64) == before
    for name, sock in sockets.items():
        address, port = ask(sock, (V4_IN_IPV6, 4000), outside)
        assert f"{address}:{port}" == before[name]
    nat64.bind("del", "udp", before[last])
    assert last not in v4_by_v6(nat64)
    assert ask(sock, (V4_IN_IPV6, 4000), outside) != before[last]


def connect_many(nat64: Nat64Network, ports: range) -> tuple[list[socket.socket], dict[str, str]]:
    """Connect from many ports of a node; both ends of each, and how the peer saw it."""
    listener, seen, ends = nat64.listener(V4, 4000), {}, []
    for port in ports:
        inside = nat64.connect(V6, (V4_IN_IPV6, 4000), port)
        outside, (address, mapped) = listener.accept()
        nat64.sockets.append(outside)
        inside.sendall(b"question")
        assert outside.recv(10) == b"question"
        seen[f"[{V6}]:{port}"] = f"{address}:{mapped}"
        ends += [inside, outside]
    listener.close()
    return ends, seen


def test_the_fast_path_opens_connections(nat64: Nat64Network) -> None:
    """Of a node that opens many; the tables have each, in its state, and each port is what the peer saw."""
    nat64.nat64()
    ends, seen = connect_many(nat64, range(6000, 6100))
    # What the slow path has seen are the first SYNs: a lease is given to those who open some.
    assert nat64.counters()["slow.translated_6to4"] < 20
    bound = {binding["v6"]: binding["v4"] for binding in nat64.shown("bindings") if binding["protocol"] == "tcp"}
    assert bound == seen
    assert nat64.states("tcp") == ["established"] * 100
    ports = [int(v4.rpartition(":")[2]) for v4 in seen.values()]
    assert all(port % 2 == number % 2 for number, port in enumerate(ports))
    steps = [after - before for before, after in itertools.pairwise(ports)]
    assert len(set(steps)) > 90
    for end in ends:
        end.close()
    nat64.until(lambda: set(nat64.states("tcp")) == {"v4-fin-v6-fin-rcv"})
    assert nat64.drops() == {}


def test_connections_that_the_fast_path_opened_are_like_the_rest(nat64: Nat64Network) -> None:
    """A port has one mapping for every peer, is not that of UDP, is refused to others, and outlives a reload."""
    nat64.nat64()
    ends, seen = connect_many(nat64, range(6000, 6060))
    other = nat64.listener(V4_OTHER, 4000)
    for name in list(seen)[-20:]:
        port = int(name.rpartition(":")[2])
        # Linux lets two connections to different peers have the same port.
        nat64.connect(V6, (V4_OTHER_IN_IPV6, 4000), port)
        address, mapped = other.accept()[1]
        assert f"{address}:{mapped}" == seen[name]
    assert nat64.counters()["slow.translated_6to4"] < 20
    last = list(seen)[-1]
    code, said = nat64.diolkos("bind", "add", "tcp", seen[last], f"[{V6_OTHER}]:53")
    assert (code, said.count(f"are bound to {last}")) == (USAGE, 1)
    assert nat64.reload(ADDRESS_DEPENDENT) == (0, "")
    for inside, outside in zip(ends[::2], ends[1::2], strict=True):
        outside.sendall(b"answer")
        assert inside.recv(10) == b"answer"


# --- bindings of the operator


@all_datapaths
@pytest.mark.parametrize("how", ["configured", "operator"])
def test_a_binding_is_reached_from_ipv4_first(nat64: Nat64Network, how: str) -> None:
    """And the node behind it is seen there when it begins itself."""
    bindings = [(protocol, f"{BOUND}:80", f"[{V6}]:8080") for protocol in ("udp", "tcp")]
    text = "".join(f'[[nat64.static]]\nprotocol = "{p}"\nv4 = "{v4}"\nv6 = "{v6}"\n' for p, v4, v6 in bindings)
    nat64.nat64(CONFIG + (text if how == "configured" else ""))
    if how == "operator":
        for binding in bindings:
            nat64.bind("add", *binding)
    shown = [{"protocol": p, "v4": v4, "v6": v6, "sessions": 0, "origin": how} for p, v4, v6 in sorted(bindings)]
    assert sorted(nat64.shown("bindings"), key=lambda binding: binding["protocol"]) == shown
    inside, outside = nat64.socket(V6, 8080), nat64.socket(V4, 4000)
    assert ask(outside, (BOUND, 80), inside) == (V4_IN_IPV6, 4000)
    assert ask(inside, (V4_IN_IPV6, 4000), outside) == (BOUND, 80)
    listener = nat64.listener(V6, 8080)
    nat64.connect(V4, (BOUND, 80)).sendall(b"GET")
    accepted, peer = listener.accept()
    assert (accepted.recv(10), peer[0]) == (b"GET", V4_IN_IPV6)
    assert nat64.states("tcp") == ["established"]
    assert nat64.drops() == {}


@all_datapaths
def test_a_binding_ends(nat64: Nat64Network) -> None:
    """With its sessions, at once; the port is nobody's then, which a sender is told."""
    nat64.nat64()
    nat64.bind("add", "udp", f"{BOUND}:80", f"[{V6}]:8080")
    inside, outside = nat64.socket(V6, 8080), nat64.socket(V4, 4000)
    for _ in range(2):
        ask(outside, (BOUND, 80), inside)
    nat64.bind("del", "udp", f"{BOUND}:80")
    assert nat64.shown("sessions") == nat64.shown("bindings") == []
    assert refusal(outside, (BOUND, 80)) == "EHOSTUNREACH"
    # The error is sent before the packet is counted.
    nat64.until(lambda: nat64.counters()["slow.drop.no_binding"] == 1)


def test_what_cannot_be_bound(nat64: Nat64Network) -> None:
    """One sentence each, exit code 2, and nothing changes."""
    nat64.nat64(with_keys("max_bindings = 2"))
    nat64.bind("add", "tcp", f"{BOUND}:80", f"[{V6}]:80")
    nat64.bind("add", "tcp", f"{BOUND}:80", f"[{V6}]:80")  # it is there already
    nat64.bind("add", "icmp", f"{BOUND}:0", f"[{V6}]:0")
    before = nat64.shown("bindings")
    for arguments, words in (
        (("add", "tcp", f"{BOUND}:80", f"[{V6_OTHER}]:80"), f"the IPv4 address and port are bound to [{V6}]:80"),
        (("add", "tcp", f"{BOUND}:81", f"[{V6}]:80"), f"the IPv6 address and port are bound to {BOUND}:80"),
        (("add", "tcp", f"{BOUND}:0", f"[{V6}]:81"), "port 0"),
        (("add", "udp", f"{BOUND}:82", f"[{V6}]:0"), "port 0"),
        (("add", "udp", "127.0.0.1:82", f"[{V6}]:82"), "127.0.0.1"),
        (("add", "udp", f"{BOUND}:82", "[ff02::1]:82"), "ff02::1 is multicast"),
        (("add", "udp", f"{BOUND}:82", f"[{V4_IN_IPV6}]:82"), "lies in pref64 2001:db8:64::/96"),
        (("add", "udp", "198.51.100.1:82", f"[{V6}]:82"), "198.51.100.1 is an address of this host"),
        (("add", "udp", "203.0.113.1:82", f"[{V6}]:82"), "no route leads 203.0.113.1 to diolkos0"),
        (("add", "udp", f"{BOUND}:82", f"[{V6}]:82"), "as many bindings as there may be"),
        (("del", "tcp", f"{BOUND}:81"), "there is no such binding"),
        (("del", "udp", f"{BOUND}:80"), "there is no such binding"),
    ):
        code, message = nat64.diolkos("bind", *arguments)
        assert code == USAGE, (arguments, message)
        assert words in one_sentence(message)
    assert nat64.shown("bindings") == before


def test_a_binding_where_others_make_the_routes(nat64: Nat64Network) -> None:
    """With `routes4 = []` any address can be bound: which of them lead here is the operator's to know."""
    elsewhere = "198.18.0.1"
    running = nat64.nat64(with_keys("routes4 = []"))
    assert "no IPv4 route leads to diolkos0" in running.log()
    nat64.bind("add", "udp", f"{elsewhere}:80", f"[{V6}]:8080")
    nat64.run(nat64.translator, "ip", "route", "add", elsewhere, "dev", "diolkos0")
    ask(nat64.socket(V4, 4000), (elsewhere, 80), nat64.socket(V6, 8080))


def test_wrong_arguments_of_bind(nat64: Nat64Network) -> None:
    """The command line explains itself."""
    nat64.nat64()
    wrong = [("add", "sctp", f"{BOUND}:80", f"[{V6}]:80"), ("add", "tcp", BOUND, f"[{V6}]:80"), ("del", "tcp", f"[{V6}]:80")]
    for arguments in wrong:
        code, message = nat64.diolkos("bind", *arguments)
        assert code == USAGE
        assert "--help" in message


# --- connections (RFC 6146 section 3.5.2.2)


@all_datapaths
def test_the_end_of_a_connection_is_seen(nat64: Nat64Network) -> None:
    """Each FIN and RST moves the state, though the fast path carries what is between them."""
    nat64.nat64()
    listener = nat64.listener(V4, 4000)
    inside = nat64.connect(V6, (V4_IN_IPV6, 4000))
    outside = listener.accept()[0]
    states = [nat64.states("tcp")]
    inside.shutdown(socket.SHUT_WR)
    assert outside.recv(1) == b""
    states.append(nat64.states("tcp"))
    # A connection that is half closed carries data the other way.
    outside.sendall(b"more" * 1000)
    assert len(inside.recv(4000, socket.MSG_WAITALL)) == 4000
    outside.close()
    assert inside.recv(1) == b""
    states.append(nat64.states("tcp"))
    assert states == [["established"], ["v6-fin-rcv"], ["v4-fin-v6-fin-rcv"]]
    inside = nat64.connect(V6, (V4_IN_IPV6, 4000))
    outside = listener.accept()[0]
    outside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    outside.close()
    with pytest.raises(ConnectionResetError):
        inside.recv(1)
    assert sorted(nat64.states("tcp")) == ["trans", "v4-fin-v6-fin-rcv"]
    assert nat64.drops() == {}


def test_a_connection_that_both_sides_begin(nat64: Nat64Network) -> None:
    """A SYN that the filter holds back is no answer; the node's own SYN meets the peer's next one."""
    nat64.nat64(ADDRESS_DEPENDENT)
    nat64.bind("add", "tcp", f"{BOUND}:5000", f"[{V6}]:5000")
    outside = nat64.socket(V4, 4000, socket.SOCK_STREAM)
    outside.setblocking(False)
    assert outside.connect_ex((BOUND, 5000)) != 0
    nat64.until(lambda: nat64.counters()["state.held_syns"] == 1)
    assert nat64.shown("sessions") == []
    inside = nat64.connect(V6, (V4_IN_IPV6, 4000), port=5000)
    nat64.until(lambda: nat64.states("tcp") == ["established"])
    assert nat64.counters()["state.held_syns"] == 0
    outside.setblocking(True)
    outside.sendall(b"hello")
    inside.sendall(b"HELLO")
    assert (inside.recv(10), outside.recv(10)) == (b"hello", b"HELLO")


def test_a_connection_that_nobody_wants(nat64: Nat64Network) -> None:
    """A SYN to a free port of the pool is kept for six seconds; then its sender is told."""
    nat64.nat64()
    outside = nat64.socket(V4, 0, socket.SOCK_STREAM)
    outside.settimeout(10)
    begin = time.monotonic()
    with pytest.raises(ConnectionRefusedError):
        outside.connect((BOUND, 4000))
    assert 5.9 < time.monotonic() - begin < 8
    counters = nat64.counters()
    assert counters["slow.drop.syn_unanswered"] == 1
    assert counters["state.held_syns"] == 0


@all_datapaths
def test_a_fragment_without_the_first(nat64: Nat64Network) -> None:
    """It is kept for two seconds, in which the first one can come, and then dropped under its name."""
    nat64.nat64()
    raw = nat64.socket(V4, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    later = ipv4_header(socket.IPPROTO_UDP, V4, BOUND, 64, fragment=100) + bytes(64)
    raw.sendto(later, (BOUND, 0))
    nat64.until(lambda: nat64.counters()["slow.held"] == 1)
    assert nat64.drops() == {}
    nat64.until(lambda: nat64.drops() == {"slow.drop.fragment_timeout": 1}, patience=4)
