# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What untrusted trials show, for the cells that have no trusted figure.

A host that is busy with other things leaves no trial to trust, and yet every path was measured. The medians of those trials
tell that a path works and roughly how it compares. They have no interval, since one would promise what they cannot keep, and
neither a verdict nor a row of the statistics is made from them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from diolkos_lab.experiment.definition import Study
from diolkos_lab.metric import METRICS, ROW_METRICS, RowMetric
from diolkos_lab.stats.pairing import CellKey, Samples

VALUES = frozenset({"trials", "median", "ratio"})  # of an entry; its other keys name the row it stands beside


def entries(study: Study, samples: Samples) -> list[dict[str, Any]]:
    """One entry for each cell and metric that lacks its median or its ratio to native although it was measured.

    `median` and `ratio` (within blocks) are over all measured trials, trusted or not; `trials` is their number.
    """
    return [
        entry
        for key in samples.cells()
        if key.replica == 1
        for metric in ROW_METRICS
        if not METRICS[metric].is_share
        and (entry := _entry(samples, key, metric, study.baseline_pair(key.subject, key.load)[0]))
    ]


def beside(found: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The entry that stands beside a row of the statistics."""
    return next((e for e in found if all(row.get(name) == value for name, value in e.items() if name not in VALUES)), None)


def _entry(samples: Samples, key: CellKey, metric: RowMetric, baseline: str | None) -> dict[str, Any] | None:
    against = samples.counterpart(key, baseline) if baseline else None
    if against and not samples.figures(against, metric, include_untrusted=True):
        against = None  # there never was anything to compare with: what has no state ends no sessions
    complete = samples.figures(key, metric) and (against is None or samples.ratio(key, against, metric))
    measured = samples.median(key, metric, include_untrusted=True)
    if complete or not measured or not any(metric in record["metrics"] for record in samples.trials(key)):
        return None
    ratio = samples.ratio(key, against, metric, include_untrusted=True) if against else None
    system, datapath, family, hops = key.subject.split("/")
    return {
        "system": system,
        "datapath": datapath,
        "family": family,
        "hops": int(hops),
        "load": key.load,
        "metric": metric,
        "unit": METRICS[metric].unit,
        "trials": len(measured.by_block),
        "median": measured.median.number,
        "baseline": baseline,
        "ratio": ratio.median.number if ratio else None,
        **dict(key.factors),
    }
