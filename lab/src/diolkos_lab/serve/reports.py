# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The report of a run: that of its folder, or else one that is made in a temporary folder. A run's folder stays as it is."""

from __future__ import annotations

import re
import tempfile
from collections import OrderedDict
from pathlib import Path

from diolkos_lab import report, summary
from diolkos_lab.failover import records as failovers
from diolkos_lab.failover import report as failover_report
from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.serve.index import Index
from diolkos_lab.serve.run_details import Run, short

MOST_BYTES = 256 * 1024 * 1024  # of a file
MOST_KEPT = 4  # reports that were made and stay in memory
DATA = ("study.toml", "host.json", "samples.jsonl", "summary.json")
# What a report links to. A file of any other name is not served.
BESIDE = re.compile(r"(pictures|tables)/([A-Za-z0-9][A-Za-z0-9._+-]{0,150}\.(?:svg|png|pdf|csv))")
PAGE, SAMPLES = "report.html", "samples.jsonl"

Files = dict[str, bytes]


class Reports:
    """Not for several threads at once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._made: OrderedDict[str, tuple[Run, Files]] = OrderedDict()

    def file(self, run: Run, name: str) -> bytes | None:
        """`report.html` or a file beside it; None for what there is not. Raises UsageFault."""
        beside = BESIDE.fullmatch(name)
        if name not in (PAGE, SAMPLES) and not beside:
            return None
        if name == SAMPLES and run.of_failover:
            return None
        if name != SAMPLES and not run.reported:
            return self.made(run).get(name)
        with self._index.folder(run) as folder:
            if not beside:
                return folder.read(name, MOST_BYTES)
            with folder.within(beside[1]) as inner:
                return inner.read(beside[2], MOST_BYTES)

    def made(self, run: Run) -> Files:
        """Its report and what stands beside it, made from its data. Raises UsageFault when they are of no use."""
        kept = self._made.get(run.key)
        if kept and kept[0] is run:  # the index has another one when files change
            self._made.move_to_end(run.key)
            return kept[1]
        files = self._make(run)
        self._made[run.key] = run, files
        while len(self._made) > MOST_KEPT:
            self._made.popitem(last=False)
        return files

    def _make_of_failover(self, run: Run) -> Files:
        with self._index.folder(run) as folder:
            try:
                found = failovers.require_trials(folder.path, failovers.read_open(folder))
            except UsageFault as fault:
                raise UsageFault(short(str(fault).replace(str(folder.path), run.place))) from fault
        return {PAGE: failover_report.page(found).encode()}

    def _make(self, run: Run) -> Files:
        if run.of_failover:
            return self._make_of_failover(run)
        with tempfile.TemporaryDirectory(prefix="diolkos-lab-report-") as scratch:
            copy = Path(scratch) / "run"
            copy.mkdir()
            with self._index.folder(run) as folder:
                for name in DATA:
                    if (content := folder.read(name, MOST_BYTES)) is not None:
                        (copy / name).write_bytes(content)
            try:
                if not (copy / "summary.json").exists():
                    summary.write(samples_folder.read(copy))
                report.write(copy)
            except UsageFault as fault:
                raise UsageFault(short(str(fault).replace(str(copy), run.place))) from fault
            except Fault:
                raise
            except OSError as error:
                raise Fault(f"{run.place}: its report cannot be written: {error.strerror}") from error
            except Exception as error:  # one run of many is not the end of all; the sentence says what to look for
                why = short(f"{type(error).__name__}: {error}")
                raise Fault(
                    f"{run.place}: its report cannot be made ({why}); `diolkos-lab report` on its folder shows more"
                ) from error
            found = [file for file in copy.rglob("*") if file.is_file() and file.name not in DATA]
            return {str(file.relative_to(copy)): file.read_bytes() for file in found}
