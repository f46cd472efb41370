# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`new system`: a commented definition to start from, which runs as it is where Tayga is installed."""

import re
from pathlib import Path

from diolkos_lab import own_files
from diolkos_lab.faults import UsageFault
from diolkos_lab.sut import definition

TEMPLATE = Path(__file__).parent / "sut" / "template.toml"


def system(name: str, folder: Path | None) -> Path:
    """Write the file; returns its path. Raises UsageFault for a name that cannot be one, or that a file has already."""
    if not re.fullmatch(r"[a-z][a-z0-9]{0,39}", name):
        raise UsageFault(f'new system "{name}": a name has small letters and digits, and begins with a letter')
    if name in (known := definition.catalogue()).own:
        raise UsageFault(f"new system {name}: {known.own[name]} defines it already")
    if name in known.systems:
        raise UsageFault(f"new system {name}: a system of the package has this name; choose another one")
    if folder is None and own_files.called_by_sudo():
        raise UsageFault(f"new system {name}: run it without sudo, so that the file is yours")
    file = (folder or own_files.user_folder() / "systems") / f"{name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(TEMPLATE.read_text(encoding="utf-8").replace("NAME", name))
    except FileExistsError:
        raise UsageFault(f"new system {name}: {file} is there already") from None
    return file
