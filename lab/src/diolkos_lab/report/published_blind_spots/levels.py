# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a run has, as far as answers to blind spots ask for it."""

from __future__ import annotations

from diolkos_lab.report.factors import plain
from diolkos_lab.report.quantities import join_words
from diolkos_lab.report.read import Results
from diolkos_lab.report.values import natural


def factor_levels(results: Results, factor: str) -> list[str]:
    """Levels of a factor among the rows, in their order."""
    found = {plain(value) for row in results.rows if (value := row.raw.get(factor)) is not None}
    found |= {value for cell in results.cells for name, value in cell.factors if name == factor}
    return sorted(found, key=natural)


def loads(results: Results) -> set[str]:
    return {row.load.split(" ", maxsplit=1)[0] for row in results.rows}


def measured_sentence(found: list[str], what: str, otherwise: str) -> str:
    """ "10, 100 and 1000 rules were measured." or another sentence where there is nothing."""
    return f"{join_words(found)} {what}" if found else otherwise
