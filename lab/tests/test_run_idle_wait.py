# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Waiting for a moment in which nobody else computes: in a clock of its own."""

import os
import subprocess
import sys

import pytest

from diolkos_lab.run import idle_wait
from diolkos_lab.run.idle_wait import IDLE_POLLS, MAX_SHARE, MAX_SPARE_S, MAX_WAIT_S, IdleWait


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(idle_wait.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(idle_wait.time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def waited(self, waiting: IdleWait) -> float:
        begun = self.now
        waiting.wait()
        return self.now - begun


def test_where_nobody_computes_it_only_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert clock.waited(IdleWait(0, lambda: 0)) == pytest.approx((IDLE_POLLS - 1) * idle_wait.POLL_INTERVAL_S)


def test_it_waits_for_the_end_of_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    waited = clock.waited(IdleWait(0, lambda: int(clock.now < 100.2)))
    assert 0.2 <= waited <= 0.2 + (IDLE_POLLS + 1) * idle_wait.POLL_INTERVAL_S


def test_a_pause_must_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two looks without anybody else are chance."""
    Clock(monkeypatch)
    seen = iter([0, 0, 1, 0, 0, 1, 0, 0, 0, 1])
    IdleWait(0, lambda: next(seen)).wait()
    assert next(seen) == 1


def test_many_cpus_have_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert clock.waited(IdleWait(6, lambda: 6)) < 0.1
    assert clock.waited(IdleWait(6, lambda: 7)) == pytest.approx(MAX_WAIT_S, abs=idle_wait.POLL_INTERVAL_S)


def test_where_somebody_computes_for_ever_it_costs_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    waiting, waited = IdleWait(0, lambda: 1), 0.0
    for _ in range(1000):
        waited += clock.waited(waiting)
        clock.sleep(1.0)
    assert waited <= MAX_SHARE * (clock.now - 100.0) + MAX_SPARE_S + 1000 * IDLE_POLLS * idle_wait.POLL_INTERVAL_S
    assert waited > 0.05 * (clock.now - 100.0)


def test_others_are_all_but_this_program() -> None:
    """Beside two that compute, on the CPUs of a real machine."""
    spin = "import os\nprint(flush=True)\nwhile os.getppid() == int(os.environ['PARENT']): pass"
    started = [
        subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE, env={**os.environ, "PARENT": str(os.getpid())})
        for _ in range(2)
    ]
    try:
        for each in started:
            assert each.stdout
            each.stdout.readline()
        assert idle_wait.other_running_threads() >= 2
    finally:
        for each in started:
            each.kill()
            each.communicate()
