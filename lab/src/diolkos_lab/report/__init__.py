# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The report of a study: one page with pictures and tables, made from the files of its result folder alone.

Stages:
    read ─► words, tables, pictures ─► chapters ─► page
A folder measured years ago, or by a run that was interrupted, gives a report of what it holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diolkos_lab.report import helpers

__all__ = ["UnreadableFolder", "write"]


def write(result_dir: Path) -> Path:
    """Write report.html, pictures/ and tables/*.csv into `result_dir`; return the page's path.

    Reads study.toml, host.json, samples.jsonl and summary.json there. Raises UnreadableFolder (one sentence) when none
    of the last two is there, or when a file has an unknown format.
    """
    helpers.bundle()  # is made while the rest of the report is loaded, which takes as long
    from diolkos_lab.report import page  # noqa: PLC0415
    from diolkos_lab.report.read import read  # noqa: PLC0415

    return page.write(read(Path(result_dir)))


def __getattr__(name: str) -> Any:
    if name == "UnreadableFolder":
        from diolkos_lab.report.read import UnreadableFolder  # noqa: PLC0415

        return UnreadableFolder
    raise AttributeError(name)
