# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pictures of all experiments together: a few as curves on one sheet, any number as tiles.

The tiles show the verdict by function, environment and kernel (down), ring size and pinning (across). Each experiment is a
tile with its PDR@0.5% in Mpps: full for GOOD, empty for BAD. A tile with a corner of the other kind is one whose verdict
depends on the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Polygon

from diolkos_lab.analyze import names, results
from diolkos_lab.analyze.names import ONE_CPU, TWO_CPUS, UNPINNED
from diolkos_lab.analyze.results import Analysis, Line
from diolkos_lab.curve.judge import GOOD
from diolkos_lab.report.pictures import Picture, load_loss_sheet
from diolkos_lab.report.pictures.load_loss import GREEN, RED
from diolkos_lab.report.pictures.style import GROUND, RULE, SOFT, Layout
from diolkos_lab.report.systems import INK, LOOKS

TILE = 0.165  # inches, height of a tile with its gap
LEAST = 0.42  # inches, width below which a tile cannot hold its number
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
        f"Each tile is one experiment with its PDR@0.5 % in Mpps; rule {rule}. < or > stands where the PDR is not bracketed by "
        "the measured loads.",
        f"{good} of {len(lines)} experiments are GOOD by the rule {rule}. " + "; ".join(words) + ".",
        lambda layout: draw(lines, rule, layout),
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
        lambda layout: load_loss_sheet.draw(entries, rule, layout),
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


def draw(lines: Sequence[Line], rule: str, layout: Layout) -> Figure:
    grid = arrange(lines)
    left, right = (1.0, 0.08) if layout.wide else (0.62, 0.05)
    width = (layout.width - left - right) / len(grid.columns)
    across = max(1, int((width - 0.06) / LEAST))
    tall = [
        max(-(-len(grid.cells.get((row, col), ())) // across) for col in range(len(grid.columns)))
        for row in range(len(grid.rows))
    ]
    # A group of rows has a heading line of its own.
    headed = [row == 0 or grid.rows[row][0] != grid.rows[row - 1][0] for row in range(len(grid.rows))]
    head, foot = 0.62, 0.5 if layout.wide else 0.62
    body = sum(TILE * n + 0.09 for n in tall) + 0.24 * sum(headed)
    height = head + body + foot
    drawn = Figure(figsize=(layout.width, height))
    FigureCanvasAgg(drawn)
    ax = drawn.add_axes((0, 0, 1, 1))  # in inches, from the upper left corner
    ax.set_xlim(0, layout.width)
    ax.set_ylim(height, 0)
    ax.axis("off")
    _heads(ax, grid, left, width, head, layout)
    y = head
    for row, (what, kernel) in enumerate(grid.rows):
        if headed[row]:
            ax.text(0.06, y + 0.13, what, fontsize=8.5, fontweight="bold", va="center")
            y += 0.24
        ax.text(0.06, y + TILE / 2 + 0.03, f"{'kernel ' if layout.wide else ''}{kernel}", fontsize=8, va="center")
        for col in range(len(grid.columns)):
            tile = min((width - 0.06) / across, 0.6)
            for number, line in enumerate(grid.cells.get((row, col), ())):
                x = left + col * width + (number % across) * tile
                _tile(ax, line, rule, x, y + 0.03 + (number // across) * TILE, tile - 0.05)
        y += TILE * tall[row] + 0.09
        ax.plot((0.06, layout.width - right), (y, y), color=RULE, linewidth=0.5)
    _legend(ax, lines, rule, y + 0.2, layout)
    return drawn


def _heads(ax: Axes, grid: Grid, left: float, width: float, head: float, layout: Layout) -> None:
    """Ring size over the pinning."""
    for col, (buffer, pinning) in enumerate(grid.columns):
        x = left + col * width
        if col == 0 or grid.columns[col - 1][0] != buffer:
            text = (f"ring of {buffer} packets" if layout.wide else f"ring {buffer}") if buffer else f"ring {UNSAID}"
            ax.text(x, 0.2, text, fontsize=8.5, fontweight="bold", va="center")
            alike = sum(other == buffer for other, _ in grid.columns)
            ax.plot((x, x + alike * width - 0.08), (0.32, 0.32), color=SOFT, linewidth=0.6)
        pinned = f"pinned to {pinning}" if layout.wide and pinning in (ONE_CPU, TWO_CPUS) else pinning
        ax.text(x, head - 0.17, pinned or f"pinning {UNSAID}", fontsize=8, va="center", color=INK)


def _tile(ax: Axes, line: Line, rule: str, x: float, y: float, width: float) -> None:
    good = line.verdict[rule] == GOOD
    _box(ax, x, y, width, good, line.depends_on_rule)
    ax.text(
        x + width / 2 - (0.03 if line.depends_on_rule else 0),
        y + (TILE - 0.035) / 2 + 0.005,
        line.pdr_text.replace(" ", ""),
        fontsize=6.6,
        ha="center",
        va="center",
        color=GROUND if good else RED,
    )


def _box(ax: Axes, x: float, y: float, width: float, good: bool, depends: bool) -> None:
    tall, colour = TILE - 0.035, GREEN if good else RED
    inside = colour if good else "none"
    box = FancyBboxPatch((x, y), width, tall, boxstyle="square,pad=0", linewidth=0.8, edgecolor=colour, facecolor=inside)
    ax.add_patch(box)
    if depends:
        corner = [(x + width, y), (x + width, y + tall), (x + width - 0.11, y)]
        ax.add_patch(Polygon(corner, facecolor=GROUND if good else RED, edgecolor=colour, linewidth=0.8))


def _legend(ax: Axes, lines: Sequence[Line], rule: str, y: float, layout: Layout) -> None:
    good = sum(line.verdict[rule] == GOOD for line in lines)
    depends = sum(line.depends_on_rule for line in lines)
    entries = [
        (True, False, f"GOOD: {good}"),
        (False, False, f"BAD: {len(lines) - good}"),
        (False, True, f"depends on the rule: {depends}"),
    ]
    x = 0.06
    for full, corner, text in entries:
        _box(ax, x, y - TILE / 2, 0.3, full, corner)
        ax.text(x + 0.36, y, text, fontsize=7.6, va="center")
        x += 0.5 + 0.062 * len(text)
    note = f"Rule {rule}. In the tiles: PDR@0.5 % in Mpps."
    ax.text(*((x, y) if layout.wide else (0.06, y + 0.2)), note, fontsize=7.6, va="center", color=SOFT)
