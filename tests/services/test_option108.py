# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What docs/networkmanager.md says of DHCP option 108 (RFC 8925): a real dhcpcd, a real DHCP server, a real systemd.

The server offers the option, and IPv4, to whoever requests them. The router says the network's IPv6 prefix and PREF64.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import Machine
from network import Network
from pref64 import OWN, ROUTER, Option, Pref64Network

pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool, path="/usr/sbin:/usr/bin") for tool in ("dhcpcd", "dnsmasq")),
    reason="no dhcpcd or no dnsmasq here",
)

PAGE = Path(__file__).resolve().parents[2] / "docs/networkmanager.md"
CLAT, OPTION108, DHCPCD = "diolkos-clat@wan0.service", "diolkos-option108@wan0.service", "dhcpcd.service"
NETWORK = "ICMPv6NDOptPrefixInfo(prefix='2001:2:0:1::', prefixlen=64, L=1, A=1, validlifetime=3600, preferredlifetime=1800)"
GATEWAY4 = "192.0.2.1"
# V6ONLY_WAIT, seconds. RFC 8925 section 3.4: a client waits 300 at least.
WAIT = 1800
OPTION = f"--dhcp-option=108,0:0:{WAIT >> 8}:{WAIT & 255}"
SERVER = (
    "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--port=0", "--log-facility=-",
    "--log-dhcp", "--interface=down0", "--dhcp-range=192.0.2.10,192.0.2.99,1h", OPTION,
)  # fmt: skip
# As the distribution's, but for `nodev`: the machine has no udev, for which dhcpcd would wait.
CONF = """
duid
persistent
option domain_name_servers, domain_name, domain_search
require dhcp_server_identifier
slaac private
noarp
nodev
"""
# As Debian 12 ships it, sandbox included; a `-` stands before what the machine lacks.
UNIT = """
[Unit]
Wants=network.target
Before=network.target
[Service]
Type=forking
PIDFile=/run/dhcpcd/pid
ExecStart=/usr/sbin/dhcpcd -q -b
ExecStop=/usr/sbin/dhcpcd -x
RuntimeDirectory=dhcpcd
StateDirectory=dhcpcd
ProtectSystem=strict
ReadWritePaths=/var/lib/dhcpcd /run/dhcpcd -/etc/wpa_supplicant /etc/dhcpcd.conf /etc/resolv.conf
ProtectHome=true
PrivateDevices=true
ProtectClock=true
ProtectKernelModules=true
ProtectKernelLogs=true
ProtectControlGroups=true
RestrictNamespaces=true
LockPersonality=true
MemoryDenyWriteExecute=true
RestrictRealtime=true
RestrictSUIDSGID=true
SystemCallFilter=@system-service chroot
SystemCallErrorNumber=EPERM
SystemCallArchitectures=native
"""


def of_the_page(file: str) -> str:
    """A file that the page tells to write."""
    return PAGE.read_text().split(f"# {file}\n", 1)[1].split("```", 1)[0]


class Network108:
    """An IPv6-mostly network (RFC 8925 section 1.2), and a host whose DHCP client is told what the page says."""

    def __init__(self, net: Pref64Network, host: Machine) -> None:
        """Start router and server; the host is not booted yet."""
        self.net, self.host, self.log = net, host, net.scratch / "dnsmasq.log"
        net.reach(OWN)
        net.ip(net.client, "address", "flush", "dev", "wan0", "scope", "global")
        net.ip(net.client, "-6", "route", "flush", "default")
        net.ip(net.router, "address", "add", f"{GATEWAY4}/24", "dev", "down0")
        with self.log.open("w") as sink:
            net.start(net.router, *SERVER, stdout=sink, stderr=sink)
        net.until(lambda: "DHCP, IP range" in self.log.read_text())
        host.file("/etc/resolv.conf", "")
        host.file("/etc/dhcpcd.conf", CONF + of_the_page("/etc/dhcpcd.conf"))
        host.file(f"/etc/systemd/system/{DHCPCD}", UNIT)
        drop_in = "/etc/systemd/system/dhcpcd.service.d/diolkos.conf"
        host.file(drop_in, of_the_page(drop_in))
        host.file("/etc/diolkos/option108-wan0.env", of_the_page("/etc/diolkos/option108-eth0.env"))

    def boot_with_ipv4(self) -> None:
        """Boot the host, and wait until it has leased an address."""
        self.host.boot()
        self.host.systemctl("start", DHCPCD)
        self.host.until(lambda: self.native() != [], self.told)

    def advertisement(self, *options: Option) -> str:
        """What the router says: that it is one, the network's prefix, and these."""
        text = self.net.advertisement(*options).replace("routerlifetime=0", "routerlifetime=1800")
        return f"{text}/{NETWORK}"

    def advertise(self, *options: Option) -> None:
        """Let the router answer solicitations."""
        log = self.net.scratch / "router.log"
        with log.open("w") as sink:
            command = (sys.executable, "-c", ROUTER, "when solicited", self.advertisement(*options))
            self.advertiser = self.net.start(self.net.router, *command, stdout=sink, stderr=sink)
        self.net.until(lambda: "listening" in log.read_text(), patience=60)

    def advertise_now(self, *options: Option) -> None:
        """Say something once, unsolicited."""
        self.net.run(self.net.router, sys.executable, "-c", ROUTER, "now", self.advertisement(*options))

    def stop_advertising(self) -> None:
        """Answer no solicitation any more; what was advertised stays valid."""
        self.advertiser.kill()
        self.advertiser.wait()

    def requests(self) -> str:
        """The files of the requests in force."""
        return self.host.run("find", "/run", "-path", "/run/diolkos-option108/*.request").stdout

    def native(self) -> list[str]:
        """IPv4 addresses of the uplink."""
        links = self.net.ip_json(self.net.client, "-4", "address", "show", "dev", "wan0")
        return [address["local"] for link in links for address in link.get("addr_info", []) if "local" in address]

    def exchanges(self) -> list[tuple[str, bool]]:
        """What the server sent, and whether the client requested the option, in order."""
        found, requested = [], {}
        for number, what in re.findall(r"dnsmasq-dhcp\[\d+\]: (\d+) (.*)", self.log.read_text()):
            if what.startswith("requested options:"):
                requested[number] = requested.get(number, False) or "108:ipv6-only" in what
            elif "option: 53 message-type" in what:
                found.append((what.split()[-1], requested[number]))
        return found

    def told(self) -> str:
        """What everyone said, for a test that fails."""
        return f"{self.log.read_text()}\n{self.host.journal()}"


@pytest.fixture
def network(pref64: Pref64Network, machine: Callable[[Network, str], Machine]) -> Network108:
    """That network, without advertisements."""
    return Network108(pref64, machine(pref64, pref64.client))


def test_ipv4_goes_when_the_clat_is_ready_and_comes_back_when_it_ends(network: Network108) -> None:
    """The option is requested while the CLAT passes IPv4; however the CLAT ends, the client leases an address again."""
    net, host = network.net, network.host
    network.advertise(Option())
    host.boot()
    host.systemctl("enable", OPTION108)
    host.systemctl("start", CLAT)
    host.until(lambda: network.requests() != "", network.told)
    host.systemctl("start", DHCPCD)
    host.until(lambda: "IPv6-Only Preferred received" in host.journal(DHCPCD), network.told)
    assert network.native() == []
    # Offered, and not asked for (RFC 8925 section 3.2).
    assert set(network.exchanges()) == {("2", True)}
    assert f"108 ipv6-only  {WAIT}" in network.log.read_text()
    assert net.ping("-c2").returncode == 0, network.told()
    assert [route["dev"] for route in net.ip_json(net.client, "-4", "route")] == ["diolkos0"]

    host.until(lambda: "dhcpcd requests option 108" in host.journal(OPTION108), network.told)
    assert host.journal(OPTION108).count("requests option 108") == 1

    # Stopped by the operator: not after V6ONLY_WAIT, but at once, because the client no longer wants the option.
    host.systemctl("stop", CLAT)
    host.until(lambda: network.native() != [], network.told)
    assert network.exchanges()[-1] == ("5", False)
    assert net.run(net.client, "ping", "-c1", "-W2", GATEWAY4).returncode == 0
    assert network.requests() == ""

    # A client that has an address gives it up.
    host.systemctl("start", CLAT)
    host.until(lambda: network.native() == [], network.told)
    assert net.ping("-c2").returncode == 0, network.told()


def test_ipv4_comes_back_when_the_prefix_is_withdrawn(network: Network108) -> None:
    """The CLAT runs on, and nothing can pass: that counts as no CLAT. The next prefix takes IPv4 away again."""
    net, host = network.net, network.host
    network.advertise(Option())
    network.boot_with_ipv4()
    host.systemctl("start", CLAT, OPTION108)
    host.until(lambda: "IPv6-Only Preferred received" in host.journal(DHCPCD), network.told)
    network.stop_advertising()
    network.advertise_now(Option(lifetime=0))
    host.until(lambda: network.native() != [], network.told)
    assert host.shown(CLAT, "SubState") == "running"
    assert network.exchanges()[-1] == ("5", False)
    network.advertise_now(Option())
    host.until(lambda: network.native() == [], network.told)
    assert net.ping("-c2").returncode == 0, network.told()


def test_ipv4_comes_back_when_the_clat_is_killed_and_cannot_start(network: Network108) -> None:
    """As after an upgrade that went wrong: the service tries again and again, and there is IPv4."""
    host = network.host
    network.advertise(Option())
    network.boot_with_ipv4()
    host.systemctl("start", CLAT, OPTION108)
    host.until(lambda: "IPv6-Only Preferred received" in host.journal(DHCPCD), network.told)
    host.run("rm", "/usr/bin/diolkos")
    os.kill(host.main(CLAT), signal.SIGKILL)
    host.until(lambda: network.native() != [], network.told)
    assert network.exchanges()[-1] == ("5", False)


def test_no_request_outlives_its_service(network: Network108) -> None:
    """If the script is killed, the service manager withdraws what it had requested, and starts it again."""
    host = network.host
    network.advertise(Option())
    network.boot_with_ipv4()
    host.systemctl("start", CLAT, OPTION108)
    host.until(lambda: "IPv6-Only Preferred received" in host.journal(DHCPCD), network.told)
    host.until(lambda: "dhcpcd requests option 108" in host.journal(OPTION108), network.told)
    os.kill(host.main(OPTION108), signal.SIGKILL)
    host.until(lambda: "no longer requests option 108" in host.journal(OPTION108), network.told)
    host.until(lambda: host.journal(OPTION108).count("dhcpcd requests option 108") == 2, network.told)
    host.systemctl("stop", OPTION108)
    host.until(lambda: network.native() != [], network.told)
    assert network.requests() == ""


@pytest.mark.parametrize(
    ("options", "says_pref64"), [("--pref64 2001:db8:64::/95", True), ("--pref64 auto", False)], ids=["wrong", "no prefix"]
)
def test_without_a_clat_the_host_has_ipv4_as_always(network: Network108, options: str, says_pref64: bool) -> None:
    """A CLAT that cannot start, or that finds no prefix, is none: nobody requests the option."""
    net, host = network.net, network.host
    network.advertise(*[Option()] * says_pref64)
    host.file("/etc/diolkos/clat-wan0.env", f"CLAT_OPTIONS={options}\n")
    host.boot()
    host.systemctl("start", DHCPCD, OPTION108)
    host.systemctl("start", CLAT, check=False)
    host.until(lambda: network.native() != [], network.told)
    said = host.shown(CLAT, "StatusText") if not says_pref64 else host.shown(CLAT, "ExecMainStatus")
    assert said == "2" or "waiting for a translation prefix" in said, network.told()
    assert {was_requested for _, was_requested in network.exchanges()} == {False}
    assert net.run(net.client, "ping", "-c1", "-W2", GATEWAY4).returncode == 0
