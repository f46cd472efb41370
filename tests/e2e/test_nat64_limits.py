# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How much a stateful translator remembers at most, for all and for each source, and under a flood of SYNs."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
from ipaddress import IPv4Address, IPv6Address

import pytest
from nat64 import BOUND, POOL, UNSHARED, V6_ELSEWHERE, V6_OTHER, Nat64Network, ask, refusal, with_keys
from raw import syn
from siit import V4, V4_IN_IPV6, V6
from test_nat64_state import all_datapaths
from test_siit_traffic import TCP_CLIENT, TCP_SERVER, listen, own_kib

FLOOD = 6000


@all_datapaths
@pytest.mark.parametrize(
    ("text", "name"),
    [
        (with_keys("max_sessions = 3", *UNSHARED), "session_limit"),
        (with_keys("max_bindings = 3", *UNSHARED), "binding_limit"),
        (with_keys("max_sessions_per_source = 3", *UNSHARED), "source_session_limit"),
        (with_keys("max_bindings_per_source = 3", *UNSHARED), "source_binding_limit"),
        (with_keys(*UNSHARED).replace(f'"{POOL}"', f'"{BOUND}"\nports = "5000-5002"'), "pool_exhausted"),
    ],
    ids=lambda value: value if value.isidentifier() else "",
)
def test_limits(nat64: Nat64Network, text: str, name: str) -> None:
    """What is too much is counted under its name and refused by ICMP; what is there goes on."""
    nat64.nat64(text)
    outside = nat64.socket(V4, 4000)
    there = [nat64.socket(address) for address in (V6, V6, V6_OTHER)]
    seen = [ask(sock, (V4_IN_IPV6, 4000), outside) for sock in there]
    assert refusal(nat64.socket(V6), (V4_IN_IPV6, 4000)) == "EHOSTUNREACH"
    assert nat64.counters()[f"slow.drop.{name}"] == 1
    assert nat64.drops(name) == {}
    assert [ask(sock, (V4_IN_IPV6, 4000), outside) for sock in there] == seen
    if name.startswith("source"):
        ask(nat64.socket(V6_ELSEWHERE), (V4_IN_IPV6, 4000), outside)
    elif name != "pool_exhausted":
        assert refusal(nat64.socket(V6_ELSEWHERE), (V4_IN_IPV6, 4000)) == "EHOSTUNREACH"


def arrived(outside: socket.socket) -> int:
    """Datagrams that a socket gets until it has had none for half a second."""
    outside.settimeout(0.5)
    for count in itertools.count():
        try:
            outside.recv(100)
        except TimeoutError:
            outside.settimeout(5)
            return count
    raise AssertionError("counting does not end")


def told(nat64: Nat64Network) -> str:
    """What the host is told about the first packet of a session, right after many others."""
    for _ in range(50):
        nat64.socket(V6).sendto(b"?", (V4_IN_IPV6, 4000))
    sock = nat64.socket(V6)
    sock.settimeout(1)
    return refusal(sock, (V4_IN_IPV6, 4000))


@all_datapaths
def test_rates_of_new_sessions(nat64: Nat64Network) -> None:
    """A host opens a burst and then its rate, with and without a lease; others are not touched; a reload changes the rate."""
    rate, burst = 10, 4
    text = with_keys(f"new_sessions_per_host = {rate}", f"new_sessions_burst = {burst}", *UNSHARED)
    nat64.nat64(text)
    outside = nat64.socket(V4, 4000)
    asked, begun = 0, time.monotonic()
    # Four bursts, and then what comes of the rate.
    while asked < 4 * rate * burst or time.monotonic() - begun < 3:
        nat64.socket(V6).sendto(b"?", (V4_IN_IPV6, 4000))
        asked += 1
        time.sleep(0.01)
    took = time.monotonic() - begun
    opened = arrived(outside)
    assert rate * burst <= opened <= rate * (burst + took) + 1, (opened, took)
    assert opened < asked
    counters = nat64.counters()
    assert counters["slow.drop.host_rate_limit"] == asked - opened
    assert nat64.drops("host_rate_limit") == {}
    assert counters["state.sessions"] == opened

    ask(nat64.socket(V6_OTHER), (V4_IN_IPV6, 4000), outside)
    # One may pass, of what has come of its rate since.
    assert "EHOSTUNREACH" in (told(nat64) for _ in range(5))
    arrived(outside)
    assert nat64.reload(with_keys(f"new_sessions_burst = {burst}", *UNSHARED))[0] == 0
    for _ in range(2 * rate * burst):
        ask(nat64.socket(V6), (V4_IN_IPV6, 4000), outside)


def test_limits_of_tcp_and_ping(nat64: Nat64Network) -> None:
    """A connection fails at once, a ping says why."""
    nat64.nat64(with_keys("max_sessions = 1", *UNSHARED))
    nat64.listener(V4, 4000)
    nat64.connect(V6, (V4_IN_IPV6, 4000))
    with pytest.raises(OSError, match="No route to host"):
        nat64.connect(V6, (V4_IN_IPV6, 4000))
    ping = nat64.run(nat64.v6, "ping", "-c1", "-W2", V4_IN_IPV6, check=False).stdout
    assert "Address unreachable" in ping


def test_a_stranger_takes_half_at_most(nat64: Nat64Network) -> None:
    """From the IPv4 side a source is given half of its sessions: the rest it can open itself."""
    nat64.nat64(with_keys("max_sessions_per_source = 10", *UNSHARED))
    nat64.bind("add", "udp", f"{BOUND}:4000", f"[{V6}]:4000")
    inside = nat64.socket(V6, 4000)
    for _ in range(5):
        ask(nat64.socket(V4), (BOUND, 4000), inside)
    assert refusal(nat64.socket(V4), (BOUND, 4000)) == "EHOSTUNREACH"
    assert nat64.counters()["slow.drop.source_session_limit"] == 1
    for port in range(4001, 4006):
        ask(inside, (V4_IN_IPV6, port), nat64.socket(V4, port))


@all_datapaths
@pytest.mark.parametrize("side", ["ipv4", "ipv4-to-binding", "ipv6"])
def test_a_flood_of_syns(nat64: Nat64Network, side: str) -> None:
    """From thousands of sources: the tables keep their limits, the program stays small, a transfer goes on unharmed."""
    running = nat64.nat64(with_keys("max_sessions = 1000", "max_sessions_per_source = 400", *UNSHARED))
    nat64.bind("add", "tcp", f"{BOUND}:8000", f"[{V6_ELSEWHERE}]:8000")
    server = listen(nat64, nat64.v4, TCP_SERVER, V4)
    client = nat64.start(nat64.v6, sys.executable, "-c", TCP_CLIENT, V6, V4_IN_IPV6, "200", stdout=subprocess.PIPE, text=True)
    nat64.until(lambda: nat64.states("tcp") == ["established"])
    assert client.poll() is None
    address = V6 if side == "ipv6" else V4
    raw = nat64.socket(address, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number in range(FLOOD):
        if side == "ipv6":
            # Some hundred /64s with some hosts each, and each host with some ports.
            source = str(IPv6Address("2001:db8:8::") + ((number % 600) << 64) + number % 7)
            to = V4_IN_IPV6
        else:
            source = str(IPv4Address("203.0.113.0") + number % 256)
            to = BOUND if side == "ipv4-to-binding" else str(IPv4Address("192.0.2.2") + number % 6)
        raw.sendto(syn(source, to, 1024 + number, 8000), (to, 0))
        if number == FLOOD * 2 // 3:
            assert client.poll() is None, "the transfer is over before the flood"
    assert client.wait(30) == 0
    assert client.stdout.read() == server.stdout.readline()
    counters = nat64.counters()
    refused = {"ipv4": "syn_limit", "ipv4-to-binding": "source_session_limit", "ipv6": "session_limit"}[side]
    assert counters[f"slow.drop.{refused}"] > 100, counters
    assert nat64.drops(refused, "syn_unanswered", "no_binding", "no_connection") == {}
    most = {"ipv4": 1, "ipv4-to-binding": 201, "ipv6": 1000}[side]
    assert counters["state.sessions"] <= most
    assert counters["state.held_syns"] <= 4096
    assert own_kib(running.process.pid) < 36 * 1024
