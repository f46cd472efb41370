# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What happens to devices under the switch, and every end: no device stays deaf, and the kernel knows what is down."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from control import SPEC, program
from router import until
from test_traffic import stateless_tables
from wires import PATIENCE, V4_IN_IPV6, Wires

# Runs the real tc; while the first filter is there and the switch still waits, a signal comes.
SIGNALLING = """#!/bin/sh
{tc} "$@"
code=$?
case "$*" in *replace*w4*)
	{signal}
	sleep 0.5 ;;
esac
exit $code
"""


def flags(wires: Wires, device: str) -> str:
    """Of a device of the router, such as <BROADCAST,UP,LOWER_UP>."""
    return wires.run(wires.router, "ip", "link", "show", "dev", device).split()[2]


@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGQUIT, signal.SIGINT, signal.SIGTERM])
def test_every_wish_for_an_end_is_a_clean_one(wires: Wires, how: signal.Signals) -> None:
    """A terminal that closes, Ctrl-\\, Ctrl-C and kill: the kernel has its devices again."""
    wires.start()
    assert wires.is_deaf("w4") and wires.is_deaf("w6")
    assert wires.end(how) == 0
    assert not wires.is_deaf("w4") and not wires.is_deaf("w6")


def test_nohup_is_heeded(wires: Wires) -> None:
    """Who starts it with SIGHUP ignored wants it to outlive the terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        control = wires.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert wires.process
    wires.process.send_signal(signal.SIGHUP)
    assert control.read("counts", 0, 1) == [0]
    assert wires.end() == 0


@pytest.mark.parametrize(
    "line",
    ["kill -TERM $PPID", "kill -s INT -- -$(cut -d ' ' -f 5 /proc/$PPID/stat)"],
    ids=["kill", "Ctrl-C"],
)
def test_a_signal_while_a_filter_is_added(wires: Wires, line: str) -> None:
    """It interrupts neither the switch, which waits for tc, nor tc: the filter is known, and removed."""
    folder = wires.folder / "programs"
    folder.mkdir()
    tc = folder / "tc"
    tc.write_text(SIGNALLING.format(tc=shutil.which("tc"), signal=line))
    tc.chmod(0o755)
    command = ["ip", "netns", "exec", wires.router, program(), "--spec", SPEC, "--control", wires.folder / "switch.sock"]
    done = subprocess.run(
        [*command, "--port", "w4=s4", "--port", "w6=s6"],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        start_new_session=True,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    assert not wires.is_deaf("w4") and not wires.is_deaf("w6"), done.stderr
    assert done.returncode == 0, done.stderr


def test_the_shadow_follows_the_carrier(wires: Wires) -> None:
    """A cable that is pulled is pulled on the shadow, where the kernel has its routes; losses are reported once."""
    control = wires.start()
    control.write(stateless_tables(wires))
    wires.run(wires.six, "ping", "-c", "1", "-w", "30", V4_IN_IPV6)
    for _ in range(2):
        wires.run(wires.four, "ip", "link", "set", "a0", "down")
        until("s4 has no carrier", lambda: "NO-CARRIER" in flags(wires, "s4"))
        assert "linkdown" in wires.run(wires.router, "ip", "route", "show", "dev", "s4"), "routes do not know it"
        assert ",LOWER_UP" in flags(wires, "s6"), "the other pair has nothing to do with it"
        wires.run(wires.six, "ping", "-c", "3", "-i", "0.2", "-w", "1", V4_IN_IPV6, code=1)
        wires.run(wires.four, "ip", "link", "set", "a0", "up")
        until("s4 has a carrier", lambda: ",LOWER_UP" in flags(wires, "s4"))
        wires.run(wires.four, "ip", "route", "replace", "default", "via", "198.51.100.1")
        wires.run(wires.six, "ping", "-c", "1", "-w", "30", V4_IN_IPV6)
    assert wires.end() == 0
    assert wires.said == 2 * "diolkos-switch: w4 is down: frames for it are lost\n"


def test_a_device_that_is_down_at_the_start(wires: Wires) -> None:
    """Its shadow has no carrier from the first moment."""
    wires.run(wires.router, "ip", "link", "set", "w4", "down")
    wires.start()
    assert "NO-CARRIER" in flags(wires, "s4")
    wires.run(wires.router, "ip", "link", "set", "w4", "up")
    until("s4 has a carrier", lambda: ",LOWER_UP" in flags(wires, "s4"))


def test_the_shadow_follows_the_mtu(wires: Wires) -> None:
    """A changed one is handed on. What was set on the shadow by hand stays until then."""

    def mtu() -> str:
        return wires.run(wires.router, "cat", "/sys/class/net/s4/mtu").strip()

    wires.start()
    wires.run(wires.router, "ip", "link", "set", "w4", "mtu", "1400")
    until("the MTU is handed on", lambda: mtu() == "1400")
    wires.run(wires.router, "ip", "link", "set", "w4", "mtu", "9000")
    until("the MTU is handed on", lambda: mtu() == "9000")


@pytest.mark.parametrize("gone", ["w4", "w6", "s4", "s6"])
def test_a_device_that_is_removed_ends_the_switch(wires: Wires, gone: str) -> None:
    """One sentence with its name; whatever devices there are belong to the kernel again."""
    wires.start()
    wires.run(wires.router, "ip", "link", "del", gone)
    assert wires.ended() == 1
    assert wires.said.splitlines()[-1] == f"diolkos-switch: {gone} is not there any more"
    for device in {"w4", "w6"} - {gone}:
        assert not wires.is_deaf(device)


def test_another_device_of_the_same_name_is_not_the_same(wires: Wires) -> None:
    """The switch has nothing to do with it, and its end does not touch its filters."""
    wires.start()
    wires.run(wires.router, "ip", "-batch", str(batch(wires.folder)))
    assert wires.ended() == 1
    assert wires.said.splitlines()[-1] == "diolkos-switch: w4 is not there any more"


def batch(folder: Path) -> Path:
    """Commands that come so fast one after the other that nobody looks in between."""
    file = folder / "commands"
    file.write_text("link del w4\nlink add w4 type veth peer name other\nlink set w4 up\n")
    return file


def test_a_device_with_another_name_goes_on(wires: Wires) -> None:
    """And its filter is removed at the end."""
    control = wires.start()
    control.write(stateless_tables(wires))
    for command in ("down", "name other", "up"):
        wires.run(wires.router, "ip", "link", "set", "other" if command == "up" else "w4", *command.split())
    until("s4 has a carrier", lambda: ",LOWER_UP" in flags(wires, "s4"))
    wires.run(wires.six, "ping", "-c", "1", "-w", "30", V4_IN_IPV6)
    assert wires.is_deaf("other")
    assert wires.end() == 0
    assert not wires.is_deaf("other")
