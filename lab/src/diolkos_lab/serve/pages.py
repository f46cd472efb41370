# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pages as text. All that comes from folders is escaped by the templates; only scripts of ours run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from diolkos_lab.failover.comparing import table as table_of_failovers
from diolkos_lab.report import charts, live
from diolkos_lab.report.charts import Picture, RenderedPicture
from diolkos_lab.report.publish import environment, page, style
from diolkos_lab.report.tables import Table
from diolkos_lab.serve.changes import Comparison, ComparisonOfFailovers
from diolkos_lab.serve.changes import picture as picture_of_changes
from diolkos_lab.serve.changes import table as table_of_changes
from diolkos_lab.serve.figures import Kind
from diolkos_lab.serve.index import RunList
from diolkos_lab.serve.replicated import Study as Repeated
from diolkos_lab.serve.run_details import Run
from diolkos_lab.serve.trends import Trend, pictures
from diolkos_lab.serve.trends import table as table_of_trend

PACKAGE = "diolkos_lab.serve"
MOST_VALUES = 200  # of one filter
NOTHING: dict[str, Any] = {}


class Filter(NamedTuple):
    name: str
    title: str
    values: list[tuple[str, int]]


@dataclass(frozen=True)
class Extent:
    """What a site has a page for."""

    pairs: frozenset[str] = frozenset()  # of the names of comparisons
    reports: frozenset[str] = frozenset()  # of the keys of runs
    note: str = ""  # what is said of it, above the list


def listing(title: str, found: RunList, trends: Mapping[str, str], extent: Extent, repeated: Sequence[Repeated] = ()) -> str:
    """All runs. `trends` leads from a study to its page; `repeated` are the studies that were published before."""
    about = {"pairs": sorted(extent.pairs)}
    return _plain(
        "list.html.j2",
        title=title,
        runs=found.runs,
        remarks=found.remarks,
        repeated=repeated,
        filters=filters(found.runs),
        trends=trends,
        reports=extent.reports,
        note=extent.note,
        zip=zip,
        about=Markup(json.dumps(about).translate(live.ESCAPES)),
    )


def filters(runs: Sequence[Run]) -> list[Filter]:
    """What the browser can filter the list by: the values that its runs have, with how many runs have them."""
    found = {
        ("study", "Study"): (run.study for run in runs),
        ("host", "Host"): (run.host for run in runs),
        ("kernel", "Kernel"): (run.kernel for run in runs),
        ("version", "Version of a system"): (version for run in runs for version in run.versions),
    }
    return [Filter(*about, sorted(Counter(values).most_common(MOST_VALUES))) for about, values in found.items()]


def trend(study: str, found: Trend, kinds: Sequence[tuple[Kind, str]], root: str) -> str:
    """One figure over the runs. `kinds` are all figures with the addresses of their pages."""
    shown = pictures(found)
    left_out = f"The newest runs are shown; {found.left_out} older ones are left out." if found.left_out else ""
    return _with_charts(
        "trend.html.j2", shown, [table_of_trend(found)], study=study, kind=found.kind, kinds=kinds, root=root, left_out=left_out
    )


def comparison(found: Comparison | ComparisonOfFailovers, root: str, reported: Collection[str]) -> str:
    shown: list[Picture] = []
    tables: list[Table] = []
    if isinstance(found, ComparisonOfFailovers):
        tables = [table_of_failovers(found.found)]
    elif found.changes:
        shown, tables = [picture_of_changes(found)], [table_of_changes(found)]
    return _with_charts("compare.html.j2", shown, tables, found=found, root=root, reports=reported)


def _with_charts(template: str, shown: Sequence[Picture], tables: Sequence[Table], **content: Any) -> str:
    files = {f"tables/{table.name}.csv": table.csv for table in tables}
    stills = {picture.name: _still(picture) for picture in shown}
    return page(PACKAGE, template, stills, files, {"pictures": shown, "tables": tables, "style": _style(), **content})


def _still(picture: Picture) -> RenderedPicture:
    spec = charts.spec(picture)
    drawn = charts.svg(spec)
    return RenderedPicture(spec, charts.inline(drawn, picture.name), charts.pdf(drawn))


def _plain(template: str, **content: Any) -> str:
    """A page without charts, which need not carry Vega."""
    data = [live.specifications(NOTHING), live.listed(NOTHING)]
    found = environment(PACKAGE).get_template(template)
    parts = {"style": _style(), "script": Markup(_script()), "policy": policy(), "Markup": Markup}
    return found.render(data=Markup("\n").join(data), **parts, **content)


@cache
def policy() -> str:
    """Nothing is loaded from anywhere, and nothing runs but the script of these pages."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _script() -> str:
    return live.script() + _own("site.js")


def _style() -> Markup:
    return Markup(style() + _own("site.css"))


def _own(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
