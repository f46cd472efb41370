# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Users of the group of readers beside services of systemd, with all that the units take away from these."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from dns64 import Dns64Network
from machine import Machine
from nat64 import CONFIG as NAT64
from nat64 import Nat64Network
from network import Network

MEMBER = ("setpriv", "--reuid=54322", "--regid=54322", "--groups=54321", "--inh-caps=-all", "--bounding-set=-all")
STRANGER = ("setpriv", "--reuid=54322", "--regid=54322", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
CONTROL = '\n[control]\ngroup = "54321"\n'
DNS64 = '[dns64]\nlisten = ["[::1]:5353"]\nupstream = ["192.0.2.53"]\n'


@pytest.fixture
def start(machine: Callable[[Network, str], Machine]) -> Callable[[Network, str, str, str], Machine]:
    """Boots a machine and starts a service in it."""

    def started(network: Network, name: str, unit: str, text: str) -> Machine:
        made = machine(network, name)
        made.file("/etc/diolkos/x.toml", text + CONTROL)
        made.boot()
        made.systemctl("start", unit)
        return made

    return started


def read_by(box: Machine, device: str) -> None:
    """A member reads and changes nothing; another user does not even connect."""
    show = ("diolkos", "show", "status", "--json", "--device", device)
    assert json.loads(box.run(*MEMBER, *show).stdout)["state"] == "ready"
    for command in (("reload",), ("stop",)):
        done = box.run(*MEMBER, "diolkos", *command, "--device", device, check=False)
        assert done.returncode == 1, command
        assert "only root and the user of the running diolkos" in done.stderr
    assert "you may not open the control socket" in box.run(*STRANGER, *show, check=False).stderr


def test_a_router(nat64: Nat64Network, start: Callable[..., Machine]) -> None:
    """Which runs as root, and may give no file to other groups."""
    read_by(start(nat64, nat64.router, "diolkos@x", NAT64), "diolkos0")


def test_a_dns64_of_its_own_user(dns64_network: Dns64Network, start: Callable[..., Machine]) -> None:
    """Who is in no group and has no capability for this."""
    read_by(start(dns64_network, dns64_network.router, "diolkos-dns64@x", DNS64), "dns64")
