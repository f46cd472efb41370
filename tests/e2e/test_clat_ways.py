# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whatever routes and rules a host has for its own traffic: what the CLAT sends leaves by its uplink, or the status says why
nothing can."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kernel import remains
from network import CLIENT6, ROUTER6, SERVER4, SERVER_SYNTHESIZED, Network, Running, create_socket

PREFIX = "64:ff9b::/96"
LAN = "2001:2:0:1::/64"
ELSEWHERE = "2001:db8:77::1"
DEFAULT = f"route add default via {ROUTER6}"
PORT = 4000
# What SO_MARK gives packets of the program whose rules these are.
WG_QUICK = 51820
TAILSCALE = 0x80000

BY_ELSEWHERE = f"default via {ELSEWHERE} dev vpn0"


@dataclass(frozen=True)
class Case:
    """Commands of `ip -6` in the client, and what comes of them."""

    commands: tuple[str, ...]
    # Of the obstacle; None: packets pass.
    said: str | None = None
    # The route with which the network begins stays.
    keeps_default: bool = True
    mark: int = 0


CASES = {
    "the best route elsewhere": Case((f"route add {BY_ELSEWHERE} metric 10",)),
    "and an unrelated rule": Case((f"route add {BY_ELSEWHERE} metric 10", "rule add to 2001:db8:ffff::/48 lookup 200")),
    "the prefix elsewhere": Case((f"route add {PREFIX} via {ELSEWHERE} dev vpn0",)),
    "a part of the prefix elsewhere": Case((f"route add 64:ff9b::c000:0/112 via {ELSEWHERE} dev vpn0",)),
    "two halves elsewhere, as OpenVPN's": Case(("route add ::/1 dev vpn0", "route add 8000::/1 dev vpn0")),
    "wg-quick": Case(
        (f"route add default dev vpn0 table {WG_QUICK}", f"rule add not fwmark {WG_QUICK} lookup {WG_QUICK}",
         "rule add table main suppress_prefixlength 0")),
    "wg-quick and a marked socket": Case(
        (f"route add default dev vpn0 table {WG_QUICK}", f"rule add not fwmark {WG_QUICK} lookup {WG_QUICK}",
         "rule add table main suppress_prefixlength 0"), mark=WG_QUICK),
    "Tailscale's exit node": Case(
        ("route add default dev vpn0 table 52", f"rule add pref 5210 fwmark {TAILSCALE:#x}/0xff0000 lookup main",
         f"rule add pref 5230 fwmark {TAILSCALE:#x}/0xff0000 lookup default",
         f"rule add pref 5250 fwmark {TAILSCALE:#x}/0xff0000 unreachable", "rule add pref 5270 lookup 52")),
    "a rule for the host's own packets": Case(("route add default dev vpn0 table 300", "rule add iif lo lookup 300")),
    "the host's address has a table, as on AWS": Case(
        (f"{DEFAULT} table 100", f"rule add from {CLIENT6}/128 lookup 100"), keeps_default=False),
    "a default for the host's address": Case((f"route add default from {CLIENT6}/128 via {ROUTER6}",), keeps_default=False),
    "a default for the /64, as OpenWrt's": Case((f"route add default from {LAN} via {ROUTER6}",), keeps_default=False),
    "two source-specific defaults": Case(
        (f"route add default from {LAN} via {ROUTER6}", f"route add default from 2001:db8:77::/64 via {ELSEWHERE} dev vpn0"),
        keeps_default=False),
    "a next hop object": Case((f"nexthop add id 7 via {ROUTER6} dev wan0", "route add default nhid 7"), keeps_default=False),
    "the /64 has a table": Case((f"{DEFAULT} table 100", f"rule add from {LAN} lookup 100"), keeps_default=False),
    "a default in a table without a rule": Case(
        (f"{DEFAULT} table 100",), f"no IPv6 route to {PREFIX} through wan0", keeps_default=False),
    "no default": Case((), f"no IPv6 route to {PREFIX} through wan0", keeps_default=False),
    "an unreachable default": Case(("route add unreachable default metric 10",), "(unreachable)"),
    "a blackhole": Case((f"route add blackhole {PREFIX}",), "(blackhole)"),
    "a rule that prohibits": Case((f"rule add to {PREFIX} prohibit",), "(prohibit)"),
    "a rule that makes unreachable": Case(("rule add pref 32000 unreachable",), f"no IPv6 route to {PREFIX} through wan0"),
    "a router that is not there": Case(
        ("route add default via fe80::dead dev wan0",), "the router fe80::dead does not answer on wan0", keeps_default=False),
}  # fmt: skip


def status(net: Network) -> dict:
    """What the program says of itself."""
    return json.loads(net.run(net.client, str(net.program), "show", "status", "--json", check=False).stdout)


def counted(net: Network, *names: str) -> int:
    """Packets of these fates together."""
    counters = net.counters()
    return sum(counters.get(name, 0) for name in names)


def add_other_link(net: Network) -> None:
    """vpn0 leads to nobody; whatever is sent there is lost."""
    net.host("ip", "link", "add", "vpn0", "netns", net.client, "type", "veth", "peer", "vpn1", "netns", net.router)
    net.ip(net.client, "address", "add", "2001:db8:77::2/64", "dev", "vpn0", "nodad")
    net.ip(net.client, "link", "set", "vpn0", "up")
    net.ip(net.router, "link", "set", "vpn1", "up")


@contextlib.contextmanager
def routed(net: Network, case: Case) -> Iterator[None]:
    """Routes and rules of a case, and afterwards those with which the network began."""
    before = set(net.run(net.client, "ip", "-6", "rule").stdout.splitlines())
    if not case.keeps_default:
        net.ip(net.client, "route", "del", "default")
    try:
        for command in case.commands:
            net.run(net.client, "ip", "-6", *command.split())
        yield
    finally:
        for rule in set(net.run(net.client, "ip", "-6", "rule").stdout.splitlines()) - before:
            preference, _ = rule.split(":", 1)
            net.run(net.client, "ip", "-6", "rule", "del", "pref", preference)
        for command in reversed(case.commands):
            if command.startswith("route"):
                net.run(net.client, "ip", "-6", *command.replace(" add ", " del ", 1).split())
            elif command.startswith("nexthop"):
                net.run(net.client, "ip", "nexthop", "flush")
        if not case.keeps_default:
            net.run(net.client, "ip", "-6", *DEFAULT.split())


def sends(net: Network, receiver: socket.socket, sender: socket.socket, size: int, tries: int) -> int:
    """How many of so many datagrams arrive."""
    arrived = 0
    for number in range(tries):
        with contextlib.suppress(OSError):  # An ICMP error about one before it.
            sender.sendto(bytes([number]) * size, (SERVER4, PORT))
        with contextlib.suppress(TimeoutError):
            arrived += len(receiver.recv(65536)) == size
    return arrived


def drain(receiver: socket.socket) -> None:
    """Forget what came late."""
    with contextlib.suppress(TimeoutError):
        while receiver.recv(65536):
            pass


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_packets_leave_by_the_uplink_or_it_is_said_why(net: Network, datapath: str) -> None:
    """Each case begins and ends while the CLAT runs."""
    add_other_link(net)
    clat = net.clat(datapath)
    receiver = create_socket(net.server, socket.AF_INET6, socket.SOCK_DGRAM)
    receiver.bind((SERVER_SYNTHESIZED, PORT))
    receiver.settimeout(0.3)
    failures = {}
    for name, case in CASES.items():
        with routed(net, case), create_socket(net.client, socket.AF_INET, socket.SOCK_DGRAM) as sender:
            if case.mark:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, case.mark)
            try:
                if case.said is None:
                    net.until(lambda sender=sender: sends(net, receiver, sender, 100, 1) == 1)
                    drain(receiver)
                    assert [sends(net, receiver, sender, size, 5) for size in (100, 3000)] == [5, 5]
                    assert (status(net)["state"], status(net)["obstacles"]) == ("ready", [])
                else:
                    is_said = lambda said=case.said: any(said in why for why in status(net)["obstacles"])  # noqa: E731
                    net.until(is_said)
                    assert status(net)["state"] == "waiting"
                    assert case.said in clat.log()
                    lost = counted(net, "slow.drop.no_route", "fast.drop.no_route")
                    passed = counted(net, "fast.translated_4to6", "slow.translated_4to6")
                    assert sends(net, receiver, sender, 100, 3) == 0
                    assert counted(net, "slow.drop.no_route", "fast.drop.no_route") >= lost + 1
                    assert counted(net, "fast.translated_4to6", "slow.translated_4to6") == passed
            except AssertionError as failure:
                failures[name] = f"{failure!s:.200} {status(net)}"
        net.until(lambda: net.ping("-c1", "-W0.3").returncode == 0 and status(net)["state"] == "ready")
    assert failures == {}, clat.log()
    assert clat.stop() == 0
    assert remains(net) == []


def log_of_loop(net: Network, clat: Running) -> str:
    """For a failure."""
    return f"{net.counters()}\n{clat.log()}"


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_tunnel_over_the_clat_carries_the_ipv6_default(net: Network, datapath: str) -> None:
    """What the CLAT makes of the tunnel's packets does not enter the tunnel again."""
    clat = net.clat(datapath)
    tunnel = ("vxlan", "id", "7", "dstport", "4789", "local", "192.0.0.1", "remote", SERVER4)
    net.run(net.client, "ip", "link", "add", "vx0", "type", *tunnel)
    net.run(net.client, "ip", "link", "set", "vx0", "up")
    net.run(net.client, "ip", "-6", "neigh", "add", "fe80::1", "lladdr", "02:00:00:00:00:01", "dev", "vx0")
    net.run(net.client, "ip", "-6", "route", "add", "default", "via", "fe80::1", "dev", "vx0", "metric", "100")
    for _ in range(3):
        net.ping("-6", "-c1", "-W0.3", to="2001:db8:4e::1")
    # The tunnel's own solicitations and reports are among them.
    assert counted(net, "fast.translated_4to6", "slow.translated_4to6") < 100, log_of_loop(net, clat)
    assert "3 received" in net.ping("-c3").stdout, log_of_loop(net, clat)
    assert status(net)["obstacles"] == []


def exits(net: Network) -> list[str]:
    """Routes for the CLAT's own packets."""
    routes = net.run(net.client, "ip", "-6", "route", "show", "table", "local").stdout.splitlines()
    return [route for route in routes if " from " in route]


def test_the_way_of_what_is_forwarded(net: Network) -> None:
    """It is restored; it goes at the end, and after a kill by itself; and without it nothing is sent."""
    clat = net.clat("tun")
    (route,) = exits(net)
    address = re.search(r"<-> (\S+) on", clat.log())[1]
    assert route.startswith(f"{PREFIX} from {address} via {ROUTER6} dev wan0")
    assert re.search(r"expires [1-6]?\dsec", route)
    net.run(net.client, "ip", "-6", "route", "del", PREFIX, "from", address, "table", "local")
    net.until(lambda: len(exits(net)) == 1)
    # A stranger's rules go before everything, as with a VRF.
    net.run(net.client, "ip", "-6", "rule", "add", "pref", "1", "from", f"{address}/128", "lookup", "400")
    net.run(net.client, "ip", "-6", "rule", "add", "pref", "2", "lookup", "local")
    net.run(net.client, "ip", "-6", "rule", "del", "pref", "0")
    net.ip(net.client, "route", "add", "default", "dev", "diolkos0", "table", "400")
    net.until(lambda: any("and not through wan0" in why for why in status(net)["obstacles"]))
    assert "nothing can pass: this host would send packets from" in clat.log()
    before = counted(net, "slow.drop.no_route")
    assert net.ping("-c1", "-W0.3").returncode != 0
    assert counted(net, "slow.drop.no_route") > before
    net.run(net.client, "ip", "-6", "rule", "del", "pref", "1")
    net.until(lambda: net.ping("-c1", "-W0.3").returncode == 0)
    net.until(lambda: status(net)["state"] == "ready")
    assert clat.stop() == 0
    assert exits(net) == [] and remains(net) == []
    # After a kill it goes by itself.
    net.clat("tun").stop(signal.SIGKILL)
    assert all(" expires " in route for route in exits(net))


def test_a_silent_router_answers_again(net: Network, datapath: str) -> None:
    """Without its link-layer address nothing is ready."""
    other = "2001:2:0:1::99"
    net.ip(net.client, "route", "replace", "default", "via", other)
    clat = net.clat(datapath, ready=False)
    net.until(lambda: f"waiting: the router {other} does not answer on wan0" in clat.log())
    assert " ready: " not in clat.log()
    net.ip(net.router, "address", "add", f"{other}/64", "dev", "down0", "nodad")
    net.until(lambda: " ready: " in clat.log())
    assert "3 received" in net.ping("-c3").stdout
