# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`run --kernel`: a study in a guest, from its definition to its result folder.

Stages: study, kernel, Jool's modules → guest → result folder → summary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diolkos_lab import run_study, summary
from diolkos_lab.faults import Interrupted, UsageFault
from diolkos_lab.guest import count_instructions, timing
from diolkos_lab.guest.preparing import prepare
from diolkos_lab.samples import folder


def run(
    request: run_study.RunRequest, kernel: str | None, counting: bool, say: Callable[[str], None]
) -> tuple[folder.AnyResult, dict[str, Any]]:
    """The result as read back and its summary. A guest leaves nothing on the host, however it ends."""
    if not kernel:
        raise UsageFault(
            "--count-instructions: counts in a guest; say which kernel it boots with --kernel, such as --kernel 6.1"
            if counting
            else "--kernel: names no kernel; --kernel 6.1 is one"
        )
    if request.router:
        raise UsageFault("--kernel: a guest has no other machine or box beside it; leave --router, --box or --kernel out")
    if request.resume:
        raise UsageFault(f"--resume {request.resume}: a run in a guest cannot be resumed; leave --resume or --kernel out")
    prepared = prepare(request, kernel, say)
    try:
        if counting:
            count_instructions.count(prepared, request, say)
        else:
            timing.measure(prepared, request, say)
    except Interrupted as interrupted:
        if kept := _trials(prepared.out):
            again = f"`diolkos-lab report {prepared.out}` evaluates them"
            interrupted.add_note(f"Stopped; {kept} trials are kept in {prepared.out} ({again}).")
        raise
    finally:
        with contextlib.suppress(OSError):  # what holds anything stays
            prepared.out.rmdir()
    result = folder.read(prepared.out)
    return result, summary.write(result)


def _trials(out: Path) -> int:
    """How many are in a result folder, of whatever state: each line after the first."""
    try:
        return max(0, (out / "samples.jsonl").read_bytes().count(b"\n") - 1)
    except OSError:
        return 0
