# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Trials of a block that guards object to, and how many of them may be made again."""

import random
from dataclasses import dataclass

from diolkos_lab.run.sweep import Sweep
from diolkos_lab.run.trial import Trial


@dataclass(frozen=True)
class Doubt:
    """A trial that guards object to, and how often it may be made again."""

    trial: Trial
    sweep: Sweep | None
    tries: int


@dataclass
class Repeats:
    """How many trials of a block may still be made again, and what draws their order."""

    left: int
    random: random.Random
