# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From `apt install` to purge: a NAT64 runs, an upgrade keeps its connections, and nothing is left."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from host import Host
from nat64 import TRANSLATOR, Nat64Network, in_ipv6
from siit import V4, V6

UNIT = "diolkos@nat.service"
CONFIG = f"""{TRANSLATOR}
[nat64]
state = "/var/lib/diolkos/nat.state"
[[nat64.pool4]]
address = "192.0.2.0/29"
"""
PORT = 7


class Conversation:
    """One connection through the translator, on which question and answer follow each other until it is to end."""

    def __init__(self, network: Nat64Network) -> None:
        listener = network.listener(V4, PORT)
        self.asks = network.connect(V6, (in_ipv6(V4), PORT))
        self.answers, _ = listener.accept()
        self.answers.settimeout(60)
        self.asks.settimeout(60)
        self.turns = 0
        self.ending = threading.Event()
        self.wrong: Exception | None = None
        self.thread = threading.Thread(target=self.talk, daemon=True)
        self.thread.start()

    def talk(self) -> None:
        """Ask and answer."""
        try:
            while not self.ending.wait(0.01):
                self.turn()
        except OSError as wrong:
            self.wrong = wrong

    def turn(self) -> None:
        """One question and its answer."""
        text = b"%9d" % self.turns
        self.asks.sendall(text)
        assert self.answers.recv(9, socket.MSG_WAITALL) == text
        self.answers.sendall(text)
        assert self.asks.recv(9, socket.MSG_WAITALL) == text
        self.turns += 1

    def end(self) -> int:
        """How many turns there were; what went wrong is raised."""
        self.ending.set()
        self.thread.join()
        if self.wrong:
            raise self.wrong
        return self.turns


def test_install_upgrade_purge(host: Host, network: Nat64Network, packages: Path) -> None:
    """The whole life of the package on one host."""
    before = host.files()
    host.install(packages / "diolkos.deb")
    assert host.run("diolkos", "--version").stdout.startswith("diolkos ")
    assert host.run("systemctl", "list-units", "--no-legend", "diolkos*").stdout == "", "no service starts by itself"
    assert "diolkos" in host.run("getent", "passwd", "diolkos").stdout

    host.write("/etc/diolkos/nat.toml", CONFIG)
    host.write("/etc/diolkos/nat.switch", "PORTS=\n")
    host.run("systemctl", "enable", "--now", UNIT)
    conversation = Conversation(network)
    first = host.shown(UNIT, "MainPID")
    said = host.install(packages / "newer.deb")
    second = host.shown(UNIT, "MainPID")
    assert "999" in host.run("dpkg-query", "-W", "diolkos").stdout, said
    assert second not in ("0", first), f"the service runs on with the old program\n{said}{host.journal(UNIT)}"
    reached = conversation.turns
    host.until(lambda: conversation.turns > reached + 10 or conversation.wrong is not None, lambda: host.journal(UNIT))
    conversation.end()

    host.run("apt-get", "purge", "-y", "diolkos")
    assert host.run("systemctl", "is-active", UNIT, check=False).stdout.strip() != "active"
    assert host.files() - before == {"/etc/diolkos", "/etc/diolkos/nat.switch"}, "what belongs to diolkos-switch stays"
    assert host.run("getent", "passwd", "diolkos", check=False).stdout == ""
    assert host.run("find", "/sys/fs/bpf", "-name", "diolkos").stdout == ""
    assert network.leftovers() == []


def test_the_other_packages(host: Host, packages: Path) -> None:
    """The packet generator starts; the lab says how to get its Python packages; both go without a trace."""
    before = host.files()
    host.install(packages / "diolkos-pktgen.deb")
    assert host.run("diolkos-pktgen", "--version").stdout.startswith("diolkos-pktgen ")
    # Its dependencies are not in a bare installation, and a test has no mirror.
    host.run("dpkg", "--force-depends", "--install", "/packages/diolkos-lab.deb")
    refused = host.run("diolkos-lab", "list", check=False)
    assert (refused.returncode, "sudo diolkos-lab-setup" in refused.stderr) == (3, True)
    host.run("dpkg", "--purge", "diolkos-lab", "diolkos-pktgen")
    assert host.files() - before == set()
