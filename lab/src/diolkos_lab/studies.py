# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where the shipped studies are, and how a study on the command line is found: by name or by path."""

from pathlib import Path

from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Study
from diolkos_lab.faults import UsageFault

BESIDE = Path(__file__).parents[2] / "studies"  # in the repository
INSIDE = Path(__file__).parent / "studies"  # in an installed package


def shipped() -> dict[str, Path]:
    """Name to file of every study that comes with the lab."""
    folder = INSIDE if INSIDE.is_dir() else BESIDE
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def load(name: str) -> Study:
    """A shipped study by its name, or any study.toml by its path. Raises UsageFault."""
    known = shipped()
    if name in known:
        return document.read(known[name], Study)
    if name.endswith(".toml"):
        return document.read(Path(name), Study)
    raise UsageFault(f"no study is called {name}; there are {', '.join(known)}, or give the path of a .toml file")
