# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What share of each system's trials guards object to: alike for all, or something but the systems was measured."""

from __future__ import annotations

from diolkos_lab.report.quantities import NONE, percent
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import label, order
from diolkos_lab.report.tables import Table

HEADS = ["Path", "Trials", "Guards object to", "Failed", "Slow path carries"]


def table(results: Results) -> Table | None:
    """One line for each path; none where nothing was measured."""
    lines, raw = [], []
    for cell in sorted({trial.cell for trial in results.measured}, key=order):
        mine = [trial for trial in results.measured if trial.cell == cell]
        objected, failed = (
            sum(bool(what) for what in found) for found in zip(*((t.objections, t.error) for t in mine), strict=True)
        )
        slow = [trial.metrics["slow_share"] for trial in mine if "slow_share" in trial.metrics]
        most = max(slow, default=None)
        lines.append(
            [label(cell), str(len(mine)), percent(objected / len(mine)), str(failed), NONE if most is None else _most(most)]
        )
        raw.append([label(cell), len(mine), objected, failed, most])
    if not lines:
        return None
    return Table(
        "trusted",
        "What guards object to, by path. A trial that failed counts as the worst that there is, and one of a fast path that "
        "took the slow one counts as it is",
        HEADS,
        lines,
        ["path", "trials", "distrusted", "failed", "most_slow_share"],
        raw,
    )


def _most(share: float) -> str:
    """Of the trial in which it carried most."""
    return f"{percent(share)} at most" if share >= 0.0005 else "nothing"
