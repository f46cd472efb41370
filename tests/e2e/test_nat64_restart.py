# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A stateful translator with a state file: what lives through its end, its kill and its next start."""

from __future__ import annotations

import signal

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import BOUND, CONFIG, POOL, TRANSLATOR, V4_OTHER, V6_ELSEWHERE, V6_OTHER, Nat64Network, ask, in_ipv6, with_keys
from siit import PREF64, V4, V4_IN_IPV6, V6
from stateful import end, goes_on, left, start, state, stop_for_good
from stream import Stream
from test_nat64_control import static
from test_nat64_reload import OTHER_PREF64

all_datapaths = pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)
kernel_datapaths = pytest.mark.parametrize("nat64", ["tc", "clsact", "inline", "xdp"], indirect=True)
ends = pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])

GOES_ON = "the kernel continues to translate known sessions"


@all_datapaths
@ends
@pytest.mark.parametrize("inwards", [False, True], ids=["out", "in"])
def test_a_transfer_lives_through_a_restart(nat64: Nat64Network, how: signal.Signals, inwards: bool) -> None:
    """While no program runs, the kernel goes on; with the datapath tun it waits, and a kill loses what was not written."""
    before = nat64.forwarding()
    running = start(nat64)
    assert "no fast path" not in running.log()
    stream = Stream.through(nat64, inwards)
    stream.flow()
    if how == signal.SIGKILL and not goes_on(nat64):
        nat64.bind("add", "udp", f"{BOUND}:99", f"[{V6}]:99")  # has the state written
    end(running, how)
    if how == signal.SIGTERM:
        assert (GOES_ON in running.log()) is goes_on(nat64)
    if goes_on(nat64):
        stream.flow()
        stream.flow()
        assert nat64.forwarding() != before
    for _ in range(2):
        running = start(nat64)
        assert "cannot take over" not in running.log(), running.log()
        stream.flow()
        assert "established" in nat64.states("tcp")
        end(running, how)
        if goes_on(nat64):
            stream.flow()
        elif how == signal.SIGKILL:
            assert left(nat64) != []  # the note about forwarding
    running = start(nat64)
    stream.finish()
    nat64.until(lambda: "established" not in nat64.states("tcp"))
    stop_for_good(nat64)
    assert running.wait() == 0
    assert nat64.forwarding() == before


@kernel_datapaths
def test_routes_without_carrier(nat64: Nat64Network) -> None:
    """A kernel that passes such routes over is told not to, for the device; where that does not help, it is said."""
    for family in ("ipv4", "ipv6"):
        nat64.sysctl(nat64.translator, f"net.{family}.conf.default.ignore_routes_with_linkdown", "1")
    running = start(nat64)
    assert "ignore_routes_with_linkdown" not in running.log()
    stream = Stream.through(nat64)
    stream.flow()
    end(running, signal.SIGTERM)
    stream.flow()
    nat64.sysctl(nat64.translator, "net.ipv4.conf.all.ignore_routes_with_linkdown", "1")
    running = start(nat64)
    assert "net.ipv4.conf.all.ignore_routes_with_linkdown is on" in running.log()
    stream.finish()
    stop_for_good(nat64)


@all_datapaths
@ends
def test_mappings_and_bindings_stay(nat64: Nat64Network, how: signal.Signals) -> None:
    """A node keeps its port, its address (also for what begins later), and what the operator has bound."""
    running = start(nat64)
    nat64.bind("add", "udp", f"{BOUND}:80", f"[{V6}]:8080")
    nat64.bind("add", "tcp", f"{BOUND}:443", f"[{V6_OTHER}]:443")
    inside, outside, other = nat64.socket(V6), nat64.socket(V4, 4000), nat64.socket(V4_OTHER, 4000)
    elsewhere = nat64.socket(V6_ELSEWHERE)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    paired = ask(elsewhere, (V4_IN_IPV6, 4000), outside)[0]
    if how == signal.SIGKILL and not goes_on(nat64):
        nat64.bind("add", "udp", f"{BOUND}:81", f"[{V6}]:8081")
    end(running, how)
    if goes_on(nat64):
        assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
    running = start(nat64)
    assert "bindings of the operator restored" in running.log()
    assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
    assert ask(inside, (in_ipv6(V4_OTHER), 4000), other) == mapped
    assert ask(outside, mapped, inside) == (V4_IN_IPV6, 4000)
    for _ in range(3):
        assert ask(nat64.socket(V6_ELSEWHERE), (V4_IN_IPV6, 4000), outside)[0] == paired
    ask(outside, (BOUND, 80), nat64.socket(V6, 8080))
    origins = {binding["v4"]: binding["origin"] for binding in nat64.shown("bindings")}
    assert origins[f"{BOUND}:80"] == origins[f"{BOUND}:443"] == "operator"
    stop_for_good(nat64)
    # The file is there, and a first start brings all of it back without the kernel's help.
    running = start(nat64)
    assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
    assert f"{BOUND}:443" in {binding["v4"] for binding in nat64.shown("bindings")}
    assert running.stop() == 0
    stop_for_good(nat64)


@kernel_datapaths
def test_what_only_the_kernel_knows(nat64: Nat64Network) -> None:
    """After a kill the file is older than the maps: sessions since then come back from these, and are as before."""
    running = start(nat64)
    streams = [Stream.through(nat64, port=port) for port in (4000, 4001)]
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4500)
    mapped = ask(inside, (V4_IN_IPV6, 4500), outside)
    for stream in streams:
        stream.flow()
    end(running, signal.SIGKILL)
    state(nat64).unlink()
    for stream in streams:
        stream.flow()
    running = start(nat64)
    assert "0 sessions and 0 bindings of the operator restored, 3 more from the kernel's maps" in running.log()
    assert ask(inside, (V4_IN_IPV6, 4500), outside) == mapped
    for stream in streams:
        stream.finish()
    nat64.until(lambda: nat64.states("tcp") == ["v4-fin-v6-fin-rcv"] * 2 or nat64.states("tcp") == ["v6-fin-rcv"] * 2)
    stop_for_good(nat64)


@kernel_datapaths
def test_a_prefix_that_has_been_taken_away_since(nat64: Nat64Network) -> None:
    """A reload ended its sessions; those of the older file are outdated, which is no loss."""
    both = CONFIG.replace(f'"{PREF64}"', f'"{PREF64}", "{OTHER_PREF64}"')
    running = start(nat64, both)
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4500)
    ask(inside, (in_ipv6(V4, OTHER_PREF64), 4500), outside)
    end(running, signal.SIGTERM)
    # What comes back is written at once, and not as at an end.
    running = start(nat64)
    older = state(nat64).read_bytes()
    assert nat64.reload(CONFIG) == (0, "")
    end(running, signal.SIGKILL)
    state(nat64).write_bytes(older)
    running = start(nat64)
    said = "0 sessions and 0 bindings of the operator restored, 1 was outdated"
    assert said in running.log() and "no longer allowed" not in running.log(), running.log()
    stop_for_good(nat64)


@kernel_datapaths
def test_what_only_the_kernel_knows_of_an_operators_binding(nat64: Nat64Network) -> None:
    """The binding is the file's, with a port that is not the pool's; its session is newer than the file."""
    running = start(nat64)
    before = state(nat64).stat().st_mtime_ns
    nat64.bind("add", "udp", f"{BOUND}:80", f"[{V6}]:8080")
    nat64.until(lambda: state(nat64).stat().st_mtime_ns != before)
    inside, outside = nat64.socket(V6, 8080), nat64.socket(V4, 4500)
    assert ask(outside, (BOUND, 80), inside) == (V4_IN_IPV6, 4500)
    assert ask(inside, (V4_IN_IPV6, 4500), outside) == (BOUND, 80)
    end(running, signal.SIGKILL)
    running = start(nat64)
    said = "0 sessions and 1 binding of the operator restored, 1 more from the kernel's maps"
    assert said in running.log() and "no longer allowed" not in running.log(), running.log()
    [session] = nat64.shown("sessions")
    assert session["v4"] == f"{BOUND}:80"
    assert ask(outside, (BOUND, 80), inside) == (V4_IN_IPV6, 4500)
    assert running.stop() == 0
    stop_for_good(nat64)


@kernel_datapaths
def test_a_port_that_another_node_has_got_since(nat64: Nat64Network) -> None:
    """The kernel's maps know whose it is now; the session of the older file is outdated, which is no loss."""
    one_port = CONFIG.replace(f'"{POOL}"', f'"{BOUND}"\nports = "5000-5000"')
    running = start(nat64, one_port)
    before, since, outside = nat64.socket(V6), nat64.socket(V6_OTHER), nat64.socket(V4, 4500)
    assert ask(before, (V4_IN_IPV6, 4500), outside) == (BOUND, 5000)
    end(running, signal.SIGTERM)
    # What comes back is written at once, and not as at an end.
    running = start(nat64)
    older = state(nat64).read_bytes()
    for text in (one_port.replace("5000-5000", "6000-6000"), one_port):
        assert nat64.reload(text)[0] == 0
    assert ask(since, (V4_IN_IPV6, 4500), outside) == (BOUND, 5000)
    end(running, signal.SIGKILL)
    state(nat64).write_bytes(older)
    running = start(nat64)
    said = "0 sessions and 0 bindings of the operator restored, 1 more from the kernel's maps, 1 was outdated"
    assert said in running.log() and "no longer allowed" not in running.log(), running.log()
    assert ask(since, (V4_IN_IPV6, 4500), outside) == (BOUND, 5000)
    assert ask(outside, (BOUND, 5000), since) == (V4_IN_IPV6, 4500)
    assert [binding["v6"].split("]")[0][1:] for binding in nat64.shown("bindings")] == [V6_OTHER]
    assert running.stop() == 0
    stop_for_good(nat64)


@kernel_datapaths
@ends
@pytest.mark.parametrize(
    "text",
    [
        CONFIG.replace(f'"{PREF64}"', f'"2001:db8:65::/96", "{PREF64}"'),
        CONFIG.replace(f'"{PREF64}"', f'"{PREF64}", "2001:db8:65::/96"'),
        with_keys("max_sessions = 1000"),
        with_keys("metric = 77"),
        with_keys('filtering = "address-dependent"'),
        CONFIG.replace("pref64", "mtu4 = 1500\nmtu6 = 1500\npref64"),
        CONFIG.replace("pref64", "queues = 3\npref64"),
    ],
    ids=["prefix-order", "prefix-added", "size", "metric", "filtering", "mtu", "queues"],
)
def test_another_configuration_meanwhile(nat64: Nat64Network, how: signal.Signals, text: str) -> None:
    """What it still allows goes on without a gap, whether the maps can be shared or not."""
    running = start(nat64)
    stream = Stream.through(nat64)
    stream.flow()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4500)
    mapped = ask(inside, (V4_IN_IPV6, 4500), outside)
    end(running, how)
    for configuration in (text, CONFIG):
        running = start(nat64, configuration)
        assert "cannot take over" not in running.log(), running.log()
        stream.flow()
        assert ask(inside, (V4_IN_IPV6, 4500), outside) == mapped
        routes = nat64.run(nat64.translator, "ip", "route", "show", "dev", "diolkos0").stdout.splitlines()
        assert len(routes) == 1
        assert ("metric 77" in routes[0]) is ("metric" in configuration)
        end(running, how)
        stream.flow()
    running = start(nat64)
    stream.finish()
    stop_for_good(nat64)


@all_datapaths
def test_what_is_no_longer_allowed(nat64: Nat64Network) -> None:
    """It does not come back, and that is said; routes to it are gone."""
    running = start(nat64)
    nat64.bind("add", "udp", f"{BOUND}:80", f"[{V6}]:8080")
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    ask(inside, (V4_IN_IPV6, 4000), outside)
    Stream.through(nat64).flow()
    end(running, signal.SIGTERM)
    other = TRANSLATOR + '[[nat64.pool4]]\naddress = "192.0.2.64/30"\n' + static("udp", f"{BOUND}:80", f"[{V6_OTHER}]:8080")
    running = start(nat64, other)
    assert "0 sessions and 0 bindings of the operator restored; no longer allowed: 1 binding, 2 pool_exhausted" in running.log()
    assert nat64.shown("sessions") == []
    assert [(b["v6"], b["origin"]) for b in nat64.shown("bindings")] == [(f"[{V6_OTHER}]:8080", "configured")]
    routes = nat64.run(nat64.translator, "ip", "route", "show", "dev", "diolkos0").stdout
    assert [line.split()[0] for line in routes.splitlines()] == [BOUND, "192.0.2.64/30"]
    assert ask(inside, (V4_IN_IPV6, 4000), outside)[0].startswith("192.0.2.6")
    end(running, signal.SIGTERM)
    stop_for_good(nat64)
