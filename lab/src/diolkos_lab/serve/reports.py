# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The report of a run, made in a temporary folder from its data. A run's folder stays as it is, and so does what it says."""

from __future__ import annotations

import tempfile
from pathlib import Path

from diolkos_lab import report, summary
from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.serve.index import Index
from diolkos_lab.serve.run_details import Run, short

MOST_BYTES = 256 * 1024 * 1024  # of a file
DATA = ("study.toml", "host.json", "samples.jsonl", "summary.json")
PAGE, SAMPLES = "report.html", "samples.jsonl"
KEPT = (".html", ".pdf", ".csv")  # what a report leads to


def made(index: Index, run: Run) -> dict[str, bytes]:
    """Its report and what stands beside it. Raises Fault when its data are of no use."""
    try:
        return _made(index, run)
    except OSError as error:
        raise Fault(f"{run.place}: its report cannot be written: {error.strerror}") from error


def _made(index: Index, run: Run) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="diolkos-lab-report-") as scratch:
        copy = Path(scratch) / "run"
        copy.mkdir()
        with index.folder(run) as folder:
            for name in DATA:
                if (content := folder.read(name, MOST_BYTES)) is not None:
                    (copy / name).write_bytes(content)
        try:
            if not (copy / "summary.json").exists():
                summary.write(samples_folder.read(copy))
            report.write(copy)
        except UsageFault as fault:
            raise UsageFault(short(str(fault).replace(str(copy), run.place))) from fault
        except (Fault, OSError):
            raise
        except Exception as error:  # one run of many is not the end of all; the sentence says what to look for
            why = short(f"{type(error).__name__}: {error}")
            raise Fault(
                f"{run.place}: its report cannot be made ({why}); `diolkos-lab report` on its folder shows more"
            ) from error
        found = [file for file in copy.rglob("*") if file.is_file() and (file.suffix in KEPT or file.name == SAMPLES)]
        return {str(file.relative_to(copy)): file.read_bytes() for file in found}
