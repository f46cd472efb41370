# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the kernel says of a thread that goes first."""

import ctypes
import os
import platform
import subprocess
from collections.abc import Iterator

import pytest

from diolkos_lab.topology import precedence

SCHED_GETATTR = 315  # of x86-64


@pytest.fixture
def program() -> Iterator[int]:
    with subprocess.Popen(["sleep", "10"]) as process:
        yield process.pid
        process.kill()


def _slice_ns(pid: int) -> int:
    buffer = ctypes.create_string_buffer(precedence._ATTRIBUTES.size)
    assert ctypes.CDLL(None).syscall(SCHED_GETATTR, pid, buffer, len(buffer), 0) == 0
    return int(precedence._ATTRIBUTES.unpack(buffer.raw)[5])


@pytest.mark.root
def test_it_has_the_largest_share_and_the_shortest_slice(program: int) -> None:
    if platform.machine() != "x86_64" or not _slice_ns(program):
        pytest.skip("slices need Linux 6.12, and this test x86-64")
    assert _slice_ns(program) > precedence.SLICE_NS
    precedence.go_first(program)
    assert _slice_ns(program) == precedence.SLICE_NS
    assert os.getpriority(os.PRIO_PROCESS, program) == precedence.FIRST
    assert os.sched_getscheduler(program) == os.SCHED_OTHER


@pytest.mark.root
def test_who_has_a_policy_of_its_own_keeps_it(program: int) -> None:
    os.sched_setscheduler(program, os.SCHED_FIFO, os.sched_param(7))
    precedence.go_first(program)
    assert os.sched_getscheduler(program) == os.SCHED_FIFO
    assert os.sched_getparam(program).sched_priority == 7


@pytest.mark.root
def test_who_has_ended_is_an_error(program: int) -> None:
    with pytest.raises(ProcessLookupError):
        precedence.go_first(2**22 - 1)
