# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pictures that stand beside ratios: what each block says of them."""

from __future__ import annotations

import math
from functools import partial

from diolkos_lab.metric import named
from diolkos_lab.report.charts import Picture, blocks
from diolkos_lab.report.read import Results

CAPTION = (
    "Point: the ratio to native within one block. Line: the median of the blocks; band: its 95 % interval. Each cell has a "
    "scale of its own."
)
ENDLESS = " Cross at the upper edge: the ratio of the block has no upper end, because a trial failed or a search met its limit."


def pictures(results: Results, metric: str, bases: tuple[str, ...] = ()) -> list[Picture]:
    """Of the metric's ratios, of the loads `bases` only where some are given; at most three loads in each."""
    known = named(metric)
    found = []
    for number, loads in enumerate(blocks.names(results, metric, bases), start=1):
        stem = "-".join(("blocks", *bases[:1], metric, *([str(number)] if number > 1 else [])))
        endless = any(
            math.isinf(high) for row, ends in blocks.measured(results, metric) if row.load in loads for _, high in ends.values()
        )
        title = f"{(known.axis if known else metric) or metric}: the ratio to native, block by block"
        picture = Picture(
            stem,
            title[:1].upper() + title[1:],
            CAPTION + ENDLESS * endless,
            blocks.alt_text(results, metric, loads),
            partial(blocks.draw, results, metric, loads),
        )
        found.append(picture)
    return found
