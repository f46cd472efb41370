# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command line: `diolkos-lab list | run | report | compare | doctor | clean`.

Exit codes: 0 done, 1 failed at run time, 2 wrong usage or definition, 3 a privilege or tool is missing, 130 Ctrl-C,
143 SIGTERM. A fault is one sentence on standard error, never a traceback.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from diolkos_lab import __version__
from diolkos_lab.faults import Fault, Interrupted, UsageFault

app = typer.Typer(
    help="What does translation between IPv6 and IPv4 cost on this machine, and how sure is that?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False)

Diolkos = Annotated[str | None, typer.Option(metavar="PATH", help="The translator's program.", show_default=False)]
Paths = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="SYSTEM=PATH", help="Program of another system, e.g. tundra=/opt/tundra-nat64. Repeatable."),
]
ResultFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A result folder.")]


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        console.print(f"diolkos-lab {__version__}")
        raise typer.Exit


@app.command()
def run(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Name of a shipped study, or path of a study.toml.")],
    quick: Annotated[bool, typer.Option("--quick", help="Minutes instead of hours.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="SYSTEM", help="Only this system and its baseline. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Result folder; an older result in it is moved aside.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat the order of an earlier run.", min=0)] = None,
    diolkos: Diolkos = None,
    path: Paths = None,
) -> None:
    """Measure a study and write its result folder and report."""
    from diolkos_lab import conduct, screen

    order = conduct.Order(study, quick, tuple(only or ()), out, seed, _paths(diolkos, path))
    with screen.Screen(console) as witness:
        result, summary = conduct.run(order, witness)
    screen.results(console, summary)
    console.print(f"Report: {_write_report(result.folder)}", soft_wrap=True)


@app.command()
def report(folder: ResultFolder) -> None:
    """Evaluate a result folder again and make its report, from its files alone."""
    from diolkos_lab import screen, summary
    from diolkos_lab.samples import folder as samples_folder

    screen.results(console, summary.write(samples_folder.read(folder)))
    console.print(f"Report: {_write_report(folder)}", soft_wrap=True)


def _write_report(folder: Path) -> Path:
    from diolkos_lab import report as page

    return page.write(folder)


def _paths(diolkos: str | None, others: list[str] | None) -> dict[str, str]:
    found = {"diolkos": diolkos} if diolkos else {}
    for entry in others or []:
        name, equals, value = entry.partition("=")
        if not (name and equals and value):
            raise UsageFault(f"--path {entry}: expected SYSTEM=PATH")
        found[name] = value
    return found


def main() -> None:
    """Entry point: turns every fault into one sentence and an exit code."""
    try:
        app(standalone_mode=False)
        code = 0
    except Fault as fault:
        code = _complain(str(fault), fault.exit_code)
    except Interrupted as interrupted:
        code = _complain(" ".join(getattr(interrupted, "__notes__", ["Stopped."])), interrupted.exit_code)
    except KeyboardInterrupt:
        code = _complain("Stopped.", 130)
    sys.exit(code)


def _complain(message: str, code: int) -> int:
    print(f"diolkos-lab: {message}", file=sys.stderr)
    return code
