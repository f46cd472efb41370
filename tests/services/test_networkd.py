# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What docs/networkmanager.md says of networkd: real units, a real systemd-networkd, one interface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from machine import Machine
from network import CLIENT6, ROUTER6, Network

CLAT, NETWORKD = "diolkos-clat@wan0.service", "systemd-networkd.service"
# Too wide, as `Name=*` would be: the recipe has to keep networkd away from the CLAT's device.
UPLINK = f"""
[Match]
Name=wan* diolkos*
[Network]
IPv6AcceptRA=no
Address={CLIENT6}/64
Gateway={ROUTER6}
"""
# networkd waits for udev where /sys can be written; the machine has no udev.
WITHOUT_UDEV = "[Service]\nReadOnlyPaths=/sys\n"


def recipe() -> str:
    """The .network file of the page."""
    page = (Path(__file__).resolve().parents[2] / "docs/networkmanager.md").read_text()
    return page.split("# /etc/systemd/network/05-diolkos.network\n", 1)[1].split("```", 1)[0]


def state(host: Machine, net: Network, link: str) -> str:
    """What networkd thinks of a link: `configured`, `unmanaged`, or nothing yet."""
    [found] = net.ip_json(net.client, "link", "show", "dev", link)
    said = host.run("cat", f"/run/systemd/netif/links/{found['ifindex']}", check=False).stdout
    lines = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    return lines.get("ADMIN_STATE", "")


def test_networkd_and_a_clat(net: Network, machine: Callable[[Network, str], Machine]) -> None:
    """networkd leaves the CLAT's device and routes alone, also when it starts again; the CLAT follows the link."""
    host = machine(net, net.client)
    host.file("/etc/systemd/network/05-diolkos.network", recipe())
    host.file("/etc/systemd/network/10-wan0.network", UPLINK)
    host.file(f"/etc/systemd/system/{NETWORKD}.d/no-udev.conf", WITHOUT_UDEV)
    host.file("/etc/diolkos/clat-wan0.env", "CLAT_OPTIONS=--pref64 64:ff9b::/96\n")
    host.boot()
    host.systemctl("start", NETWORKD)
    host.until(lambda: state(host, net, "wan0") == "configured", host.journal)
    host.systemctl("start", CLAT)
    assert net.ping("-c2").returncode == 0
    host.until(lambda: state(host, net, "diolkos0") == "unmanaged", host.journal)

    routes = net.ip_json(net.client, "-4", "route")
    assert [route["dev"] for route in routes] == ["diolkos0"]
    host.systemctl("restart", NETWORKD)
    host.until(lambda: state(host, net, "wan0") == "configured", host.journal)
    host.until(lambda: state(host, net, "diolkos0") == "unmanaged", host.journal)
    assert net.ip_json(net.client, "-4", "route") == routes
    assert net.ping("-c2").returncode == 0

    net.ip(net.client, "link", "set", "wan0", "down")
    host.until(lambda: "waiting" in host.shown(CLAT, "StatusText"), host.journal)
    net.ip(net.client, "link", "set", "wan0", "up")
    host.until(lambda: net.ping("-c1").returncode == 0, host.journal)
    host.systemctl("stop", CLAT)
    assert [link["ifname"] for link in net.ip_json(net.client, "link")] == ["lo", "wan0"]
