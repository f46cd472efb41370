# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The published figures of a study beside this run's, as ratios to the native path of the same environment.

published file, rows of this run ─► points ─► picture
                                └─► lines ─► table
"""

from __future__ import annotations

from functools import partial

from diolkos_lab.metric import METRICS
from diolkos_lab.published import ratios
from diolkos_lab.published.definition import UNITS, Figure, Group, Published, System
from diolkos_lab.report import counterparts, facts, published_limits, published_rates, published_table
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, beside_published, glance
from diolkos_lab.report.charts.beside_published import Point
from diolkos_lab.report.quantities import join_words
from diolkos_lab.report.read import Cell, Results, Row
from diolkos_lab.report.systems import label, look, title

READ = {"table": "a table", "text": "the text", "picture": "its pictures", "data": "its raw data"}
LEGEND = (
    "Hollow: published, without an interval. Filled: this run, median with 95 % interval. Black line: native, or what stands "
    "for it. A published bar spans the values that the figure may have."
)


def chapters(results: Results) -> list[Chapter]:
    """What the published study found, and what it could not see; none for a study that repeats nobody's.

    An emulated processor has no figures to set beside those of a real one.
    """
    data = None if facts.emulated(results.host) else ratios.published_figures(results.name)
    if data is None:
        return []
    beside = published_rates.chapter(results, data) if data.study == "router-accuracy" else chapter(results, data)
    pairs = published_limits.pairs(results, data)
    said = ["Each of its limits, and what this run does about it."]
    limits = Chapter("unseen-there", "What the published study could not see", said if pairs else [], pairs=pairs)
    return [each for each in (beside, limits) if not each.empty]


def with_published(own: list[Chapter], results: Results, *ahead: Chapter) -> list[Chapter]:
    """The study's chapters with those of what it repeats, and others `ahead` of these: before the limits of this run."""
    more = chapters(results)
    place = next((number for number, each in enumerate(own) if each.anchor == "unseen-here"), len(own))
    return [*own[:place], *ahead, *more, *own[place:]]


def chapter(results: Results, data: Published) -> Chapter:
    pictures, tables, sources = [], [], []
    for group in data.group:
        shown = points(results, data, group)
        axis = METRICS[group.metric].axis or METRICS[group.metric].words
        against = f"What stands for native: {group.ceiling.words}." if group.ceiling else f"Native: {group.native}."
        drawn = partial(beside_published.draw, shown, f"{axis}, native = 1 (log scale)")
        name = f"published-{group.name}"
        heading = f"{group.title}, published and measured here"
        pictures.append(Picture(name, heading, f"{against} {LEGEND}", beside_published.alt(shown), drawn))
        tables.append(published_table.table(results, data, group))
        sources.append(f"{group.title}: {group.statistic}; {group.source}, read from {READ[group.read_from]}.")
    paragraphs = [
        f"Source: {data.source.cite}, {data.source.year}. Its machines are not this one, so only ratios to native can be "
        "compared. Absolute figures stand beside them for reading, not for comparing.",
        *data.source.notes,
        _measured_here(results, data),
    ]
    return Chapter("published", "The published figures and ours", paragraphs, sources, pictures, tables)


def points(results: Results, data: Published, group: Group) -> list[Point]:
    """Each published system with ours below it; then what only this run has."""
    found = []
    for system in data.system:
        figures = [figure for figure in group.figures if figure.system == system.name]
        rows = counterparts.counterpart_rows(results, group, system)
        found += [_published(data, group, system, figure) for figure in figures]
        found += [_ours(row, group, system.words) for row in rows]
        if figures and not rows:
            reason = counterparts.absence(results, system, group)
            found.append(Point(system.words, "this run", None, None, None, "not measured", True, reason, trusted=False))
    return found + [_ours(row, group, title(row.cell.system)) for row in counterparts.others(results, data, group)]


def _published(data: Published, group: Group, system: System, figure: Figure) -> Point:
    ends = ratios.ratio(group, figure)
    text = published_table.ratio_text(group, figure)
    if ratios.impossible(data, group, figure, UNITS[group.unit]):
        text += ", above the link"
    middle = None if ends is None else (ends[0] * ends[1]) ** 0.5  # on a log axis the middle of two values
    spread = None if ends is None or ends[0] == ends[1] else ends
    name = published_table.where(data, figure)
    known, spans = ends is not None, spread is not None
    return Point(system.words, name, None, middle, spread, text, False, trusted=known, ranged=spans)


def _ours(row: Row, group: Group, panel: str) -> Point:
    name = ", ".join(part for part in (label(Cell(*_path(row))), counterparts.levels_in_words(row, group), "this run") if part)
    trusted = "ratio" not in row.untrusted
    ends = row.ratio_ci95 if row.ratio_ci95 and trusted else row.ratio_bounds if row.ratio is None else None
    own = look(row.cell)
    return Point(panel, name, own, row.ratio, ends, glance.text(row), True, trusted=trusted, ranged=row.ratio is None)


def _path(row: Row) -> tuple[str, str, str, int]:
    return row.cell.system, row.cell.datapath, row.cell.family, row.cell.hops


def _measured_here(results: Results, data: Published) -> str:
    """Who was how far from the server here, and who is missing with the reason."""
    by_hops: dict[int, list[str]] = {}
    absent = []
    for system in data.system:
        rows = [row for group in data.group for row in counterparts.counterpart_rows(results, group, system)]
        for row in rows:
            by_hops.setdefault(row.cell.hops, []).append(published_table.tool(row.cell))
        if not rows:
            absent.append(f"{system.words} ({counterparts.absence(results, system, *data.group)})")
    for row in (row for group in data.group for row in counterparts.others(results, data, group)):
        by_hops.setdefault(row.cell.hops, []).append(published_table.tool(row.cell))
    ours = [
        f"{join_words(list(dict.fromkeys(names)))} at {'one hop' if hops == 1 else f'{hops} hops'}"
        for hops, names in sorted(by_hops.items())
    ]
    text = f"This run measured {join_words(ours)}." if ours else "This run measured none of these systems."
    return text + (f" It did not measure {join_words(absent)}." if absent else "")
