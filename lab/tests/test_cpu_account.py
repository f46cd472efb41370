# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Other programs are told from the lane's, whatever the kernel charges to whom."""

from dataclasses import replace

import pytest

from diolkos_lab.run import cpu_account
from diolkos_lab.run.counters import HostCounters
from diolkos_lab.run.cpu_account import Account, Watch
from diolkos_lab.topology import processes
from diolkos_lab.topology.control_group import Group
from diolkos_lab.topology.namespace import Owner
from diolkos_lab.topology.processes import Seen, Table

# One second of two CPUs: the lane's programs used 1.2 s.
QUIET = Account(busy_s=1.2, interrupts_s=0.0, groups_s=1.2)


def test_a_quiet_host() -> None:
    assert QUIET.foreign_s == pytest.approx(0)
    assert QUIET.path_s == pytest.approx(1.2)


def test_interrupts_that_are_charged_to_nobody_are_the_paths() -> None:
    """CONFIG_IRQ_TIME_ACCOUNTING: the groups lack what interrupts took."""
    account = replace(QUIET, groups_s=0.9, interrupts_s=0.3)
    assert account.foreign_s == pytest.approx(0)
    assert account.path_s == pytest.approx(1.2)


def test_interrupts_that_are_charged_to_whoever_runs_hide_nobody() -> None:
    """Otherwise half of what the lane used may be interrupts. Another program beside it is seen all the same."""
    account = replace(QUIET, busy_s=1.6, interrupts_s=0.6, seen_s=0.4)
    assert account.foreign_s == pytest.approx(0.4)
    assert account.path_s == pytest.approx(1.2)


def test_programs_that_lived_for_a_moment_are_foreign() -> None:
    """A build starts compilers and waits for them: at the end nobody is there to be seen."""
    account = replace(QUIET, busy_s=1.6, interrupts_s=0.05)
    assert account.foreign_s == pytest.approx(0.35), "all but what may have been interrupts"


def test_what_was_seen_cannot_be_more_than_there_is() -> None:
    """Processes are read after the clocks, and have used more by then."""
    assert replace(QUIET, busy_s=1.3, seen_s=0.2).foreign_s == pytest.approx(0.1)


class Charged(Group):
    """A group whose usage is given."""

    def __init__(self, *usages: float, members: set[int] | None = None) -> None:
        self._usages, self._members = list(usages), members or set()

    def usage_s(self) -> float:
        return self._usages[0]

    def members(self) -> set[int]:
        return self._members

    def go_on(self) -> None:
        self._usages.pop(0)


def _watch(
    monkeypatch: pytest.MonkeyPatch, before: Table, after: Table, group: Charged, busy_s: float, interrupts_s: float = 0.0
) -> Watch:
    hosts = [HostCounters(2, 0.0, 0.0, 0, 0.0, 0.0), HostCounters(2, busy_s, 0.0, 0, 1.0, 1.0, interrupts_s)]
    tables = [before, after]
    monkeypatch.setattr(processes, "read", lambda: tables.pop(0))
    monkeypatch.setattr(HostCounters, "read", lambda: hosts.pop(0))
    monkeypatch.setattr(cpu_account.time, "process_time", lambda: 0.0)
    watch = Watch({"system": group})
    group.go_on()
    watch.end()
    return watch


def _seen(name: str, cpu_s: float, *, kernel: bool = False) -> Seen:
    return Seen(name, 2 if kernel else 1, kernel, cpu_s, 0.0)


def test_a_system_that_forks_is_no_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start script, process 10, used nothing; the translator that it started used a CPU."""
    before = {(10, 1): _seen("sh", 0.0), (11, 1): _seen("tayga", 5.0)}
    after = {(10, 1): _seen("sh", 0.0), (11, 1): _seen("tayga", 6.0)}
    watch = _watch(monkeypatch, before, after, Charged(5.0, 6.0, members={10, 11}), busy_s=1.0)
    assert watch.roles == {"system": 1.0} and watch.account.foreign_s == 0 and watch.account.path_s == 1.0


def test_kernel_threads_that_encrypt_are_no_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """WireGuard of the kernel: its workers change their names with their work, and live long before the trial."""
    before = {(7, 1): _seen("kworker/0:1-events", 3000.0, kernel=True), (9, 1): _seen("ksoftirqd/0", 0.0, kernel=True)}
    after = {(7, 1): _seen("kworker/0:1-wg-crypt-wg0", 3000.8, kernel=True), (9, 1): _seen("ksoftirqd/0", 0.1, kernel=True)}
    watch = _watch(monkeypatch, before, after, Charged(0.0, 0.2), busy_s=1.1, interrupts_s=0.1)
    assert watch.account.foreign_s == pytest.approx(0) and watch.account.path_s == pytest.approx(1.1)


def test_other_kernel_threads_are_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {(7, 1): _seen("kswapd0", 1.0, kernel=True)}
    after = {(7, 1): _seen("kswapd0", 1.5, kernel=True)}
    watch = _watch(monkeypatch, before, after, Charged(0.0, 0.5), busy_s=1.0)
    assert watch.account.foreign_s == pytest.approx(0.5)


def test_a_number_that_came_back_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    me = Owner.me()
    before = {(20, 100): _seen("old", 900.0), (me.pid, me.started): _seen("lab", 1.0)}
    after = {(20, 200): _seen("new", 0.3), (me.pid, me.started): _seen("lab", 2.0)}
    watch = _watch(monkeypatch, before, after, Charged(0.0, 0.0), busy_s=0.3)
    assert watch.others == {(20, 200): ("new", 0.3)}, "the lab is no stranger to itself"


def test_descendants() -> None:
    table = {(1, 0): Seen("init", 0, False, 0, 0), (5, 0): Seen("sh", 1, False, 0, 0), (6, 0): Seen("a", 5, False, 0, 0)}
    table[7, 0] = Seen("b", 6, False, 0, 0)
    assert [pid for pid, _ in processes.family(table, [5])] == [5, 6, 7]
    assert processes.family(table, [4]) == []
