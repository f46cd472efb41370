# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report.html of an analysis: the count, the overview, what depends on the rule, what was wrong, and one line per file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from diolkos_lab.analyze.results import Line, shared_folder
from diolkos_lab.curve.judge import GOOD
from diolkos_lab.curve.saturation import RULES
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.report import publish
from diolkos_lab.report.charts import Picture, RenderedPicture


def write(
    folder: OpenFolder,
    lines: Sequence[Line],
    rule: str,
    together: Sequence[Picture],
    stills: Mapping[str, RenderedPicture],
    seed: int,
) -> Path:
    """Write the page into `folder`, whose folder `pictures` holds the picture of every line."""
    content = {
        "lines": lines,
        "shared": shared_folder([line.file for line in lines]),
        "counts": [(each, sum(line.verdict[each.name] == GOOD for line in lines)) for each in RULES.values()],
        "rule": RULES[rule],
        "together": together,
        "seed": seed,
    }
    return folder.write("report.html", publish.page("diolkos_lab.analyze", "page.html.j2", stills, {}, content))
