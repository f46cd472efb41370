# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Systems of several processes, of a program that forks into the background, or in a container; and how their faults read."""

import os
import shutil
import time
from pathlib import Path

import pytest

from diolkos_lab import own_files
from diolkos_lab.experiment.definition import Subject, Topology
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.program import SutFault
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import namespace
from diolkos_lab.topology.lane import Lane, Shape

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("clean_machine")]

FILE = """
system = "mine"
title = "Mine"
binary = "tayga"
[datapath.clat]
MORE
config = '''
tun-device nat64
ipv4-addr {clat4_peer}
ipv6-addr {clat6_peer}
prefix {pref64}
map {clat4} {clat6}
data-dir {directory}
'''
forwarding = true
tun = "nat64"
set_up = true
"""
FOREGROUND = 'command = ["{binary}", "--nodetach", "--config", "{config}"]\n'
HELPER = """
[[datapath.clat.helper]]
command = ["sh", "-c", "echo helping; exec sleep 600"]
ready = "helping"
"""


def _running(tmp_path: Path, lane: Lane, more: str, after: str = "") -> RunningSystem:
    folder = tmp_path / "systems"
    folder.mkdir()
    (folder / "mine.toml").write_text(FILE.replace("MORE", more) + after)
    own_files.use(folder)
    try:
        system = definition.catalogue().require("mine")
    finally:
        own_files.use(None)
    assert system
    found = lookup.find(system, {})
    assert isinstance(found, lookup.Found), found
    return RunningSystem(found, Subject(system="mine", datapath="clat", family="ipv4"), lane, tmp_path / "run")


def _lane() -> Lane:
    ground = Topology()
    return Lane("test", Shape(1, ipv6_only=True, offloads=True, pref64=ground.pref64, mtu=ground.mtu))


def test_a_helper_runs_beside_the_command_and_its_death_is_noticed(tmp_path: Path) -> None:
    with _lane() as lane:
        running = _running(tmp_path, lane, FOREGROUND, HELPER)
        try:
            running.start()
            assert len(running.processes) == 2
            running.check_alive()
            running.processes[0].kill()
            with pytest.raises(SutFault, match=r"mine\.toml:\d+: mine: sh was killed by SIGKILL"):
                running.check_alive()
        finally:
            running.stop()
        assert not namespace.processes_inside({lane.namespace("client")})


def test_what_has_to_follow_the_start_finds_the_device(tmp_path: Path) -> None:
    """And what fails there is named, as before the start."""
    with _lane() as lane:
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        sees = 'when_ready = [["ip", "link", "show", "nat64"]]\nprepare = [["sh", "-c", "! ip link show nat64"]]\n'
        running = _running(tmp_path / "one", lane, FOREGROUND + sees)
        try:
            running.start()
        finally:
            running.stop()
        with pytest.raises(SutFault, match="`false` ended with exit code 1"):
            _running(tmp_path / "two", lane, FOREGROUND + 'when_ready = [["false"]]\n').start()


def test_a_program_that_forks_is_refused_with_its_line_and_measured_as_a_daemon(tmp_path: Path) -> None:
    forks = 'command = ["{binary}", "--config", "{config}"]\n'  # Tayga goes into the background by itself
    with _lane() as lane:
        running = _running(tmp_path, lane, forks)
        started = time.monotonic()
        with pytest.raises(
            SutFault, match=r"mine\.toml:6: mine: tayga ended with exit code 0; if it forks into the background, "
        ):
            while time.monotonic() < started + 20:
                running.start()
                running.check_alive()
        lane.remove()
    shutil.rmtree(tmp_path / "systems")
    with _lane() as lane:
        running = _running(tmp_path, lane, forks + "daemon = true\n")
        try:
            running.start()
            running.check_alive()
            assert len(namespace.processes_inside({lane.namespace("client")})) == 2, "the daemon, and who waits for it"
            running.stop()
            assert not namespace.processes_inside({lane.namespace("client")}), "the daemon ended with SIGTERM"
            running.start()
            inside = set(namespace.processes_inside({lane.namespace("client")}))
            (daemon,) = inside - {running.processes[0].pid}
            os.kill(daemon, 9)
            while running.processes[0].exit_status is None:
                time.sleep(0.05)
            with pytest.raises(SutFault, match="ended with exit code 0"):
                running.check_alive()
        finally:
            running.stop()


def test_a_system_that_never_gets_ready_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diolkos_lab.sut.program.READY_S", 0.3)
    with _lane() as lane:
        running = _running(tmp_path, lane, FOREGROUND + 'ready = "hello"\n')
        with pytest.raises(SutFault, match=r'mine\.toml:7: mine did not print "hello" within 0\.3 s'):
            running.start()
        assert not running.processes


def test_a_container_is_started_where_the_lane_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A double of podman: it keeps its words, and runs what would be in the container."""
    double = tmp_path / "podman"
    double.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/said\nwhile [ "$1" != an-image ]; do shift; done; shift; exec "$@"\n')
    double.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with _lane() as lane:
        running = _running(tmp_path, lane, FOREGROUND + 'container = "an-image"\n')
        try:
            running.start()
        finally:
            running.stop()
    said = (tmp_path / "said").read_text()
    assert said.startswith("run --rm --network host --pull never --volume ") and "--device /dev/net/tun an-image " in said


def test_without_podman_a_container_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("podman"):
        pytest.skip("podman is on this host")
    with _lane() as lane, pytest.raises(AssertionError, match="podman is not on this host"):
        _running(tmp_path, lane, FOREGROUND + 'container = "an-image"\n')
