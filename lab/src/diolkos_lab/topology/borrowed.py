# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a run has changed of the host, noted down before the change, so that it is given back however the run ends.

Stages: note (a file of its own for each setting, on disk before anything changes) → change … → give back → strike out.
A lab that was killed cannot give back: the next one that cleans does, from the note. `/run` is root's own, and a restart, which
ends every such setting, empties it.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diolkos_lab.faults import Fault
from diolkos_lab.topology import clocksource, ring
from diolkos_lab.topology.namespace import PREFIX, Owner

FOLDER = Path("/run/diolkos-lab")
FORMAT = 1


@dataclass(frozen=True)
class Loan:
    """One setting: what it was, and what this lab may set it to."""

    setting: str  # clocksource, or ring
    before: dict[str, Any]
    levels: tuple[str | int, ...]

    @property
    def name(self) -> str:
        """Of what is shared: two labs cannot both borrow it."""
        return "-".join([self.setting, *(str(self.before[key]) for key in ("namespace", "device") if key in self.before)])

    def give_back(self) -> None:
        """Unless somebody else has set it meanwhile. Raises Fault when that does not work."""
        if self.setting == "clocksource":
            if clocksource.current() in self.levels:
                clocksource.use(self.before["name"])
        else:
            device = ring.Device(self.before["namespace"], self.before["device"])
            if device.rings() is not None:  # a device of a lane that is gone has nothing to give back
                device.use(ring.Rings(self.before["rx"], self.before["tx"]))

    @property
    def words(self) -> str:
        if self.setting == "clocksource":
            return f"clocksource {self.before['name']}"
        return f"rings of {self.before['device']}"


def of_clocksource(levels: tuple[str | int, ...]) -> Loan:
    return Loan("clocksource", {"name": clocksource.current()}, levels)


def of_ring(device: ring.Device, levels: tuple[str | int, ...]) -> Loan:
    found = device.rings()
    assert found
    before = {"namespace": device.namespace, "device": device.name, "rx": found.rx, "tx": found.tx}
    return Loan("ring", before, levels)


def note(loan: Loan) -> Path:
    """On disk when it returns. Raises Fault where another lab has it."""
    for _, owner, other in notes():
        if other and other.name == loan.name and owner.alive() and owner != Owner.me():
            raise Fault(f"another lab (process {owner.pid}) varies the {loan.setting} of this host: wait until it has ended")
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    me = Owner.me()
    path = FOLDER / f"{PREFIX}-{me.pid}-{me.started}-{loan.name}.json"
    text = json.dumps({"format": FORMAT, "setting": loan.setting, "before": loan.before, "levels": loan.levels})
    unfinished = path.with_suffix(".new")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    return path


def notes() -> Iterator[tuple[Path, Owner, Loan | None]]:
    """Every note with the lab that it belongs to; no loan where the note cannot be read."""
    for path in sorted(FOLDER.glob(f"{PREFIX}-*")):
        parts = path.name.split("-", 3)
        if len(parts) == 4 and parts[1].isdigit() and parts[2].isdigit():
            yield path, Owner(int(parts[1]), int(parts[2])), _read(path)


def abandoned() -> list[tuple[Path, Loan | None]]:
    """Notes of labs that no longer live."""
    return [(path, loan) for path, owner, loan in notes() if not owner.alive()]


def restore(found: list[tuple[Path, Loan | None]]) -> list[str]:
    """Give back what the dead have borrowed; says what, in words. A note stays while that fails."""
    said = []
    for path, loan in found:
        if loan:
            loan.give_back()
            said.append(loan.words)
        path.unlink(missing_ok=True)
    return said


def _read(path: Path) -> Loan | None:
    """None for one that was not finished: then nothing was changed yet."""
    try:
        values = json.loads(path.read_text())
        if path.suffix != ".json" or values["format"] != FORMAT:
            return None
        return Loan(values["setting"], values["before"], tuple(values["levels"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
