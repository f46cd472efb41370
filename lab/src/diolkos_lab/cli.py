# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command line: list, new, plan, run, merge, report, analyze, compare, serve, export, doctor, clean, schema, completion.

Exit codes: 0 done, 1 failed at run time, 2 wrong usage or definition, 3 a privilege or tool is missing, 130 Ctrl-C,
143 SIGTERM (0 for `serve`, which a signal ends). A fault is one sentence on standard error, never a traceback.
"""

import io
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from diolkos_lab import __version__, completion, endings, options, own_files
from diolkos_lab.faults import UsageFault, printable, stop_on_signals
from diolkos_lab.options import (
    Blocks,
    Box,
    By,
    CountInstructions,
    CurveFiles,
    Diolkos,
    FormOption,
    Hours,
    Json,
    JsonFile,
    Kernel,
    NicsFile,
    Only,
    Out,
    Paths,
    Pictures,
    Quick,
    RandomSeed,
    ResultFolder,
    Resume,
    Router,
    Rule,
    Runs,
    Seconds,
    Seed,
    Study,
    StudyOrNone,
    Systems,
    Whole,
)

app = typer.Typer(
    help="What does translation between IPv6 and IPv4 cost on this machine, and how sure is that?",
    no_args_is_help=True,
    add_completion=False,  # `completion` prints scripts, and changes no file of the shell
    pretty_exceptions_enable=False,
)
WIDE = 160  # columns of a log or a pipe, where nobody can widen the window
console = Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE)


@app.callback(invoke_without_command=True)
def version_alone(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        console.print(f"diolkos-lab {__version__}")
        raise typer.Exit


@app.command()
def run(
    study: StudyOrNone = None,
    quick: Quick = False,
    form: FormOption = None,
    only: Only = None,
    out: Out = None,
    seed: Seed = None,
    diolkos: Diolkos = None,
    path: Paths = None,
    systems: Systems = None,
    blocks: Blocks = None,
    seconds: Seconds = None,
    hours: Hours = None,
    resume: Resume = None,
    kernel: Kernel = None,
    count_instructions: CountInstructions = False,
    router: Router = None,
    nics: NicsFile = None,
    box: Box = None,
) -> None:
    """Measure a study and write its result folder and report."""
    from diolkos_lab import resuming, run_study, screen
    from diolkos_lab.run import box as boxes
    from diolkos_lab.run.router import wanted

    if not (study or resume):
        raise UsageFault(
            "run: which STUDY? `diolkos-lab list` shows those there are; --resume DIR continues the run of a folder"
        )
    if resume and out:
        raise UsageFault(f"run: --resume {resume} writes into that folder; leave --out out")
    request = options.request(study or "", quick, form, only, seed, diolkos, path, blocks, seconds, hours)
    if box and (router or nics):
        raise UsageFault("run: --box is between two interfaces of this host, and --router another machine: give one of them")
    request = replace(request, out=out, resume=resume, router=boxes.wanted(box) or wanted(router, nics))
    if kernel or count_instructions:
        from diolkos_lab.guest import command as guests

        result, _ = guests.run(request, kernel, count_instructions, _say)
    else:
        with screen.Screen(console) as observer:
            if resume and not (study and resuming.is_free(resume)):
                result, _ = resuming.resume(request, observer, _say)
            else:
                result, _ = run_study.run(replace(request, out=resume or out), observer)
    from diolkos_lab.report import terminal  # takes a second, which nobody who is refused has to wait

    terminal.evaluate(console, result.folder)


@app.command()
def plan(
    study: Study,
    quick: Quick = False,
    form: FormOption = None,
    only: Only = None,
    seed: Seed = None,
    diolkos: Diolkos = None,
    path: Paths = None,
    systems: Systems = None,
    blocks: Blocks = None,
    seconds: Seconds = None,
    hours: Hours = None,
    json: Json = False,
) -> None:
    """What a run of a study would measure here, in which order and for how long."""
    from diolkos_lab import json_output, planning

    found = planning.plan(options.request(study, quick, form, only, seed, diolkos, path, blocks, seconds, hours))
    if json:
        print(json_output.text(planning.document(found)))
    else:
        planning.show(console, found)


@app.command()
def merge(folders: Runs, out: Whole, by: By = None) -> None:
    """Put runs of one study together, from several hosts or one, and evaluate them as a whole."""
    from diolkos_lab import merging, summary
    from diolkos_lab.report import terminal
    from diolkos_lab.samples import folder as samples_folder

    for said in merging.merge(folders, out, by):
        _say(said)
    summary.write(samples_folder.read(out))
    terminal.evaluate(console, out)


@app.command("list")
def list_(diolkos: Diolkos = None, path: Paths = None, systems: Systems = None, json: Json = False) -> None:
    """Studies and systems: which can run here and, if not, what is missing and how to get it."""
    from diolkos_lab import json_output, listing, run_study, studies
    from diolkos_lab.sut import definition, lookup

    given = options.paths(diolkos, path)
    found, wrong = studies.load_all()
    known = definition.catalogue()
    looked = [lookup.find(system, given) for system in known.systems.values()]
    missing = run_study.missing_by_study(list(found.values()))
    faults = [str(fault) for fault in (*wrong.values(), *known.faults.values())]
    if json:
        print(json_output.text(json_output.list_document(list(found.values()), looked, missing, known.own, faults)))
        return
    listing.studies(console, found)
    listing.systems(console, looked, known.own)
    for name, (how, needed_by) in missing.items():
        who = "every study needs" if len(needed_by) == len(found) else f"needed for {', '.join(needed_by)}:"
        console.print(f"[red]✗[/] {who} {name}: {how}")
    for fault in faults:
        console.print(f"✗ {printable(fault)}", style="red", markup=False, soft_wrap=True)


new = typer.Typer(help="Write a file of your own to start from.", no_args_is_help=True)
app.add_typer(new, name="new")


@new.command("system")
def new_system(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the system: small letters and digits.")],
    systems: Annotated[
        Path | None, typer.Option("--systems", metavar="DIR", help="Folder to write it into, instead of the user's.")
    ] = None,
) -> None:
    """Write the commented definition of a system, which runs as it is. Change it to measure your own translator."""
    from diolkos_lab import new_files

    file, more = new_files.system(name, systems), f" --systems {systems}" if systems else ""
    _say(f"Wrote {file}. Change it, then try it: sudo diolkos-lab run clat --quick --only {name}{more}")


@app.command()
def report(folder: ResultFolder) -> None:
    """Evaluate a result folder again and make its report, from its files alone."""
    from diolkos_lab import summary
    from diolkos_lab.report import terminal
    from diolkos_lab.samples import folder as samples_folder

    result = samples_folder.read(folder)
    if not result.trials:
        raise UsageFault(f"{folder}: holds no trials, so there is nothing to report")
    summary.write(result)
    terminal.evaluate(console, folder)


@app.command()
def analyze(files: CurveFiles, rule: Rule = "paper", json: JsonFile = None, out: Pictures = None, seed: RandomSeed = 1) -> None:
    """Judge load–loss data of others: can their rate at 0.5 % loss be trusted?"""
    from diolkos_lab.analyze import command

    command.analyze(command.AnalyzeRequest(tuple(files), command.rules(rule), out, json, seed), console)


@app.command()
def compare(first: ResultFolder, second: ResultFolder, json: Json = False) -> None:
    """What changed from the first result to the second, and is it more than chance?"""
    from diolkos_lab import json_output, two_runs
    from diolkos_lab.samples import folder as samples_folder

    found = two_runs.compared(*(samples_folder.require_trials(samples_folder.read(folder)) for folder in (first, second)))
    if json:
        print(json_output.text(json_output.compare_document(found.study, (first, second), found.entries, found.facts)))
    else:
        two_runs.show(console, found)


@app.command()
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that holds result folders.")],
    port: Annotated[int, typer.Option(help="0 for any that is free.", min=0, max=65535)] = 8642,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than your own machine's can read the results.")
    ] = "127.0.0.1",
) -> None:
    """Show the runs of a folder in the browser: a list, trends, comparisons and reports."""
    from diolkos_lab.serve import command

    command.serve(folder, host, port, lambda text: console.print(text, soft_wrap=True, markup=False))


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
    from diolkos_lab.export import command

    request = command.ExportRequest(tuple(folders), out, pairs, reports)
    console.print(command.export(request, lambda text: console.print(text, soft_wrap=True, markup=False)), markup=False)


@app.command()
def doctor(json: Json = False) -> None:
    """Is this host fit to measure?"""
    from diolkos_lab import doctor as examination
    from diolkos_lab import json_output, screen

    findings = []
    for finding in examination.examine():
        if not json:
            screen.finding(console, finding)
        findings.append(finding)
    if json:
        print(json_output.text(json_output.doctor_document(findings)))
    examination.require(findings)
    if json:
        return
    doubtful = sum(1 for finding in findings if finding.state == "doubtful")
    console.print(f"Fit, with {doubtful} doubts." if doubtful else "Fit.")


@app.command()
def clean(
    router: Annotated[str | None, typer.Option(metavar="USER@HOST", help="Clean that machine instead, over SSH.")] = None,
) -> None:
    """Remove what a lab that was killed has left: its namespaces and what still runs in them. NICs are given back."""
    from diolkos_lab import run_study
    from diolkos_lab.run import router as other
    from diolkos_lab.topology import leftovers

    run_study.require_root()
    removed = other.clean(router) if router else leftovers.clean()
    if removed:
        what = (
            f"{len(removed.namespaces)} namespaces, {len(removed.groups)} control groups, "
            f"{len(removed.processes)} processes in them, {len(removed.folders)} folders"
        )
        console.print(f"Removed {what}.")
        for setting in removed.restored:
            console.print(f"Restored {printable(setting)}.", markup=False)
    else:
        console.print("Nothing was left over.")


@app.command()
def schema() -> None:
    """Print the JSON schema of a study.toml, for editors."""
    import json

    from diolkos_lab.experiment import schema as of

    print(json.dumps(of.study_schema(), indent=1))


@app.command("completion")
def completion_(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=completion.shell)],
) -> None:
    """Print the script with which a shell completes names of studies, systems and result folders."""
    if shell not in completion.SHELLS:
        raise UsageFault(f'completion: no script for the shell "{shell}"; there are {", ".join(completion.SHELLS)}')
    print(completion.script(shell), end="")


def _say(text: str) -> None:
    console.print(printable(text), soft_wrap=True, markup=False)


def main() -> None:
    """Entry point: turns every fault into one sentence and an exit code."""
    completion.prepare()
    own_files.use(None)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal has all characters
    stop_on_signals()
    endings.call(app)
