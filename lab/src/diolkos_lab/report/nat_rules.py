# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pictures of the study `nat-rules`: the box plots of the published study with their keys, and what rules cost by number.

The published study has eleven: ping (3), TCP (4) and UDP (4). Where the run lacks a load or a position, its picture is left
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from diolkos_lab.metric import RowMetric
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, against, box_plots
from diolkos_lab.report.charts.against import Series
from diolkos_lab.report.charts.box_plots import BoxPlot
from diolkos_lab.report.charts.theme import BLUE, ORANGE
from diolkos_lab.report.quantities import scale
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import INK, LOOKS, Look, load_label
from diolkos_lab.report.tables import readings
from diolkos_lab.report.values import natural

SYSTEM, DATAPATH, FAMILY = "natrules", "dnat", "ipv6"
PUBLISHED_RULES = ("10", "100", "1000")
POSITIONS = {"append": "appended to the list", "middle": "in the middle of the list", "top": "at the top of the list"}
COLOURS = {"client": BLUE, "router": ORANGE}
BACKENDS = ("iptables-legacy", "iptables-nft", "nft-list", "nft-map")  # the first is the one that was published
# In every picture a backend has one colour, for each family of its own, and a position one marker.
BACKEND_LOOKS = ("tayga", "tundra", "diolkos-tc", "jool", "diolkos-direct", "nat44", "spare4", "spare2")
MARKERS = {"top": "triangle-up", "middle": "square", "append": "triangle-down"}
READ = (
    "Box: quartiles; line in it: median; whiskers: the furthest values within 1.5 of the box's height; points: values beyond, "
    "where there are few; cross: trials that failed, each the worst value that there is. Values: {values}."
)


@dataclass(frozen=True)
class Shown:
    """A load as the published pictures have it."""

    base: str
    name: str  # of files
    words: str
    metric: RowMetric
    alone: bool  # a fourth picture: no NAT beside a thousand rules of the router, by position


LOADS = (
    Shown("ping", "ping", "Latency of ping", "rtt", alone=False),
    Shown("tcp-upload", "tcp", "TCP throughput", "throughput", alone=True),
    Shown("udp", "udp", "UDP throughput", "throughput", alone=True),
)


def applies_to(results: Results) -> bool:
    return any(cell.system == SYSTEM for cell in results.cells)


def chapters(results: Results) -> list[Chapter]:
    return [_flows(results), _boxes(results)]


def _boxes(results: Results) -> Chapter:
    backend = next((name for name in BACKENDS if _positions(results, name)), None)
    loads = [(shown, load) for shown in LOADS for load in results.loads(shown.base)[:1]]
    pictures = [picture for shown, load in loads for picture in _of(results, shown, load, backend)]
    text = (
        f"The published study has eleven box plots: three of ping, four of TCP, four of UDP. Here are {len(pictures)} of them, "
        f"with the same keys (“nursery” is the router), by {backend}. Levels that this form does not measure have no box."
    )
    return Chapter("boxes", "Box plots as published", [text] if pictures else [], pictures=pictures)


def _of(results: Results, shown: Shown, load: str, backend: str | None) -> Iterator[Picture]:
    native = _native(results)
    for position, words in POSITIONS.items():
        keyed = [("1|no NAT", INK, native)]
        for number, (rules, place) in enumerate(((r, p) for r in PUBLISHED_RULES for p in COLOURS), start=2):
            level = {"backend": backend, "position": position, "place": place, "rules": rules}
            name = f"{number}|{rules} rules|{'nursery' if place == 'router' else place}"
            keyed.append((name, COLOURS[place], _cell(results, level)))
        if any(cell for _, _, cell in keyed[1:]):
            yield from _picture(results, shown, load, f"{shown.name}-{position}", f"{shown.words}, rule {words}", keyed)
    if shown.alone:
        keyed = [("1|no NAT", INK, native)]
        for number, position in enumerate(("top", "middle", "append"), start=2):
            level = {"backend": backend, "position": position, "place": "router", "rules": "1000"}
            keyed.append((f"{number}|1000 rules|nursery|{position}", ORANGE, _cell(results, level)))
        if any(cell for _, _, cell in keyed[1:]):
            title = f"{shown.words}, no NAT beside a thousand rules of the nursery"
            yield from _picture(results, shown, load, f"{shown.name}-positions", title, keyed)


def _picture(
    results: Results, shown: Shown, load: str, name: str, title: str, keyed: Sequence[tuple[str, str, Cell | None]]
) -> Iterator[Picture]:
    found = [
        BoxPlot(key, colour, _values(results, shown, cell, load), results.failed(cell, load))
        for key, colour, cell in keyed
        if cell
    ]
    found = [box for box in found if np.isfinite(box.values).any()]
    if len(found) < 2:
        return
    unit = scale(shown.metric, [float(np.median(box.values[np.isfinite(box.values)])) for box in found])
    axis = "round-trip time" if shown.metric == "rtt" else "throughput"
    values = "single echoes of all trials that count" if shown.metric == "rtt" else "trials that count"
    said = READ.format(values=f"{values}; load: {load_label(load)}")
    yield Picture(f"box-{name}", title, said, box_plots.alt_text(found, axis, unit), partial(box_plots.draw, found, axis, unit))


def _values(results: Results, shown: Shown, cell: Cell, load: str) -> np.ndarray:
    if shown.metric == "rtt":
        return readings(results, cell, load, shown.metric)[0]
    measured = [t.metrics[shown.metric] for t in results.used(cell, load) if shown.metric in t.metrics]
    return np.array(measured + [0.0] * results.failed(cell, load))


# ---- by number


def _flows(results: Results) -> Chapter:
    pictures = []
    asked: tuple[tuple[str, RowMetric, str], ...] = (
        ("new-flows", "rate", "new flows"),
        ("http", "latency", "time of a fetch over a new connection"),
    )
    for base, metric, axis in asked:
        for load in results.loads(base)[:1]:
            if found := _series(results, load, metric):
                unit = scale(metric, [row.median for series in found for _, row in series.points])
                title = f"{axis[:1].upper()}{axis[1:]} against the number of rules"
                said = "Point: median of the trials; bar: 95 % interval. Every packet that begins a flow walks the list."
                alt = against.alt_text(found, "rules", axis, unit)
                pictures.append(Picture(f"{base}-rules", title, said, alt, partial(against.draw, found, "rules", axis, unit)))
    text = (
        "Only the first packet of a flow meets the rules: what it finds, conntrack remembers for all that follow. So "
        "rules cost flows that begin, and the more of them come before the one that counts, the more."
    )
    return Chapter("flows", "What rules cost flows that begin", [text] if pictures else [], pictures=pictures)


def _series(results: Results, load: str, metric: RowMetric) -> list[Series]:
    """Those with at least two numbers of rules; and, as single points, all others."""
    lines: dict[str, list[tuple[float, Cell]]] = {}
    looks: dict[str, Look] = {}
    for cell in sorted(results.cells, key=lambda cell: natural(cell.factors)):
        level = dict(cell.factors)
        if (cell.system, cell.datapath) == (SYSTEM, DATAPATH) and level.get("rules", "0") != "0":
            family = "" if cell.family == FAMILY else ", NAT44"
            where = "" if metric == "rate" else f", at the {level.get('place', 'router')}"
            name = f"{level.get('backend')}, {level.get('position')}{where}{family}"
            lines.setdefault(name, []).append((float(level["rules"]), cell))
            looks[name] = _look(level, bool(family))
    found = []
    for name, cells in sorted(lines.items()):
        points = [(x, row) for x, cell in sorted(cells, key=lambda each: each[0]) if (row := results.row(cell, load, metric))]
        points = [(x, row) for x, row in points if row.median]
        if points:
            found.append(Series(name, looks[name], points))
    return found


def _look(level: dict[str, str], nat44: bool) -> Look:
    backend = level.get("backend", "")
    place = BACKENDS.index(backend) if backend in BACKENDS else 0
    name = BACKEND_LOOKS[place + len(BACKENDS) * nat44]
    return replace(next(each for each in LOOKS if each.name == name), marker=MARKERS.get(level.get("position", ""), "circle"))


def _native(results: Results) -> Cell | None:
    return next((cell for cell in results.cells if cell.native and cell.family == FAMILY), None)


def _cell(results: Results, level: dict[str, str | None]) -> Cell | None:
    mine = [cell for cell in results.cells if (cell.system, cell.datapath, cell.family) == (SYSTEM, DATAPATH, FAMILY)]
    return next((cell for cell in mine if level.items() <= dict(cell.factors).items()), None)


def _positions(results: Results, backend: str) -> set[str]:
    """Positions of the rule that this backend was measured with, where there are several."""
    found = {dict(cell.factors).get("position", "") for cell in results.cells if dict(cell.factors).get("backend") == backend}
    return found if len(found) > 1 else set()
