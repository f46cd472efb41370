# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the kernel says of a thread that goes first."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from diolkos_lab.topology import scheduling


@pytest.fixture
def program() -> Iterator[int]:
    with subprocess.Popen(["sleep", "10"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.root
def test_it_has_the_largest_share_and_the_shortest_slice(program: int) -> None:
    before = scheduling.slice_ns(program)
    assert before is None or before > scheduling.SLICE_NS
    scheduling.prioritize(program)
    assert scheduling.slice_ns(program) == (before and scheduling.SLICE_NS), "where the kernel has slices"
    assert os.getpriority(os.PRIO_PROCESS, program) == scheduling.FIRST
    assert os.sched_getscheduler(program) == os.SCHED_OTHER


@pytest.mark.root
def test_who_has_a_policy_of_its_own_keeps_it(program: int) -> None:
    os.sched_setscheduler(program, os.SCHED_FIFO, os.sched_param(7))
    scheduling.prioritize(program)
    assert os.sched_getscheduler(program) == os.SCHED_FIFO
    assert os.sched_getparam(program).sched_priority == 7


@pytest.mark.root
def test_who_has_ended_is_an_error(program: int) -> None:
    with pytest.raises(ProcessLookupError):
        scheduling.prioritize(2**22 - 1)
