# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sessions by the command line: `show sessions` selects, `session del` ends one, and what is shown can be given to others."""

from __future__ import annotations

import json
import signal

import pytest
from nat64 import BOUND, V4_OTHER, V6_OTHER, Nat64Network, ask, in_ipv6
from siit import PREF64, V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from stateful import end, start
from test_clat_faults import RUN_TIME, USAGE, one_sentence

every_way = pytest.mark.parametrize("nat64", ["tc", "tun", "xdp"], indirect=True)
OTHER = in_ipv6(V4_OTHER)


def selected(nat64: Nat64Network, what: str, *options: str) -> tuple[list[str], int]:
    """The nodes of the entries that are shown, and how many there are that fit."""
    shown = json.loads(nat64.run(nat64.translator, str(nat64.program), "show", what, "--json", *options).stdout)
    return [entry["v6"] for entry in shown["entries"]], shown["total"]


def lines(nat64: Nat64Network) -> list[str]:
    """The sessions as people see them."""
    return nat64.run(nat64.translator, str(nat64.program), "show", "sessions").stdout.splitlines()[1:]


def test_what_is_selected(nat64: Nat64Network) -> None:
    """By node, peer and protocol, addresses, networks and endpoints; the total counts what fits."""
    nat64.nat64()
    for source, port in ((V6, 5000), (V6, 5001), (V6_OTHER, 5000)):
        sock = nat64.socket(source, port)
        for peer in (V4_IN_IPV6, OTHER):
            sock.sendto(b"", (peer, 4000))
    nat64.run(nat64.v6, "ping", "-I", V6, "-c1", "-W5", V4_IN_IPV6)
    first, second, other = f"[{V6}]:5000", f"[{V6}]:5001", f"[{V6_OTHER}]:5000"

    nodes, total = selected(nat64, "sessions")
    assert (len(nodes), total) == (7, 7)
    for options, expected in (
        (("--node", V6, "--protocol", "udp"), [first, first, second, second]),
        (("--node", f"{V6_OTHER}/128"), [other, other]),
        (("--node", "2001:db8:6::/64", "--protocol", "udp"), [first, first, second, second, other, other]),
        (("--node", first), [first, first]),
        (("--peer", V4_OTHER), [first, second, other]),
        (("--peer", f"{V4}:4000"), [first, second, other]),
        (("--peer", f"{V4}:4001"), []),
        (("--peer", "198.51.100.0/24", "--node", V6_OTHER), [other, other]),
        (("--protocol", "tcp"), []),
    ):
        nodes, total = selected(nat64, "sessions", *options)
        assert (sorted(nodes), total) == (expected, len(expected)), options
    assert [node.rpartition(":")[0] for node in selected(nat64, "sessions", "--protocol", "icmp")[0]] == [f"[{V6}]"]
    nodes, total = selected(nat64, "sessions", "--node", V6, "--protocol", "udp", "--limit", "3")
    assert (len(nodes), total) == (3, 4)
    assert selected(nat64, "sessions", "--limit", "2")[1] == 7
    assert sorted(selected(nat64, "bindings", "--protocol", "udp", "--node", V6)[0]) == [first, second]
    table = nat64.run(nat64.translator, str(nat64.program), "show", "sessions", "--limit", "2", "--node", V6).stdout
    assert table.splitlines()[-1] == "2 of 5"

    for arguments, words in (
        (("show", "bindings", "--peer", V4), "a binding has no peer"),
        (("show", "status", "--node", V6), "are for `show sessions` and `show bindings`"),
        (("show", "sessions", "--node", "2001:db8::1/64"), "`2001:db8::1/64` has host bits set; write `2001:db8::/64`"),
        (("show", "sessions", "--node", V4), f"`{V4}` is not an IPv6 network or address"),
    ):
        code, message = nat64.diolkos(*arguments)
        assert (code, words in message) == (USAGE, True), message


@every_way
def test_a_session_ends(nat64: Nat64Network) -> None:
    """With its binding if it was the last one, in the fast path as well; the log says so, and the next packet opens another."""
    running = nat64.nat64()
    inside, outside, other = nat64.socket(V6, 5000), nat64.socket(V4, 4000), nat64.socket(V4_OTHER, 4000)
    seen = ask(inside, (V4_IN_IPV6, 4000), outside)
    assert ask(inside, (OTHER, 4000), other) == seen
    node, v4 = f"[{V6}]:5000", f"{seen[0]}:{seen[1]}"
    assert nat64.diolkos("session", "del", "udp", node, f"{V4_OTHER}:4000") == (0, "")
    assert [session["peer"] for session in nat64.shown("sessions")] == [f"{V4}:4000"]
    # The line that is left, as it is shown.
    (line,) = lines(nat64)
    assert nat64.diolkos("session", "del", *line.split()) == (0, "")
    assert nat64.shown("sessions") == nat64.shown("bindings") == []
    nat64.until(lambda: running.log().count("ended by the operator: the session udp ") == 2)
    assert f"{node} with {V4}:4000, seen as {v4} (udp)" in running.log()
    # Nobody gets through from outside, by whichever path.
    before = nat64.counters()["slow.drop.no_binding"]
    outside.sendto(b"late", seen)
    nat64.until(lambda: nat64.counters()["slow.drop.no_binding"] == before + 1)
    ask(inside, (V4_IN_IPV6, 4000), outside)
    assert len(nat64.shown("sessions")) == 1

    assert nat64.diolkos("session", "del", "udp", f"[{V6}]:5001", f"{V4}:4000")[0] == USAGE
    code, message = nat64.diolkos("session", "del", "udp", node, f"{BOUND}:9", f"{V4}:4000")
    assert code == USAGE
    assert f"there is no session udp {node} with {V4}:4000, seen as {BOUND}:9" in one_sentence(message)
    assert len(nat64.shown("sessions")) == 1


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
def test_it_does_not_come_back(nat64: Nat64Network) -> None:
    """What is ended is written into the state file before the command returns."""
    running = start(nat64)
    inside, outside = nat64.socket(V6, 5000), nat64.socket(V4, 4000)
    ask(inside, (V4_IN_IPV6, 4000), outside)
    ping = nat64.run(nat64.v6, "ping", "-I", V6, "-c1", "-W5", V4_IN_IPV6)
    assert ping.returncode == 0
    for line in lines(nat64):
        assert nat64.diolkos("session", "del", *line.split()) == (0, "")
    end(running, signal.SIGKILL)
    start(nat64)
    assert nat64.shown("sessions") == []
    assert nat64.diolkos("stop") == (0, "")


def test_what_is_shown_can_be_given_to_others(nat64: Nat64Network) -> None:
    """A session is a packet of its node for `trace`, and its endpoints are those of `bind`, in their order."""
    nat64.nat64()
    inside, outside = nat64.socket(V6, 5000), nat64.socket(V4, 4000)
    seen = ask(inside, (V4_IN_IPV6, 4000), outside)
    (line,) = lines(nat64)
    protocol, v6, v4, peer, *_ = line.split()
    for words in (line.split(), (protocol, v6, peer), (protocol, v6, "to", f"[{V4_IN_IPV6}]:4000")):
        told = nat64.run(nat64.translator, str(nat64.program), "trace", *words).stdout
        assert f"udp {V6} 5000 > {V4_IN_IPV6} 4000" in told.splitlines()[0]
        assert "found: with" in told
    back = nat64.run(nat64.translator, str(nat64.program), "trace", protocol, peer, "to", v4).stdout
    assert f"{V6}" in back
    assert seen == (v4.rpartition(":")[0], int(v4.rpartition(":")[2]))
    nat64.bind("add", protocol, v6, v4)
    assert nat64.shown("bindings")[0]["origin"] == "operator"
    nat64.bind("del", protocol, v4)
    assert nat64.shown("sessions") == []
    code, message = nat64.diolkos("bind", "add", "udp", v4, peer)
    assert (code, "are of one family" in message) == (USAGE, True)


def test_a_translator_without_sessions(siit: SiitNetwork) -> None:
    """Says so; its status has a command of its own."""
    siit.siit()
    code, message = siit.diolkos("session", "del", "udp", f"[{V6}]:1", f"{V4}:2")
    assert code == RUN_TIME
    assert "a stateless translator has no bindings and sessions" in one_sentence(message)
    told = [siit.run(siit.translator, str(siit.program), *words).stdout for words in (("status",), ("show", "status"))]
    assert told[0] == told[1] != ""
    as_json = json.loads(siit.run(siit.translator, str(siit.program), "status", "--json").stdout)
    assert as_json["mode"] == "siit"
    assert PREF64 in as_json["prefixes"]
    # An IPv4 destination is the node that it stands for.
    told = siit.run(siit.translator, str(siit.program), "trace", "icmp", "echo", "7", V4, "to", V6_MAPPED).stdout
    assert f"icmp echo 7 {V4} > {V6_MAPPED}" in told
