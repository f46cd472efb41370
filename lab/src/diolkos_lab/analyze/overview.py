# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A picture of a few experiments together: their curves on one sheet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from diolkos_lab.analyze import names, results
from diolkos_lab.analyze.results import Analysis
from diolkos_lab.report.charts import Picture, load_loss_sheet
from diolkos_lab.report.systems import LOOKS

DISTINCT = [look for look in LOOKS if look.name in {"native6", "diolkos-tc", "tayga", "tundra", "jool", "nat44"}]


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
        partial(load_loss_sheet.draw, entries, rule),
    )
