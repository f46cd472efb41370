# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The report of a study: one page with pictures and tables, made from the files of its result folder alone.

Stages:
    read ─► words, tables, pictures ─► chapters ─► page
A folder measured years ago, or by a run that was interrupted, gives a report of what it holds.
"""

from __future__ import annotations

from pathlib import Path

from diolkos_lab.report import curve_page, live, page, session_page
from diolkos_lab.report.read import UnreadableFolder, read

__all__ = ["UnreadableFolder", "write"]


def write(result_dir: Path) -> Path:
    """Write report.html, pictures/*.png, pictures/*.svg and tables/*.csv into `result_dir`; return the page's path.

    Reads study.toml, host.json, samples.jsonl and summary.json there. Raises UnreadableFolder (one sentence) when none
    of the last two is there, or when a file has an unknown format.
    """
    live.prepare()
    results = read(Path(result_dir))
    if curve_page.concerns(results):
        return curve_page.write(results)
    if session_page.concerns(results):
        return session_page.write(results)
    return page.write(results)
