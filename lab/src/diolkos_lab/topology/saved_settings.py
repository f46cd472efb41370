# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The setting of the host that a run changes: saved before the change, restored however the run ends.

Stages: save (a file, on disk before the change) → change … → restore → remove the file.
A killed lab cannot restore; the next lab that cleans does, from the file. Only root writes below `/run`, and a reboot, which
resets every such setting, empties it.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.faults import Fault
from diolkos_lab.topology import clocksource
from diolkos_lab.topology.namespace import PREFIX, Owner

FOLDER = Path("/run/diolkos-lab")
FORMAT = 1
SETTING = "clocksource"


@dataclass(frozen=True)
class SavedSetting:
    """The clocksource that the host had, and what this lab may set it to."""

    before: str
    levels: tuple[str, ...]

    def restore(self) -> None:
        """Restore the value, unless another program has set it meanwhile. Raises Fault on failure."""
        if clocksource.current() in self.levels:
            clocksource.use(self.before)

    @property
    def words(self) -> str:
        return f"clocksource {self.before}"


def save(saved: SavedSetting) -> Path:
    """Write it to disk (fsync). Raises Fault where another running lab has saved the same setting."""
    for _, owner, other in all_saved():
        if other and owner.alive() and owner != Owner.me():
            raise Fault(f"another lab (process {owner.pid}) varies the clocksource of this host: wait until it has ended")
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    me = Owner.me()
    path = FOLDER / f"{PREFIX}-{me.pid}-{me.started}-{SETTING}.json"
    before = {"name": saved.before}
    text = json.dumps({"format": FORMAT, "setting": SETTING, "before": before, "levels": saved.levels})
    unfinished = path.with_suffix(".new")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    return path


def all_saved() -> Iterator[tuple[Path, Owner, SavedSetting | None]]:
    """Every file with the lab that wrote it; None for a file that cannot be read."""
    for path in sorted(FOLDER.glob(f"{PREFIX}-*")):
        parts = path.name.split("-", 3)
        if len(parts) == 4 and parts[1].isdigit() and parts[2].isdigit():
            yield path, Owner(int(parts[1]), int(parts[2])), _read(path)


def abandoned() -> list[tuple[Path, SavedSetting | None]]:
    """Those of labs that no longer run."""
    return [(path, saved) for path, owner, saved in all_saved() if not owner.alive()]


def restore_all(found: list[tuple[Path, SavedSetting | None]]) -> list[str]:
    """Restore the settings of dead labs and return them in words. A file stays where that fails."""
    said = []
    for path, saved in found:
        if saved:
            saved.restore()
            said.append(saved.words)
        path.unlink(missing_ok=True)
    return said


def _read(path: Path) -> SavedSetting | None:
    """None for an unfinished file: the setting was not changed yet."""
    try:
        values = json.loads(path.read_text())
        if path.suffix != ".json" or values["format"] != FORMAT or values["setting"] != SETTING:
            return None
        return SavedSetting(values["before"]["name"], tuple(values["levels"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
