# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the switch may still do once it is ready, asked of the kernel (/proc/PID/task/TID/status)."""

from __future__ import annotations

import re
from pathlib import Path

from control import Piped
from wires import Wires

NET_ADMIN = 1 << 12  # linux/capability.h
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def rights(pid: int) -> dict[int, dict[str, int]]:
    """Of each thread of a process: its sets of capabilities, and whether it can get no others."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        of = dict(re.findall(r"^(\w+):\s*(.*)$", (thread / "status").read_text(), re.MULTILINE))
        found[int(thread.name)] = {**{name: int(of[name], 16) for name in SETS}, "NoNewPrivs": int(of["NoNewPrivs"])}
    return found


def test_a_switch_keeps_the_right_to_change_its_devices(wires: Wires) -> None:
    """CAP_NET_ADMIN in its one thread that does everything; the others have nothing. It is enough to give the devices back."""
    wires.start()
    assert wires.process
    threads = rights(wires.process.pid)
    worker = threads.pop(wires.process.pid)
    assert (worker["CapPrm"], worker["CapEff"], worker["CapBnd"]) == (NET_ADMIN, NET_ADMIN, NET_ADMIN)
    assert worker["CapInh"] | NET_ADMIN == NET_ADMIN
    assert worker["NoNewPrivs"] == 1
    for others in threads.values():
        assert {others[name] for name in SETS} == {0}
        assert others["NoNewPrivs"] == 1
    assert all(wires.is_deaf(device) for device in ("w4", "w6"))
    assert wires.end() == 0
    assert not any(wires.is_deaf(device) for device in ("w4", "w6")), wires.said


def test_a_switch_without_devices_has_no_rights(switch: Piped) -> None:
    """On a pipe."""
    for thread in rights(switch.process.pid).values():
        assert {thread[name] for name in SETS} == {0}
