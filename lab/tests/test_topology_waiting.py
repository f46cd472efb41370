# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long the lab waits for a process, also where the lab itself is stopped meanwhile."""

import select
from collections.abc import Sequence

import pytest

from diolkos_lab.topology import process as processes
from diolkos_lab.topology.process import first_to_end_and_stopped_s


class Clock:
    """Of a lab whose sleeps are as long as told; a sleep that is longer than it should be is one in which it was stopped."""

    def __init__(self, sleeps_s: Sequence[float | None]) -> None:
        """None: as long as it should be."""
        self.now, self.sleeps, self.ended = 0.0, list(sleeps_s), False

    def register(self, *_: object) -> None: ...

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        slept = self.sleeps.pop(0)
        self.now += milliseconds / 1000 if slept is None else slept
        return [(7, select.POLLIN)] if not self.sleeps else []


class Running:
    exit_status = None

    def fileno(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("sleeps_s", "still_s"),
    [
        ([None, None, 0.2], 0.0),
        ([None, 16.0, None, 0.3], 15.0),  # stopped for 15 s: what is waited for gets the rest of its time
        ([1.1, 1.2, 0.1], 0.0),  # a busy machine wakes sleepers late
    ],
)
def test_patience_counts_the_time_in_which_the_lab_runs(
    monkeypatch: pytest.MonkeyPatch, sleeps_s: list[float | None], still_s: float
) -> None:
    clock, running = Clock(sleeps_s), Running()
    monkeypatch.setattr(processes.select, "poll", lambda: clock)
    monkeypatch.setattr(processes.time, "monotonic", lambda: clock.now)
    found, stood_still = first_to_end_and_stopped_s([running], 5.5)  # type: ignore[list-item]
    assert found is running
    assert stood_still == pytest.approx(still_s)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock([16.0, *[None] * 6])
    monkeypatch.setattr(processes.select, "poll", lambda: clock)
    monkeypatch.setattr(processes.time, "monotonic", lambda: clock.now)
    assert first_to_end_and_stopped_s([Running()], 5.5) == (None, 15.0)  # type: ignore[list-item]
    assert len(clock.sleeps) == 1
