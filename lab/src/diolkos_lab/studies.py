# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where studies are, and how a study on the command line is found: by name (the user's own before those shipped) or by path."""

from pathlib import Path

from diolkos_lab import own_files
from diolkos_lab.experiment import document, locate
from diolkos_lab.experiment.definition import Study
from diolkos_lab.experiment.failover import KIND, FailoverStudy
from diolkos_lab.faults import UsageFault

BESIDE = Path(__file__).parents[2] / "studies"  # in the repository
INSIDE = Path(__file__).parent / "studies"  # in an installed package


def shipped() -> dict[str, Path]:
    """Name to file of every study that comes with the lab."""
    folder = INSIDE if INSIDE.is_dir() else BESIDE
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def known() -> dict[str, own_files.Definition]:
    """All studies by name: those of the user hide those of the same name that are shipped."""
    found: dict[str, own_files.Definition] = {}
    for each in own_files.definitions("studies", INSIDE if INSIDE.is_dir() else BESIDE):
        found.setdefault(each.file.stem, each)
    return found


def of_faults() -> dict[str, Path]:
    """Name to file of every study of faults, all of which come with the lab."""
    folder = INSIDE if INSIDE.is_dir() else BESIDE
    return {file.stem: file for file in sorted((folder / KIND).glob("*.toml"))}


def load(name: str) -> Study:
    """A study by its name, or any study.toml by its path. Raises UsageFault."""
    if of_faults_named(name):
        raise UsageFault(
            f"{name}: a study of faults has no plan to show, and of the options of `run` only --quick, --form, --out, --seed "
            "and --diolkos mean anything to it; `diolkos-lab list` says how long each form takes"
        )
    return document.read(_file(name), Study)


def of_faults_named(name: str) -> FailoverStudy | None:
    """A study of faults, by name or by path; None where the name or the file is of another kind. Raises UsageFault."""
    file = of_faults().get(name) or Path(name)
    if file.suffix != ".toml" or not file.is_file() or not document.has_kind(document.text(file), KIND):
        return None
    return document.read(file, FailoverStudy)


def place(name: str, system: int) -> str:
    """Where the file of a study has the system of this number: `file:line`."""
    file = _file(name)
    line, _ = locate.nearest(locate.positions(document.text(file)), ("system", system))
    return f"{file}:{line}"


def _file(name: str) -> Path:
    if name.endswith(".toml"):
        return Path(name)
    if each := (studies := known()).get(name):
        if each.own:
            own_files.require_safe(each.file)
        return each.file
    raise UsageFault(f"no study is called {name}; there are {', '.join(studies)}, or give the path of a .toml file")


def load_all() -> tuple[dict[str, Study | FailoverStudy], dict[str, UsageFault]]:
    """The studies that are sound and the faults of the others, by name."""
    found: dict[str, Study | FailoverStudy] = {}
    faults: dict[str, UsageFault] = {}
    for name in known():
        try:
            found[name] = load(name)
        except UsageFault as fault:
            faults[name] = fault
    return found | {name: document.read(file, FailoverStudy) for name, file in of_faults().items()}, faults
