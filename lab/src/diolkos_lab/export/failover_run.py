# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One run of the study `failover` as files for a paper: its figures and rules as LaTeX and CSV, and every trial as CSV."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diolkos_lab import open_folder
from diolkos_lab.export import one_run
from diolkos_lab.failover import judge, records, report
from diolkos_lab.failover.judge import Row
from diolkos_lab.report.tables import Table

FIRST = ("gateways", "fault", "trial", "run", "victim")  # columns of the trials, before their figures
LAST = ("decides", "why_not")
REPLACED = ("repetition", "guards", "error")  # by the number of the trial, as the report has it, and by why it decides nothing


def files(folder: Path) -> dict[str, str]:
    """By their paths. Raises UsageFault for a folder that holds no whole result."""
    with open_folder.to_read(folder) as opened:
        found = records.require_trials(folder, records.read_open(opened))
        digest = hashlib.sha256(opened.read(records.FILE, records.MOST_BYTES) or b"").hexdigest()
    sentences = [
        f"The study “{found.study.title}” ({found.study.name}): {found.study.question}",
        *filter(None, [report.unfinished(found)]),
        *report.about(found),
        report.DECIDES,
    ]
    made = [report.table(found.rows), report.rules(judge.judge(found.study, found.rows))]
    written = one_run.of(sentences, records.FILE, {records.FILE: digest}, made)
    return {**written, "tables/trials.csv": trials(found.rows).csv}


def trials(rows: Sequence[Row]) -> Table:
    """Every trial with all that it measured, and whether it decides anything. A figure without end is `never`."""
    keys = dict.fromkeys(key for row in rows for key in row if key not in (*FIRST, *REPLACED))
    heads = [*FIRST, *keys, *LAST]
    raw = []
    for row in rows:
        why = judge.reasons(row)
        raw.append([*(_cell(row, key) for key in (*FIRST, *keys)), "no" if why else "yes", "; ".join(why)])
    return Table("trials", "Every trial", heads, [], heads, raw)


def _cell(row: Row, key: str) -> Any:
    if key == "trial":
        return row["repetition"] + 1
    if key not in row:
        return None
    value = row[key]
    if value is None:
        return "never" if key.endswith("_s") else None
    return json.dumps(value) if isinstance(value, list | dict) else value
