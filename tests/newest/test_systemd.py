# SPDX-License-Identifier: Apache-2.0 OR MIT
"""systemd of Debian sid (262 at least): it takes the units as they are shipped, and its networkd leaves a CLAT alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FURTHER, ROOT, program
from host import Host
from network import Network
from test_networkd import CLAT, NETWORKD, UPLINK, recipe, state

UNITS = ROOT / "packaging/systemd"


@pytest.fixture
def net() -> Iterator[Network]:
    """Client, router and server."""
    network = Network(program())
    try:
        network.build()
        yield network
    finally:
        network.remove()


@pytest.fixture
def host(net: Network, tmp_path: Path) -> Iterator[Host]:
    """The client with sid's systemd as process 1, our program and its units, which a package would bring."""
    shutil.copy(program(), tmp_path / "diolkos")
    for file in UNITS.iterdir():
        shutil.copy(file, tmp_path / file.name)
    made = Host(net, net.client, "sid", tmp_path, FURTHER)
    try:
        made.boot()
        made.run("install", "-m755", "/packages/diolkos", "/usr/bin/diolkos")
        made.run("sh", "-c", "install -m644 -t /usr/lib/systemd/system /packages/*.service")
        made.run("sh", "-c", "install -Dm755 -t /usr/lib/diolkos /packages/after-stop /packages/option108")
        yield made
    finally:
        made.remove()


def everything(host: Host) -> str:
    """The whole journal, for a test that fails."""
    return host.run("journalctl", "--no-pager", "--output=cat", check=False).stdout


def test_the_units_and_networkd(host: Host, net: Network) -> None:
    """No key of a unit is unknown; networkd leaves the CLAT's device and routes alone, also when it starts again."""
    version = int(re.match(r"systemd (\d+)", host.run("systemctl", "--version").stdout)[1])
    assert version >= 262
    units = [f"/usr/lib/systemd/system/{unit.name.replace('@.', '@wan0.')}" for unit in UNITS.glob("*.service")]
    verified = host.run("systemd-analyze", "verify", "--man=no", *units, check=False)
    assert not [line for line in verified.stderr.splitlines() if "diolkos" in line], verified.stderr

    host.write("/etc/systemd/network/05-diolkos.network", recipe())
    host.write("/etc/systemd/network/10-wan0.network", UPLINK)
    host.run("mkdir", "-p", "/etc/diolkos")
    host.write("/etc/diolkos/clat-wan0.env", "CLAT_OPTIONS=--pref64 64:ff9b::/96\n")
    host.run("systemctl", "daemon-reload")
    # It has started with the machine, and waits for udev where /sys can be written; the machine has no udev.
    host.run("mount", "-o", "remount,bind,ro", "/sys")
    host.run("systemctl", "restart", NETWORKD)
    host.until(lambda: state(host, net, "wan0") == "configured", lambda: everything(host))
    host.run("systemctl", "start", CLAT)
    assert net.ping("-c2").returncode == 0, everything(host)
    host.until(lambda: state(host, net, "diolkos0") == "unmanaged", lambda: everything(host))
    routes = net.ip_json(net.client, "-4", "route")
    assert [route["dev"] for route in routes] == ["diolkos0"]
    host.run("systemctl", "restart", NETWORKD)
    host.until(lambda: state(host, net, "wan0") == "configured", lambda: everything(host))
    host.until(lambda: state(host, net, "diolkos0") == "unmanaged", lambda: everything(host))
    assert net.ip_json(net.client, "-4", "route") == routes
    assert net.ping("-c2").returncode == 0, everything(host)
    host.run("systemctl", "stop", CLAT)
    assert [link["ifname"] for link in net.ip_json(net.client, "link")] == ["lo", "wan0"]
