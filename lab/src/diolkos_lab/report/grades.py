# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How sure a ratio is, in one word."""

from __future__ import annotations

from diolkos_lab.report.read import Row

# Half width of a 95 % interval, relative to its ratio. Wide enough that a quick run can reach "firm", narrow enough
# that "firm" still tells a cost of 5 % from none.
FIRM, FAIR = 0.03, 0.10


def half_width(rows: list[Row | None]) -> float | None:
    """The widest half interval relative to its ratio; None when a ratio has no interval or there is no ratio."""
    ratios = [row for row in rows if row is not None and row.ratio]
    widths = [(row.ratio_ci95[1] - row.ratio_ci95[0]) / 2 / row.ratio for row in ratios if row.ratio_ci95 and row.ratio]
    return max(widths) if ratios and len(widths) == len(ratios) else None


def grade(rows: list[Row | None]) -> str:
    """How narrow the intervals are; the widest of them decides."""
    if all(row is None or row.ratio is None for row in rows):
        return "nothing"
    widest = half_width(rows)
    if widest is None:
        return "no interval"
    return "firm" if widest <= FIRM else "fair" if widest <= FAIR else "coarse"


GRADES = {
    "firm": f"every interval is within ± {100 * FIRM:.0f} % of its ratio",
    "fair": f"every interval is within ± {100 * FAIR:.0f} % of its ratio",
    "coarse": f"at least one interval is wider than ± {100 * FAIR:.0f} %",
    "no interval": "too few trials for an interval",
    "nothing": "no usable trial",
}
