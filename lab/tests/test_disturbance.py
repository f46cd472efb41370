# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who is busy on this host before anything is measured?"""

import os
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from diolkos_lab import doctor, json_output, screen
from diolkos_lab.faults import Fault
from diolkos_lab.run import disturbance
from diolkos_lab.run.disturbance import Disturbance, Program
from diolkos_lab.topology import processes

BUSY = Disturbance(0.31, 0.0, (Program("fire[fox]", 4711, 0.25), Program("cc", 12, 0.05)))
TOO_BUSY = replace(BUSY, untrusted=0.2)


def test_a_program_that_works_is_named_with_its_share(monkeypatch: Any) -> None:
    monkeypatch.setattr(disturbance, "MOST_NAMED", 10_000)  # whatever else this machine has to do
    monkeypatch.setattr(disturbance, "WORTH_A_NAME", 0.0)
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        seen = disturbance.measure(looks=3)
    finally:
        worker.kill()
        worker.wait()
    mine = next(each for each in seen.busiest if each.pid == worker.pid)
    assert 0 < mine.share <= 1.1 / (os.cpu_count() or 1)
    assert 0 < seen.foreign <= 1 and sum(each.share for each in seen.busiest) <= 1.1
    assert f"(process {worker.pid})" in seen.whose


def test_the_doctor_says_whose_work_it_is_and_what_to_do(monkeypatch: Any) -> None:
    monkeypatch.setattr(disturbance, "measure", lambda: BUSY)
    programs, steal = doctor._disturbance()
    assert (programs.state, steal.state) == ("doubtful", "good")
    assert programs.detail.startswith("use 31 % of the CPUs: fire[fox] (process 4711) 25 %".replace(" %", "%"))
    assert "end them" in programs.detail


def test_a_host_is_not_fit_where_a_run_would_distrust_a_fifth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbance, "measure", lambda: TOO_BUSY)
    programs, _ = doctor._disturbance()
    assert programs.state == "unfit" and "would not trust 20% of its trials" in programs.detail
    with pytest.raises(Fault, match="not fit to measure now: other programs use 31% of the CPUs: fire"):
        doctor.require([programs])
    assert json_output.doctor_document([programs])["fit"] is False


def test_a_kernel_thread_that_changes_its_name_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took two CPUs' whole life for work of two seconds: 323 % of all CPUs."""
    lives = iter([("kworker/u8:9", 3600.0), ("kworker/u8:9-events", 3600.01)] * 2)

    def table() -> processes.Table:
        name, cpu_s = next(lives)
        return {(9, 40): processes.Seen(name, 2, True, cpu_s, 0.0)}

    monkeypatch.setattr(disturbance, "WORTH_A_NAME", 0.0)
    monkeypatch.setattr(processes, "read", table)
    seen = disturbance.measure(looks=2)
    (program,) = seen.busiest
    assert program.name == "kworker/u8:9-events" and program.share < 0.5


def test_a_run_says_it_before_it_measures() -> None:
    text = StringIO()
    screen.Screen(Console(file=text, width=200)).disturbed(BUSY)
    assert "fire[fox] (process 4711)" in text.getvalue() and "end those programs and start again" in " ".join(
        text.getvalue().split()
    )


def test_a_quiet_host_is_left_alone() -> None:
    assert not Disturbance(0.02, 0.0, ()).matters
