# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Upgrades that go wrong. No fault costs a connection, apt says what is wrong, and the next good package repairs everything."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from host import Host
from nat64 import Nat64Network
from test_deb import CONFIG, UNIT, Conversation

FILE = "/etc/diolkos/nat.toml"
# What an operator has written and not yet loaded.
MISTAKE = CONFIG.replace("state =", "states =")
# Where the program goes, and where dpkg keeps books.
FULL = ("/usr/bin", "/var/lib/dpkg")


@pytest.fixture
def conversation(host: Host, network: Nat64Network) -> Iterator[Conversation]:
    """A connection through a service of the package, which is there at the end, too."""
    host.install(host.packages / "diolkos.deb")
    host.write(FILE, CONFIG)
    host.run("systemctl", "enable", "--now", UNIT)
    made = Conversation(network)
    goes_on(host, made)
    yield made
    goes_on(host, made)
    made.end()


def goes_on(host: Host, conversation: Conversation) -> None:
    """Wait for more turns."""
    reached = conversation.turns
    host.until(lambda: conversation.turns > reached + 10 or conversation.wrong is not None, lambda: host.journal(UNIT))
    assert conversation.wrong is None, host.journal(UNIT)


def repair(host: Host) -> None:
    """The next upgrade is a good one: its program runs, and nothing is half installed."""
    before = host.shown(UNIT, "MainPID")
    said = host.install(host.packages / "newer.deb")
    assert host.run("dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Version}", "diolkos").stdout == "ii 999", said
    host.until(lambda: host.shown(UNIT, "ActiveState") == "active", lambda: said + host.journal(UNIT))
    assert host.shown(UNIT, "MainPID") not in ("0", before), said
    assert host.run("dpkg", "--audit").stdout == ""


def test_a_configuration_that_the_new_program_refuses(host: Host, conversation: Conversation) -> None:
    """The old program goes on with what it has read."""
    before = host.shown(UNIT, "MainPID")
    host.write(FILE, MISTAKE)
    said = host.install(host.packages / "newer.deb")
    assert host.shown(UNIT, "MainPID") == before, said
    assert f"{UNIT} was not restarted" in said
    # Where the mistake is.
    assert f"{FILE}:" in said
    assert "states" in said
    goes_on(host, conversation)

    host.write(FILE, CONFIG)
    host.run("systemctl", "restart", UNIT)
    assert host.shown(UNIT, "MainPID") not in ("0", before)


def test_a_program_that_does_not_run(host: Host, conversation: Conversation) -> None:
    """Known sessions go on in the kernel until another package is installed."""
    said = host.install(host.packages / "broken.deb")
    assert "a service did not start again" in said
    assert "this program is broken" in host.journal(UNIT)
    assert host.shown(UNIT, "ActiveState") != "active"
    goes_on(host, conversation)
    repair(host)


@pytest.mark.parametrize("folder", FULL)
def test_a_disk_that_is_full(host: Host, conversation: Conversation, folder: str) -> None:
    """The upgrade fails, the old program runs on, and apt repairs what is left when there is room again."""
    before = host.shown(UNIT, "MainPID")
    fill(host, folder)
    refused = upgrade(host)
    assert refused.returncode != 0
    assert "No space left on device" in refused.stdout + refused.stderr
    assert host.shown(UNIT, "MainPID") == before
    goes_on(host, conversation)

    host.run("rm", f"{folder}/filler")
    host.run("mount", "--options=remount,size=100%", folder)
    host.run("dpkg", "--configure", "--pending")
    host.run("apt-get", "install", "--fix-broken", "-y")
    goes_on(host, conversation)
    repair(host)


def fill(host: Host, folder: str) -> None:
    """Put a folder on a file system of its own, which has no room left."""
    host.run("sh", "-ec", f"""
        mount -t tmpfs -o mode=755,size=256M tmpfs /mnt
        cp -a {folder}/. /mnt
        mount --move /mnt {folder}
        mount -o remount,size=$(($(du -sk {folder} | cut -f1) + 256))k {folder}
        dd if=/dev/zero of={folder}/filler bs=4k status=none || true
    """)  # fmt: skip


def upgrade(host: Host) -> subprocess.CompletedProcess:
    """Try to install the newer package."""
    return host.run("apt-get", "install", "-y", "--no-install-recommends", "/packages/newer.deb", check=False)
