# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Under each unit the program's own filters of system calls are in force, whatever systemd's sets contain."""

from __future__ import annotations

from collections.abc import Callable

from confined import check, drop_in
from dns64 import DNS64, PREF64, RESOLVER, Dns64Network
from machine import Machine
from nat64 import CONFIG, Nat64Network
from network import Network

CLAT, OPTION108 = "diolkos-clat@wan0.service", "diolkos-option108@wan0.service"
ALONE, NAT64 = "diolkos-dns64@names.service", "diolkos@nat.service"
NAMES = f"""
[dns64]
listen = ["[{DNS64}]:53"]
upstream = ["{RESOLVER}"]
"""
STATE = '[nat64]\nstate = "/var/lib/diolkos/nat.state"\n[[nat64.pool4]]'
RECORDS = '\n[[log.bindings]]\nto = "file"\npath = "/var/log/diolkos/bindings.json"\n'
# As on a systemd whose sets lack it, or in a container with a narrow profile.
WITHOUT = "[Service]\nSystemCallFilter=~seccomp\n"


def test_clats(net: Network, machine: Callable[[Network, str], Machine]) -> None:
    """A CLAT, and the script of DHCP option 108 beside it."""
    host = machine(net, net.client)
    host.file("/etc/diolkos/clat-wan0.env", "CLAT_OPTIONS=--pref64 64:ff9b::/96\n")
    host.file("/etc/diolkos/option108-wan0.env", "DHCP_CLIENT=networkmanager\n")
    for unit in (CLAT, OPTION108):
        host.file(*drop_in(unit))
    host.boot()
    host.systemctl("start", CLAT)
    assert net.ping("-c1").returncode == 0
    check(host, CLAT, 1, "diolkos0")
    host.systemctl("start", OPTION108)
    # The shell has no filters of its own; systemd's are all that there is, and no capability.
    host.until(lambda: "Seccomp_filters:" in host.journal(OPTION108), host.journal)
    pid = host.main(OPTION108)
    status = host.run("grep", "-E", "^(Seccomp|NoNewPrivs|CapPrm|CapBnd):", f"/proc/{host.shown(OPTION108, 'MainPID')}/status")
    assert "".join(status.stdout.split()) == "CapPrm:0000000000000000CapBnd:0000000000000000NoNewPrivs:1Seccomp:2", pid


def test_a_dns64(machine: Callable[[Network, str], Machine], dns64_network: Dns64Network) -> None:
    """All threads of it."""
    network = dns64_network
    host = machine(network, network.router)
    host.file("/etc/diolkos/names.toml", NAMES + f'pref64 = ["{PREF64}"]\n')
    host.file(*drop_in(ALONE))
    host.boot()
    asked = ("dig", "+short", "AAAA", "v4.example", f"@{DNS64}")

    def answers() -> bool:
        return "2001:db8:64::c000:201" in network.run(network.client, *asked, check=False).stdout

    host.systemctl("start", ALONE)
    host.until(answers, host.journal)
    check(host, ALONE, 1, "dns64")


def test_a_nat64(nat64: Nat64Network, machine: Callable[[Network, str], Machine]) -> None:
    """All threads; and a filter that forbids seccomp(2) is named as what it is, wherever somebody looks."""
    host = machine(nat64, nat64.translator)
    host.file("/etc/diolkos/nat.toml", CONFIG.replace("[[nat64.pool4]]", STATE) + RECORDS)
    host.file(*drop_in(NAT64))
    host.boot()
    host.systemctl("start", NAT64)
    (threads,) = check(host, NAT64, 1, "diolkos0").values()
    assert {"saver", "sweeper", "tun-0"} <= {thread.name for thread in threads}
    host.file(f"/etc/systemd/system/{NAT64}.d/without.conf", WITHOUT)
    host.systemctl("daemon-reload")
    host.systemctl("restart", NAT64)
    shown = host.run("diolkos", "show", "status").stdout
    assert "seccomp   unavailable" in shown
    for told in (shown, host.shown(NAT64, "StatusText"), host.journal(NAT64)):
        assert "not confined" in told and "EPERM" in told and "SystemCallFilter=" in told, told
        assert "CONFIG_SECCOMP" not in told
