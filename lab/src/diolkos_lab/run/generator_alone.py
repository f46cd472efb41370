# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How fast the packet generator and its sink are when nothing is between them, and which rates of a study are beyond that."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from diolkos_lab.experiment.cells import LaneCell
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.experiment.varied import Setting
from diolkos_lab.run.conditions import Skipped
from diolkos_lab.run.sweep import Sweep
from diolkos_lab.run.testbed import Testbed


def rates(bare: Testbed, loads: Iterable[tuple[LaneCell, PpsLoad]], apply: Callable[[Setting], None]) -> list[dict[str, Any]]:
    """For every kind of curve: factors, IP version and packets/s, between the first two devices of the path."""
    found = []
    for lane, load in {(lane.setting, *_kind(lane, load).values()): (lane, load) for lane, load in loads}.values():
        apply(lane.setting)
        found.append({**_kind(lane, load), **dict(lane.setting), "rate": bare.generator_rate(load, lane.subject.family)})
    return found


def limit(sweeps: Mapping[tuple[LaneCell, PpsLoad], Sweep], alone: Sequence[Mapping[str, Any]]) -> list[Skipped]:
    """Leave out of each curve the rates that the generator does not reach by itself; says which."""
    found: list[Skipped] = []
    for (lane, load), sweep in sweeps.items():
        kind = {**_kind(lane, load), **dict(lane.setting)}
        rate = next((each["rate"] for each in alone if kind.items() <= each.items()), None)
        if out := sweep.limit(rate):
            value = f"{out[0]:,.0f} to {out[-1]:,.0f} packets/s" if len(out) > 1 else f"{out[0]:,.0f} packets/s"
            reason = f"alone, the generator reaches {rate:,.0f} packets/s here ({load.placement}, {load.size} bytes)"
            found.append(Skipped("rate", value, reason))
    return list(dict.fromkeys(found))


def _kind(lane: LaneCell, load: PpsLoad) -> dict[str, Any]:
    """What the speed of a generator depends on."""
    named = {name: getattr(load, name) for name in ("placement", "size", "directions")}
    return {"family": lane.subject.family, **named}
