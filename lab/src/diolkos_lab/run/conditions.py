# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The settings of the host that a run varies: which levels there are here, one of them at a time, and all as before at the end.

Stages: what the form names → what the host offers (the rest is skipped, with its reason) → note → take one after the other →
give back.
"""

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from diolkos_lab.experiment.varied import Setting, Varied
from diolkos_lab.faults import Fault, printable
from diolkos_lab.topology import clocksource, ring, saved_settings
from diolkos_lab.topology.lane import Lane


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


NO_RINGS = "the devices of the path are virtual (veth) and have no rings that can be set"


def preview(varied: Varied) -> tuple[list[Setting], list[Skipped]]:
    """The settings of a run here, and what it will skip, without a change to the host: a kernel may still refuse a clocksource
    that it lists. All lanes of one machine are veth pairs."""
    there, skipped = _listed(varied.clocksource)
    return _settings({"clocksource": there}), skipped + [Skipped("ring", str(size), NO_RINGS) for size in varied.ring]


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
    """Use as a context manager, with a lane as those of the run are; then `apply` a setting before trials are made under it."""

    def __init__(self, varied: Varied, lane: Lane | None = None) -> None:
        super().__init__()
        self.skipped: list[Skipped] = []
        self._varied = varied
        self._lane = lane
        self._levels: dict[str, tuple[str | int, ...]] = {}
        self._rings: dict[ring.Device, contextlib.ExitStack] = {}

    def __enter__(self) -> "Conditions":
        try:
            if self._varied.clocksource:
                self._levels["clocksource"] = self._clocksources(self._varied.clocksource)
            if self._varied.ring:
                self._levels["ring"] = self._sizes(self._varied.ring)
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

    def apply(self, setting: Setting, lanes: Iterable[Lane]) -> None:
        """From now on the host is like this. Raises Fault."""
        wanted: dict[str, Any] = dict(setting)
        if "clocksource" in wanted:
            clocksource.use(wanted["clocksource"])
        if "ring" in wanted:
            for device in itertools.chain.from_iterable(map(_with_rings, lanes)):
                self._resize(device, wanted["ring"])

    def release(self) -> None:
        """The lanes may be taken down: their devices get their rings back."""
        while self._rings:
            _, stack = self._rings.popitem()
            stack.close()

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

    def _sizes(self, named: Sequence[int]) -> tuple[int, ...]:
        devices = list(_with_rings(self._lane)) if self._lane else []
        if not devices:
            self._skip("ring", named, NO_RINGS)
            return ()
        limits = [limit for device in devices if (found := device.largest()) for limit in (found.rx, found.tx) if limit]
        most = min(limits, default=0)
        self._skip("ring", [size for size in named if size > most], f"the rings of this path hold {most} packets at most")
        return tuple(size for size in named if size <= most)

    def _resize(self, device: ring.Device, size: int) -> None:
        if device not in self._rings:
            with contextlib.ExitStack() as stack:
                self._save(saved_settings.saved_rings(device, self._varied.ring), stack)
                self._rings[device] = stack.pop_all()
        now = device.rings()
        wanted = ring.Rings(size if now and now.rx else None, size if now and now.tx else None)
        if now != wanted:
            device.use(wanted)

    def _save(self, saved: saved_settings.SavedSetting, until: contextlib.ExitStack | None = None) -> None:
        """Noted now, given back at the end, and only then struck out."""
        path = saved_settings.save(saved)
        stack = until or self
        stack.callback(path.unlink, missing_ok=True)
        stack.callback(saved.restore)

    def _skip(self, factor: str, values: Sequence[str | int], reason: str) -> None:
        self.skipped += [Skipped(factor, str(value), reason) for value in values]

    def __exit__(self, *ended: Any) -> bool | None:
        self.release()
        return super().__exit__(*ended)


def _with_rings(lane: Lane) -> Iterable[ring.Device]:
    every = (ring.Device(lane.namespace(role), name) for role, name in lane.devices())
    return [device for device in every if device.rings()]
