# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pictures of all experiments together: a few as curves on one sheet, any number as tiles.

The tiles show the verdict by function, environment and kernel (down), ring size and pinning (across). Each experiment is a
tile with its PDR@0.5% in Mpps: full for GOOD, empty for BAD. A tile with a star is one whose verdict depends on the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import altair as alt

from diolkos_lab.analyze import names, results
from diolkos_lab.analyze.names import ONE_CPU, TWO_CPUS, UNPINNED
from diolkos_lab.analyze.results import Analysis, Line
from diolkos_lab.curve.judge import GOOD
from diolkos_lab.report.charts import Picture, load_loss_sheet, theme
from diolkos_lab.report.charts.theme import BAD, GROUND, Record, Spec
from diolkos_lab.report.charts.theme import GOOD as GREEN
from diolkos_lab.report.systems import LOOKS

TILE, TALL = 44, 17  # pixels of a tile that holds its number
LEFT = 190  # pixels, about, of the names of the rows
PINNING = (UNPINNED, ONE_CPU, TWO_CPUS, None)
UNSAID = "not said"
DISTINCT = [look for look in LOOKS if look.name in {"native6", "diolkos-tc", "tayga", "tundra", "jool", "nat44"}]


@dataclass(frozen=True)
class Grid:
    """Experiments by their place."""

    columns: list[tuple[int | None, str | None]]  # ring size in packets, pinning
    rows: list[tuple[str, str]]  # what is measured, kernel
    cells: dict[tuple[int, int], list[Line]]  # by row and column


def picture(lines: Sequence[Line], rule: str) -> Picture:
    good = sum(line.verdict[rule] == GOOD for line in lines)
    words = [f"{line.title}: {line.verdict[rule]}, PDR {line.pdr_text} Mpps" for line in lines]
    return Picture(
        "overview",
        "Verdict by kernel, pinning and ring size",
        f"Each tile is one experiment with its PDR@0.5 % in Mpps; rule {rule}. Full: GOOD. Empty: BAD. A star: the "
        "verdict depends on the rule. < or > stands where the PDR is not bracketed by the measured loads.",
        f"{good} of {len(lines)} experiments are GOOD by the rule {rule}. " + "; ".join(words) + ".",
        partial(draw, lines, rule),
    )


def sheet(analyses: Sequence[Analysis], rule: str) -> Picture:
    """The curves of a few experiments, at most one for each look of DISTINCT."""
    called = names.differences([each.named.factors for each in analyses])
    entries = [
        load_loss_sheet.Entry(name or each.title, each.found, look)
        for name, each, look in zip(called, analyses, DISTINCT, strict=False)
    ]
    pdrs = [
        f"{line.title}: PDR {line.pdr_text} Mpps, {line.verdict[rule]}" for line in (results.line(a, rule) for a in analyses)
    ]
    return Picture(
        "curves",
        "The curves on one sheet",
        "Left what is lost, with its upper confidence band and a stroke at the PDR; right what is delivered, where the dotted "
        "line is a router that loses nothing.",
        "; ".join(pdrs) + ".",
        partial(load_loss_sheet.draw, entries, rule),
    )


def arrange(lines: Sequence[Line]) -> Grid:
    """Only rows and columns that hold an experiment; kernels in order of their numbers."""
    columns = sorted({_column(line) for line in lines}, key=lambda c: (c[0] is None, c[0] or 0, PINNING.index(c[1])))
    rows = sorted({_row(line) for line in lines}, key=lambda row: (row[0], _kernel_order(row[1])))
    cells: dict[tuple[int, int], list[Line]] = {}
    for line in lines:
        cells.setdefault((rows.index(_row(line)), columns.index(_column(line))), []).append(line)
    return Grid(columns, rows, cells)


def _column(line: Line) -> tuple[int | None, str | None]:
    return line.factors["nic_buffer"], line.factors["pinning"]


def _row(line: Line) -> tuple[str, str]:
    what = ", ".join(str(line.factors[key]) for key in ("function", "environment") if line.factors[key])
    return what or UNSAID, line.factors["kernel"] or UNSAID


def _kernel_order(kernel: str) -> tuple[int, ...]:
    return tuple(int(part) for part in kernel.split(".")) if kernel != UNSAID else (10**9,)


def draw(lines: Sequence[Line], rule: str) -> Spec:
    grid = arrange(lines)
    across = max(1, (theme.WIDTH - LEFT) // len(grid.columns) // TILE)
    across = min(across, max(len(each) for each in grid.cells.values()))
    rows, columns = [_row_name(*row) for row in grid.rows], [_column_name(*column) for column in grid.columns]
    records = [
        _record(line, rule, rows[row], columns[column], place, across)
        for (row, column), each in grid.cells.items()
        for place, line in enumerate(each)
    ]
    records += theme.blanks(records, {"row": rows, "column": columns})
    x = alt.X("at:O", axis=None, scale=theme.given(domain=list(range(across)), paddingInner=0.08))
    y = alt.Y("line:O", axis=None, scale=theme.given(paddingInner=0.12))
    tips = theme.tooltip(title="experiment", verdict="verdict", pdr="PDR@0.5 %, Mpps", reason="why")
    colour = alt.ColorValue(BAD, condition={"test": "datum.good", "value": GREEN})
    fill = alt.FillValue(GROUND, condition={"test": "datum.good", "value": GREEN})
    base = alt.Chart().transform_filter("isValid(datum.at)")
    tile = base.mark_rect(strokeWidth=1).encode(x=x, y=y, stroke=colour, fill=fill, tooltip=tips)
    words = base.mark_text(fontSize=9.5).encode(
        x=x, y=y, text="text:N", tooltip=tips, color=alt.ColorValue(BAD, condition={"test": "datum.good", "value": GROUND})
    )
    header = {"labelAngle": 0, "labelAlign": "left", "labelPadding": 4}
    facet = {
        "row": {"field": "row", "type": "nominal", "sort": rows, "title": None, "header": header},
        "column": {"field": "column", "type": "nominal", "sort": columns, "title": None, "header": {"labelAnchor": "start"}},
    }
    chart = {
        "data": {"name": theme.data(records).values},
        "facet": facet,
        "spec": theme.layer(tile, words, width={"step": TILE}, height={"step": TALL}),
        "resolve": theme.independent("y"),
    }
    return theme.themed(chart)


def _record(line: Line, rule: str, row: str, column: str, place: int, across: int) -> Record:
    return {
        "row": row,
        "column": column,
        "at": place % across,
        "line": place // across,
        "good": line.verdict[rule] == GOOD,
        "text": line.pdr_text.replace(" ", "") + "*" * line.depends_on_rule,
        "title": line.title,
        "verdict": line.verdict[rule],
        "pdr": line.pdr_text,
        "reason": line.reason,
    }


def _row_name(what: str, kernel: str) -> str:
    return f"{what}, kernel {kernel}"


def _column_name(buffer: int | None, pinning: str | None) -> str:
    ring = f"ring of {buffer}" if buffer else f"ring {UNSAID}"
    pinned = f"pinned to {pinning}" if pinning in (ONE_CPU, TWO_CPUS) else pinning or f"pinning {UNSAID}"
    return f"{ring}, {pinned}"
