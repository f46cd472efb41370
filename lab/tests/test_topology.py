# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Namespaces, lanes and processes: they work, and they are gone afterwards."""

import os
import signal
import subprocess
import sys
import time
from ipaddress import IPv6Network
from pathlib import Path

import pytest

from diolkos_lab.run.counters import Window, difference
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import leftovers, namespace, scratch
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import Process, first_to_end, run_to_end, wait_for_text

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("clean_machine")]
PREF64 = IPv6Network("64:ff9b::/96")


def _ping(lane: Lane, target: object, log: Path) -> str:
    """Output of two pings, after as many as the links need to come up."""
    for _ in range(20):
        status, text = run_to_end(lane.namespace("client"), ["ping", "-n", "-c2", "-i0.01", "-W1", str(target)], log)
        if status == 0:
            return text
    pytest.fail(f"{target} does not answer: {text}")


@pytest.mark.parametrize(("hops", "ttl"), [(1, 63), (2, 62)])
def test_native_lanes_have_the_hops_they_say(tmp_path: Path, hops: int, ttl: int) -> None:
    with Lane("test", Shape(hops, False, True, PREF64, 1500)) as lane:
        assert f"ttl={ttl}" in _ping(lane, plan.SERVER6, tmp_path / "log")
        assert f"ttl={ttl}" in _ping(lane, plan.SERVER4, tmp_path / "log")


def test_an_ipv6_only_lane_has_no_ipv4_but_the_synthesized_server(tmp_path: Path) -> None:
    with Lane("test", Shape(1, True, True, PREF64, 1500)) as lane:
        _ping(lane, plan.synthesized(PREF64, plan.LITERAL4), tmp_path / "log")
        status, text = run_to_end(lane.namespace("client"), ["ping", "-c1", "-W1", str(plan.SERVER4)], tmp_path / "log")
        assert status != 0 and "unreachable" in text


def test_behind_a_plat_the_server_has_the_literal_in_ipv4(tmp_path: Path) -> None:
    with Lane("test", Shape(1, True, True, PREF64, 1500, plat=True)) as lane:
        _ping(lane, plan.SERVER6, tmp_path / "log")
        assert (
            "1 received"
            in run_to_end(lane.namespace("router"), ["ping", "-c1", "-W1", str(plan.LITERAL4)], tmp_path / "log")[1]
        )
        back = ["ip", "-4", "route", "get", str(plan.POOL4)]
        assert f"via {plan.S4[0].ip}" in run_to_end(lane.namespace("server"), back, tmp_path / "log")[1]
        behind = str(plan.synthesized(PREF64, plan.LITERAL4))
        status, _ = run_to_end(lane.namespace("client"), ["ping", "-c1", "-W1", behind], tmp_path / "log")
        assert status != 0, "nothing but a translator leads there"


def test_offloads_can_be_switched_off() -> None:
    with Lane("on", Shape(1, False, True, PREF64, 1500)) as on, Lane("off", Shape(1, False, False, PREF64, 1500)) as off:
        for role, device in off.devices():
            features = off.features(role, device)
            assert not features["tx-tcp-segmentation"] and not features["tx-tcp6-segmentation"]
            assert not features["tx-generic-segmentation"]
            assert on.features(role, device)["tx-tcp-segmentation"]


def test_nothing_of_a_lane_shows_on_the_host() -> None:
    before = os.listdir("/sys/class/net")
    with Lane("test", Shape(2, False, True, PREF64, 1500)):
        assert os.listdir("/sys/class/net") == before


def test_windows_show_their_namespace_from_outside(tmp_path: Path) -> None:
    with Lane("test", Shape(1, False, True, PREF64, 1500)) as lane:
        _ping(lane, plan.SERVER6, tmp_path / "log")
        window = Window(lane.namespace("server"))
        try:
            before = window.read()
            run_to_end(lane.namespace("client"), ["ping", "-c3", "-i0.01", str(plan.SERVER6)], tmp_path / "log")
            change = difference(window.read(), before)
            assert change.protocols["Icmp6InEchos"] == 3
            assert change.protocols["IcmpInEchos"] == 0
            assert change.devices[plan.SERVER_LINK].rx_packets >= 3
            assert not window.is_listening(5201)
        finally:
            window.close()


def test_processes_are_waited_for_stopped_and_quoted(tmp_path: Path) -> None:
    with Lane("test", Shape(1, False, True, PREF64, 1500)) as lane:
        where, log = lane.namespace("client"), tmp_path / "log"
        script = "trap '' TERM; echo ready; echo oops >&2; while :; do sleep 0.05; done"
        stubborn = Process(where, ["sh", "-c", script], tmp_path / "out", log)
        quick = Process(where, ["sh", "-c", "exit 7"], tmp_path / "out2", tmp_path / "err2")
        assert wait_for_text(stubborn, "ready", 5)
        assert first_to_end([stubborn, quick], 5) is quick
        assert quick.exit_status == 7 and quick.how_it_ended() == "ended with exit code 7"
        assert first_to_end([stubborn], 0.01) is None
        assert stubborn.last_words() == ["oops"]
        stubborn.stop(patience_s=0.1)
        assert stubborn.how_it_ended() == "was killed by SIGKILL"
        assert not wait_for_text(stubborn, "never said", 5), "does not wait for the dead"
        quick.stop()


def test_a_process_in_a_namespace_dies_with_its_parent(tmp_path: Path) -> None:
    """Also when the parent has no chance to clean up."""
    with Lane("test", Shape(1, False, True, PREF64, 1500)) as lane:
        where = lane.namespace("client")
        program = (
            "import sys, time; from pathlib import Path; from diolkos_lab.topology.process import Process\n"
            f"p = Process({where!r}, ['sleep', '600'], Path({str(tmp_path / 'o')!r}), Path({str(tmp_path / 'e')!r}))\n"
            "print(p.pid, flush=True); time.sleep(600)"
        )
        parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert parent.stdout
        child = int(parent.stdout.readline())
        # The command has been reached when the wrappers have given way to it.
        while Path(f"/proc/{child}/comm").read_text() != "sleep\n":
            time.sleep(0.01)
        parent.kill()
        parent.wait()
        parent.stdout.close()
        deadline = time.monotonic() + 5
        while child in namespace.processes_inside({where}) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert child not in namespace.processes_inside({where})


def test_leftovers_are_those_of_the_dead_only() -> None:
    dead = subprocess.Popen(["true"])
    owner = namespace.Owner.of(dead.pid) or namespace.Owner(dead.pid, 1)
    dead.wait()
    orphan = namespace.full_name(owner, "lane", "client")
    mine = namespace.full_name(namespace.Owner.me(), "lane", "client")
    namespace.create(orphan)
    namespace.create(mine)
    scratch.path_of(owner).mkdir()
    sleeper = subprocess.Popen(["nsenter", f"--net={namespace.DIRECTORY / orphan}", "sleep", "600"])
    try:
        while sleeper.pid not in namespace.processes_inside({orphan}):
            time.sleep(0.01)
        found = leftovers.find()
        assert orphan in found.namespaces and mine not in found.namespaces
        assert scratch.path_of(owner) in found.folders
        removed = leftovers.clean()
        assert orphan in removed.namespaces and sleeper.pid in removed.processes
        assert sleeper.wait() == -signal.SIGKILL
        assert not scratch.path_of(owner).exists()
        assert orphan not in leftovers.clean().namespaces, "a second time finds nothing of it"
        assert (namespace.DIRECTORY / mine).exists()
    finally:
        sleeper.kill()
        namespace.remove([mine, orphan])


def test_two_runs_remove_the_same_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    name = namespace.full_name(namespace.Owner.me(), "lane", "client")
    namespace.create(name)
    removed = namespace.netns.remove

    def late(netns: str) -> None:
        removed(netns)
        removed(netns)

    monkeypatch.setattr(namespace.netns, "remove", late)
    namespace.remove([name])
    assert not (namespace.DIRECTORY / name).exists()


def test_names_of_others_are_never_ours() -> None:
    for name in ("blue", "dklab", "dklab-1-2", "dklab-a-b-c-d", "xdklab-1-2-3-4"):
        assert namespace.owner_in_name(name) is None
    me = namespace.Owner.me()
    assert namespace.owner_in_name(namespace.full_name(me, "diolkos_tc_ipv4_1-off-2", "client")) == me
    assert not namespace.Owner(me.pid, me.started + 1).alive(), "a reused process number is another owner"
