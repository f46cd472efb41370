# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`export`: one run as tables and text, or many as a site of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab import open_folder
from diolkos_lab.export import one, site
from diolkos_lab.export.output import Output
from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.serve.index import Index
from diolkos_lab.serve.walk import MARKS

PAIRS, REPORTS = 50, 20


@dataclass(frozen=True)
class Order:
    """What the command line asks for."""

    folders: Sequence[Path]
    out: Path
    pairs: int = PAIRS
    reports: int = REPORTS


def export(order: Order, say: Callable[[str], None]) -> str:
    """Returns what to look at first. Raises Fault."""
    try:
        return _export(order, say)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Fault(f"{where}the export cannot be written: {error.strerror or error}") from error


def _export(order: Order, say: Callable[[str], None]) -> str:
    if len(order.folders) == 1 and _is_result(order.folders[0]):
        files = one.files(order.folders[0])  # before anything is written
        with Output(order.out) as output:
            for name, content in files.items():
                output.write(name, content)
        return f"Tables and text: {order.out} ({len(files)} files)"
    with Index(order.folders) as index:
        if not index.listing().runs:
            raise UsageFault(f"{order.folders[0]}: holds no result folder")
        names = ", ".join(folder.resolve().name or str(folder) for folder in order.folders[:3])
        more = f" and {len(order.folders) - 3} more" if len(order.folders) > 3 else ""
        with Output(order.out) as output:
            site.write(f"Runs in {names}{more}", index, order.pairs, order.reports, output.write, say)
    return f"Site: {order.out / 'index.html'}"


def _is_result(folder: Path) -> bool:
    with open_folder.to_read(folder) as opened:
        return any(entry.name in MARKS for entry in opened.entries())
