# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The settings of the host that a run varies: which levels there are here, one of them at a time, and all as before at the end.

Stages: what the form names → what the host offers (the rest is skipped, with its reason) → note → take one after the other →
give back.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

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
    return _settings(there), skipped


def _listed(named: Sequence[str]) -> tuple[list[str], list[Skipped]]:
    """The clocksources that the kernel lists, and the others with the reason."""
    offered = clocksource.offered()
    here = f"this host offers {', '.join(offered)}" if offered else "this host does not tell what it offers"
    lacking = [Skipped("clocksource", name, here) for name in named if name not in offered]
    return [name for name in named if name in offered], lacking


def _settings(clocksources: Sequence[str]) -> list[Setting]:
    """One for each level; one that is empty where nothing is varied."""
    return [(("clocksource", name),) for name in clocksources] or [()]


class Conditions(contextlib.ExitStack):
    """Use as a context manager; then `apply` a setting before trials are made under it."""

    def __init__(self, varied: Varied) -> None:
        super().__init__()
        self.skipped: list[Skipped] = []
        self._named = varied.clocksource
        self._taken: list[str] = []

    def __enter__(self) -> "Conditions":
        try:
            if self._named:
                self._try_all()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def settings(self) -> list[Setting]:
        return _settings(self._taken)

    @property
    def varied(self) -> dict[str, list[str]]:
        """The factors with the levels that there are here."""
        return {"clocksource": self._taken} if self._taken else {}

    def apply(self, setting: Setting) -> None:
        """From now on the host is like this. Raises Fault."""
        for _, name in setting:
            clocksource.use(str(name))

    def _try_all(self) -> None:
        """Take those that the kernel takes: it may refuse one that it lists."""
        there, self.skipped = _listed(self._named)
        if not there:
            return
        before = clocksource.current()
        saved = saved_settings.SavedSetting(before, (*there, before))
        path = saved_settings.save(saved)  # noted now, given back at the end, and only then struck out
        self.callback(path.unlink, missing_ok=True)
        self.callback(saved.restore)
        for name in there:
            try:
                clocksource.use(name)
                self._taken.append(name)
            except Fault as fault:
                self.skipped.append(Skipped("clocksource", name, str(fault)))
        clocksource.use(before)
