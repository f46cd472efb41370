# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One run as files for a paper: its tables as LaTeX and CSV, how it measured, and the checksums of its data."""

from __future__ import annotations

import hashlib
import textwrap
from pathlib import Path

from diolkos_lab import __version__, open_folder
from diolkos_lab.export import latex
from diolkos_lab.metric import ROW_METRICS, named
from diolkos_lab.report import failover_page, method, rejected
from diolkos_lab.report.quantities import digits
from diolkos_lab.report.read import Results, read
from diolkos_lab.report.tables import Table, ratios
from diolkos_lab.report.values import interval, number
from diolkos_lab.samples import folder as samples_folder

DATA = ("study.toml", "host.json", "samples.jsonl", "summary.json")
COLUMNS = 100  # of the paragraph as plain text


def files(folder: Path) -> dict[str, str]:
    """By their paths. Raises UsageFault for a folder that holds no whole result."""
    result, sums = samples_folder.require_trials(samples_folder.read(folder)), checksums(folder)
    evaluated = f"have the SHA-256 checksum {sums['samples.jsonl']}; diolkos-lab {__version__} evaluated them."
    said = [*method.sentences(result), f"The samples {evaluated}"]
    found = {"SHA256SUMS": "".join(f"{digest}  {name}\n" for name, digest in sums.items())}
    found["method.txt"] = textwrap.fill(" ".join(said), COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n"
    found["method.tex"] = "\n".join(latex.escaped(sentence) for sentence in said) + "\n"
    every = tables(read(folder))
    set_in_latex = [table for table in every if table.lines]
    found |= {f"tables/{table.name}.csv": table.csv for table in every}
    found |= {f"tables/{table.name}.tex": latex.table(table) for table in set_in_latex}
    found["all.tex"] = latex.document(["method", *(f"tables/{table.name}" for table in set_in_latex)])
    return found


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of data."""
    with open_folder.to_read(folder) as opened:
        contents = {name: opened.read(name) for name in DATA}
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items() if content is not None}


def tables(results: Results) -> list[Table]:
    """The verdicts, every metric, and what guards rejected."""
    if failover_page.applies_to(results):
        return failover_page.tables(results)
    measured = {row.metric for row in results.rows}
    every = [ratios(results, metric, _caption(metric)) for metric in ROW_METRICS if metric in measured]
    return [table for table in (_verdicts(results), *every, rejected.table(results)) if table]


def _caption(metric: str) -> str:
    known = named(metric)
    words = known.words if known else metric
    return f"{words[0].upper()}{words[1:]}: median over the blocks with its 95 % interval, and ratio to the native path"


def _verdicts(results: Results) -> Table | None:
    lines, raw = [], []
    for verdict in results.verdicts:
        value, ends = number(verdict.get("value")), interval(verdict.get("ci95"))
        rule, outcome = str(verdict.get("rule", "")), str(verdict.get("outcome", ""))
        shown = digits(value) + (f" [{digits(ends[0])}–{digits(ends[1])}]" if ends else "")
        lines.append([rule, outcome, shown])
        raw.append([verdict.get("claim"), rule, outcome, value, *(ends or (None, None))])
    if not lines:
        return None
    return Table(
        name="verdicts",
        caption="The rules that stood in the study before the run, and what became of them",
        heads=["Rule", "Outcome", "Value [95 % interval]"],
        lines=lines,
        raw_heads=["claim", "rule", "outcome", "value", "ci95_low", "ci95_high"],
        raw_lines=raw,
        text_columns=frozenset({0, 1}),
    )
