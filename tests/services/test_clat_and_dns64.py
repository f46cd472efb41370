# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos-clat@INTERFACE.service` and `diolkos-dns64@NAME.service`."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from conftest import ROOT
from dns64 import DNS64 as DNS64_ADDRESS
from dns64 import PREF64, RESOLVER, Dns64Network
from machine import Machine
from network import Network
from pref64 import Option
from test_clat_defaults import add_second_uplink

# linux/capability.h
NET_BIND_SERVICE, NET_RAW = 1 << 10, 1 << 13
CLAT = "diolkos-clat@wan0.service"
DNS64 = "diolkos-dns64@names.service"
CONFIG = f"""
[dns64]
listen = ["[{DNS64_ADDRESS}]:53"]
upstream = ["{RESOLVER}"]
pref64 = ["{PREF64}"]
"""


def test_a_clat(net: Network, machine: Callable[[Network, str], Machine]) -> None:
    """It is ready when IPv4 passes, says so, goes on after SIGHUP, and leaves nothing."""
    host = machine(net, net.client)
    host.file("/etc/diolkos/clat-wan0.env", "CLAT_OPTIONS=--pref64 64:ff9b::/96\n")
    host.boot()
    host.systemctl("start", CLAT)
    assert net.ping("-c2").returncode == 0
    said = host.shown(CLAT, "StatusText")
    for word in ("192.0.0.1 <-> ", "on wan0", "prefix 64:ff9b::/96", "datapath tc"):
        assert word in said, said
    pid = host.main(CLAT)
    os.kill(pid, signal.SIGHUP)
    host.until(lambda: "SIGHUP: reading the configuration again" in host.journal(CLAT), host.journal)
    host.until(lambda: host.shown(CLAT, "SubState") == "running", host.journal)
    assert host.main(CLAT) == pid
    assert net.ping("-c2").returncode == 0
    host.systemctl("stop", CLAT)
    assert [link["ifname"] for link in net.ip_json(net.client, "link")] == ["lo", "wan0"]
    assert host.run("find", "/run/diolkos", "-mindepth", "1").stdout == ""


def test_two_uplinks(net: Network, machine: Callable[[Network, str], Machine]) -> None:
    """The file of docs/services.md is enough for a second CLAT. One whose metric is taken fails, and is not tried for ever."""
    add_second_uplink(net)
    page = (ROOT / "docs/services.md").read_text()
    [options] = re.findall(r"# /etc/diolkos/clat-eth1.env\n(CLAT_OPTIONS=.*)\n", page)
    host = machine(net, net.client)
    prefix = "--pref64 64:ff9b::/96"
    host.file("/etc/diolkos/clat-wan0.env", f"CLAT_OPTIONS={prefix}\n")
    host.file("/etc/diolkos/clat-wan1.env", f"{options} {prefix}\n")
    host.file("/etc/diolkos/clat-wan2.env", f"CLAT_OPTIONS=--config /etc/diolkos/taken.toml {prefix}\n")
    host.file("/etc/diolkos/taken.toml", '[translator]\ndevice = "diolkos2"\n[clat]\nmetric = 2048\n')
    net.run(net.client, "ip", "link", "add", "wan2", "type", "veth")
    host.boot()
    for n in (0, 1):
        host.systemctl("start", f"diolkos-clat@wan{n}.service")
        assert "2 received" in net.ping("-c2", "-I", f"diolkos{n}").stdout
    assert host.run("systemctl", "start", "diolkos-clat@wan2.service", check=False).returncode != 0
    third = "diolkos-clat@wan2.service"
    host.until(lambda: host.shown(third, "ActiveState") == "failed", host.journal)
    assert (host.shown(third, "NRestarts"), host.shown(third, "ExecMainStatus")) == ("0", "2")
    assert "with metric 2048 already" in host.journal(third)


def test_a_clat_that_waits_for_its_prefix_is_ready(net: Network, machine: Callable[[Network, str], Machine]) -> None:
    """Only the network can bring a prefix: the boot does not wait for it, and the status says what is missing."""
    host = machine(net, net.client)
    host.boot()
    host.systemctl("start", CLAT)
    assert "waiting for a translation prefix" in host.shown(CLAT, "StatusText")


def test_a_dns64_without_privileges(machine: Callable[[Network, str], Machine], dns64_network: Dns64Network) -> None:
    """It answers on port 53 as a user of its own, and keeps one capability; root sees its counters; its threads beat."""
    network = dns64_network
    host = machine(network, network.router)
    host.file("/etc/diolkos/names.toml", CONFIG)
    host.file(f"/etc/systemd/system/{DNS64}.d/watchful.conf", "[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n")
    host.boot()
    host.systemctl("start", DNS64)
    assert f"dns64 on [{DNS64_ADDRESS}]:53" in host.shown(DNS64, "StatusText")
    asked = ("dig", "+short", "AAAA", "v4.example", f"@{DNS64_ADDRESS}")
    assert "2001:db8:64::c000:201" in network.run(network.client, *asked).stdout.split()
    pid = host.main(DNS64)
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert "0" not in status["Uid"].split()
    assert (int(status["CapPrm"], 16), int(status["CapBnd"], 16)) == (NET_BIND_SERVICE, NET_BIND_SERVICE | NET_RAW)
    assert status["NoNewPrivs"].strip() == "1"
    counters = host.run("diolkos", "show", "counters", "--device", "dns64").stdout
    assert "dns64.answer.synthesised" in counters
    known = "2001:db8:64::c000:201"
    for more, is_synthesised in (('never_synthesize = ["v4.example"]\n', False), ("", True)):
        host.file("/etc/diolkos/names.toml", CONFIG + more)
        host.systemctl("reload", DNS64)
        host.until(
            lambda expected=is_synthesised: (known in network.run(network.client, *asked).stdout.split()) == expected,
            host.journal,
        )
    assert host.main(DNS64) == pid
    os.kill(pid, signal.SIGSTOP)
    host.until(lambda: host.shown(DNS64, "NRestarts") == "1", host.journal)
    host.until(lambda: host.shown(DNS64, "SubState") == "running", host.journal)
    assert "2001:db8:64::c000:201" in network.run(network.client, *asked).stdout.split()
    host.systemctl("stop", DNS64)
    assert host.run("sh", "-c", "ls /run | grep diolkos", check=False).stdout == ""


def test_a_dns64_that_learns_its_prefix(machine: Callable[[Network, str], Machine], dns64_network: Dns64Network) -> None:
    """`pref64 = "auto"` needs nothing besides the unit; the figures are served too."""
    network = dns64_network
    host = machine(network, network.router)
    auto = CONFIG.replace(f'["{PREF64}"]', '"auto"\nuplink = "out0"') + '[metrics]\nlisten = ["[::1]:9464"]\n'
    host.file("/etc/diolkos/names.toml", auto)
    host.boot()
    host.systemctl("start", DNS64)
    asked = ("dig", "+short", "AAAA", "v4.example", f"@{DNS64_ADDRESS}")
    assert network.run(network.client, *asked).stdout.split() == []
    network.advertise(Option(PREF64, 1800))
    host.until(lambda: "2001:db8:64::c000:201" in network.run(network.client, *asked).stdout.split(), host.journal)
    page = host.run("curl", "--silent", "http://[::1]:9464/metrics").stdout
    assert "diolkos_dns64_" in page and page.endswith("\n"), page
    host.systemctl("stop", DNS64)


def clat_of(host: Machine) -> int:
    """The process of the CLAT, as the machine numbers it; 0 while there is none."""
    shown = host.run("diolkos", "show", "status", "--json", check=False).stdout
    return json.loads(shown)["pid"] if shown else 0


def test_networkmanagers_script(net: Network, machine: Callable[[Network, str], Machine]) -> None:
    """The unit comes and goes as the script says, and systemd starts a CLAT again that somebody has killed."""
    script = "/etc/NetworkManager/dispatcher.d/90-diolkos-clat"
    host = machine(net, net.client)
    host.file(script, (ROOT / "packaging/networkmanager/90-diolkos-clat").read_text())
    host.file("/etc/diolkos/clat-wan0.env", "CLAT_OPTIONS=--pref64 64:ff9b::/96\n")
    host.boot()
    only_ipv6 = ("IP6_NUM_ADDRESSES=1", "IP6_GATEWAY=fe80::1")
    host.run("env", *only_ipv6, "sh", script, "wan0", "up")
    host.until(lambda: net.ping("-c1").returncode == 0, host.journal)
    killed = clat_of(host)
    host.run("kill", "-9", str(killed))
    # The kernel takes the device of a killed process away a moment later: until then, packets pass by its programs.
    host.until(lambda: clat_of(host) not in (0, killed) and net.ping("-c1").returncode == 0, host.journal)
    host.run("env", *only_ipv6, "IP4_NUM_ADDRESSES=1", "sh", script, "wan0", "dhcp4-change")
    host.until(lambda: host.shown(CLAT, "ActiveState") == "inactive", host.journal)
    assert [link["ifname"] for link in net.ip_json(net.client, "link")] == ["lo", "wan0"]
    assert host.run("find", "/run/diolkos", "-type", "s").stdout == ""


def test_a_file_for_a_translator_and_a_dns64(machine: Callable[[Network, str], Machine], dns64_network: Dns64Network) -> None:
    """Two units read it. The one starts again without the other, and the translator's page has the figures of both."""
    network = dns64_network
    host = machine(network, network.router)
    unit, names, path = "diolkos@both.service", "diolkos-dns64@both.service", "/etc/diolkos/both.toml"
    translator = f'[translator]\nmode = "siit"\npref64 = ["{PREF64}", "2001:db8:65::/96"]\n'
    section = CONFIG.replace(f'pref64 = ["{PREF64}"]\n', "")
    metrics = '[metrics]\nlisten = ["[::1]:9464"]\n'
    host.file(path, translator + metrics + section)
    host.boot()
    host.systemctl("start", unit, names)
    asked = ("dig", "+short", "AAAA", "v4.example", f"@{DNS64_ADDRESS}")

    def answers(address: str) -> bool:
        return address in network.run(network.client, *asked, check=False).stdout.split()

    host.until(lambda: answers("2001:db8:64::c000:201"), host.journal)
    # Root without the right to pass by the modes of files, and a user who is nobody else.
    page = ("curl", "--silent", "http://[::1]:9464/metrics")
    host.until(lambda: "diolkos_dns64_up 1" in host.run(*page).stdout, host.journal)
    pid, killed = host.main(unit), host.main(names)
    os.kill(killed, signal.SIGKILL)
    host.until(lambda: answers("2001:db8:64::c000:201") and host.main(names) != killed, host.journal)
    host.file(path, translator + metrics + section + 'pref64 = ["2001:db8:65::/96"]\n')
    host.systemctl("reload", unit)
    host.systemctl("restart", names)
    assert answers("2001:db8:65::c000:201")
    assert host.main(unit) == pid
    host.systemctl("stop", unit)
    assert answers("2001:db8:65::c000:201")
    host.systemctl("stop", names)
    assert (host.shown(unit, "Result"), host.shown(names, "Result")) == ("success", "success")
