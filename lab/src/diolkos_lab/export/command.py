# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`export`: one run as tables and text, or many as a site of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab import open_folder
from diolkos_lab.export import one_run
from diolkos_lab.export.output import Output
from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.serve import site
from diolkos_lab.serve.find_runs import MARKS
from diolkos_lab.serve.index import Index


@dataclass(frozen=True)
class ExportRequest:
    """What the command line asks for."""

    folders: Sequence[Path]
    out: Path
    pairs: int = site.MOST_PAIRS
    reports: int = site.MOST_REPORTS


def export(request: ExportRequest, say: Callable[[str], None]) -> str:
    """Returns what to look at first. Raises Fault."""
    try:
        return _export(request, say)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Fault(f"{where}the export cannot be written: {error.strerror or error}") from error


def _export(request: ExportRequest, say: Callable[[str], None]) -> str:
    if len(request.folders) == 1 and _is_result(request.folders[0]):
        folder = request.folders[0]
        files = one_run.files(folder)  # before anything is written
        with Output(request.out) as output:
            for name, content in files.items():
                output.write(name, content)
        return f"Tables and text: {request.out} ({len(files)} files)"
    with Index(request.folders) as index:
        if not index.listing.runs:
            raise UsageFault(f"{request.folders[0]}: holds no result folder")
        names = ", ".join(folder.resolve().name or str(folder) for folder in request.folders[:3])
        more = f" and {len(request.folders) - 3} more" if len(request.folders) > 3 else ""
        with Output(request.out) as output:
            site.write(f"Runs in {names}{more}", index, request.pairs, request.reports, output.write, say)
    return f"Site: {request.out / 'index.html'}"


def _is_result(folder: Path) -> bool:
    with open_folder.to_read(folder) as opened:
        return any(entry.name in MARKS for entry in opened.entries())
