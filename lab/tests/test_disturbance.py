# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who is busy on this host before anything is measured?"""

import os
import subprocess
import sys
from io import StringIO
from typing import Any

from rich.console import Console

from diolkos_lab import doctor, screen
from diolkos_lab.run import disturbance
from diolkos_lab.run.disturbance import Disturbance, Program

BUSY = Disturbance(0.31, 0.0, (Program("fire[fox]", 4711, 0.25), Program("cc", 12, 0.05)))


def test_a_program_that_works_is_named_with_its_share(monkeypatch: Any) -> None:
    monkeypatch.setattr(disturbance, "MOST_NAMED", 10_000)  # whatever else this machine has to do
    monkeypatch.setattr(disturbance, "WORTH_A_NAME", 0.0)
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        seen = disturbance.measure(1.0)
    finally:
        worker.kill()
        worker.wait()
    mine = next(each for each in seen.busiest if each.pid == worker.pid)
    assert 0 < mine.share <= 1.1 / (os.cpu_count() or 1)
    assert f"(process {worker.pid})" in seen.whose


def test_the_doctor_says_whose_work_it_is_and_what_to_do(monkeypatch: Any) -> None:
    monkeypatch.setattr(disturbance, "measure", lambda: BUSY)
    programs, steal = doctor._disturbance()
    assert (programs.state, steal.state) == ("doubtful", "good")
    assert programs.detail.startswith("use 31 % of the CPUs: fire[fox] (process 4711) 25 %".replace(" %", "%"))
    assert "end them" in programs.detail


def test_a_run_says_it_before_it_measures() -> None:
    text = StringIO()
    screen.Screen(Console(file=text, width=200)).disturbed(BUSY)
    assert "fire[fox] (process 4711)" in text.getvalue() and "end those programs and start again" in " ".join(
        text.getvalue().split()
    )


def test_a_quiet_host_is_left_alone() -> None:
    assert not Disturbance(0.02, 0.0, ()).matters
