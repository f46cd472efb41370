# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos@NAME.service`, a NAT64: start, status, reload, watchdog, wrong configurations, restart and stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from frozen import frozen
from machine import UNITS, Machine
from nat64 import CONFIG, POOL, Nat64Network
from siit import PREF64
from stateful import namespace_cookie
from stream import Stream

UNIT = "diolkos@nat.service"
FILE = "/etc/diolkos/nat.toml"
STATE = '[nat64]\nstate = "/var/lib/diolkos/nat.state"\n[[nat64.pool4]]'
# By this the journal finds records of bindings.
RECORDS = "0f6d1f0f4c9c4b0e9c0b7d6d64c2a5e1"
STATEFUL = CONFIG.replace("[[nat64.pool4]]", STATE).replace("[translator]\n", '[translator]\ndatapath = "tc"\n')
# A test does not wait for half a minute.
WATCHFUL = "[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n"


@pytest.fixture
def host(nat64: Nat64Network, machine: Callable[..., Machine]) -> Iterator[Machine]:
    """The translator's router, booted, with a configuration and a stopped service."""
    made = machine(nat64, nat64.translator)
    made.file(FILE, STATEFUL)
    made.file(f"/etc/systemd/system/{UNIT}.d/watchful.conf", WATCHFUL)
    made.boot()
    yield made


def status(host: Machine) -> str:
    """What `systemctl status` says of it in a line."""
    return host.shown(UNIT, "StatusText")


def left(host: Machine, nat64: Nat64Network) -> list[str]:
    """What is left of a translator: its device, its pins, its files below /run."""
    found = nat64.leftovers()
    found += host.run("find", "/sys/fs/bpf/diolkos", "-mindepth", "1", check=False).stdout.split()
    found += host.run("find", f"/run/diolkos/{namespace_cookie(nat64)}", check=False).stdout.split()
    return found


def test_it_starts_after_those_who_make_rules(host: Machine) -> None:
    """`auto` looks at the start for what packets would bypass."""
    after = host.shown(UNIT, "After").split()
    for name in ("nftables", "firewalld", "ufw", "netfilter-persistent", "docker", "strongswan", "strongswan-starter", "ipsec"):
        assert f"{name}.service" in after, name


def test_it_is_ready_when_it_translates(host: Machine, nat64: Nat64Network) -> None:
    """`systemctl start` returns when packets pass; the status has mode, prefix, pool and datapath."""
    host.systemctl("start", UNIT)
    Stream.through(nat64).flow()
    said = status(host)
    for word in ("nat64 on diolkos0", PREF64, POOL, "datapath tc"):
        assert word in said, said
    assert "wrong" not in said
    assert said in host.systemctl("status", UNIT).stdout


def test_the_status_says_what_is_wrong(host: Machine, nat64: Nat64Network) -> None:
    """An obstacle stands in the status while it lasts."""
    host.systemctl("start", UNIT)
    nat64.ip(nat64.translator, "link", "set", "diolkos0", "down")
    host.until(lambda: "wrong: diolkos0 is down" in status(host), lambda: status(host))
    nat64.ip(nat64.translator, "link", "set", "diolkos0", "up")
    host.until(lambda: "wrong" not in status(host), lambda: status(host))


@pytest.mark.parametrize("how", ["systemctl", "SIGHUP"])
def test_a_reload_loses_nothing(host: Machine, nat64: Nat64Network, how: str) -> None:
    """The new configuration is in force, and flows go on."""
    host.systemctl("start", UNIT)
    stream = Stream.through(nat64)
    stream.flow()
    pid = host.main(UNIT)
    host.file(FILE, STATEFUL.replace(f'["{PREF64}"]', f'["{PREF64}", "2001:db8:99::/96"]'))
    if how == "systemctl":
        host.systemctl("reload", UNIT)
        assert "2001:db8:99::/96" in status(host)
    else:
        os.kill(pid, signal.SIGHUP)
        host.until(lambda: "2001:db8:99::/96" in status(host), host.journal)
    stream.flow()
    assert host.shown(UNIT, "SubState") == "running"
    assert host.main(UNIT) == pid


@pytest.mark.parametrize("how", ["systemctl", "SIGHUP"])
def test_a_reload_of_a_wrong_file(host: Machine, nat64: Nat64Network, how: str) -> None:
    """It is refused with a sentence that has the place; the status says so until a reload succeeds."""
    host.systemctl("start", UNIT)
    stream = Stream.through(nat64)
    pid = host.main(UNIT)
    host.file(FILE, STATEFUL.replace(PREF64, "2001:db8:64::/95"))
    if how == "systemctl":
        assert host.systemctl("reload", UNIT, check=False).returncode != 0
    else:
        os.kill(pid, signal.SIGHUP)
    host.until(lambda: f"wrong: not reloaded: {FILE}:" in status(host), lambda: status(host))
    assert "not reloaded, the old configuration stays in force: " + FILE + ":" in host.journal(UNIT)
    assert host.shown(UNIT, "SubState") == "running"
    stream.flow()
    host.file(FILE, STATEFUL)
    host.systemctl("reload", UNIT)
    assert "wrong" not in status(host)
    assert host.main(UNIT) == pid


def test_a_frozen_program_comes_back_with_its_flows(host: Machine, nat64: Nat64Network) -> None:
    """The whole program stands still: the watchdog kills it, and the next one takes over what goes on in the kernel."""
    host.systemctl("start", UNIT)
    stream = Stream.through(nat64)
    stream.flow()
    os.kill(host.main(UNIT), signal.SIGSTOP)
    host.until(lambda: host.shown(UNIT, "NRestarts") == "1", host.journal)
    host.until(lambda: host.shown(UNIT, "SubState") == "running", host.journal)
    stream.flow()
    assert "watchdog" in host.journal(UNIT).lower()


@pytest.mark.parametrize("thread", ["diolkos", "tokio", "tun-0", "sweeper", "listener"])
def test_a_loop_that_hangs_is_enough(host: Machine, nat64: Nat64Network, thread: str) -> None:
    """One thread stands still while all others run: the log names it, and the watchdog ends the program."""
    host.systemctl("start", UNIT)
    stream = Stream.through(nat64)
    stream.flow()
    pid = host.main(UNIT)
    with frozen(pid, thread):
        host.until(lambda: "Watchdog timeout" in host.journal(UNIT), host.journal)
    host.until(lambda: host.shown(UNIT, "NRestarts") == "1", host.journal)
    host.until(lambda: host.shown(UNIT, "SubState") == "running", host.journal)
    stream.flow()
    name = {"diolkos": "the service", "tokio": "the tasks' worker"}.get(thread, thread)
    assert f"the loop `{name}` hangs" in host.journal(UNIT)


def test_a_healthy_program_is_left_alone(host: Machine, nat64: Nat64Network) -> None:
    """With nothing to do, and with much to do, every loop beats: the watchdog hears it again and again."""
    host.systemctl("start", UNIT)
    pid = host.main(UNIT)
    seen = set()

    def is_heard() -> bool:
        seen.add(host.shown(UNIT, "WatchdogTimestampMonotonic"))
        return len(seen) > 8

    host.until(is_heard, host.journal)
    assert (host.main(UNIT), host.shown(UNIT, "NRestarts")) == (pid, "0")
    assert "hangs" not in host.journal(UNIT)


def test_a_wrong_configuration_says_its_sentence(host: Machine, nat64: Nat64Network) -> None:
    """The start fails at once, is not tried again, and the journal has the place and the sentence."""
    host.file(FILE, STATEFUL.replace(PREF64, "2001:db8:64::/95"))
    assert host.systemctl("start", UNIT, check=False).returncode != 0
    assert f"{FILE}:5:" in host.journal(UNIT)
    assert host.shown(UNIT, "ActiveState") == "failed"
    assert (host.shown(UNIT, "ExecMainStatus"), host.shown(UNIT, "NRestarts")) == ("2", "0")
    assert left(host, nat64) == []


def test_a_missing_file_is_named(host: Machine) -> None:
    """By the program, in the journal; systemd does not try again."""
    for unit, path in (
        ("diolkos@none.service", "/etc/diolkos/none.toml"),
        ("diolkos-dns64@none.service", "/etc/diolkos/none.toml"),
    ):
        assert host.systemctl("start", unit, check=False).returncode != 0
        assert path in host.journal(unit)
        assert (host.shown(unit, "ExecMainStatus"), host.shown(unit, "NRestarts")) == ("2", "0")


def test_a_restart_keeps_flows_and_a_stop_leaves_nothing(host: Machine, nat64: Nat64Network) -> None:
    """While no program runs in a restart, the kernel translates; after a stop there is nothing."""
    before = nat64.forwarding()
    host.systemctl("start", UNIT)
    stream = Stream.through(nat64)
    stream.flow()
    pid = host.main(UNIT)
    assert "no packet will pass" not in host.journal(UNIT)
    host.systemctl("restart", UNIT)
    stream.flow()
    assert host.main(UNIT) != pid
    shown = json.loads(host.run("diolkos", "show", "sessions", "--json").stdout)
    assert len(shown["entries"]) >= 1
    host.systemctl("stop", UNIT)
    assert left(host, nat64) == []
    assert nat64.forwarding() == before
    # The file stays, so a later start has the sessions.
    assert host.run("ls", "/var/lib/diolkos").stdout.split() == ["nat.state"]


def test_figures_and_logs_of_bindings(host: Machine, nat64: Nat64Network) -> None:
    """Both need nothing besides the unit: figures by HTTP and on a Unix socket, records in the journal and in a file."""
    figures = '[metrics]\nlisten = ["[::1]:9464", "/run/diolkos/figures.sock"]\n'
    logs = '[[log.bindings]]\nto = "journal"\n[[log.bindings]]\nto = "file"\npath = "/var/log/diolkos/bindings.json"\n'
    host.file(FILE, STATEFUL + figures + logs)
    host.systemctl("start", UNIT)
    Stream.through(nat64).flow()
    for at in (("http://[::1]:9464/metrics",), ("--unix-socket", "/run/diolkos/figures.sock", "http://x/metrics")):
        page = host.run("curl", "--silent", *at).stdout
        assert "diolkos_controller_packet_seconds_count" in page and page.endswith("\n"), page
    host.until(lambda: "binding-created" in host.run("cat", "/var/log/diolkos/bindings.json").stdout, host.journal)
    found = ("journalctl", "--no-pager", "--output=cat", f"MESSAGE_ID={RECORDS}")
    host.until(lambda: "binding-created" in host.run(*found, check=False).stdout, host.journal)
    host.systemctl("stop", UNIT)
    assert left(host, nat64) == []


def test_the_sandbox_is_as_tight_as_it_is_said(tmp_path: Path) -> None:
    """systemd-analyze gives each unit at most 2.5 of 10; that which gives its DNS64's process another user, 2.8."""
    for unit in UNITS.glob("*.service"):
        copy = tmp_path / unit.name.replace("@", "@x")
        copy.write_text(unit.read_text())
        most = 28 if unit.stem == "diolkos@" else 25
        offline = ("systemd-analyze", "security", "--offline=true", f"--threshold={most}", "--no-pager", str(copy))
        done = subprocess.run(offline, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
