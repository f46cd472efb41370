# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Retries within a block: trials that guards object to, and how many of them may be repeated."""

import random
from dataclasses import dataclass

from diolkos_lab.run.sweep import Sweep
from diolkos_lab.run.trial import Trial


@dataclass(frozen=True)
class PendingRetry:
    """A trial that guards object to; it may be repeated `tries` more times."""

    trial: Trial
    sweep: Sweep | None
    tries: int


@dataclass
class RetryBudget:
    """Retries that a block has left, and the generator that draws their order."""

    left: int
    random: random.Random
