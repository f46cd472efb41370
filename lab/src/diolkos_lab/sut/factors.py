# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Factors of a datapath: what varies in it from cell to cell of a study, the levels it may have, and what a level brings."""

from pydantic import Field, model_validator

from diolkos_lab.experiment import document
from diolkos_lab.experiment.levels import Level

Command = tuple[str, ...]
PLACE = "place"  # the factor of this name says where the datapath runs


class Part(document.StrictModel):
    """What comes with one level."""

    # Each has to end with exit code 0, in a namespace that holds nothing else; otherwise the host cannot offer the level.
    tries: tuple[Command, ...] = ()
    how: str = ""  # how to get what is missing then
    prepare: tuple[Command, ...] = ()  # after that of the datapath
    when_ready: tuple[Command, ...] = ()  # likewise
    config: str | None = None  # in place of that of the datapath, like all that follows
    nftables: str | None = None
    command: Command | None = None
    own_mounts: bool | None = None
    ready: str | None = None


class Factor(document.StrictModel):
    """Has either names for its levels, or whole numbers from `at_least` to `at_most`."""

    what: str  # in words, as in "the number of rules"
    default: Level  # where a study does not name one
    levels: tuple[str, ...] = ()
    at_least: int | None = None
    at_most: int | None = None
    level: dict[str, Part] = Field({})

    def takes(self, level: Level) -> bool:
        if self.levels:
            return level in self.levels
        return isinstance(level, int) and (self.at_least or 0) <= level <= (self.at_most or level)

    @property
    def choice(self) -> str:
        """The levels in words."""
        if self.levels:
            return ", ".join(self.levels)
        return f"whole numbers from {self.at_least or 0} to {self.at_most}" if self.at_most else "whole numbers"

    @model_validator(mode="after")
    def _holds_together(self) -> "Factor":
        if self.levels and (self.at_least, self.at_most) != (None, None):
            raise ValueError("give names of levels or limits of a number, not both")
        if not self.takes(self.default):
            raise ValueError(f"the default {self.default} is none of {self.choice}")
        if unknown := next((name for name in self.level if name not in self.levels), None):
            raise ValueError(f"level {unknown} is none of {self.choice}")
        return self
