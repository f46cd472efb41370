# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What must not grow, and what must not move, while a translator works."""

from __future__ import annotations

from dataclasses import dataclass

from nat64 import Nat64Network
from network import Running
from test_nat64_floods import hash_map_bytes
from test_siit_traffic import own_kib

# They count faults of ours, or of the kernel that we told something it did not take.
FAULTS = ("slow.write_failed", "fast.failed", "state.refused_by_fast_path")
WORDS = ("panicked", "ERROR", "WARN")
# What an entry may take in all, and how far what it takes beside may vary.
ENTRY_BYTES, SLACK_KIB = 500, 4096


@dataclass
class Look:
    """At one moment."""

    sessions: int
    bindings: int
    own_kib: int
    map_bytes: int


class Watch:
    """All looks at one process, and those of earlier ones."""

    def __init__(self, net: Nat64Network, running: Running) -> None:
        self.net = net
        self.looks: list[Look] = []
        self.follow(running)
        self.first = self.look()

    def follow(self, running: Running) -> None:
        """Another process does the work now."""
        self.running = running
        self.words_seen = 0

    def before_end(self) -> None:
        """The last look at a process."""
        self.look()

    def look(self) -> Look:
        """Checks all that can be seen from outside."""
        pid = self.running.process.pid
        assert self.running.process.poll() is None, "it has ended"
        counters = self.net.counters()
        moved = {name: counters[name] for name in FAULTS if counters.get(name)}
        assert not moved, f"faults were counted: {moved}"
        said = [line for line in self.running.log().splitlines() if any(word in line for word in WORDS)]
        assert not said, f"it complains: {said[:3]}"
        now = Look(counters["state.sessions"], counters["state.bindings"], own_kib(pid), hash_map_bytes(pid))
        self.looks.append(now)
        peak = max(look.sessions for look in self.looks)
        allowed_kib = self.looks[0].own_kib + SLACK_KIB + peak * ENTRY_BYTES // 1024
        assert now.own_kib <= allowed_kib, f"{now.own_kib} KiB for {peak} sessions at most: {allowed_kib} are allowed"
        return now

    def nothing_is_left(self) -> None:
        """All sessions have been ended: the kernel's copies are as at the beginning."""
        last = self.look()
        assert last.sessions == last.bindings == 0, f"left: {last}"
        assert last.map_bytes <= self.first.map_bytes, (
            f"{last.map_bytes} bytes are left in maps; at first {self.first.map_bytes}"
        )

    def line(self) -> str:
        """How it is now."""
        now = self.looks[-1]
        return f"{now.sessions} sessions, {now.own_kib / 1024:.1f} MiB, {now.map_bytes / 1024:.0f} KiB in maps"

    def summary(self) -> list[str]:
        """What it took: at first, at most, in both halves."""
        half = len(self.looks) // 2
        halves = [max((look.own_kib for look in part), default=0) for part in (self.looks[:half], self.looks[half:])]
        most = max(self.looks, key=lambda look: look.sessions)
        first = self.looks[0].own_kib
        return [
            f"   sessions: {most.sessions} at most, with {most.own_kib} KiB and {most.map_bytes // 1024} KiB in maps",
            f"   memory: {first} KiB at first, {halves[0]} at most in the first half, {halves[1]} in the second",
        ]
