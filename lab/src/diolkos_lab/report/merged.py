# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapter of a folder that `merge` made: the runs it holds, and what each host says by itself."""

from __future__ import annotations

from typing import Any

from diolkos_lab import merging
from diolkos_lab.experiment.failover import KIND
from diolkos_lab.metric import named
from diolkos_lab.report import facts
from diolkos_lab.report.quantities import NONE, digits
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import load_label, short_label
from diolkos_lab.report.tables import Table
from diolkos_lab.report.values import number

HOW = (
    "A figure of this page is the median over the hosts, each of which has one voice; that of a host is the median over its "
    "runs and their blocks. Ratios are taken within a block, so never across runs."
)


def paragraphs(results: Results) -> list[str]:
    """How the runs are taken together; none for a folder of one run."""
    runs = _runs(results)
    if runs and results.study.get("kind") == KIND:
        return ["Tables show the trials of all runs in one line, and rules are about every trial of theirs."]
    return [HOW, merging.in_words(len({run["host"] for run in runs}), len(runs))] if runs else []


def tables(results: Results) -> list[Table]:
    runs = _runs(results)
    return [_of_runs(results, runs), *([table] if (table := _by_host(results)) else [])] if runs else []


def _runs(results: Results) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = results.host.get("merged") or []
    return found


def _of_runs(results: Results, runs: list[dict[str, Any]]) -> Table:
    blocks: dict[str, set[int]] = {run["run"]: set() for run in runs}
    for trial in results.contents.trials:
        if trial["block"] and trial.get("run") in blocks:
            blocks[trial["run"]].add(trial["block"])
    lines, raw = [], []
    for run in runs:
        what = facts.machine({name: value for name, value in run["facts"].items() if name != "kernel"})
        kernel, started = str(run.get("kernel") or NONE), str(run.get("started") or NONE)
        whole = "yes" if run.get("complete") else "no"
        lines.append([run["run"], what, kernel, started[:10], str(len(blocks[run["run"]])), whole])
        raw.append([run["run"], run["host"], what, kernel, started, len(blocks[run["run"]]), whole])
    heads = ["Run", "Host", "Linux", "Date", "Blocks", "Complete"]
    raw_heads = ["run", "host", "machine", "kernel", "started", "blocks", "complete"]
    return Table("runs", "The runs", heads, lines, raw_heads, raw, frozenset({0, 1, 2, 3, 5}))


def _by_host(results: Results) -> Table | None:
    """Ratios to native, host by host; the last column is that of all."""
    rows = [row for row in results.rows if row.ratio is not None and row.raw.get("hosts")]
    if not rows:
        return None
    hosts = list(dict.fromkeys(str(each["host"]) for row in rows for each in row.raw["hosts"]))
    lines, raw = [], []
    for row in rows:
        mine = {str(each["host"]): number(each.get("ratio")) for each in row.raw["hosts"]}
        values = [mine.get(name) for name in hosts]
        known = named(row.metric)
        first = [short_label(row.cell), load_label(row.load), known.words if known else row.metric]
        ends = f" [{digits(row.ratio_ci95[0])}–{digits(row.ratio_ci95[1])}]" if row.ratio_ci95 else ""
        lines.append([*first, *(NONE if value is None else digits(value) for value in values), f"{digits(row.ratio)}{ends}"])
        raw.append([*first, *values, row.ratio, *(row.ratio_ci95 or (None, None))])
    heads = ["Path", "Load", "Figure", *hosts, "All [95 % interval]"]
    raw_heads = ["path", "load", "metric", *hosts, "ratio", "ci95_low", "ci95_high"]
    return Table("by-host", "Ratio to native, host by host", heads, lines, raw_heads, raw, frozenset({0, 1, 2}))
