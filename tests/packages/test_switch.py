# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The package of the P4 switch, in the release whose DPDK it is linked with: its unit gives it devices, and takes them back."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from host import Host
from nat64 import Nat64Network
from test_depends import RELEASES

UNIT = "diolkos-switch@nat.service"
NET_ADMIN = 1 << 12  # linux/capability.h
FILTERED = 2  # linux/seccomp.h


@pytest.fixture
def bare(network: Nat64Network, packages: Path) -> Iterator[Host]:
    """The release of this machine's C library, with the DPDK that the package asks for."""
    if not (packages / "diolkos-switch.deb").exists():
        pytest.skip("diolkos-switch is built on amd64 only")
    own = platform.libc_ver()[1]
    release = next((name for name, has in RELEASES.items() if has["libc6"] == own), None)
    if release is None:
        pytest.skip(f"no release here has this machine's C library {own}, and so its DPDK")
    look = ("dpkg-deb", "--field", packages / "diolkos-switch.deb", "Depends")
    depends = subprocess.run(look, check=True, capture_output=True, text=True).stdout
    libraries = tuple(sorted(set(re.findall(r"librte-[a-z0-9-]+", depends))))
    assert libraries, depends
    made = Host(network, network.translator, release, packages, libraries)
    try:
        made.boot()
        yield made
    finally:
        made.remove()


def status(host: Host, pid: str) -> list[dict[str, str]]:
    """Of each thread of a process."""
    text = host.run("sh", "-c", f"cat /proc/{pid}/task/*/status").stdout
    parts = re.split(r"^(?=Name:)", text, flags=re.MULTILINE)
    return [dict(re.findall(r"^(\w+):\s*(.*)$", part, re.MULTILINE)) for part in parts if part]


def test_install_run_upgrade_purge(bare: Host, packages: Path) -> None:
    """The unit says ready when the shadows are there, has the rights that it needs, and gives the devices back."""
    host = bare
    before = host.files()
    host.install(packages / "diolkos-switch.deb")
    assert host.run("diolkos-switch", "--version").stdout.startswith("diolkos-switch, DPDK ")
    assert host.run("systemctl", "list-units", "--no-legend", "diolkos-switch*").stdout == "", "no service starts by itself"
    for wire in ("w4", "w6"):
        host.run("ip", "link", "add", wire, "type", "veth", "peer", "name", f"{wire}-end")
        host.run("ip", "link", "set", wire, "up")
    host.run("mkdir", "-p", "/etc/diolkos")
    host.write("/etc/diolkos/nat.switch", 'PORTS="--port w4=s4 --port w6=s6"\n')

    host.run("systemctl", "enable", "--now", UNIT)
    assert host.run("ip", "link", "show", "s4").returncode == 0, "it is ready when the shadows are there"
    host.run("test", "-S", "/run/diolkos-switch-nat/socket")
    first = host.shown(UNIT, "MainPID")
    for thread in status(host, first):
        assert (thread["Seccomp"], thread["NoNewPrivs"]) == (str(FILTERED), "1"), thread
        assert int(thread["CapPrm"], 16) & ~NET_ADMIN == 0, thread
        assert int(thread["CapAmb"], 16) == 0, thread
    assert "25716" in host.run("tc", "filter", "show", "dev", "w4", "ingress").stdout

    host.run("dpkg", "--install", "/packages/diolkos-switch.deb")
    assert host.shown(UNIT, "MainPID") not in ("0", first), "an upgrade restarts it"
    host.run("systemctl", "stop", UNIT)
    assert "25716" not in host.run("tc", "filter", "show", "dev", "w4", "ingress").stdout, host.journal(UNIT)
    assert host.shown(UNIT, "Result") == "success"

    host.write("/etc/diolkos/nat.switch", "PORTS=--port\n")
    assert host.run("systemctl", "start", UNIT, check=False).returncode != 0
    assert host.shown(UNIT, "NRestarts") == "0", "a mistake is as wrong the next time"
    host.run("apt-get", "purge", "-y", "diolkos-switch")
    assert host.files() - before == set()
