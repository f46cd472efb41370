# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What each block says of a row's ratio, from the trials."""

from __future__ import annotations

from diolkos_lab.metric import named
from diolkos_lab.report.read import Results, Row
from diolkos_lab.report.values import Ends


def by_block(results: Results, row: Row) -> dict[int, Ends]:
    """Equal ends are a number. Empty for a row without a baseline, and where the trials are not there."""
    raw, metric = row.raw, named(row.metric)
    if metric is None or row.baseline is None:
        return {}
    subject = f"{raw.get('system')}/{raw.get('datapath')}/{raw.get('family')}/{raw.get('hops')}"
    for key in results.samples.cells():
        same = (key.subject, key.load, key.replica) == (subject, raw.get("load"), 1)
        if same and all(raw.get(name) == value for name, value in key.factors):
            found = results.samples.ratio(key, results.samples.counterpart(key, row.baseline), metric.name)
            return {block: (each.low, each.high) for block, each in found.by_block.items()} if found else {}
    return {}
