# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pictures that stand beside ratios: what each block says of them."""

from __future__ import annotations

from functools import partial

from diolkos_lab.metric import named
from diolkos_lab.report.charts import Picture, blocks
from diolkos_lab.report.read import Results

CAPTION = (
    "Point: the ratio to native within one block. Line: the median of the blocks; band: its 95 % interval. Each cell has a "
    "scale of its own. A cross at the upper edge: the block has no finite ratio, as a failed trial took for ever."
)


def pictures(results: Results, metric: str, bases: tuple[str, ...] = ()) -> list[Picture]:
    """Of the metric's ratios, of the loads `bases` only where some are given; at most three loads in each."""
    known = named(metric)
    found = []
    for number, loads in enumerate(blocks.names(results, metric, bases), start=1):
        stem = "-".join(("blocks", *bases[:1], metric, *([str(number)] if number > 1 else [])))
        title = f"{(known.axis if known else metric) or metric}: the ratio to native, block by block"
        picture = Picture(
            stem,
            title[:1].upper() + title[1:],
            CAPTION,
            blocks.alt_text(results, metric, loads),
            partial(blocks.draw, results, metric, loads),
        )
        found.append(picture)
    return found
