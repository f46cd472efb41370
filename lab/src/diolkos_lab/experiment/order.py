# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In which order a block measures: the seed decides it for each block by itself.

So a run that goes on after a break has the orders that it would have had without, and a plan can say them beforehand. How
many units one load has, which a curve finds out on the way, changes nothing for the others.
"""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from diolkos_lab.experiment.definition import Form, Load
from diolkos_lab.experiment.varied import Setting

Unit = TypeVar("Unit")


def shuffled(
    form: Form, seed: int, block: int, units: Mapping[Load, Sequence[Unit]], setting: Setting = ()
) -> list[list[Unit]]:
    """The loads of the form in random order, and of each its units, what all lanes have of it under one setting of the host,
    in random order."""
    loads = [load for load in form.load if load in units]
    text = f"{seed} {block}" + (f" {setting}" if setting else "")
    chosen = random.Random(text).sample(loads, len(loads))
    return [random.Random(f"{text} {form.load.index(load)}").sample(units[load], len(units[load])) for load in chosen]


def shuffled_settings(seed: int, block: int, settings: Sequence[Setting]) -> list[Setting]:
    """The settings of the host in random order; a block holds all that is measured under one before the next is taken."""
    return random.Random(f"{seed} {block} settings").sample(settings, len(settings))
