# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From files to verdicts, pictures and report.

Stages: find → (one file at a time) read, judge, draw, one JSON object → table, page.
Pictures take nearly all of the time, so with them the files are shared out among processes; the order stays that of the files.
"""

import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from diolkos_lab import open_folder
from diolkos_lab.analyze import output, raw, results
from diolkos_lab.analyze.results import Line
from diolkos_lab.curve import resampling
from diolkos_lab.curve.judge import DEFAULT_RULE
from diolkos_lab.curve.saturation import RULES
from diolkos_lab.faults import UsageFault, printable
from diolkos_lab.open_folder import OpenFolder

SETS = {"both": ("paper", "notebook"), "all": tuple(RULES)}  # names on the command line for several rules
WORTH_A_PROCESS = 8  # files
FEW = 6  # files whose curves fit on one sheet, which has as many colours
LONGEST_NAME = 240  # bytes, of the 255 that a file system allows


@dataclass(frozen=True)
class AnalyzeRequest:
    """What the command line asks for."""

    files: tuple[Path, ...]
    rules: tuple[str, ...] = (DEFAULT_RULE,)  # the first is the one whose reason is given
    out: Path | None = None  # folder of pictures and report
    json: Path | None = None  # file of the document
    seed: int = resampling.SEED

    @property
    def rule(self) -> str:
        return self.rules[0]


@dataclass(frozen=True)
class Done:
    """One file, when it is done."""

    analysis: results.Analysis | None  # None, as the next two, when nothing in it could be used
    line: Line | None
    object: dict[str, Any] | None  # for JSON
    faults: tuple[str, ...]  # `file:line:column: reason`, or `file: reason`


def rules(name: str) -> tuple[str, ...]:
    """The rules that a name on the command line stands for. Raises UsageFault."""
    if name in RULES:
        return (name,)
    if name in SETS:
        return SETS[name]
    raise UsageFault(f"--rule {name}: there are {', '.join([*RULES, *SETS])}")


def analyze(request: AnalyzeRequest, console: Console) -> None:
    """Do what the command line asks for. Raises UsageFault, after all else is done, when a file holds nothing to use."""
    if request.json == output.STANDARD_OUTPUT:
        console = Console(stderr=True, highlight=False, width=console.width)
    elif request.json and request.json.resolve() in {file.resolve() for file in raw.find(request.files)}:
        raise UsageFault(f"--json {request.json}: is one of the files to analyze, which it would replace; name another file")
    if request.out:
        output.claim(request.out)
    try:
        lines, few, unusable = _analyze(request)
        if lines:
            _show(console, lines, request)
            if request.out:
                console.print(
                    f"Report: {printable(str(_report(request, request.out, lines, few)))}", soft_wrap=True, markup=False
                )
    except BaseException:
        if request.out:
            shutil.rmtree(request.out, ignore_errors=True)  # half a report looks like a whole one
        raise
    if unusable:
        raise UsageFault(f"{unusable} of {unusable + len(lines)} files could not be analyzed; the reasons stand above")


def _analyze(request: AnalyzeRequest) -> tuple[list[Line], list[results.Analysis], int]:
    """Lines of the files that could be analyzed, the whole analyses if these are few, and the number of the other files."""
    lines: list[Line] = []
    few: list[results.Analysis] = []
    unusable = 0
    with ExitStack() as stack:
        wanted = ([request.json] if request.json else []) + ([request.out / output.DOCUMENT] if request.out else [])
        documents = [stack.enter_context(output.document(file)) for file in wanted]
        for done in run(request):
            for fault in done.faults:
                print(f"diolkos-lab: {printable(fault)}", file=sys.stderr)
            if done.analysis is None or done.line is None or done.object is None:
                unusable += 1
                continue
            lines.append(done.line)
            few = [*few, done.analysis] if len(lines) <= FEW else []
            for document in documents:
                document.add(done.object)
    return lines, few, unusable


def run(request: AnalyzeRequest) -> Iterator[Done]:
    """Analyze file after file. With `request.out`, pictures are drawn to its folder `pictures` meanwhile."""
    files = raw.find(request.files)
    tasks = [(file, request, _picture_name(request, number, file)) for number, file in enumerate(files, start=1)]
    processes = min(len(os.sched_getaffinity(0)), len(files) // WORTH_A_PROCESS) if request.out else 1
    if processes < 2:
        yield from map(_one, tasks)
        return
    # Not copies of this process: once vl-convert has worked here, it has threads, which a copy would lack.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "diolkos_lab.report.charts.load_loss"])
    pool = ProcessPoolExecutor(processes, context)
    try:
        yield from pool.map(_one, tasks, chunksize=2)
    finally:
        pool.shutdown(cancel_futures=True)


def _one(task: tuple[Path, AnalyzeRequest, str | None]) -> Done:
    file, request, picture = task
    try:
        experiment = raw.read(file)
    except OSError as error:
        return Done(None, None, None, (f"{file}: {error.strerror or error}",))
    faults = tuple(f"{file}:{entry.line}:{entry.column}: {entry.reason}" for entry in experiment.malformed)
    if not experiment.rates:
        return Done(None, None, None, (*faults, f"{file}: holds no line that can be used"))
    analysis = results.analyze(experiment, request.seed)
    if picture and request.out:
        with open_folder.to_write(request.out) as out, out.inside(output.PICTURES) as pictures:
            _draw(analysis, request.rule, pictures, picture)
    line = results.line(analysis, request.rule, picture)
    return Done(analysis, line, results.as_json(analysis, request.rule), faults)


def _draw(analysis: results.Analysis, rule: str, folder: OpenFolder, name: str) -> None:
    from diolkos_lab.report import charts  # noqa: PLC0415  a second, which who asks for no pictures need not wait
    from diolkos_lab.report.charts import load_loss  # noqa: PLC0415

    drawn = charts.svg(load_loss.draw(analysis.found, analysis.title, rule))
    folder.write(f"{name}.svg", drawn)
    folder.write(f"{name}.png", charts.png(drawn))


def _show(console: Console, lines: Sequence[Line], request: AnalyzeRequest) -> None:
    """The table of the page, with names without the folder that all files share; why, where there are few."""
    from diolkos_lab.analyze import page  # noqa: PLC0415  a second, for charts
    from diolkos_lab.report import terminal  # noqa: PLC0415

    root = results.shared_folder([line.file for line in lines])
    found = page.table(lines, request.rule, lambda line: line.file.removeprefix(root))
    console.print(terminal.table(found, without=(found.heads[-1],) if len(lines) > FEW else ()))
    for said in (*page.counts(lines, request.rules), *page.unknown(lines)):
        console.print(said, markup=False, highlight=False, soft_wrap=True)


def _report(request: AnalyzeRequest, out: Path, lines: Sequence[Line], few: Sequence[results.Analysis]) -> Path:
    from diolkos_lab.analyze import page  # noqa: PLC0415

    with open_folder.to_write(out) as opened:
        return page.write(opened, lines, request.rule, few, request.seed)


def _picture_name(request: AnalyzeRequest, number: int, file: Path) -> str | None:
    """Numbered, since files of the same name may stand in several folders; short enough for a suffix."""
    name = Path(results.readable(file)).stem.encode()[:LONGEST_NAME].decode(errors="ignore")
    return f"{number:03}-{name}" if request.out else None
