# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Customers with addresses of their own, whose sources have fixed ports: what peers see follows from the file alone."""

from __future__ import annotations

import pytest
from logs import records, shown_bindings, to_file, until_listed
from nat64 import TRANSLATOR, UNSHARED, V6_ELSEWHERE, V6_OTHER, Nat64Network, ask, refusal
from siit import V4, V4_IN_IPV6, V6
from test_clat_faults import USAGE
from test_nat64_deterministic import look_up
from test_nat64_logs import send_from_many_ports
from test_trace import told, trace

paths = pytest.mark.parametrize("nat64", ["tc", "tun", "xdp"], indirect=True)

# The IPv6 host is two customers: its link, and an address of another /64.
A, B = "2001:db8:6::/64", "2001:db8:7::/64"
BEFORE_B, OTHERS = "2001:db8:4::/64", "2001:db8:c::/64"
OF_A, OF_B, OF_OTHERS = "192.0.2.2", "192.0.2.3", "192.0.2.4"


def pools(*entries: tuple[str, list[str]], overflow: int = 0, sources: tuple[str, ...] = (OTHERS,)) -> str:
    """A configuration in which each source has 512 ports of an address of its customer."""
    text = TRANSLATOR + "[nat64]\n" + "\n".join(UNSHARED)
    text += "\nports_per_block = 64\nmax_blocks_per_source = 4" if overflow else ""
    for address, prefixes in entries:
        listed = ", ".join(f'"{prefix}"' for prefix in prefixes)
        text += f'\n[[nat64.pool4]]\naddress = "{address}"\n'
        text += f"sources = [{listed}]\n" if prefixes else ""
    text += f"\n[nat64.deterministic]\nports_per_source = 512\noverflow_share = {overflow}\n"
    listed = ", ".join(f'"{prefix}"' for prefix in sources)
    return text + (f"sources = [{listed}]\n" if sources else "")


# B is the second source of its pool.
TWO = ((OF_A, [A]), (OF_B, [BEFORE_B, B]), (OF_OTHERS, []))
# The ports that RFC 7422 section 2 gives: A is the first of its address, B the second.
RANGES = {A: range(1024, 1536), B: range(1536, 2048)}


def whose(node: str) -> tuple[str, range]:
    """The address and the ports of a node."""
    return (OF_A, RANGES[A]) if node in (V6, V6_OTHER) else (OF_B, RANGES[B])


@paths
def test_each_customer_has_fixed_ports_of_its_own_address(nat64: Nat64Network) -> None:
    """Datagrams and connections, with the log, the look-up and a trace beside them."""
    log = nat64.scratch / "bindings.json"
    nat64.nat64(to_file(log, pools(*TWO)))
    outside = nat64.socket(V4, 4000)
    listener = nat64.listener(V4, 4000)
    seen = set()
    for _ in range(20):
        for node in (V6, V6_OTHER, V6_ELSEWHERE):
            address, ports = whose(node)
            nat64.connect(node, (V4_IN_IPV6, 4000))
            for peer in (ask(nat64.socket(node), (V4_IN_IPV6, 4000), outside), listener.accept()[1]):
                assert peer[0] == address and peer[1] in ports
                seen.add((*peer, A if address == OF_A else B))
    if nat64.datapath != "tun":
        assert nat64.counters()["fast.translated_6to4"] > 0
    for address, port, source in sorted(seen)[::20]:
        [owner] = look_up(nat64, address, str(port))["owners"]
        assert (owner["by"], owner["source"], owner["pool"]) == (
            "mapping",
            source,
            {A: A, B: f"{BEFORE_B} and 1 more"}[source],
        )
    [of_b] = look_up(nat64, V6_ELSEWHERE)["owners"]
    assert (of_b["address"], of_b["first_port"], of_b["last_port"]) == (OF_B, 1536, 2047)
    # A has one source, so what follows its range is nobody's.
    assert look_up(nat64, OF_A, "1536")["owners"] == []
    assert f"on {OF_A} of the pool for {A}" in told(trace(nat64, f"udp {V6} 4711 > {V4_IN_IPV6} 53"), "binding")

    # The records are enough to compute it (RFC 7422 section 3): three mappings, and no line for a binding.
    until_listed(nat64, log)
    found = records(log)
    assert not any("port" in record for record in found)
    mappings = {r["pool"]: r for r in found if r["event"] == "mapping"}
    assert len(mappings) == 3
    addresses = {r["pool"]: r["address"] for r in found if r["event"] == "mapping-addresses"}
    assert addresses == {0: OF_OTHERS, 1: OF_A, 2: OF_B}
    sources = {(r["pool"], r["number"]): r["source"] for r in found if r["event"] == "mapping-sources"}
    for address, port, source in seen:
        [pool] = [number for number, its in addresses.items() if its == address]
        slot = (port - mappings[pool]["first_port"]) // mappings[pool]["ports_per_source"]
        assert sources[pool, slot] == source.removesuffix("/64")


@paths
def test_blocks_of_the_overflow_are_of_the_customers_address(nat64: Nat64Network) -> None:
    """A customer that has used up its fixed ports gets logged blocks of its own address, and no more than these."""
    log = nat64.scratch / "bindings.json"
    nat64.nat64(to_file(log, pools(*TWO, overflow=10)))
    send_from_many_ports(nat64, 20_000, 600)
    nat64.until(lambda: len(shown_bindings(nat64)) == 600)
    assert {address for *_, address, _ in shown_bindings(nat64)} == {OF_A}
    nat64.until(lambda: sum(r["event"] == "block-allocated" for r in records(log)) >= 2)
    blocks = [r for r in records(log) if r["event"] == "block-allocated"]
    assert {(r["address"], r["source"]) for r in blocks} == {(OF_A, A.removesuffix("/64"))}
    # 64512 - 6452 (a tenth) = 58060, / 512 = 113: blocks begin behind 1024 + 113 * 512.
    assert all(r["first_port"] >= 58880 for r in blocks)
    [note] = look_up(nat64, OF_A, str(blocks[0]["first_port"]))["notes"]
    assert "only a log of bindings knows" in note
    outside = nat64.socket(V4, 4000)
    peer = ask(nat64.socket(V6_ELSEWHERE), (V4_IN_IPV6, 4000), outside)
    assert peer[0] == OF_B and peer[1] in RANGES[B]


@paths
def test_a_customer_gets_and_loses_a_pool(nat64: Nat64Network) -> None:
    """Only its own bindings end. Everybody else keeps ports and connections, and the log begins anew with other mappings."""
    log = nat64.scratch / "bindings.json"
    one = pools((OF_OTHERS, []), sources=(A, B))
    own = pools((OF_OTHERS, []), (OF_B, [B]), sources=(A,))
    nat64.nat64(to_file(log, one))
    until_listed(nat64, log)
    outside = nat64.socket(V4, 4000)
    inside = {node: nat64.socket(node, 4711) for node in (V6, V6_ELSEWHERE)}
    seen = {node: ask(sock, (V4_IN_IPV6, 4000), outside) for node, sock in inside.items()}
    assert {address for address, _ in seen.values()} == {OF_OTHERS}
    assert seen[V6][1] in range(1024, 1536) and seen[V6_ELSEWHERE][1] in range(1536, 2048)

    for config, address, ports in ((own, OF_B, range(1024, 1536)), (one, OF_OTHERS, range(1536, 2048))):
        before = len(records(log))
        assert nat64.reload(to_file(log, config)) == (0, "")
        assert {source for _, source, *_ in shown_bindings(nat64)} == {V6}
        nat64.until(lambda at=before: any(r["event"] == "listed" for r in records(log)[at:]))
        # Nothing is in force beside the mappings: what ended is not listed.
        assert not any("port" in record for record in records(log)[before:])
        assert ask(inside[V6], (V4_IN_IPV6, 4000), outside) == seen[V6]
        for sock in (inside[V6_ELSEWHERE], *(nat64.socket(V6_ELSEWHERE) for _ in range(8))):
            peer = ask(sock, (V4_IN_IPV6, 4000), outside)
            assert peer[0] == address and peer[1] in ports
        assert refusal(nat64.socket(V4, 4002), seen[V6_ELSEWHERE]) != "an answer"
        assert all(port in look_up_range(nat64, V6_ELSEWHERE) for port in ports)


@paths
def test_pools_and_ways_to_divide_change_under_flows(nat64: Nat64Network) -> None:
    """From dynamic ports to fixed ones, to other addresses and back: no datagram leaves by an address of somebody else, and
    no new one by a port of another source. Leases of the fast path end with each change."""
    every = range(1024, 65536)
    moved = pools((OF_B, [A]), (OF_OTHERS, [BEFORE_B, B]), (OF_A, []))
    nested = pools((OF_A, []), (OF_B, [B]), sources=(BEFORE_B, A))
    dynamic = pools(*TWO).split("[nat64.deterministic]")[0]
    steps = {
        "fixed": (pools(*TWO), {V6: (OF_A, RANGES[A]), V6_ELSEWHERE: (OF_B, RANGES[B])}),
        "dynamic": (dynamic, {V6: (OF_A, every), V6_ELSEWHERE: (OF_B, every)}),
        "moved": (moved, {V6: (OF_B, RANGES[A]), V6_ELSEWHERE: (OF_OTHERS, RANGES[B])}),
        "nested": (nested, {V6: (OF_A, RANGES[B]), V6_ELSEWHERE: (OF_B, RANGES[A])}),
        "blocks": (pools(*TWO, overflow=10), {V6: (OF_A, RANGES[A]), V6_ELSEWHERE: (OF_B, RANGES[B])}),
    }
    nat64.nat64(dynamic)
    outside = nat64.socket(V4, 4000)
    inside = {node: nat64.socket(node) for node in (V6, V6_ELSEWHERE)}
    for name in ("dynamic", "fixed", "moved", "nested", "fixed", "blocks", "dynamic", "nested", "blocks", "moved"):
        config, expected = steps[name]
        assert nat64.reload(config) == (0, "")
        for _ in range(8):
            for node, (address, ports) in expected.items():
                assert ask(inside[node], (V4_IN_IPV6, 4000), outside)[0] == address, name
                peer = ask(nat64.socket(node), (V4_IN_IPV6, 4000), outside)
                assert peer[0] == address and peer[1] in ports, name
    refused = nat64.counters()
    assert [refused[f"slow.drop.{name}"] for name in ("pool_exhausted", "source_unmapped", "source_binding_limit")] == [0, 0, 0]


def look_up_range(nat64: Nat64Network, node: str) -> range:
    """The ports that a node has by the file."""
    [owner] = look_up(nat64, node)["owners"]
    return range(owner["first_port"], owner["last_port"] + 1)


def test_what_cannot_be_divided_is_refused(nat64: Nat64Network) -> None:
    """With both places; what is in force stays. The ports of a number whose source has a pool of its own are nobody's."""
    nat64.nat64(pools(*TWO))
    outside = nat64.socket(V4, 4000)
    sock = nat64.socket(V6)
    seen = ask(sock, (V4_IN_IPV6, 4000), outside)
    # 64512 / 512 = 126.
    code, said = nat64.reload(pools((OF_A, ["2001:db8:6::/56"]), (OF_OTHERS, [])))
    assert code == USAGE and "with [nat64.deterministic], of nat64.pool4[0]: 256 sources (/64) x 512 ports do not fit" in said
    code, said = nat64.reload(pools((OF_A, [A]), (OF_OTHERS, []), sources=(A,)))
    assert code == USAGE and f"nat64.deterministic.sources[0]: {A} is in nat64.pool4[0].sources" in said
    code, said = nat64.reload(pools((OF_A, [A]), (OF_OTHERS, []), sources=()))
    assert code == USAGE and "nat64.deterministic.sources: nat64.pool4[1] has no sources" in said
    assert ask(sock, (V4_IN_IPV6, 4000), outside) == seen

    # A is the seventh /64 of the others' prefix.
    nested = pools((OF_OTHERS, []), (OF_A, ["2001:db8:0:6::/64"]), sources=("2001:db8::/61",))
    assert nat64.reload(nested) == (0, "")
    hole = look_up(nat64, OF_OTHERS, str(1024 + 6 * 512))
    assert hole["owners"] == [] and "2001:db8:0:6::/64, whose nodes have the pool for 2001:db8:0:6::/64" in hole["notes"][0]
    assert endpoints_of(look_up(nat64, "2001:db8:0:6::1")) == (OF_A, 1024)
    assert endpoints_of(look_up(nat64, "2001:db8:0:7::1")) == (OF_OTHERS, 1024 + 7 * 512)


def endpoints_of(answer: dict) -> tuple[str, int]:
    """Where the ports of the only owner begin."""
    [owner] = answer["owners"]
    return owner["address"], owner["first_port"]
