# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NetworkManager's script, called as NetworkManager-dispatcher(8) says. tests/services has it with a real systemd."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from network import PATIENCE, Network

SCRIPT = ROOT / "packaging/networkmanager/90-diolkos-clat"
UNIT = "diolkos-clat@wan0.service"
IPV6_ONLY = {"IP6_NUM_ADDRESSES": "1", "IP6_GATEWAY": "fe80::1", "CONNECTION_UUID": "a-b-c"}
# What it is told is a line of a file. Units that are there, or enabled, are files.
SYSTEMCTL = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
case $1 in
cat) [ -e "there-$2" ] ;;
is-enabled) [ -e "enabled-$3" ] ;;
*) echo "$*" >>told ;;
esac
"""


class Dispatcher:
    """Calls the script beside tools that stand in for systemd's and NetworkManager's."""

    def __init__(self, net: Network) -> None:
        """Make the tools. The unit is there, and not enabled."""
        self.net, self.tools = net, net.scratch / "tools"
        self.tools.mkdir()
        self.tool("systemctl", SYSTEMCTL)
        self.has(f"there-{UNIT}")

    def tool(self, name: str, text: str) -> None:
        """A program that is found before the host's."""
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def has(self, file: str) -> None:
        """From now on there is this file."""
        (self.tools / file).touch()

    def __call__(self, interface: str, event: str, variables: dict[str, str], clat: str | None = None) -> list[str]:
        """What the script tells systemd. `clat`: what NetworkManager answers for `ipv4.clat`; None: it knows no such key."""
        answer = f"echo {clat}" if clat is not None else "echo 'invalid property' >&2; exit 2"
        self.tool("nmcli", f"#!/bin/sh\n{answer}\n")
        (self.tools / "told").write_text("")
        environment = {"PATH": f"{self.tools}:{os.environ['PATH']}", **variables}
        words = [f"{key}={value}" for key, value in environment.items()]
        self.said = self.net.run(self.net.client, "env", "-i", *words, str(SCRIPT), interface, event).stderr
        return (self.tools / "told").read_text().splitlines()


@pytest.fixture
def dispatch(net: Network) -> Dispatcher:
    """Calls the script in the client's namespace."""
    return Dispatcher(net)


START, STOP = [f"--no-block start {UNIT}"], [f"--no-block stop {UNIT}"]


def test_a_clat_where_there_is_ipv6_alone(dispatch: Dispatcher) -> None:
    """And where NetworkManager has none of its own."""
    assert dispatch("wan0", "up", IPV6_ONLY) == START
    assert dispatch("wan0", "dhcp4-change", {**IPV6_ONLY, "IP4_NUM_ADDRESSES": "1"}) == STOP
    for own in ("yes", "auto", "force"):
        assert dispatch("wan0", "up", IPV6_ONLY, own) == STOP
    for none in ("no", "default"):
        assert dispatch("wan0", "up", IPV6_ONLY, none) == START
    assert dispatch("wan0", "up", {"IP6_NUM_ADDRESSES": "1"}) == STOP, "without a router, there is no way"
    assert dispatch("wan0", "down", {}) == STOP


def test_nothing_for_other_interfaces_and_events(dispatch: Dispatcher) -> None:
    """Nor where the operator has enabled the unit: it runs whatever NetworkManager sees."""
    for interface, event in (("diolkos0", "up"), ("lo", "up"), ("", "up"), ("none", "up"), ("wan0", "pre-up")):
        assert dispatch(interface, event, IPV6_ONLY) == []
    dispatch.has(f"enabled-{UNIT}")
    assert dispatch("wan0", "up", IPV6_ONLY) == [] == dispatch("wan0", "down", {})


def test_a_clat_of_others_is_left_alone(dispatch: Dispatcher) -> None:
    """Whoever has its address has the host's IPv4; the log says who that is."""
    net = dispatch.net
    net.ip(net.client, "link", "add", "clat0", "type", "veth", "peer", "clat1")
    net.ip(net.client, "address", "add", "192.0.0.5/32", "dev", "clat0")
    assert dispatch("wan0", "up", IPV6_ONLY) == STOP
    assert "clat0 has 192.0.0.5: another CLAT serves this host" in dispatch.said


def test_without_the_unit(dispatch: Dispatcher) -> None:
    """It succeeds and says nothing: it outlives the package."""
    for event, variables in (("up", IPV6_ONLY), ("down", {}), ("dhcp4-change", IPV6_ONLY)):
        assert (dispatch("wan1", event, variables), dispatch.said) == ([], "")


def test_names_are_escaped(dispatch: Dispatcher) -> None:
    """A hyphen of an interface's name is none of a unit's path."""
    unit = r"diolkos-clat@wl\x2d0.service"
    dispatch.has(f"there-{unit}")
    assert dispatch("wl-0", "up", IPV6_ONLY) == [f"--no-block start {unit}"]


def test_the_script_is_plain_shell() -> None:
    """Of any POSIX shell."""
    assert subprocess.run(["sh", "-n", str(SCRIPT)], check=False, timeout=PATIENCE).returncode == 0
    assert Path(SCRIPT).stat().st_mode & 0o111 == 0o111
