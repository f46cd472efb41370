# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All systems at a glance: the ratio to native with its 95 % interval, one panel for each load."""

from __future__ import annotations

from dataclasses import replace

from diolkos_lab.load.registry import LOADS
from diolkos_lab.report.baselines import families
from diolkos_lab.report.charts import rows as lines
from diolkos_lab.report.charts.rows import Mark, Panel
from diolkos_lab.report.charts.theme import Spec
from diolkos_lab.report.quantities import NONE, THIN, count, limits, percent, ratio_of
from diolkos_lab.report.read import Cell, Results, Row
from diolkos_lab.report.systems import baseline_label, label, load_label, look, order
from diolkos_lab.report.values import Interval

# The loads that are shown, each by its main metric: packets, then the rates and capacities that searches and curves find.
SHOWN = (
    "tcp-upload",
    "tcp-download",
    "udp",
    "udp-gso",
    "ping",
    "ping-under-load",
    "latency",
    "pps",
    "forwarding-rate",
    "mlrsearch",
    "rfc8219",
    "new-flows",
    "connections",
    "capacity",
)
HEADLINE = tuple((load, LOADS[load].main({})) for load in SHOWN)  # type: ignore[index]


def panels(results: Results) -> list[tuple[str, str]]:
    """(load, metric) of every panel that has a ratio to show."""
    every = [(load, metric) for base, metric in HEADLINE for load in results.loads(base)]
    return [p for p in every if any(compares(r) for r in rows(results, *p))]


def rows(results: Results, load: str, metric: str) -> list[Row]:
    """The rows of a panel; what they lack is taken from untrusted trials."""
    cells = [r.cell for r in results.rows if (r.load, r.metric) == (load, metric)]
    return [row for cell in cells if (row := results.shown(cell, load, metric))]


def compares(row: Row) -> bool:
    return row.ratio is not None or row.ratio_bounds is not None


def compared(results: Results) -> list[Cell]:
    """Cells that have a ratio somewhere, and translated ones that should have had one."""
    with_ratio = {r.cell for panel in panels(results) for r in rows(results, *panel) if compares(r)}
    bases = {load.split(" ", maxsplit=1)[0] for load, _ in panels(results)}
    tried = {t.cell for t in results.trials if t.load.split(" ", maxsplit=1)[0] in bases} | {
        r.cell for r in results.rows if r.load.split(" ", maxsplit=1)[0] in bases
    }
    return sorted((c for c in tried if c in with_ratio or not c.native), key=order)


def draw(results: Results) -> Spec:
    cells = compared(results)
    return lines.draw([_panel(results, cells, *panel) for panel in panels(results)])


def _panel(results: Results, cells: list[Cell], load: str, metric: str) -> Panel:
    found = {r.cell: r for r in rows(results, load, metric)}
    asked = [cell for cell in cells if cell in found or is_asked(results, cell, load)]
    more = ratio_of(metric) is percent
    noise = max((f.deviation for f in results.noise_floor if (f.load, f.metric) == (load, metric)), default=0)
    said = load_label(load)
    return Panel(
        said[:1].upper() + said[1:],
        "share of native, more is better" if more else "times native, less is better",
        [each for cell in asked for each in marks(results, cell, found.get(cell))],
        percent=more,
        reference=1,
        band=(1 - noise, 1 + noise) if noise else None,
        worst_is_high=not more,
    )


def is_asked(results: Results, cell: Cell, load: str) -> bool:
    """Should it have had that load? So say all that do not list their loads."""
    base = load.split(" ", maxsplit=1)[0]
    name = (cell.system, cell.datapath, cell.family, cell.hops)
    subjects = [s for s in results.study.get("system") or () if isinstance(s, dict)]
    of_cell = [s for s in subjects if (s.get("system"), s.get("datapath"), s.get("family"), s.get("hops", 1)) == name]
    return not of_cell or any(base in (s.get("loads") or (base,)) for s in of_cell)


def marks(results: Results, cell: Cell, row: Row | None) -> list[Mark]:
    """Against the native family that asks more, and, as a hollow point, against the other one."""
    own = mark(cell, row)
    every = families(results, row) if row else []
    if row is None or len(every) < 2:
        return [own]
    share, failed = ratio_of(row.metric), f", {failures(row)} of {row.trials} failed" * bool(failures(row))
    tips = [
        own.tips
        | {"ratio": share(each.ratio), "95 % interval": _ends(each.ci, row.metric), "against": baseline_label(each.baseline)}
        for each in every
    ]
    strict = replace(
        own, value=every[0].ratio, ends=every[0].ci, text=share(every[0].ratio, every[0].ci) + failed, tips=tips[0]
    )
    return [
        strict,
        *(replace(own, value=each.ratio, ends=None, text="", tips=tip) for each, tip in zip(every[1:], tips[1:], strict=True)),
    ]


def _ends(ci: Interval | None, metric: str) -> str:
    share = ratio_of(metric)
    return f"{share(ci[0]).removesuffix(f'{THIN}%')} to {share(ci[1])}" if ci else "too few blocks for one"


def mark(cell: Cell, row: Row | None) -> Mark:
    """A ratio as its line of the picture."""
    if row is None or not compares(row):
        return Mark(label(cell), look(cell), None, None, "no usable figure" if row else "not measured", trusted=False)
    trusted = "ratio" not in row.untrusted
    failed = failures(row)
    said = text(row) + (f", {failed} of {row.trials} failed" if failed else "")
    if failed == row.trials:
        said = f"all {count(failed, 'trial')} failed"
    return Mark(
        label(cell),
        look(cell),
        row.ratio,
        row.ratio_ci95 if row.ratio_ci95 and trusted else row.ratio_bounds if row.ratio is None else None,
        said,
        tips(row),
        trusted,
        bool(failed),
        ranged=row.ratio is None,
    )


def tips(row: Row) -> dict[str, str]:
    """What a pointer shows of a ratio."""
    return {
        "ratio": text(row).partition(" [")[0],
        "95 % interval": _ends(row.ratio_ci95, row.metric),
        "against": baseline_label(row.baseline),
        "trials": f"{row.valid_trials} of {row.trials} count" + (f", {failures(row)} failed" if failures(row) else ""),
    }


def failures(row: Row) -> int:
    return int(row.raw.get("failed_trials") or 0)


def text(row: Row) -> str:
    """The ratio as its axis counts: per cent of a throughput, times of a time; in brackets when it is not trusted."""
    share = ratio_of(row.metric)
    if row.ratio is None:
        return NONE if row.ratio_bounds is None else limits(row.ratio_bounds, share)
    said = share(row.ratio, row.ratio_ci95)
    return f"({said})" if "ratio" in row.untrusted else said


def alt(results: Results) -> str:
    parts = []
    for load, metric in panels(results):
        shown = [(r, marks(results, r.cell, r)[0].text) for r in rows(results, load, metric) if compares(r)]
        read_out = "; ".join(f"{label(r.cell)} {said}" for r, said in shown)
        parts.append(f"{load_label(load)}, ratio to native: {read_out}.")
    return " ".join(parts)
