# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What each block says of a ratio: a cell for each system and load, a point for each block, the median and its interval.

A drift of the machine, or a block that differs from the others, is seen here and nowhere else.
"""

from __future__ import annotations

import math

import altair as alt

from diolkos_lab.report.baselines import by_block
from diolkos_lab.report.charts import theme
from diolkos_lab.report.charts.theme import Record, Spec
from diolkos_lab.report.quantities import percent, ratio_of
from diolkos_lab.report.read import Results, Row
from diolkos_lab.report.systems import label, load_label, load_order, order

TALL = 44  # pixels of a cell
MOST_ACROSS = 3  # loads


def measured(results: Results, metric: str, bases: tuple[str, ...] = ()) -> list[tuple[Row, dict[int, tuple[float, float]]]]:
    """Rows with a ratio, each with the ends of what its blocks say; those of one block only are not worth a picture."""
    rows = [r for r in results.rows if r.metric == metric and (r.ratio is not None or r.ratio_bounds is not None)]
    rows = [r for r in rows if not bases or r.load.split(" ", maxsplit=1)[0] in bases]
    found = [(row, by_block(results, row)) for row in rows]
    return [(row, blocks) for row, blocks in found if len(blocks) > 1]


def draw(results: Results, metric: str, loads: list[str]) -> Spec:
    """Of at most MOST_ACROSS loads."""
    found = [(row, blocks) for row, blocks in measured(results, metric) if row.load in loads]
    cells = sorted({row.cell for row, _ in found}, key=order)
    systems = theme.looks(cells)
    extent = max(len(name) for name, _ in systems) * 6 + 8
    across = min(len(loads), MOST_ACROSS)
    width = (theme.WIDTH - extent - 46 * across) / across
    last = max(block for _, blocks in found for block in blocks)
    names = [load_label(load) for load in loads]
    records = [record for row, blocks in found for record in _records(row, blocks, last)]
    share = ratio_of(metric) is percent
    axis = theme.given(title=None, tickCount=3, format=".2~%" if share else ".5~g")
    up = theme.given(zero=False, nice=False, padding=6)
    y = alt.Y("ratio:Q", scale=up, axis=axis)
    x = alt.X(
        "block:Q",
        scale=theme.given(domain=[0.5, last + 0.5], nice=False),
        axis=theme.given(title="block", tickCount=6, format="d"),
    )
    tips = theme.tooltip(path="system", load="load", at="block", text="ratio", all="median, 95 % interval", n="blocks")
    records += theme.blanks(records, {"path": [name for name, _ in systems], "load": names})
    base = alt.Chart()
    first = base.transform_filter("isValid(datum.block) && datum.block == datum.first")
    band = first.transform_filter("isValid(datum.low)").mark_rect(fillOpacity=0.16)
    colour = theme.colour(systems)
    layers = [
        band.encode(y=alt.Y("low:Q", scale=up, axis=axis), y2="high:Q", color=colour),
        first.mark_rule(strokeWidth=1).encode(y=alt.Y("median:Q", scale=up, axis=axis), color=colour),
        base.transform_filter("isValid(datum.ratio) && !datum.beyond")
        .mark_point(filled=True, size=26, opacity=1)
        .encode(x=x, y=y, color=colour, shape=theme.shape(systems), tooltip=tips),
        base.transform_filter("datum.beyond === true")
        .mark_point(shape=theme.CROSS, size=30, strokeWidth=2, opacity=1, color=theme.BAD)
        .encode(x=x, y=theme.down(4), tooltip=tips),
    ]
    header = {"labelAngle": 0, "labelAlign": "left", "labelPadding": 4}
    grid = {
        "data": {"name": theme.data(records).values},
        "transform": [{"filter": theme.SHOWN}],
        "facet": {
            "row": {"field": "path", "type": "nominal", "sort": [name for name, _ in systems], "title": None, "header": header},
            "column": {
                "field": "load", "type": "nominal", "sort": names, "title": None,
                "header": {"labelAnchor": "start", "labelFontWeight": "bold"},
            },
        },
        "spec": theme.layer(*layers, width=width, height=TALL),
        "resolve": theme.independent("y"),
    }  # fmt: skip
    return theme.themed(grid, systems, beside=extent + 46 * across)


def _records(row: Row, blocks: dict[int, tuple[float, float]], last: int) -> list[Record]:
    share = ratio_of(row.metric)
    ends = row.ratio_ci95
    finite = ends if ends and all(map(math.isfinite, ends)) else None
    said = share(row.ratio, ends) if row.ratio is not None else "no number"
    median = row.ratio if row.ratio is not None and math.isfinite(row.ratio) else None
    first = min(blocks)
    return [
        {
            "path": label(row.cell), "load": load_label(row.load), "block": block, "first": first,
            "ratio": low if math.isfinite(low) else None, "beyond": not math.isfinite(high),
            "median": median, "low": finite[0] if finite else None, "high": finite[1] if finite else None,
            "at": f"{block} of {last}", "all": said, "n": len(blocks),
            "text": share(low) if low == high else f"at least {share(low)}" if not math.isfinite(high) else
            f"{share(low)} to {share(high)}",
        }
        for block, (low, high) in sorted(blocks.items())
    ]  # fmt: skip


def names(results: Results, metric: str, bases: tuple[str, ...] = ()) -> list[list[str]]:
    """The loads of each picture."""
    loads = sorted({row.load for row, _ in measured(results, metric, bases)}, key=load_order)
    return [loads[start : start + MOST_ACROSS] for start in range(0, len(loads), MOST_ACROSS)]


def alt_text(results: Results, metric: str, loads: list[str]) -> str:
    share = ratio_of(metric)
    parts = []
    for row, blocks in measured(results, metric):
        if row.load in loads:
            low, high = min(low for low, _ in blocks.values()), max(high for _, high in blocks.values())
            where = f"{label(row.cell)}, {load_label(row.load)}"
            parts.append(f"{where}: {len(blocks)} blocks between {share(low)} and {share(high)}")
    return "Ratio to native of each block. " + "; ".join(parts) + "."
