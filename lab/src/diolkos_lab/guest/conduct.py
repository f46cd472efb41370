# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`run --kernel`: a study in a guest, from its definition to its result folder.

Stages: study, kernel, Jool's modules → guest → result folder → summary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from diolkos_lab import conduct, summary
from diolkos_lab.guest import count, timing
from diolkos_lab.guest.preparing import prepare
from diolkos_lab.samples import folder


def run(order: conduct.Order, kernel: str, counting: bool, say: Callable[[str], None]) -> tuple[folder.Result, dict[str, Any]]:
    """The result as read back and its summary. A guest leaves nothing on the host, however it ends."""
    prepared = prepare(order, kernel, say)
    try:
        if counting:
            count.count(prepared, order, say)
        else:
            timing.measure(prepared, order, say)
    except BaseException:
        with contextlib.suppress(OSError):  # what holds trials stays
            prepared.out.rmdir()
        raise
    result = folder.read(prepared.out)
    return result, summary.write(result)
