# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The settings of the host that a run varies: which levels there are here, one of them at a time, and all as before at the end.

Stages: what the form names → what the host offers (the rest is skipped, with its reason) → note → take one after the other →
give back.
"""

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from diolkos_lab.experiment.varied import Setting, Varied
from diolkos_lab.faults import Fault, printable
from diolkos_lab.topology import clocksource, saved_settings


@dataclass(frozen=True)
class Skipped:
    """What a study asks for and this host cannot offer."""

    factor: str
    value: str
    reason: str

    @property
    def words(self) -> str:
        return printable(f"{self.factor} {self.value}: {self.reason}")

    @property
    def as_json(self) -> dict[str, str]:
        return asdict(self)


def preview(varied: Varied) -> tuple[list[Setting], list[Skipped]]:
    """The settings of a run here, and what it will skip, without a change to the host: a kernel may still refuse a clocksource
    that it lists."""
    there, skipped = _listed(varied.clocksource)
    return _settings({"clocksource": there}), skipped


def _listed(named: Sequence[str]) -> tuple[tuple[str, ...], list[Skipped]]:
    """The clocksources that the kernel lists, and the others with the reason."""
    offered = clocksource.offered()
    here = f"this host offers {', '.join(offered)}" if offered else "this host does not tell what it offers"
    lacking = [Skipped("clocksource", name, here) for name in named if name not in offered]
    return tuple(name for name in named if name in offered), lacking


def _settings(levels: Mapping[str, Sequence[str | int]]) -> list[Setting]:
    named = [[(name, level) for level in each] for name, each in levels.items() if each]
    return list(itertools.product(*named))


class Conditions(contextlib.ExitStack):
    """Use as a context manager; then `apply` a setting before trials are made under it."""

    def __init__(self, varied: Varied) -> None:
        super().__init__()
        self.skipped: list[Skipped] = []
        self._varied = varied
        self._levels: dict[str, tuple[str | int, ...]] = {}

    def __enter__(self) -> "Conditions":
        try:
            if self._varied.clocksource:
                self._levels["clocksource"] = self._clocksources(self._varied.clocksource)
        except BaseException:
            self.close()
            raise
        return self

    @property
    def settings(self) -> list[Setting]:
        """Every combination of levels; one that is empty where nothing is varied."""
        return _settings(self._levels)

    @property
    def varied(self) -> dict[str, list[str | int]]:
        """The factors with the levels that there are here."""
        return {name: list(levels) for name, levels in self._levels.items() if levels}

    def apply(self, setting: Setting) -> None:
        """From now on the host is like this. Raises Fault."""
        wanted: dict[str, Any] = dict(setting)
        if "clocksource" in wanted:
            clocksource.use(wanted["clocksource"])

    def _clocksources(self, named: Sequence[str]) -> tuple[str, ...]:
        """Those that the kernel takes: each is tried once, since it may refuse one that it lists."""
        there, lacking = _listed(named)
        self.skipped += lacking
        if not there:
            return ()
        before = clocksource.current()
        self._save(saved_settings.saved_clocksource((*there, before)))
        taken = []
        for name in there:
            try:
                clocksource.use(name)
                taken.append(name)
            except Fault as fault:
                self._skip("clocksource", [name], str(fault))
        clocksource.use(before)
        return tuple(taken)

    def _save(self, saved: saved_settings.SavedSetting) -> None:
        """Noted now, given back at the end, and only then struck out."""
        path = saved_settings.save(saved)
        self.callback(path.unlink, missing_ok=True)
        self.callback(saved.restore)

    def _skip(self, factor: str, values: Sequence[str | int], reason: str) -> None:
        self.skipped += [Skipped(factor, str(value), reason) for value in values]
