# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NetworkManager of Debian sid (1.58 at least), whose own CLAT is real, and DHCP option 108, which it requests since 1.52."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from network import Network
from networkmanager import PATIENCE, NetworkManager
from pref64 import OWN, ROUTER, Option, Pref64Network

NETWORK = "ICMPv6NDOptPrefixInfo(prefix='2001:2:0:1::', prefixlen=64, L=1, A=1, validlifetime=3600, preferredlifetime=1800)"
OPTION108 = Path(__file__).resolve().parents[2] / "packaging/systemd/option108"
GATEWAY4, WAIT = "192.0.2.1", 1800
OPTION = f"--dhcp-option=108,0:0:{WAIT >> 8}:{WAIT & 255}"
SERVER = (
    "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--port=0", "--log-facility=-",
    "--log-dhcp", "--interface=down0", "--dhcp-range=192.0.2.10,192.0.2.99,1h", OPTION,
)  # fmt: skip
IPV4_ONLY_BY_CLAT = "method=auto\nclat=1\ndhcp-timeout=1\nmay-fail=true"


@pytest.fixture
def network(pref64: Pref64Network) -> Pref64Network:
    """A network whose router says everything about IPv6, and a host that knows nothing yet."""
    net = pref64
    net.reach(OWN)
    net.ip(net.client, "address", "flush", "dev", "wan0", "scope", "global")
    net.ip(net.client, "-6", "route", "flush", "default")
    advertisement = net.advertisement(Option()).replace("routerlifetime=0", "routerlifetime=1800")
    log = net.scratch / "router.log"
    with log.open("w") as sink:
        command = (sys.executable, "-c", ROUTER, "when solicited", f"{advertisement}/{NETWORK}")
        net.start(net.router, *command, stdout=sink, stderr=sink)
    until(lambda: "listening" in log.read_text())
    return net


@pytest.fixture
def start(network: Pref64Network, sid: Path) -> Iterator[Callable[[str], NetworkManager]]:
    """Starts NetworkManager in that network."""
    started = []

    def begin(ipv4: str) -> NetworkManager:
        started.append(NetworkManager(network, sid, ipv4))
        return started[-1]

    yield begin
    for one in started:
        one.end()


def until(condition: Callable[[], bool]) -> None:
    """Wait for what NetworkManager takes its time for."""
    Network.until(condition, PATIENCE)


def addresses(net: Network, link: str = "wan0") -> list[str]:
    """IPv4 addresses of a link of the client's, with their lengths."""
    return re.findall(r"inet (\S+)", net.ip(net.client, "-4", "-o", "address", "show", "dev", link))


def condition(net: Network) -> dict:
    """What our program says of itself. It ends with another code than 0 while it is not ready."""
    return json.loads(net.run(net.client, str(net.program), "show", "status", "--json", check=False).stdout)


def defaults(net: Network) -> list[str]:
    """The devices of IPv4 default routes."""
    return [route["dev"] for route in net.ip_json(net.client, "-4", "route", "show", "default")]


def test_its_clat_and_ours_do_not_fight(network: Pref64Network, start: Callable[[str], NetworkManager]) -> None:
    """Whoever has the CLAT carries IPv4; ours steps aside while NetworkManager's is there, and says so."""
    net = network
    manager = start(IPV4_ONLY_BY_CLAT)
    until(lambda: addresses(net) == ["192.0.0.5/32"])
    # It has learnt the prefix of the router, and translates in its own programs.
    until(lambda: net.ping("-c1").returncode == 0)
    ours = net.clat("auto", "--pref64", "auto", ready=False)
    until(lambda: "another CLAT serves this host: wan0 has 192.0.0.5, so this one steps aside" in ours.log())
    assert condition(net)["state"] == "waiting"
    assert defaults(net) == ["wan0"] and "2 received" in net.ping("-c2").stdout

    manager.nmcli("device", "modify", "wan0", "ipv4.clat", "no")
    until(lambda: condition(net)["state"] == "ready")
    # It takes its address off first, and its programs after that.
    until(lambda: net.ping("-c1").returncode == 0)
    assert defaults(net) == ["diolkos0"] and "2 received" in net.ping("-c2").stdout

    # Ours is there first.
    manager.nmcli("device", "modify", "wan0", "ipv4.clat", "force")
    until(lambda: condition(net)["state"] == "waiting" and defaults(net) == ["wan0"])
    until(lambda: net.ping("-c1").returncode == 0)
    assert ours.stop() == 0
    assert "2 received" in net.ping("-c2").stdout


def test_ours_takes_over_if_it_is_told_to(network: Pref64Network, start: Callable[[str], NetworkManager]) -> None:
    """Packets of both pass the same link, each translated by whose address they bear."""
    net = network
    start(IPV4_ONLY_BY_CLAT)
    until(lambda: addresses(net) == ["192.0.0.5/32"])
    until(lambda: net.ping("-c1").returncode == 0)
    ours = net.clat("auto", "--pref64", "auto", "--other-clat", "take-over", "--metric", "50")
    assert defaults(net) == ["diolkos0", "wan0"]
    before = net.counters()["fast.translated_4to6"]
    assert "2 received" in net.ping("-c2").stdout
    assert net.counters()["fast.translated_4to6"] >= before + 2
    before = net.counters()["fast.translated_4to6"]
    assert "2 received" in net.ping("-c2", "-I", "wan0").stdout
    assert net.counters()["fast.translated_4to6"] == before
    assert ours.stop() == 0


def test_ours_starts_where_its_programs_are_left(network: Pref64Network, start: Callable[[str], NetworkManager]) -> None:
    """1.58 leaves them on the interface when its CLAT is switched off: nobody serves the host, and `ready` has to be true."""
    net = network
    manager = start(IPV4_ONLY_BY_CLAT)
    until(lambda: addresses(net) == ["192.0.0.5/32"])
    until(lambda: net.ping("-c1").returncode == 0)
    manager.nmcli("device", "modify", "wan0", "ipv4.clat", "no")
    until(lambda: addresses(net) == [])
    ours = net.clat("auto", "--pref64", "auto")
    assert "2 received" in net.ping("-c2").stdout
    assert ours.stop() == 0


def test_option_108(network: Pref64Network, start: Callable[[str], NetworkManager]) -> None:
    """`diolkos-option108` has NetworkManager request the option while our CLAT is ready: the host gives IPv4 up, and
    has it back when the CLAT ends."""
    net = network
    net.ip(net.router, "address", "add", f"{GATEWAY4}/24", "dev", "down0")
    log = net.scratch / "dnsmasq.log"
    with log.open("w") as sink:
        leases = f"--dhcp-leasefile={net.scratch}/leases"
        net.start(net.router, *SERVER, leases, stdout=sink, stderr=sink)
    until(lambda: "DHCP, IP range" in log.read_text())
    manager = start("method=auto")
    until(lambda: len(addresses(net)) == 1)
    said, requests = net.scratch / "log-option108", net.scratch / "requests"
    settings = (f"OPTION108_REQUESTS={requests}", f"DIOLKOS={net.program}", "DHCP_CLIENT=networkmanager")
    with said.open("w") as sink:
        path = f"PATH={manager.tools()}:/usr/sbin:/usr/bin:/sbin:/bin"
        net.start(net.client, "env", path, *settings, str(OPTION108), "follow", "wan0", stdout=sink, stderr=sink)
    clat = net.clat("auto", "--pref64", "auto")
    until(lambda: "the CLAT is ready: networkmanager requests option 108" in said.read_text())
    until(lambda: addresses(net) == [])
    assert f"option:108 ipv6-only  {WAIT}" in log.read_text()
    assert defaults(net) == ["diolkos0"] and "2 received" in net.ping("-c2").stdout
    assert clat.stop() == 0
    until(lambda: "networkmanager no longer requests option 108" in said.read_text())
    until(lambda: len(addresses(net)) == 1)
    assert "1 received" in net.ping("-c1", to=GATEWAY4).stdout
