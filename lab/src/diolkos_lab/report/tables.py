# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tables: what is printed in the page, and the same with raw values as CSV.

A CSV holds the units of the result files (bit/s, s, s/GB, ratios), named in its column heads. The page holds scaled
units and intervals.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from diolkos_lab.experiment.failover import Kind as Gateways
from diolkos_lab.metric import named
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.report.facts import environment
from diolkos_lab.report.quantities import NONE, Scale, limits, percent, ratio_of, scale, with_interval
from diolkos_lab.report.read import Cell, Results, Row
from diolkos_lab.report.systems import CHAIN, INBOUND, baseline_label, label, load_label, load_order, order

MOST_PRINTED = 40  # doubtful trials on the page; the CSV has all


@dataclass(frozen=True)
class Table:
    name: str  # of the CSV file, without suffix
    caption: str
    heads: list[str]
    lines: list[list[str]]  # as printed; the first column names the line
    raw_heads: list[str]
    raw_lines: list[list[Any]]
    text_columns: frozenset[int] = frozenset({0})  # set left; all others are numbers, set right
    strong: frozenset[int] = frozenset()  # lines that stand out

    @property
    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.raw_heads)
        writer.writerows(["" if v is None else v for v in line] for line in self.raw_lines)
        return text.getvalue()

    def write(self, folder: OpenFolder) -> Path:
        return folder.write(f"{self.name}.csv", self.csv)


# ---- what summary.json says, one line for each cell and load


def ratios(results: Results, metric: str, caption: str, bases: Collection[str] = (), name: str = "") -> Table | None:
    """Median, interval and ratio to native of one metric; of the loads `bases` only, or of variants, where some are given."""
    mine = [r for r in results.rows if r.metric == metric and (not bases or {r.load, r.load.split(" ")[0]} & set(bases))]
    shown = (results.shown(r.cell, r.load, r.metric) for r in mine)
    rows = [r for r in shown if r is not None and (r.median is not None or r.median_bounds is not None)]
    if not rows:
        return None
    rows.sort(key=lambda r: (load_order(r.load), order(r.cell)))
    unit = scale(metric, [r.median for r in rows], rows[0].unit)
    known = named(metric)
    share = ratio_of(metric)
    lines = [
        [
            label(r.cell),
            load_label(r.load),
            _marked(r, "median", _median(r, unit)),
            _marked(r, "ratio", _ratio(r, share)),
            NONE if _ratio(r, share) == NONE else baseline_label(r.baseline).removeprefix("native "),
            f"{r.valid_trials} of {r.trials}",
        ]
        for r in rows
    ]
    raw = [[*_cell_values(r.cell), r.load, r.trials, r.valid_trials, *_measured(r)] for r in rows]
    si = known.unit if known else rows[0].unit
    return Table(
        name=name or metric,
        caption=caption + ("; in brackets: not trusted" if any(r.untrusted for r in rows) else ""),
        heads=[
            "System",
            "Load",
            f"Median [95 % interval], {unit.unit}",
            "Of native" if share is percent else "Times native",
            "Native",
            "Trials",
        ],
        lines=lines,
        raw_heads=_CELL_HEADS + _ROW_HEADS[:3] + [f"{head} ({si})" for head in _ROW_HEADS[3:6]] + _ROW_HEADS[6:],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 4}),
    )


def _median(row: Row, unit: Scale) -> str:
    if row.median is None and row.median_bounds is not None:
        return limits(row.median_bounds, unit.text)
    return with_interval(row.median, row.ci95, unit)


def _ratio(row: Row, text: Callable[..., str]) -> str:
    if row.ratio is not None:
        return text(row.ratio, row.ratio_ci95)
    return NONE if row.ratio_bounds is None else limits(row.ratio_bounds, text)


# ---- the distribution of single readings, as table 5.1 of the thesis


def readings(results: Results, cell: Cell, load: str, quantity: str) -> tuple[np.ndarray, int]:
    """All single readings (echoes, iperf3 intervals) of the trials that count, and the number of those trials.

    Readings of the start, which the statistics leave out, are left out here too. A trial without a series gives its one
    metric. A trial that failed gives the worst that there is, as often as others give a reading.
    """
    parts, trials = [], 0
    for trial in results.used(cell, load):
        if quantity in trial.series:
            parts.append(_after(results.start(load), *trial.series[quantity]))
        elif quantity in trial.metrics:
            parts.append(np.array([trial.metrics[quantity]]))
        else:
            continue
        trials += 1
    known, failed = named(quantity), results.failed(cell, load)
    if failed and known and known.better:
        each = int(np.median([len(part) for part in parts])) if parts else 1
        parts.append(np.full(failed * max(each, 1), 0.0 if known.better == "higher" else np.inf))
    return (np.concatenate(parts) if parts else np.array([])), trials + failed


def _after(start: float, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Readings whose interval begins after the start that does not count; `t` holds the ends of the intervals."""
    if not start or len(t) < 2:
        return y
    return y[t > start + float(np.median(np.diff(t))) / 2]


def distribution(results: Results, load: str, quantity: str, caption: str, name: str) -> Table | None:
    """Environment, IP, tool, type, min, avg, max, standard deviation (n - 1), P95, n."""
    found = []
    for cell in sorted(results.cells, key=order):
        values, trials = readings(results, cell, load, quantity)
        if len(values):
            found.append((cell, values, trials))
    if not found:
        return None
    where = environment(results.host)
    unit = _table_scale(quantity, [float(np.mean(finite)) for _, v, _ in found if len(finite := v[np.isfinite(v)])] or [0.0])
    heads = ["Tool", "Env.", "IP", "Type", "Min", "Avg", "Max", "Std dev", "P95", "n", "Trials"]
    lines, raw = [], []
    for cell, values, trials in found:
        stats = moments(values)
        who = [label(cell), where, _ip(cell), kind(cell)]
        failed = results.failed(cell, load)
        told = f"{trials}, {failed} failed" if failed else str(trials)
        lines.append([*who, *[unit.text(s) for s in stats], str(len(values)), told])
        raw.append([where, *_cell_values(cell), kind(cell), load, *(_finite(s) for s in stats), len(values), trials, failed])
    known = named(quantity)
    si = known.unit if known else ""
    return Table(
        name=name,
        caption=f"{caption}, {unit.unit}",
        heads=heads,
        lines=lines,
        raw_heads=["environment", *_CELL_HEADS, "type", "load"]
        + [f"{h} ({si})" for h in ("min", "avg", "max", "sd", "p95")]
        + ["n", "trials", "failed_trials"],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 2, 3}),
    )


def _finite(value: float | None) -> float | str | None:
    return "inf" if value is not None and np.isinf(value) else value


def percentiles(values: np.ndarray, shares: Sequence[float]) -> list[float]:
    """Interpolated, but not towards a reading that has no end."""
    return [float(each) for each in np.percentile(values, shares, method="linear" if np.isfinite(values).all() else "higher")]


def moments(values: np.ndarray) -> list[float | None]:
    """min, mean, max, sample standard deviation (None for one value), 95th percentile (linear interpolation)."""
    endless = bool(np.isinf(values).any())  # trials failed
    spread = float(np.std(values, ddof=1)) if len(values) > 1 and not endless else None
    return [float(np.min(values)), float(np.mean(values)), float(np.max(values)), spread, *percentiles(values, [95])]


def kind(cell: Cell) -> str:
    """What the path is; "Baseline" and "CLAT" are the thesis' words."""
    named = {
        "nat64": "NAT64",
        "masquerade": "NAT64",
        "siit": "SIIT",
        "dns64": "DNS64",
        **dict(zip(get_args(Gateways), get_args(Gateways), strict=True)),
        INBOUND: "NAT64 from IPv4",
        CHAIN: "464XLAT",
    }
    mode = cell.datapath.split("-", maxsplit=1)[0]
    return "Baseline" if cell.native else "NAT44" if cell.system == "nat44" else named.get(mode, "CLAT")


# ---- what went wrong


def doubtful(results: Results) -> Table | None:
    """Every trial that failed or that a guard rejected, with the reason; the page has the first of them."""
    lines, raw = [], []
    for t in sorted(results.trials, key=lambda t: (t.block, t.order)):
        if not t.objections and t.error is None:
            continue
        reasons = [f"{guard}: {detail}" if detail else guard for guard, detail in t.objections]
        reasons = ([f"failed: {t.error}"] if t.error else []) + reasons
        use = "warm-up" if t.warm_up else "used" if t.counts else "not used"
        lines.append([label(t.cell), load_label(t.load), str(t.block), use, "; ".join(reasons)])
        raw.append([*_cell_values(t.cell), t.load, t.block, t.order, t.started, use, "; ".join(reasons)])
    if not lines:
        return None
    more = f": the first {MOST_PRINTED} of {len(lines)}, the rest in tables/doubtful-trials.csv" * (len(lines) > MOST_PRINTED)
    return Table(
        name="doubtful-trials",
        caption="Trials that failed or that a guard rejected" + more,
        heads=["System", "Load", "Block", "In the statistics", "Reason"],
        lines=lines[:MOST_PRINTED],
        raw_heads=[*_CELL_HEADS, "load", "block", "order", "started", "use", "reasons"],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 3, 4}),
    )


# ---- parts

_CELL_HEADS = ["system", "datapath", "family", "hops", "factors"]
_ROW_HEADS = ["load", "trials", "valid_trials", "median", "ci95_low", "ci95_high"]
_ROW_HEADS += ["baseline", "ratio", "ratio_ci95_low", "ratio_ci95_high", "not_trusted"]


def _cell_values(cell: Cell) -> list[Any]:
    factors = " ".join(f"{k}={v}" for k, v in cell.factors)
    return [cell.system, cell.datapath, cell.family, cell.hops, factors]


def _measured(row: Row) -> list[Any]:
    return [row.median, *_ends(row.ci95), row.baseline, row.ratio, *_ends(row.ratio_ci95), " ".join(sorted(row.untrusted))]


def _marked(row: Row, name: str, text: str) -> str:
    return f"({text})" if name in row.untrusted else text


def _ends(ci: tuple[float, float] | None) -> Iterable[float | None]:
    return ci if ci is not None else (None, None)


def _ip(cell: Cell) -> str:
    return {"ipv4": "v4", "ipv6": "v6"}.get(cell.family, cell.family)


def _table_scale(quantity: str, means: list[float]) -> Scale:
    return scale(quantity, [max(means)])
