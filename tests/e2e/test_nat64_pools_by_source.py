# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two customers with addresses of their own: TCP, UDP and ICMP leave from these and from no others, through reloads too."""

from __future__ import annotations

import pytest
from logs import endpoints, records, shown_bindings, to_file, until_listed
from nat64 import (
    TRANSLATOR,
    UNSHARED,
    V6_ELSEWHERE,
    V6_OTHER,
    Nat64Network,
    ask,
    refusal,
)
from prometheus import METRICS, curl, scraped
from servers import web
from siit import V4, V4_IN_IPV6, V6
from test_clat_faults import USAGE
from test_trace import told, trace

paths = pytest.mark.parametrize("nat64", ["tc", "tun", "xdp"], indirect=True)

# The IPv6 host is two customers: its link, and an address of another /64.
A, B = "2001:db8:6::/64", "2001:db8:7::/64"
OF_A, OF_B, OF_OTHERS = "192.0.2.2", "192.0.2.3", "192.0.2.4"
ALL_NODES = (V6, V6_OTHER, V6_ELSEWHERE)


def pools(*entries: tuple[str, str], ports: str = "1024-65535") -> str:
    """A configuration with these addresses, each for a prefix or for all others."""
    text = TRANSLATOR + "[nat64]\n" + "\n".join(UNSHARED)
    for address, source in entries:
        text += f'\n[[nat64.pool4]]\naddress = "{address}"\nports = "{ports}"\n'
        text += f'sources = ["{source}"]\n' if source else ""
    return text


TWO = pools((OF_A, A), (OF_B, B), (OF_OTHERS, ""))
# B gets an address of A, and A that of all others.
MOVED = pools((OF_OTHERS, A), (OF_A, B), (OF_B, ""))


def belongs(node: str, config: str = TWO) -> str:
    """The address of a node."""
    of = {TWO: (OF_A, OF_B), MOVED: (OF_OTHERS, OF_A)}[config]
    return of[0] if node in (V6, V6_OTHER) else of[1]


@paths
def test_each_customer_leaves_from_its_own_address(nat64: Nat64Network) -> None:
    """Datagrams, connections, pages and pings of two customers, the first and all others."""
    nat64.nat64(TWO + METRICS)
    outside = nat64.socket(V4, 4000)
    for _ in range(20):
        for node in ALL_NODES:
            assert ask(nat64.socket(node), (V4_IN_IPV6, 4000), outside)[0] == belongs(node)
    listener = nat64.listener(V4, 4000)
    for _ in range(10):
        for node in ALL_NODES:
            nat64.connect(node, (V4_IN_IPV6, 4000))
            assert listener.accept()[1][0] == belongs(node)
    web(nat64, {"page": b"for all"})
    for node in ALL_NODES:
        assert curl(nat64, nat64.v6, "--interface", node, f"http://[{V4_IN_IPV6}]/page").stdout == "for all"
        assert "1 received" in nat64.run(nat64.v6, "ping", "-c1", "-W5", "-I", node, V4_IN_IPV6).stdout
    found = shown_bindings(nat64)
    assert {protocol for protocol, *_ in found} == {"tcp", "udp", "icmp"}
    assert {(source, address) for _, source, _, address, _ in found} == {(node, belongs(node)) for node in ALL_NODES}
    assert nat64.drops() == {}
    page = scraped(nat64, nat64.translator)
    series = 'diolkos_source_pool_ports{{pool="{}",protocol="icmp",state="taken"}}'
    assert [page[series.format(pool)] for pool in ("default", A, B)] == [0, 2, 1]


@paths
def test_a_prefix_moves_to_another_pool(nat64: Nat64Network) -> None:
    """Bindings that are of another pool now end, and the log says so. All others go on, and so does every other customer."""
    log = nat64.scratch / "bindings.json"
    # A keeps its address, and B does not.
    both = pools((OF_A, A), (OF_B, B))
    only_a = pools((OF_A, A), (OF_OTHERS, B))
    nat64.nat64(to_file(log, both))
    until_listed(nat64, log)
    outside = nat64.socket(V4, 4000)
    inside = {node: nat64.socket(node, 4711) for node in (V6, V6_ELSEWHERE)}
    seen = {node: ask(sock, (V4_IN_IPV6, 4000), outside) for node, sock in inside.items()}
    listener = nat64.listener(V4, 4000)
    connection = nat64.connect(V6, (V4_IN_IPV6, 4000))
    server, _ = listener.accept()
    # Leases of the old pool end with it.
    for _ in range(8):
        assert ask(nat64.socket(V6_ELSEWHERE), (V4_IN_IPV6, 4000), outside)[0] == OF_B

    assert nat64.reload(to_file(log, only_a)) == (0, "")
    assert {address for _, source, _, address, _ in shown_bindings(nat64) if source == V6_ELSEWHERE} == set()
    closed = ("udp", V6_ELSEWHERE, "4711", OF_B, str(seen[V6_ELSEWHERE][1]))
    nat64.until(lambda: closed in [endpoints(r) for r in records(log) if r["event"] == "binding-deleted"])
    assert V6 not in {r["source"] for r in records(log) if r["event"] == "binding-deleted"}
    assert ask(inside[V6], (V4_IN_IPV6, 4000), outside) == seen[V6]
    connection.sendall(b"after")
    assert server.recv(10) == b"after"
    # Packets to the old address and port reach nobody.
    assert refusal(nat64.socket(V4, 4002), seen[V6_ELSEWHERE]) != "an answer"
    for _ in range(8):
        assert ask(nat64.socket(V6_ELSEWHERE), (V4_IN_IPV6, 4000), outside)[0] == OF_OTHERS
    assert ask(inside[V6_ELSEWHERE], (V4_IN_IPV6, 4000), outside)[0] == OF_OTHERS


@paths
def test_addresses_change_hands(nat64: Nat64Network) -> None:
    """All pools change places while flows go on; no datagram leaves from another customer's address."""
    nat64.nat64(TWO)
    outside = nat64.socket(V4, 4000)
    inside = {node: nat64.socket(node) for node in ALL_NODES}
    for config in (TWO, MOVED, TWO, MOVED):
        assert nat64.reload(config) == (0, "")
        for _ in range(6):
            for node in ALL_NODES:
                for sock in (inside[node], nat64.socket(node)):
                    assert ask(sock, (V4_IN_IPV6, 4000), outside)[0] == belongs(node, config)
    found = shown_bindings(nat64)
    assert {(source, address) for _, source, _, address, _ in found} == {(node, belongs(node, MOVED)) for node in ALL_NODES}


@paths
def test_a_full_pool_takes_nothing_of_another(nat64: Nat64Network) -> None:
    """A customer without a free port is refused by name; what it has goes on, and the other one opens what it wants."""
    nat64.nat64(pools((OF_A, A), (OF_B, B), (OF_OTHERS, ""), ports="5000-5002"))
    outside = nat64.socket(V4, 4000)
    of_a = [nat64.socket(node) for node in (V6, V6_OTHER, V6)]
    seen = [ask(sock, (V4_IN_IPV6, 4000), outside) for sock in of_a]
    assert {address for address, _ in seen} == {OF_A}
    assert refusal(nat64.socket(V6), (V4_IN_IPV6, 4000)) == "EHOSTUNREACH"
    assert nat64.counters()["slow.drop.pool_exhausted"] == 1
    for _ in range(3):
        assert ask(nat64.socket(V6_ELSEWHERE), (V4_IN_IPV6, 4000), outside)[0] == OF_B
    assert [ask(sock, (V4_IN_IPV6, 4000), outside) for sock in of_a] == seen
    assert nat64.drops("pool_exhausted") == {}


@paths
def test_nobodys_nodes_are_refused_without_a_pool_for_all_others(
    nat64: Nat64Network,
) -> None:
    """By name, as prohibited. A trace says which pool a node has."""
    nat64.nat64(pools((OF_A, A)))
    assert f"on {OF_A} of the pool for {A}" in told(trace(nat64, f"udp {V6} 4711 > {V4_IN_IPV6} 53"), "binding")
    assert trace(nat64, f"udp {V6_ELSEWHERE} 4711 > {V4_IN_IPV6} 53")["reason"] == "source_unmapped"
    assert refusal(nat64.socket(V6_ELSEWHERE), (V4_IN_IPV6, 4000)) == "EACCES"
    assert nat64.counters()["slow.drop.source_unmapped"] == 1
    ask(nat64.socket(V6), (V4_IN_IPV6, 4000), nat64.socket(V4, 4000))


def test_a_static_binding_of_another_pool_is_refused(nat64: Nat64Network) -> None:
    """In the file, and by `bind add`."""
    nat64.nat64(TWO)
    code, said = nat64.diolkos("bind", "add", "tcp", f"{OF_A}:80", f"[{V6_ELSEWHERE}]:80")
    assert code and f"{OF_A} is of the pool for {A}, and {V6_ELSEWHERE} is of the pool for {B}" in said
    nat64.bind("add", "tcp", f"{OF_B}:80", f"[{V6_ELSEWHERE}]:80")
    static = f'[[nat64.static]]\nprotocol = "tcp"\nv4 = "{OF_A}:80"\nv6 = "[{V6_ELSEWHERE}]:80"\n'
    code, said = nat64.reload(TWO + static)
    assert code == USAGE and "nat64.static[0].v4" in said
    # A binding of the operator ends if its address is now another customer's.
    assert nat64.reload(MOVED) == (0, "")
    assert nat64.shown("bindings") == []
