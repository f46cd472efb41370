# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The distribution's NetworkManager and its dispatcher, with a D-Bus of their own: the script starts and stops CLATs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from network import ROUTER6
from pref64 import OWN, ROUTER, Option, Pref64Network
from test_networkmanager_script import SCRIPT

pytestmark = pytest.mark.skipif(
    shutil.which("NetworkManager", path="/usr/sbin:/usr/bin") is None, reason="no NetworkManager here"
)

OPTION108 = ROOT / "packaging/systemd/option108"
NETWORK = "ICMPv6NDOptPrefixInfo(prefix='2001:2:0:1::', prefixlen=64, L=1, A=1, validlifetime=3600, preferredlifetime=1800)"

# What the script tells systemd, done at once: the CLAT of an interface is started or ended.
SYSTEMCTL = """#!/bin/sh
for word; do unit=$word; done
uplink=${unit#diolkos-clat@} uplink=${uplink%.service}
pid=/run/clat-$uplink
case $* in
cat*) exit 0 ;;
is-enabled*) exit 1 ;;
*start*) [ -e "$pid" ] || { setsid diolkos clat --uplink "$uplink" >>/run/log-clat 2>&1 & echo $! >"$pid"; } ;;
*stop*) [ ! -e "$pid" ] || { kill "$(cat "$pid")"; rm "$pid"; } ;;
esac
"""

# Everything that these programs keep lies in memory, and ends with this shell: it is process 1 of its namespace.
SYSTEM = """
set -eu
scratch=$1
mount --make-rprivate /
mkdir "$scratch/diolkos"
mount --bind /run/diolkos "$scratch/diolkos"
mount -t tmpfs none /run
mkdir -p /run/diolkos /run/dbus /run/profiles /run/state
mount --bind "$scratch/diolkos" /run/diolkos
# NetworkManager waits for no udev where /sys is read-only.
mount -t sysfs -o ro sysfs /sys
mount --bind /run/state /var/lib/NetworkManager
mount -t tmpfs none /etc/NetworkManager
mkdir /etc/NetworkManager/conf.d /etc/NetworkManager/dispatcher.d
install -m 755 "$2" /etc/NetworkManager/dispatcher.d/90-diolkos-clat
cat >/run/bus.conf <<END
<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/>
<allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
END
cat >/etc/NetworkManager/NetworkManager.conf <<END
[main]
plugins=keyfile
dns=none
rc-manager=unmanaged
auth-polkit=false
no-auto-default=*
[device-uplink]
match-device=interface-name:wan0
managed=1
[keyfile]
path=/run/profiles
END
# As docs/networkmanager.md says.
printf '%s\\n' '[keyfile]' 'unmanaged-devices=interface-name:diolkos*' >/etc/NetworkManager/conf.d/diolkos.conf
cat >/run/profiles/uplink.nmconnection <<END
[connection]
id=uplink
type=ethernet
interface-name=wan0
[ipv4]
method=disabled
[ipv6]
method=auto
END
chmod 600 /run/profiles/*
dbus-daemon --config-file=/run/bus.conf --nofork --nopidfile &
until [ -S /run/dbus/system_bus_socket ]; do sleep 0.05; done
/usr/lib/NetworkManager/nm-dispatcher --debug --persist &
NetworkManager --debug &
until nmcli -t -f RUNNING general 2>/dev/null | grep -q running; do sleep 0.05; done
echo "it runs"
# Orders for nmcli, one a line.
while read -r order; do nmcli $order && echo "done" || echo "failed"; done
"""


class System:
    """A running NetworkManager in the client's namespace."""

    def __init__(self, net: Pref64Network) -> None:
        """Start it, and wait until it takes orders."""
        self.net, self.log = net, net.scratch / "log-networkmanager"
        tools = net.scratch / "tools"
        tools.mkdir()
        (tools / "diolkos").symlink_to(net.program)
        (tools / "systemctl").write_text(SYSTEMCTL)
        (tools / "systemctl").chmod(0o755)
        spaces = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
        path = ("env", f"PATH={tools}:/usr/sbin:/usr/bin:/sbin:/bin")
        command = (*spaces, *path, "sh", "-c", SYSTEM, "sh", str(net.scratch), str(SCRIPT))
        with self.log.open("w") as sink:
            self.shell = net.start(net.client, *command, stdin=subprocess.PIPE, stdout=sink, stderr=sink, text=True)
        net.until(lambda: "it runs\n" in self.log.read_text() or self.shell.poll() is not None)
        assert self.shell.poll() is None, self.log.read_text()

    def inside(self) -> int:
        """Process 1 of its namespaces, by its number here."""
        pid = self.shell.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def nmcli(self, words: str) -> None:
        """Have nmcli(1) do something; what comes of it is waited for elsewhere."""
        self.shell.stdin.write(f"{words}\n")
        self.shell.stdin.flush()


def condition(net: Pref64Network) -> dict:
    """What the CLAT says of itself; nothing without one."""
    shown = net.run(net.client, str(net.program), "show", "status", "--json", check=False).stdout
    return json.loads(shown) if shown else {}


def until_ready(net: Pref64Network) -> dict:
    """The CLAT, once IPv4 can pass."""
    net.until(lambda: condition(net).get("state") == "ready")
    return condition(net)


def pings(net: Pref64Network) -> bool:
    """Whether the server is there by IPv4."""
    return net.ping("-c1").returncode == 0


@pytest.fixture
def network(pref64: Pref64Network) -> Pref64Network:
    """An IPv6-only network whose router says everything, and a host that knows nothing yet."""
    net = pref64
    net.reach(OWN)
    net.ip(net.client, "address", "flush", "dev", "wan0", "scope", "global")
    net.ip(net.client, "-6", "route", "flush", "default")
    advertisement = net.advertisement(Option()).replace("routerlifetime=0", "routerlifetime=1800")
    log = net.scratch / "router.log"
    with log.open("w") as sink:
        command = (sys.executable, "-c", ROUTER, "when solicited", f"{advertisement}/{NETWORK}")
        net.start(net.router, *command, stdout=sink, stderr=sink)
    net.until(lambda: "listening" in log.read_text(), patience=60)
    assert net.run(net.client, "ping", "-6", "-c1", "-W1", ROUTER6, check=False).returncode != 0
    return net


@pytest.fixture
def system(network: Pref64Network) -> Iterator[Callable[[], System]]:
    """Starts NetworkManager in that network."""
    started = []

    def start() -> System:
        started.append(System(network))
        return started[-1]

    yield start
    for one in started:
        # unshare(1) waits for what it has started, whatever it is told.
        one.shell.kill()


def test_a_clat_comes_and_goes_with_the_connection(network: Pref64Network, system: Callable[[], System]) -> None:
    """The prefix is that of the router; NetworkManager leaves the device alone, also when it is started anew."""
    net = network
    networkmanager = system()
    clat = until_ready(net)
    assert (clat["device"], clat["prefixes"]) == ("diolkos0", [OWN])
    assert pings(net)
    networkmanager.nmcli("connection down uplink")
    net.until(lambda: condition(net) == {})
    assert "diolkos0" not in net.ip(net.client, "link")
    networkmanager.nmcli("connection up uplink")
    until_ready(net)
    assert pings(net)
    # The cable is pulled, and NetworkManager waits some seconds for it to come back.
    net.ip(net.router, "link", "set", "down0", "down")
    net.until(lambda: condition(net) == {})


def test_a_clat_of_others_is_left_alone(network: Pref64Network, system: Callable[[], System]) -> None:
    """Whoever has its address has the host's IPv4; the log says who that is."""
    net = network
    net.ip(net.client, "link", "add", "clat0", "type", "veth", "peer", "clat1")
    net.ip(net.client, "address", "add", "192.0.0.1/32", "dev", "clat0")
    networkmanager = system()
    net.until(lambda: "clat0 has 192.0.0.1: another CLAT serves this host" in networkmanager.log.read_text())
    assert condition(net) == {}
    assert "diolkos0" not in net.ip(net.client, "link")


def version() -> tuple[int, ...]:
    """That of NetworkManager."""
    words = subprocess.run(["NetworkManager", "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(int(number) for number in words.strip().split("-")[0].split(".")[:2])


@pytest.mark.skipif(shutil.which("nmcli") is not None and version() >= (1, 52), reason="this NetworkManager knows option 108")
def test_a_networkmanager_without_option_108_says_so(network: Pref64Network, system: Callable[[], System]) -> None:
    """The property does not exist before 1.52: the log says that nothing was requested, and nothing is left."""
    net = network
    networkmanager = system()
    until_ready(net)
    requests, log = net.scratch / "requests", net.scratch / "log-option108"
    settings = (f"OPTION108_REQUESTS={requests}", f"DIOLKOS={net.program}", "DHCP_CLIENT=networkmanager")
    inside = ("nsenter", f"--target={networkmanager.inside()}", "--mount", "--root")
    with log.open("w") as sink:
        net.start(net.client, *inside, "env", *settings, str(OPTION108), "follow", "wan0", stdout=sink, stderr=sink)
    net.until(lambda: "networkmanager cannot request option 108, and IPv4 stays as it is" in log.read_text())
    assert list(requests.iterdir()) == []
