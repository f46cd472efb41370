# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Settings of the host that a form of a study varies: each value is a level of a factor."""

import itertools
from typing import Annotated

from pydantic import Field, model_validator

from diolkos_lab.experiment.document import StrictModel

Setting = tuple[tuple[str, str | int], ...]  # factor and level, in the order of `Varied`
Clocksource = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=40)]


class Varied(StrictModel):
    """The host's settings belong to the host: a run leaves alone what is not named here, and gives back what is."""

    clocksource: tuple[Clocksource, ...] = Field(
        (), description="Clocksources of the kernel, as tsc, kvm-clock, hpet, acpi_pm."
    )

    @model_validator(mode="after")
    def _levels_make_a_factor(self) -> "Varied":
        for name, levels in self.levels.items():
            if len(levels) == 1:
                raise ValueError(f"{name}: one value is no factor; name two or more, or leave it out")
            if len(set(levels)) < len(levels):
                raise ValueError(f"{name}: a value is named twice")
        return self

    @property
    def levels(self) -> dict[str, tuple[str | int, ...]]:
        """Of the factors that are named."""
        return {"clocksource": self.clocksource} if self.clocksource else {}

    @property
    def settings(self) -> list[Setting]:
        """Every combination of what is named; one that is empty where nothing is varied."""
        return list(itertools.product(*([(name, level) for level in levels] for name, levels in self.levels.items())))
