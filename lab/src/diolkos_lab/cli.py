# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command line: `diolkos-lab list | run | report | analyze | compare | serve | export | doctor | clean`.

Exit codes: 0 done, 1 failed at run time, 2 wrong usage or definition, 3 a privilege or tool is missing, 130 Ctrl-C,
143 SIGTERM. A fault is one sentence on standard error, never a traceback.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from diolkos_lab import __version__
from diolkos_lab.faults import Fault, Interrupted, UsageFault, stop_on_signals

app = typer.Typer(
    help="What does translation between IPv6 and IPv4 cost on this machine, and how sure is that?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
WIDE = 160  # columns of a log or a pipe, where nobody can widen the window
console = Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE)

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


@app.command("list")
def list_(diolkos: Diolkos = None, path: Paths = None) -> None:
    """Studies and systems: which can run here and, if not, what is missing and how to get it."""
    from diolkos_lab import conduct, screen, studies
    from diolkos_lab.sut import definition, lookup

    given = _paths(diolkos, path)
    shipped = [studies.load(name) for name in studies.shipped()]
    screen.studies(console, shipped)
    screen.systems(console, [lookup.find(system, given) for system in definition.load_all().values()])
    for name, (how, needed_by) in conduct.missing_by_study(shipped).items():
        who = "every study needs" if len(needed_by) == len(shipped) else f"needed for {', '.join(needed_by)}:"
        console.print(f"[red]✗[/] {who} {name}: {how}")


@app.command()
def report(folder: ResultFolder) -> None:
    """Evaluate a result folder again and make its report, from its files alone."""
    from diolkos_lab import screen, summary
    from diolkos_lab.samples import folder as samples_folder

    screen.results(console, summary.write(samples_folder.read(folder)))
    console.print(f"Report: {_write_report(folder)}", soft_wrap=True)


@app.command()
def analyze(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES…", help="Files in the raw format of PASTRAMI, or folders of them.")
    ],
    rule: Annotated[
        str, typer.Option(metavar="RULE", help="paper, hysteresis or notebook; both (paper, notebook) or all.")
    ] = "paper",
    json: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write one object per file; - is the standard output.", allow_dash=True)
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write pictures, tables and a report.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers of the intervals.", min=0)] = 1,
) -> None:
    """Judge load–loss data of others: can their rate at 0.5 % loss be trusted?"""
    from diolkos_lab.analyze import conduct

    conduct.analyze(conduct.Order(tuple(files), conduct.rules(rule), out, json, seed), console)


@app.command()
def compare(first: ResultFolder, second: ResultFolder) -> None:
    """What changed from the first result to the second, and is it more than chance?"""
    from diolkos_lab import comparing, screen
    from diolkos_lab.samples import folder as samples_folder

    a, b = samples_folder.read(first), samples_folder.read(second)
    screen.changes(console, comparing.compare(a, b), samples_folder.differing_facts(a, b))


@app.command()
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that holds result folders.")],
    port: Annotated[int, typer.Option(help="0 for any that is free.", min=0, max=65535)] = 8642,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than your own machine's can read the results.")
    ] = "127.0.0.1",
) -> None:
    """Show the runs of a folder in the browser: filters, trends, comparisons and reports."""
    from diolkos_lab.serve import conduct

    conduct.serve(folder, host, port, lambda text: console.print(text, soft_wrap=True, markup=False))


@app.command()
def export(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR|FOLDER…", help="One result folder, or folders that hold result folders.")
    ],
    out: Annotated[Path, typer.Option(metavar="OUT", help="An empty folder, or that of an earlier export.")],
    pairs: Annotated[int, typer.Option(help="Comparisons of a site, of neighbours in time first.", min=0, max=5000)] = 50,
    reports: Annotated[int, typer.Option(help="Reports of a site, of the newest runs.", min=0, max=5000)] = 20,
) -> None:
    """Write one run as tables (LaTeX, CSV) and a paragraph of method, or many runs as a site of files."""
    from diolkos_lab.export import conduct

    order = conduct.Order(tuple(folders), out, pairs, reports)
    console.print(conduct.export(order, lambda text: console.print(text, soft_wrap=True, markup=False)), markup=False)


@app.command()
def doctor() -> None:
    """Is this host fit to measure?"""
    from diolkos_lab import doctor as examination
    from diolkos_lab import screen

    findings = []
    for finding in examination.examine():
        screen.finding(console, finding)
        findings.append(finding)
    examination.require(findings)
    doubtful = sum(1 for finding in findings if finding.state == "doubtful")
    console.print(f"Fit, with {doubtful} doubts." if doubtful else "Fit.")


@app.command()
def clean() -> None:
    """Remove what a lab that was killed has left: its namespaces and what still runs in them."""
    from diolkos_lab import conduct
    from diolkos_lab.topology import leftovers

    conduct.require_root()
    removed = leftovers.clean()
    if removed:
        what = (
            f"{len(removed.namespaces)} namespaces, {len(removed.processes)} processes in them, {len(removed.folders)} folders"
        )
        console.print(f"Removed {what}.")
    else:
        console.print("Nothing was left over.")


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
    stop_on_signals()
    try:
        app()
    except Fault as fault:
        _end(str(fault), fault.exit_code)
    except Interrupted as interrupted:
        _end(" ".join(getattr(interrupted, "__notes__", ["Stopped."])), interrupted.exit_code)
    except OSError as error:
        _end(f"{error.filename or 'the system'}: {error.strerror or error}", Fault.exit_code)


def _end(message: str, code: int) -> None:
    print(f"diolkos-lab: {message}", file=sys.stderr)
    sys.exit(code)
