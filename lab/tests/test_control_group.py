# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CPU time of a role is that of all that runs in it: children, daemons that leave their parents, and what has ended."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diolkos_lab.topology import control_group, leftovers, namespace, processes
from diolkos_lab.topology.control_group import ControlGroup, Group, ProcessTree, entered
from diolkos_lab.topology.process import Process

pytestmark = pytest.mark.root
# Nobody waits for a time here: each computes until it has used as much CPU time as the test looks for, and more.
BUSY = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo done >>{mark}"
WORTH_S = 0.02  # what that takes at least


@pytest.fixture
def where() -> Iterator[str]:
    name = namespace.full_name(namespace.Owner.me(), "groups", "client")
    namespace.create(name)
    yield name
    namespace.remove([name])


@pytest.fixture
def made() -> Iterator[Group]:
    group = control_group.make("groups", "system")
    if not isinstance(group, ControlGroup):
        pytest.skip("no control groups of version 2 can be made here")
    yield group
    group.remove()
    assert not group.path.exists()


@pytest.fixture
def start(where: str, tmp_path: Path) -> Iterator[Callable[[Group, str], Process]]:
    """Start a shell script in a group."""
    started: list[Process] = []

    def begin(group: Group, script: str) -> Process:
        with entered(group):
            command = ["sh", "-c", script.format(mark=tmp_path / "mark")]
            started.append(Process(where, command, tmp_path / "log", tmp_path / "log"))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_is_counted(made: Group, start: Callable[[Group, str], Process], tmp_path: Path) -> None:
    """A start script that waits for the translator that it has started."""
    process = start(made, f"({BUSY}) & wait; sleep 600")
    _until((tmp_path / "mark").exists)
    assert made.usage_s() > WORTH_S
    assert made.usage_s() > 2 * process.cpu_s(), "the script itself only waits"


def test_a_daemon_that_left_its_parent_is_counted(made: Group, start: Callable[[Group, str], Process], tmp_path: Path) -> None:
    process = start(made, f"(setsid sh -c '{BUSY}; sleep 600' &) ; exit 0")
    _until((tmp_path / "mark").exists)
    _until(lambda: process.exit_status is not None)
    assert made.usage_s() > WORTH_S
    assert made.members(), "it still runs"
    made.kill()
    assert not made.members()
    assert made.usage_s() > WORTH_S, "what has ended counts too"


def test_a_process_tree_counts_children(start: Callable[[Group, str], Process], tmp_path: Path) -> None:
    tree = ProcessTree()
    start(tree, f"({BUSY}) & sleep 600 & wait")
    _until((tmp_path / "mark").exists)
    _until(lambda: tree.usage_s() > WORTH_S)
    assert len(tree.members()) >= 2, "the script and its sleep"
    tree.kill()
    assert tree.usage_s() > WORTH_S and not tree.members()


def test_without_control_groups_the_process_tree_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_group, "writable", lambda: None)
    assert isinstance(control_group.make("groups", "client"), ProcessTree)


def test_what_runs_in_a_group_may_make_its_own(made: Group) -> None:
    assert isinstance(made, ControlGroup)
    (made.path / "below").mkdir()
    inside = subprocess.Popen(["sh", "-c", 'echo 0 >"$0" && exec sleep 600', str(made.path / "below" / "cgroup.procs")])
    _until(lambda: inside.pid in made.members())
    made.remove()
    assert inside.wait() == -signal.SIGKILL


def test_groups_of_the_dead_are_leftovers(made: Group) -> None:
    assert isinstance(made, ControlGroup)
    dead = subprocess.Popen(["true"])
    owner = namespace.Owner.of(dead.pid) or namespace.Owner(dead.pid, 1)
    dead.wait()
    orphan = ControlGroup(made.path.with_name(namespace.full_name(owner, "lane", "system")))
    sleeper = subprocess.Popen(orphan.entering(["sleep", "600"]))
    try:
        _until(lambda: sleeper.pid in orphan.members())
        found = leftovers.find()
        assert orphan.path in found.groups and made.path not in found.groups
        removed = leftovers.clean()
        assert orphan.path in removed.groups and sleeper.pid in removed.processes
        assert sleeper.wait() == -signal.SIGKILL and not orphan.path.exists()
        assert orphan.path not in leftovers.clean().groups, "a second time finds nothing of it"
    finally:
        sleeper.kill()
        orphan.remove()


def test_kernel_threads_are_told_from_programs() -> None:
    table = processes.read()
    named = {seen.name: seen.is_kernel for seen in table.values()}
    assert named["kthreadd"] and named["ksoftirqd/0"]
    me = namespace.Owner.me()
    assert not table[me.pid, me.started].is_kernel
