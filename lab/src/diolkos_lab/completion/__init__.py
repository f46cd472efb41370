# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Completion in bash, zsh and fish: the scripts beside this file, and what an argument may become.

A script starts the program again with the words so far, in the form that typer has for bash, and gets one candidate a line.
The scripts of typer are not used: that of zsh evaluates names of files, and none of them goes on within a folder.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import typer.completion

VARIABLE = "_DIOLKOS_LAB_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
RESULTS = ("samples.jsonl", "summary.json")  # a folder with one of them is a result


def script(shell: str) -> str:
    return (Path(__file__).parent / f"diolkos-lab.{shell}").read_text(encoding="utf-8")


def prepare() -> None:
    """Let typer answer a shell. By itself it answers only where it also offers to install scripts of its own."""
    if VARIABLE in os.environ:
        typer.completion.get_completion_inspect_parameters()


def study(incomplete: str) -> list[str]:
    """Studies by name: shipped ones and those in folders of the user's. All by path."""
    from diolkos_lab import studies  # noqa: PLC0415  a shell waits for the answer, so nothing is read that is not needed

    files = _paths(incomplete, lambda entry: entry.suffix == ".toml" and entry.is_file())
    return [*studies.known(), *studies.of_faults(), *files]


def system(context: typer.Context) -> list[str]:
    """What --only takes: systems, datapaths and loads of the study on the command line, and systems that may stand beside them;
    all systems, where it names no study that can be read."""
    from diolkos_lab import studies  # noqa: PLC0415
    from diolkos_lab.faults import UsageFault  # noqa: PLC0415
    from diolkos_lab.sut import definition  # noqa: PLC0415

    try:
        asked = studies.load(_study_in(context))
    except UsageFault:
        return _systems()
    own = definition.catalogue().own
    named = [subject.system for subject in asked.system], [subject.datapath for subject in asked.system]
    loads = [load.name for form in asked.form.values() for load in form.load]
    return list(dict.fromkeys((*named[0], *own, *named[1], *loads)))


def form(context: typer.Context) -> list[str]:
    """Forms of the study on the command line; the usual ones, where it names none that can be read."""
    from diolkos_lab import studies  # noqa: PLC0415
    from diolkos_lab.experiment.definition import USUAL_FORMS  # noqa: PLC0415
    from diolkos_lab.faults import UsageFault  # noqa: PLC0415

    try:
        return list(studies.load(_study_in(context)).form)
    except UsageFault:
        return list(USUAL_FORMS)


def program(incomplete: str) -> list[str]:
    """`SYSTEM=`; after it the shell completes the path."""
    return [] if "=" in incomplete else [f"{name}=" for name in _systems()]


def result(incomplete: str) -> list[str]:
    """Result folders, and folders that may hold some."""
    return list(_paths(incomplete, lambda entry: any((entry / name).is_file() for name in RESULTS)))


def rule() -> list[str]:
    from diolkos_lab.analyze import command  # noqa: PLC0415
    from diolkos_lab.curve import saturation  # noqa: PLC0415

    return [*saturation.RULES, *command.SETS]


def fact() -> list[str]:
    from diolkos_lab.merging import BY  # noqa: PLC0415

    return list(BY)


def shell() -> list[str]:
    return list(SHELLS)


def _study_in(context: typer.Context) -> str:
    """The study on the command line. Behind an option without its value, which is being typed, nothing is parsed."""
    words = os.environ.get("COMP_WORDS", "").split()[2:]
    return str(context.params.get("study") or next((word for word in words if not word.startswith("-")), ""))


def _systems() -> list[str]:
    from diolkos_lab.sut import definition  # noqa: PLC0415

    return list(definition.load_all())


def _paths(incomplete: str, wanted: Callable[[Path], bool]) -> Iterator[str]:
    """What is wanted as a whole, and other folders with a `/` after them."""
    head, slash, start = incomplete.rpartition("/")
    try:
        entries = sorted(Path(head + slash or ".").expanduser().iterdir())
    except (OSError, RuntimeError):  # no such folder, or the home of nobody
        return
    for entry in entries:
        # A line holds one candidate. Hidden names are for who begins to write one.
        if not entry.name.startswith(start) or not entry.name.isprintable() or (entry.name[0] == "." and not start):
            continue
        if wanted(entry):
            yield head + slash + entry.name
        elif entry.is_dir():
            yield f"{head}{slash}{entry.name}/"
