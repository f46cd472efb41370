# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The network of a running CLAT moves: what others take away comes back, what changes is followed, no loss goes unseen."""

from __future__ import annotations

import resource
import signal
import subprocess
from pathlib import Path

import pytest
from kernel import remains
from network import CLIENT6, ROUTER6, SERVER6, Network
from pref64 import OTHER, OWN, Option, Pref64Network, embed

RUN_TIME = 1
NEW_MAC = "02:00:5e:00:53:99"
NEW6 = "2001:2:0:8::2"


def reaches(net: Network) -> bool:
    """The server answers."""
    return net.ping("-c1", "-W0.3").returncode == 0


def address_of(log: str) -> str:
    """The CLAT's IPv6 address, as it was said last."""
    return log.rsplit("<-> ", 1)[1].split(maxsplit=1)[0]


@pytest.mark.parametrize(
    "how",
    [
        [("link", "set", "diolkos0", "down"), ("link", "set", "diolkos0", "up")],
        [("route", "flush", "dev", "diolkos0"), ("-6", "route", "flush", "dev", "diolkos0", "proto", "static")],
        [("address", "flush", "dev", "diolkos0")],
        [("link", "set", "diolkos0", "mtu", "1300")],
    ],
    ids=["down-up", "routes", "addresses", "mtu"],
)
def test_what_is_ours_comes_back(net: Network, datapath: str, how: list[tuple[str, ...]]) -> None:
    """The device had lost it, which is said, and packets pass again."""
    clat = net.clat(datapath)
    assert "3 received" in net.ping("-c3").stdout
    for command in how:
        net.run(net.client, "ip", *command)
    net.until(lambda: "diolkos0 had lost" in clat.log())
    net.until(lambda: reaches(net))
    (link,) = net.ip_json(net.client, "link", "show", "diolkos0")
    assert link["mtu"] == 1500
    assert clat.stop() == 0
    assert remains(net) == []


def test_a_device_that_is_down_is_named(net: Network, datapath: str) -> None:
    """The program does not set it up against somebody's will; once it is up, packets pass."""
    clat = net.clat(datapath)
    net.run(net.client, "ip", "link", "set", "diolkos0", "down")
    net.until(lambda: "diolkos0 is down: nothing can pass until it is up" in clat.log())
    net.run(net.client, "ip", "link", "set", "diolkos0", "up")
    net.until(lambda: reaches(net))


@pytest.mark.parametrize("is_autonomous", [1, 0], ids=["autonomous", "on-link"])
def test_a_router_advertises_an_mtu(pref64: Pref64Network, datapath: str, is_autonomous: int) -> None:
    """RFC 4861 section 4.6.4: nothing else changes, neither the link's MTU nor the addresses, and the CLAT follows."""
    pref64.sysctl(pref64.client, "net.ipv6.conf.wan0.accept_ra", "2")
    prefix = f"ICMPv6NDOptPrefixInfo(prefix='2001:2:0:1::', prefixlen=64, A={is_autonomous})"
    pref64.advertise(prefix)
    if is_autonomous:
        pref64.until(lambda: '"mngtmpaddr":true' in pref64.run(pref64.client, "ip", "-j", "address").stdout)
    clat = pref64.clat(datapath)
    for mtu in (1400, 1500):
        pref64.advertise(prefix, f"ICMPv6NDOptMTU(mtu={mtu})")
        pref64.until(lambda mtu=mtu: f"the MTU of wan0 is now 1500 bytes ({mtu} for IPv6)" in clat.log())
        (route,) = pref64.ip_json(pref64.client, "-4", "route", "show", "dev", "diolkos0")
        assert route["metrics"][0]["mtu"] == mtu - 28
        assert pref64.ip_json(pref64.client, "link", "show", "wan0")[0]["mtu"] == 1500
        assert "3 received" in pref64.ping("-c3", "-Mdo", f"-s{mtu - 28 - 28}").stdout, clat.log()
        too_long = pref64.ping("-c1", "-Mdo", f"-s{mtu - 28 - 28 + 1}")
        assert f"message too long, mtu={mtu - 28}" in too_long.stderr
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_an_mtu_changes_while_no_file_can_be_opened(net: Network) -> None:
    """New programs cannot be loaded: what works stays, the cause is named, and the change is made up for."""
    clat = net.clat("tc")
    pid = clat.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    limit = max(int(file.name) for file in Path(f"/proc/{pid}/fd").iterdir()) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    net.run(net.client, "ip", "link", "set", "wan0", "mtu", "1400")
    net.until(lambda: "retrying" in clat.log() or clat.process.poll() is not None)
    assert clat.process.poll() is None, clat.log()
    assert reaches(net)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    net.until(lambda: net.ip_json(net.client, "link", "show", "diolkos0")[0]["mtu"] == 1400)
    assert reaches(net)
    assert clat.stop() == 0


@pytest.mark.parametrize("mtu", [1400, 2000], ids=["smaller", "larger"])
def test_a_device_that_is_down_follows_the_mtu(net: Network, datapath: str, mtu: int) -> None:
    """It stays down and the program goes on; set up again, the device has its routes, which have the MTU of now."""
    clat = net.clat(datapath)
    net.run(net.client, "ip", "link", "set", "diolkos0", "down")
    net.until(lambda: "diolkos0 is down: nothing can pass until it is up" in clat.log())
    for name, device in ((net.server, "in0"), (net.router, "out0"), (net.router, "down0"), (net.client, "wan0")):
        net.run(name, "ip", "link", "set", device, "mtu", str(mtu))
    net.until(lambda: f"the MTU of wan0 is now {mtu} bytes" in clat.log() or clat.process.poll() is not None)
    assert clat.process.poll() is None, clat.log()
    (link,) = net.ip_json(net.client, "link", "show", "diolkos0")
    assert link["mtu"] == mtu
    assert "UP" not in link["flags"]
    net.run(net.client, "ip", "link", "set", "diolkos0", "up")
    net.until(lambda: reaches(net))
    (route,) = net.ip_json(net.client, "-4", "route", "show", "dev", "diolkos0")
    assert route["metrics"][0]["mtu"] == mtu - 28
    assert "3 received" in net.ping("-c3", "-Mdo", f"-s{mtu - 28 - 28}").stdout, clat.log()
    assert clat.stop() == 0
    assert remains(net) == []


def flood(net: Network, *last: str) -> None:
    """More news than a netlink socket holds, of both families, then something that matters, and more again."""
    noise = {
        "-4": [f"route {verb} 198.18.{n // 250}.{n % 250}/32 dev lo" for verb in ("add", "del") for n in range(4000)],
        "-6": [f"route {verb} 2001:db8:ffff::{n:x}/128 dev lo" for verb in ("add", "del") for n in range(4000)],
    }
    for command in (None, last, None):
        if command:
            net.run(net.client, "ip", *command)
            continue
        for family, lines in noise.items():
            net.run(net.client, "ip", family, "-batch", "-", input="\n".join([*lines, ""]))


def test_lost_news_of_own_routes(net: Network, datapath: str) -> None:
    """While the program stands still, the kernel throws news away; afterwards it looks at everything."""
    clat = net.clat(datapath)
    clat.process.send_signal(signal.SIGSTOP)
    flood(net, "route", "flush", "dev", "diolkos0")
    clat.process.send_signal(signal.SIGCONT)
    net.until(lambda: reaches(net))
    net.until(lambda: "diolkos0 had lost the route to 0.0.0.0/0" in clat.log())


def test_lost_news_of_the_uplink(net: Network) -> None:
    """That the uplink is gone is found out, although nobody has told."""
    clat = net.clat("tun")
    clat.process.send_signal(signal.SIGSTOP)
    flood(net, "link", "del", "wan0")
    clat.process.send_signal(signal.SIGCONT)
    assert clat.wait() == RUN_TIME
    assert "the uplink wan0 is gone" in clat.log()
    assert remains(net) == []


def test_the_uplink_has_another_link_layer_address(net: Network, datapath: str) -> None:
    """Neighbours are told, and asked again they hear the new one."""
    clat = net.clat(datapath)
    assert "3 received" in net.ping("-c3").stdout
    address = address_of(clat.log())
    net.run(net.client, "ip", "link", "set", "wan0", "address", NEW_MAC)

    def known() -> str | None:
        (entry,) = net.ip_json(net.router, "-6", "neighbour", "show", address, "dev", "down0") or [{}]
        return entry.get("lladdr")

    net.until(lambda: known() == NEW_MAC)
    net.run(net.router, "ip", "-6", "neighbour", "flush", "dev", "down0")
    net.until(lambda: reaches(net))
    assert known() == NEW_MAC


def test_the_mtu_of_the_uplink_changes(net: Network, datapath: str) -> None:
    """It is followed both ways, under traffic, by the device, its routes and the translation."""
    clat = net.clat(datapath)
    ping = net.start(net.client, "ping", "-i0.01", "-c300", "-W5", "192.0.0.171", stdout=subprocess.PIPE, text=True)
    for mtu in (1400, 1500):
        net.run(net.router, "ip", "link", "set", "down0", "mtu", str(mtu))
        net.run(net.client, "ip", "link", "set", "wan0", "mtu", str(mtu))
        net.until(lambda mtu=mtu: net.ip_json(net.client, "link", "show", "diolkos0")[0]["mtu"] == mtu)
        net.until(lambda mtu=mtu: f"the MTU of wan0 is now {mtu} bytes" in clat.log())
        (route,) = net.ip_json(net.client, "-4", "route", "show", "dev", "diolkos0")
        assert route["metrics"][0]["mtu"] == mtu - 28
        # The route leaves room for the larger header and a Fragment header (RFC 7915 section 4.1): what fits, in one piece.
        assert "3 received" in net.ping("-c3", "-Mdo", f"-s{mtu - 28 - 28}").stdout, clat.log()
    said, _ = ping.communicate(timeout=30)
    assert "300 received" in said, said + clat.log()


def test_a_deprecated_prefix_is_left(net: Network, datapath: str) -> None:
    """RFC 4862 section 5.5.4: with a preferred lifetime of 0 and another prefix there, the address is made from that."""
    clat = net.clat(datapath)
    first = address_of(clat.log())
    net.run(net.client, "ip", "address", "change", f"{CLIENT6}/64", "dev", "wan0", "preferred_lft", "0")
    net.ip(net.router, "address", "add", "2001:2:0:8::1/64", "dev", "down0", "nodad")
    net.ip(net.client, "address", "add", f"{NEW6}/64", "dev", "wan0", "nodad")
    net.until(lambda: "<-> 2001:2:0:8:" in clat.log())
    net.until(lambda: reaches(net))
    assert address_of(clat.log()) != first


def test_the_best_route_leads_over_another_link(net: Network, datapath: str) -> None:
    """The router of the other link is no neighbour on the uplink: that of the uplink is used."""
    net.host("ip", "link", "add", "wan1", "netns", net.client, "type", "veth", "peer", "down1", "netns", net.router)
    for name, link, address in ((net.client, "wan1", "2001:2:0:3::2"), (net.router, "down1", "2001:2:0:3::1")):
        net.ip(name, "address", "add", f"{address}/64", "dev", link, "nodad")
        net.ip(name, "link", "set", link, "up")
    net.ip(net.client, "route", "add", "default", "via", "2001:2:0:3::1", "dev", "wan1", "metric", "10")
    net.until(lambda: net.ping("-6", "-c1", "-W0.2", to=SERVER6).returncode == 0)
    clat = net.clat(datapath)
    assert "5 received" in net.ping("-c5").stdout, clat.log()


OBSTACLES = {
    "no route": (
        ("client", "ip -6 route del default"),
        ("client", f"ip -6 route add default via {ROUTER6}"),
        "no IPv6 route to 64:ff9b::/96",
    ),
    "no carrier": (
        ("router", "ip link set down0 down"),
        ("router", f"ip link set down0 up; ip address replace {ROUTER6}/64 dev down0 nodad"),
        "wan0 has no carrier",
    ),
    "down": (
        ("client", "ip link set wan0 down"),
        (
            "client",
            f"ip link set wan0 up; ip address replace {CLIENT6}/64 dev wan0 nodad; ip -6 route replace default via {ROUTER6}",
        ),
        "wan0 is down",
    ),
    "IPv6 disabled": (
        ("client", "echo 1 > /proc/sys/net/ipv6/conf/wan0/disable_ipv6"),
        (
            "client",
            "echo 0 > /proc/sys/net/ipv6/conf/wan0/disable_ipv6;"
            f"ip address replace {CLIENT6}/64 dev wan0 nodad; ip -6 route replace default via {ROUTER6}",
        ),
        "IPv6 is disabled on wan0",
    ),
}


@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES.keys())
def test_it_is_ready_when_something_can_pass(net: Network, datapath: str, obstacle: tuple) -> None:
    """Until then it waits and says why, without an IPv4 route; when that comes again it says so."""
    there, away, words = obstacle

    def do(what: tuple[str, str]) -> None:
        net.run(getattr(net, what[0]), "sh", "-c", what[1])

    do(there)
    if "carrier" in words:
        # The kernel tells the other end of a link a moment later.
        net.until(lambda: "NO-CARRIER" in net.ip_json(net.client, "link", "show", "wan0")[0]["flags"])
    clat = net.clat(datapath, "--v6", "2001:2:0:1::464", ready=False)
    net.until(lambda: f"waiting: {words}" in clat.log())
    assert "ready: " not in clat.log()
    assert net.ip_json(net.client, "-4", "route", "show", "default") == []
    do(away)
    net.until(lambda: "ready: " in clat.log())
    net.until(lambda: reaches(net))
    do(there)
    net.until(lambda: f"nothing can pass: {words}" in clat.log())
    do(away)
    net.until(lambda: clat.log().count("ready: ") == 2)
    net.until(lambda: reaches(net))
    assert clat.stop() == 0
    assert remains(net) == []


def test_a_better_prefix_that_contradicts_the_configuration(pref64: Pref64Network) -> None:
    """What a router says goes before a resolver (RFC 8781 section 5.1), but not if it cannot be used: what works goes on."""
    pref64.reach(OTHER)
    file = pref64.scratch / "pool.toml"
    file.write_text(f'[icmp]\nsource_pool6 = ["{embed(OWN, "198.51.100.0")}/120"]\n')
    pref64.unbound(OTHER)
    clat = pref64.clat("tc", "--pref64", "auto", "--resolver", SERVER6, "--config", str(file))
    assert f"prefix {OTHER}" in clat.log()
    ping = pref64.start(pref64.client, "ping", "-i0.01", "-c200", "-W5", "192.0.0.171", stdout=subprocess.PIPE, text=True)
    pref64.advertise(Option(OWN))
    pref64.until(lambda: f"the prefix {OWN} cannot be used" in clat.log())
    assert f"continuing with {OTHER}" in clat.log()
    assert pref64.routes() == ["default"]
    said, _ = ping.communicate(timeout=30)
    assert "200 received" in said, said + clat.log()
    assert pref64.in_force() == OTHER


def test_a_better_prefix_without_a_free_address(pref64: Pref64Network) -> None:
    """Another host has every address that can be made for it: the program goes on with what works."""
    pref64.reach(OTHER, OWN)
    pref64.sysctl(pref64.client, "net.ipv6.conf.wan0.dad_transmits", "1")
    taken: set[str] = set()
    while len(taken) < 4:
        clat = pref64.clat("tun", "--pref64", OWN)
        # It uses an address while it tests it (RFC 4429).
        pref64.until(lambda clat=clat: address_of(clat.log()) not in taken)
        taken.add(address_of(clat.log()))
        assert clat.stop() == 0
        pref64.ip(pref64.router, "address", "add", f"{address_of(clat.log())}/64", "dev", "down0", "nodad")
    pref64.unbound(OTHER)
    clat = pref64.clat("tc", "--pref64", "auto", "--resolver", SERVER6)
    pref64.advertise(Option(OWN))
    pref64.until(lambda: f"the prefix {OWN} cannot be used" in clat.log())
    assert clat.process.poll() is None
    assert pref64.routes() == ["default"]
    assert "3 received" in pref64.ping("-c3").stdout
    assert pref64.in_force() == OTHER
