# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Processes that convert while this one computes: vl-convert keeps the interpreter to itself as long as it works.

They are programs of their own, not copies of this process, whose threads a copy would lack. They end with it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

from diolkos_lab.faults import Fault

VEGA_LITE = "6.4"  # the version that the specifications are written for
MOST = 3
# One request after the other: the name of a function of vl-convert, and what it is called with.
PROGRAM = """
import pickle, sys, vl_convert
while True:
    try:
        name, arguments = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    try:
        answer = getattr(vl_convert, name)(**arguments), None
    except Exception as problem:
        answer = None, str(problem)
    pickle.dump(answer, sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""
_own = threading.local()


def submit(name: str, **arguments: Any) -> Future[Any]:
    """Let a helper call the function `name` of vl-convert."""
    return _threads().submit(_ask, name, arguments)


def bundle() -> Future[Any]:
    """The script of Vega, Vega-Lite and Vega-Embed. It takes a second, so who needs it later asks for it early."""
    made = _bundle()
    if made.done() and made.exception():  # a helper that ended may be an accident
        _bundle.cache_clear()
        made = _bundle()
    return made


@cache
def _bundle() -> Future[Any]:
    return submit("javascript_bundle", vl_version=VEGA_LITE)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, min(len(os.sched_getaffinity(0)) - 1, MOST)))


def _ask(name: str, arguments: dict[str, Any]) -> Any:
    if not hasattr(_own, "helper"):
        command = [sys.executable, "-P", "-c", PROGRAM]  # -P: nothing is imported from the working directory
        _own.helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
    try:
        pickle.dump((name, arguments), _own.helper.stdin)
        _own.helper.stdin.flush()
        value, problem = pickle.load(_own.helper.stdout)
    except (EOFError, OSError, pickle.UnpicklingError) as ended:
        _own.helper.kill()
        how = _own.helper.wait()
        del _own.helper  # the next request gets another one
        raise Fault(f"the program that draws pictures has ended ({how}); is there enough memory?") from ended
    if problem:
        raise ValueError(problem)
    return value
