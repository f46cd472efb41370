# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Nodes ask for bindings (PCP, RFC 6887): by libtorrent, and by a client that does what libtorrent does not."""

from __future__ import annotations

import signal
import socket
import time

import pytest
from nat64 import V6_ELSEWHERE, V6_OTHER, Nat64Network, ask
from pcp import (
    ADDRESS_MISMATCH,
    NOT_AUTHORIZED,
    PREFER_FAILURE,
    SERVER,
    SUCCESS,
    USER_EX_QUOTA,
    Client,
    libtorrent,
    request,
    with_pcp,
)
from siit import TRANSLATOR6, V4, V4_IN_IPV6, V6
from stateful import end, start, stop_for_good
from test_nat64_floods import datagram

UDP = socket.IPPROTO_UDP
FLOOD = 12_000


def asked_for(nat64: Nat64Network) -> dict[str, tuple[str, int]]:
    """The bindings that nodes have asked for: external address and port, by protocol and port of the node."""
    found = {}
    for binding in nat64.shown("bindings"):
        if binding["origin"] == "pcp":
            address, _, port = binding["v4"].rpartition(":")
            found[f"{binding['protocol']} {binding['v6']}"] = (address, int(port))
    return found


@pytest.mark.parametrize("nat64", ["tc", "tun", "xdp"], indirect=True)
def test_a_bittorrent_client_opens_its_port(nat64: Nat64Network) -> None:
    """Peers with IPv4 only reach it, whoever they are, and its port closes when it ends."""
    nat64.nat64(with_pcp(nat64=('filtering = "address-dependent"',)))
    process, log = libtorrent(nat64, 6881)
    nat64.until(lambda: log.read_text().count("successfully mapped port") == 2 or process.poll() is not None)
    bindings = asked_for(nat64)
    assert bindings.keys() == {f"{protocol} [{V6}]:6881" for protocol in ("tcp", "udp")}, log.read_text()
    to = bindings[f"tcp [{V6}]:6881"]
    assert f"external port: TCP/{to[1]}" in log.read_text()

    before = nat64.counters().get("fast.translated_4to6", 0)
    nat64.connect(V4, to).close()
    assert nat64.states("tcp") != []
    if nat64.datapath != "tun":
        # The first packet is the controller's, and the rest is the kernel's.
        assert nat64.counters()["fast.translated_4to6"] > before
    said = nat64.run(nat64.translator, str(nat64.program), "trace", f"tcp syn {V4} 7 > {to[0]} {to[1]}").stdout
    assert "(pcp, sessions: 1)" in said and "everybody may send to a binding" in said, said

    process.send_signal(signal.SIGTERM)
    nat64.until(lambda: asked_for(nat64) == {})
    counters = nat64.counters()
    assert (counters["pcp.mapped"], counters["pcp.deleted"], counters["pcp.mappings"]) == (2, 2, 0)
    assert nat64.drops() == {}


def test_what_a_client_may_ask_for(nat64: Nat64Network) -> None:
    """Its own port, as long as it has the nonce; what it is not given has the code of the RFC."""
    nat64.nat64(with_pcp("max_lifetime = 3600"))
    client, other = Client(nat64), Client(nat64, V6_OTHER)
    inside, outside = nat64.socket(V6, 4000), nat64.socket(V4, 4000)
    first = client.map(4000, UDP, port=7000)
    assert (first.code, first.lifetime, first.port) == (SUCCESS, 600, 7000)
    assert ask(outside, (first.address, 7000), inside)[0] == V4_IN_IPV6
    assert client.map(4000, UDP, lifetime=10**6).lifetime == 3600

    stranger = Client(nat64, nonce=b"not the same")
    refused = stranger.map(4000, UDP, lifetime=0)
    assert refused.code == NOT_AUTHORIZED and 3500 <= refused.lifetime <= 3600
    forged = request(V6, UDP, 4000, client.nonce, 0)
    assert other.ask(forged).code == ADDRESS_MISMATCH
    taken = other.map(4000, UDP, port=7000, address=f"::ffff:{first.address}", option=PREFER_FAILURE)
    assert taken.code == 11
    assert asked_for(nat64) == {f"udp [{V6}]:4000": (first.address, 7000)}

    # What the operator ends, the client may ask for again; what the operator has bound is the operator's.
    nat64.bind("del", "udp", f"{first.address}:7000")
    assert asked_for(nat64) == {}
    assert client.map(4000, UDP, port=7000).port == 7000
    assert client.map(4000, UDP, lifetime=0).code == SUCCESS
    nat64.bind("add", "tcp", "192.0.2.1:443", f"[{V6}]:443")
    assert (client.map(443).port, asked_for(nat64)) == (443, {})
    assert nat64.drops() == {}


def test_a_reload(nat64: Nat64Network) -> None:
    """It keeps what is still possible; by the epoch, clients learn that something is lost."""
    nat64.nat64(with_pcp())
    client = Client(nat64)
    # Grown, so that it would be seen to begin again.
    nat64.until(lambda: client.announce().epoch >= 2)
    first = client.map(4000, port=50_000)
    nat64.configure(with_pcp("max_mappings = 5"))
    assert nat64.diolkos("reload")[0] == 0
    assert client.announce().epoch >= first.epoch
    assert client.map(4000).port == 50_000
    # Another address is listened at, and this one no longer.
    nat64.configure(with_pcp(listen="2001:db8:6::9"))
    code, said = nat64.diolkos("reload")
    assert code != 0 and "cannot listen for PCP at [2001:db8:6::9]:5351" in said
    assert client.map(4000).port == 50_000, "nothing has changed"
    nat64.batch(nat64.translator, "address add 2001:db8:6::9/64 dev b6 nodad")
    assert nat64.diolkos("reload")[0] == 0
    sockets = nat64.run(nat64.translator, "ss", "-Hlun").stdout
    assert "[2001:db8:6::9]:5351" in sockets and f"[{TRANSLATOR6}]:5351" not in sockets
    # The pool loses the port.
    begun = time.monotonic()
    nat64.configure(with_pcp().replace('address = "192.0.2.0/29"', 'address = "192.0.2.0/29"\nports = "1024-49999"'))
    assert nat64.diolkos("reload")[0] == 0
    assert (asked_for(nat64), nat64.counters()["pcp.lost"]) == ({}, 1)
    assert client.map(4000, port=50_000).port < 50_000
    assert client.announce().epoch <= time.monotonic() - begun, "it has begun again"
    nat64.configure(with_pcp().split("[nat64.pcp]")[0] + "[[nat64" + with_pcp().split("[[nat64")[1])
    assert nat64.diolkos("reload")[0] == 0
    assert asked_for(nat64) == {} and ":5351" not in nat64.run(nat64.translator, "ss", "-Hlun").stdout


def test_a_kill(nat64: Nat64Network) -> None:
    """The epoch begins again, and the client has its port back; what peers had opened meanwhile goes on."""
    running = start(nat64, with_pcp())
    client = Client(nat64)
    inside, outside = nat64.socket(V6, 4000), nat64.socket(V4, 4000)
    nat64.until(lambda: client.announce().epoch >= 2)
    mapped = client.map(4000, UDP, port=7000)
    ask(outside, (mapped.address, 7000), inside)
    end(running, signal.SIGKILL)
    killed = time.monotonic()
    start(nat64)
    assert asked_for(nat64) == {}
    again = client.map(4000, UDP, port=mapped.port, address=f"::ffff:{mapped.address}")
    assert (again.port, again.address) == (7000, mapped.address)
    assert again.epoch <= time.monotonic() - killed, "no older than the process"
    ask(outside, (mapped.address, 7000), inside)
    stop_for_good(nat64)


def test_a_flood(nat64: Nat64Network) -> None:
    """By hosts of many links, invented ones among them: what it fills is bounded and named, and nobody else loses a mapping."""
    nat64.nat64(with_pcp("max_mappings = 400", "max_mappings_per_source = 32"))
    client = Client(nat64)
    inside, outside = nat64.socket(V6, 4000), nat64.socket(V4, 4000)
    mapped = client.map(4000, UDP)
    mappings = [client.map(port).port for port in range(5000, 5010)]
    raw = nat64.socket(V6, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number in range(FLOOD):
        # Its own link, the client's own address, which does not know the nonce, and hundreds of other links.
        source = (V6_ELSEWHERE, V6, f"2001:db8:8:{number % 600:x}::{number:x}")[number % 3]
        asked = request(source, UDP, number % 60_000 + 1, b"anyone else!", 3600)
        raw.sendto(datagram(source, TRANSLATOR6, 5000, SERVER[1], asked), (TRANSLATOR6, 0))
        if number % 4000 == 0:
            ask(outside, (mapped.address, mapped.port), inside)
    again = client.map(4000, UDP)
    assert (again.code, again.port) == (SUCCESS, mapped.port)
    counters = nat64.counters()
    # Half of what others leave, of each site; the client's own link has used up its rate, and others have not.
    assert 32 <= counters["pcp.mappings"] <= 400
    assert counters["pcp.drop.rate"] > 0 and counters["pcp.refused.user_ex_quota"] > 0
    nat64.until(lambda: client.map(5000).code == SUCCESS)
    assert [client.map(port).port for port in range(5000, 5010)] == mappings
    assert Client(nat64, V6_OTHER).map(1).code in (SUCCESS, USER_EX_QUOTA)
    assert nat64.drops().keys() == {"pcp.drop.rate"}
