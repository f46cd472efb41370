# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who is told how a whole run goes on, where the terminal would be."""

from typing import Any


class Silent:
    """Says nothing, and remembers."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.trials = 0

    def planned(self, study: Any, session: Any, missing: Any, out: Any) -> None:
        self.missing = [entry.system.system for entry in missing]

    def disturbed(self, by: Any) -> None: ...

    def skipped(self, skipped: object) -> None: ...
    def station_up(self, station: Any) -> None:
        pass

    def trial_done(self, trial: Any, session: Any) -> None:
        self.trials += 1
