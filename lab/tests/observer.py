# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An observer of a whole run in place of the terminal."""

from typing import Any


class Silent:
    """Says nothing, and remembers."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.trials = 0

    def planned(self, study: Any, session: Any, missing: Any, out: Any) -> None:
        self.missing = [entry.system.system for entry in missing]

    def said(self, sentence: str) -> None: ...

    def disturbed(self, by: Any) -> None: ...

    def skipped(self, skipped: object) -> None: ...

    def testbed_ready(self, testbed: Any) -> None: ...

    def trial_done(self, trial: Any, session: Any) -> None:
        self.trials += 1
