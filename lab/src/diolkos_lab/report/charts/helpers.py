# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Processes that convert while this one computes: vl-convert keeps the interpreter to itself as long as it works."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
MOST = 3


def submit(work: Callable[P, R], *arguments: P.args, **keys: P.kwargs) -> Future[R]:
    """Let a helper do it. The first call makes the helpers, as copies of this process; they end with it."""
    return _pool(os.getpid()).submit(work, *arguments, **keys)


@cache
def _pool(_process: int) -> ProcessPoolExecutor:
    """One for each process, since a copy of one has no helpers."""
    processes = max(1, min(len(os.sched_getaffinity(0)) - 1, MOST))
    return ProcessPoolExecutor(processes, multiprocessing.get_context("fork"))
