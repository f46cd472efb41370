# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How every chart looks: colours by day and by night, type, axes, and what the page's buttons act upon.

Colours stand in the specifications as they are by day. The page replaces each by its second value in the dark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import altair as alt

from diolkos_lab.report.read import Cell
from diolkos_lab.report.systems import INK, LOOKS, Look, label, look

Spec: TypeAlias = dict[str, Any]  # of Vega-Lite
Record: TypeAlias = dict[str, Any]
Align: TypeAlias = Literal["left", "right"]

SOFT = "#62625e"  # second-rank text
RULE = "#d4d4cf"  # grid
SHADE = "#ebebe6"  # noise floor
GROUND = "#ffffff"
GOOD, BAD, BLUE, ORANGE = "#008a63", "#b3001b", "#0067a5", "#b97e00"
# Name of the CSS variable, by day, by night: every colour that a chart may use.
COLOURS = [
    *((each.name, each.light, each.dark) for each in LOOKS if each.light != INK),
    ("ink", INK, "#f2f2ee"),
    ("soft", SOFT, "#a9a9a4"),
    ("rule", RULE, "#3c3c39"),
    ("shade", SHADE, "#2c2c2a"),
    ("ground", GROUND, "#171716"),
    ("failed", BAD, "#ff7a85"),
]
FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
WIDTH = 700  # pixels of a whole chart, about
ROW = 19  # pixels of a line that is one system
DASHED = [6, 3]
CROSS = "M-1,-1L1,1M1,-1L-1,1"  # trials failed
PATH = "path"  # the field that names a system, which the page's buttons hide
HIDDEN = "hidden"  # the parameter that holds the hidden ones
ZOOM = "zoom"

CONFIG: dict[str, Any] = {
    "aria": False,  # the page gives each picture a text of its own
    "background": GROUND,
    # A picture is measured with one font, and may be shown with a wider one.
    "padding": {"left": 4, "top": 4, "bottom": 4, "right": 20},
    "font": FONT,
    "view": {"stroke": None},
    "concat": {"spacing": 26},
    "facet": {"spacing": 12},
    "title": {"anchor": "start", "fontSize": 12.5, "fontWeight": "bold", "color": INK, "offset": 6, "frame": "group"},
    "axis": {
        "labelColor": INK,
        "labelFontSize": 11,
        "labelLimit": 230,
        "titleColor": INK,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "domainColor": SOFT,
        "tickColor": SOFT,
        "gridColor": RULE,
        "gridWidth": 0.6,
        "tickSize": 4,
    },
    "axisX": {"grid": False, "titleAnchor": "start"},
    "axisBand": {"grid": True, "domain": False, "ticks": False, "gridColor": SHADE, "labelPadding": 6},
    "legend": {
        "labelColor": INK,
        "labelFontSize": 11,
        "labelLimit": 230,
        "symbolSize": 60,
        "symbolOpacity": 1,
        "symbolStrokeWidth": 1.8,
        "title": None,
        "orient": "bottom",
        "columns": 4,
        "offset": 12,
    },
    "header": {"labelColor": INK, "labelFontSize": 11, "titleColor": INK, "labelLimit": 230},
    "text": {"color": INK, "fontSize": 11},
    "line": {"strokeWidth": 1.8},
    "mark": {"color": INK},
}


def themed(chart: Spec, systems: Sequence[tuple[str, Look]] = (), zoom: bool = False, beside: float = 120) -> Spec:
    """A whole specification: the chart with the look of all, and with what the page needs to know of it.

    That is: its systems, whether it zooms, its width, and how much of the width is `beside` the panels and does not shrink.
    """
    named = [{"name": name, "colour": each.light} for name, each in systems]
    datasets: dict[int, tuple[str, Rows]] = {}
    return {
        "config": CONFIG,
        "usermeta": {"systems": named, "zoom": zoom, "width": WIDTH, "beside": round(beside)},
        **_gathered(chart, datasets),
        "params": [{"name": HIDDEN, "value": []}],
        "datasets": {name: list(rows) for name, rows in datasets.values()},
    }


def _gathered(part: Any, datasets: dict[int, tuple[str, Rows]]) -> Any:
    """The same with records in one place, so that parts share them."""
    if isinstance(part, Rows):
        return datasets.setdefault(id(part), (f"data-{len(datasets)}", part))[0]
    if isinstance(part, dict):
        return {key: _gathered(value, datasets) for key, value in part.items()}
    return [_gathered(each, datasets) for each in part] if isinstance(part, list) else part


# ---- charts made of others. Altair's own ways copy all of a chart with every step, which takes seconds


def layer(*units: alt.Chart | Spec, **keys: Any) -> Spec:
    return {"layer": [_part(unit) for unit in units], **keys}


def grid(*units: alt.Chart | Spec, columns: int = 1, **keys: Any) -> Spec:
    return {"concat": [_part(unit) for unit in units], "columns": columns, **keys}


def beside(*units: alt.Chart | Spec, **keys: Any) -> Spec:
    return {"hconcat": [_part(unit) for unit in units], **keys}


def stacked(*units: alt.Chart | Spec, **keys: Any) -> Spec:
    return {"vconcat": [_part(unit) for unit in units], **keys}


def independent(*channels: str) -> Spec:
    """Scales that the parts do not share."""
    return {"scale": dict.fromkeys(channels, "independent")}


def _part(unit: alt.Chart | Spec) -> Spec:
    if isinstance(unit, dict):
        return unit
    rows = unit.data.values if isinstance(unit.data, alt.Data) else None
    unit.data = alt.Undefined
    found: Spec = unit.to_dict(validate=False, context={"top_level": False, "datasets": {}})
    found.pop("data", None)
    found.pop("name", None)
    for param in found.get("params", []):
        param.pop("views", None)
    return found if rows is None else {"data": {"name": rows}, **found}


class Rows(tuple[Record, ...]):
    """Records of one or more parts of a chart."""


def data(records: Iterable[Record]) -> alt.Data:
    """Records as JSON can hold them: numbers that are none become null."""
    rows = Rows({key: _plain(value) for key, value in record.items()} for record in records)
    return alt.Data(values=rows)  # type: ignore[no-untyped-call]  # Altair has no types for it


def blanks(records: Sequence[Record], fields: Mapping[str, Sequence[str]]) -> list[Record]:
    """A record without figures for each combination of the fields that has none.

    In a grid of facets, a cell without records lets the cells behind it move into its place.
    """
    seen = {tuple(record[field] for field in fields) for record in records}
    every = itertools.product(*fields.values())
    return [dict(zip(fields, each, strict=True)) for each in every if each not in seen]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, list)):
        return value
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None


def given(**keys: Any) -> dict[str, Any]:
    """Keys of an axis or a scale. Altair's own classes for them have some eighty, and are copied again and again."""
    return keys


SHOWN = f"indexof({HIDDEN}, datum.{PATH}) < 0"  # a filter


def zooming(name: str = ZOOM, encodings: Sequence[str] = ("x", "y")) -> Any:
    """Pan by dragging, zoom by Ctrl and the wheel, which alone scrolls the page; a double click puts all back."""
    return alt.selection_interval(name=name, bind="scales", encodings=list(encodings), zoom="wheel![event.ctrlKey]")  # type: ignore[arg-type]


def looks(cells: Iterable[Cell]) -> list[tuple[str, Look]]:
    """Each cell's name with its look, once."""
    return list({label(cell): look(cell) for cell in cells}.items())


def across(place: float | str) -> alt.XValue:
    """A place in pixels from the left of a panel; "width" is its right edge."""
    return alt.XValue(place)  # type: ignore[no-untyped-call]


def down(place: float) -> alt.YValue:
    """The same from its top."""
    return alt.YValue(place)  # type: ignore[no-untyped-call]


def palette(systems: Sequence[tuple[str, Look]]) -> dict[str, Any]:
    return given(domain=[name for name, _ in systems], range=[each.light for _, each in systems])


def colour(systems: Sequence[tuple[str, Look]], legend: bool = False, unless: tuple[str, str] | None = None) -> alt.Color:
    """A system's colour; `unless` is a test with the colour that counts where it holds."""
    more: dict[str, Any] = {} if legend else {"legend": None}
    if unless:
        more["condition"] = {"test": unless[0], "value": unless[1]}
    return alt.Color(f"{PATH}:N", scale=palette(systems), title=None, **more)


def shape(systems: Sequence[tuple[str, Look]], legend: bool = False) -> alt.Shape:
    scale = given(domain=[name for name, _ in systems], range=[each.marker for _, each in systems])
    return alt.Shape(f"{PATH}:N", scale=scale, title=None) if legend else alt.Shape(f"{PATH}:N", scale=scale, legend=None)


def dash(systems: Sequence[tuple[str, Look]], dashed: Iterable[str]) -> alt.StrokeDash:
    marked = set(dashed)
    scale = given(domain=[name for name, _ in systems], range=[DASHED if name in marked else [1, 0] for name, _ in systems])
    return alt.StrokeDash(f"{PATH}:N", scale=scale, title=None)


def dashed(cells: Iterable[Cell]) -> list[str]:
    """The names of those that are set dashed: two hops, where not all paths have them."""
    return [label(cell) for cell in cells if not (cell.hops == 1 or cell.alike)]


def tooltip(**fields: str) -> list[alt.Tooltip]:
    """Fields of the records with what they are called."""
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in fields.items()]
