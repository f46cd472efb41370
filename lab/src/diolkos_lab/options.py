# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Options of the command line: each is said once, for all commands that have it; and what `run` and `plan` choose by them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diolkos_lab import completion, own_files
from diolkos_lab.faults import UsageFault

if TYPE_CHECKING:
    from diolkos_lab.run_study import RunRequest

LARGEST_SEED = 10**18 - 1  # that every reader of JSON takes
Diolkos = Annotated[str | None, typer.Option(metavar="PATH", help="The translator's program.", show_default=False)]
Paths = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="SYSTEM=PATH",
        help="Program of another system, e.g. tundra=/opt/tundra-nat64. Repeatable.",
        autocompletion=completion.program,
    ),
]


def _use(context: typer.Context, folder: Path | None) -> Path | None:
    if folder is None or folder.is_dir() or not context.resilient_parsing:  # a shell completes a word that is half typed
        own_files.use(folder)
    return folder


Systems = Annotated[
    Path | None,
    typer.Option(
        "--systems", metavar="DIR", help="Folder with systems of your own, looked into first.", callback=_use, is_eager=True
    ),
]
STUDY = typer.Argument(metavar="STUDY", help="Name of a study, or path of a study.toml.", autocompletion=completion.study)
Study = Annotated[str, STUDY]
StudyOrNone = Annotated[str | None, STUDY]
ResultFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A result folder.", autocompletion=completion.result)]
Quick = Annotated[bool, typer.Option("--quick", help="Minutes instead of hours: --form quick.")]
FormOption = Annotated[
    str | None,
    typer.Option(
        "--form", metavar="NAME", help="Another form of the study, as `list` shows them.", autocompletion=completion.form
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Only this system, datapath, placement or load, and the baseline. Repeatable.",
        autocompletion=completion.system,
    ),
]
Blocks = Annotated[int | None, typer.Option(help="Blocks, the warm-up among them.", min=2, max=100_000)]
Seconds = Annotated[float | None, typer.Option(help="Length of a trial, of all loads that have one.", min=0.05, max=3600)]
Hours = Annotated[float | None, typer.Option(help="As many blocks as this time holds.", min=0.01, max=1000)]
Seed = Annotated[int | None, typer.Option(help="Repeat the order of an earlier run.", min=0, max=LARGEST_SEED)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]

# Of `run` alone.
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Result folder; an older result in it is moved aside.")]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Go on with the interrupted run in this folder; with STUDY, begin it there if there is none.",
        autocompletion=completion.result,
    ),
]
Kernel = Annotated[
    str | None,
    typer.Option(
        metavar="PACKAGE|PATH",
        help="Run it in a guest with this kernel: a version (6.1), a package, a .deb file, or a folder.",
    ),
]
CountInstructions = Annotated[
    bool, typer.Option("--count-instructions", help="With --kernel: count instructions per packet instead of time.")
]
Router = Annotated[
    str | None, typer.Option(metavar="USER@HOST", help="Machine that has what is between client and server, over SSH.")
]
NicsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="With --router: the NICs of both machines.")]

Box = Annotated[
    str | None,
    typer.Option(metavar="CLIENT,SERVER", help="Measure the black box between these two interfaces of this host."),
]

# Of `merge` alone.
Runs = Annotated[
    list[Path], typer.Argument(metavar="DIR…", help="Result folders of one study.", autocompletion=completion.result)
]
Whole = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the whole; an older result in it is moved aside.")]
By = Annotated[
    str | None,
    typer.Option(
        metavar="FACT",
        help="host, kernel or run: a cell for each, instead of one of all hosts.",
        autocompletion=completion.fact,
    ),
]

# Of `analyze` alone.
CurveFiles = Annotated[
    list[Path], typer.Argument(metavar="FILES…", help="Files in the raw format of PASTRAMI, or folders of them.")
]
Rule = Annotated[
    str,
    typer.Option(
        metavar="RULE",
        help="paper, hysteresis or notebook; both (paper, notebook) or all.",
        autocompletion=completion.rule,
    ),
]
JsonFile = Annotated[
    Path | None, typer.Option(metavar="OUT", help="Write one object per file; - is the standard output.", allow_dash=True)
]
Pictures = Annotated[Path | None, typer.Option(metavar="DIR", help="Write pictures, tables and a report.")]
RandomSeed = Annotated[int, typer.Option(help="Of the random numbers of the intervals.", min=0, max=LARGEST_SEED)]


def request(
    study: str,
    quick: bool,
    form: str | None,
    only: list[str] | None,
    seed: int | None,
    diolkos: str | None,
    path: list[str] | None,
    blocks: int | None = None,
    seconds: float | None = None,
    hours: float | None = None,
) -> "RunRequest":
    """What is measured, and with which programs: a plan has the options of the run that it foresees. Raises UsageFault."""
    from diolkos_lab import asked, run_study  # slow to load, which `--help` and completion need not wait for

    if blocks is not None and hours is not None:
        raise UsageFault("--hours chooses the number of blocks, and --blocks says it: give one of them")
    length = asked.Length(blocks, seconds, hours)
    named = paths(diolkos, path)
    return run_study.RunRequest(study, quick, tuple(only or ()), None, seed, named, _form(quick, form), length=length)


def _form(quick: bool, form: str | None) -> str | None:
    if quick and form not in (None, "quick"):
        raise UsageFault(f"--quick is --form quick, and --form {form} is another: give one of them")
    return form


def paths(diolkos: str | None, others: list[str] | None) -> dict[str, str]:
    """The programs that the command line names, by system."""
    found = {"diolkos": diolkos} if diolkos else {}
    for entry in others or []:
        name, equals, value = entry.partition("=")
        if not (name and equals and value):
            raise UsageFault(f"--path {entry}: expected SYSTEM=PATH")
        found[name] = value
    return found
