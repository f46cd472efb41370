# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rows of summary.json: one per cell and metric.

A value is one block's figure. Where the system failed it is the worst that there is; where a search met its limit, a range. So
a median may be no number: then `median` is null, and `median_bounds` has its ends, null for one that is infinite. For times,
mean, sd, min, max, p95 and p99 are those of the single packets, answers or fetches of all trials that count, since a tail is a
matter of these; median, interval and ratio stay those of trials, which are independent.
"""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.experiment.definition import Study
from diolkos_lab.load.registry import LOADS
from diolkos_lab.metric import METRICS, ROW_METRICS, RowMetric
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.stats import bounds, hosts
from diolkos_lab.stats.bounds import ends_as_json
from diolkos_lab.stats.pairing import CellKey, MedianOfBlocks, Samples


def rows(study: Study, samples: Samples) -> list[dict[str, Any]]:
    """Rows in the order of the study's systems, each with the keys of the result format and the cell's factors."""
    order = {subject.key: number for number, subject in enumerate(study.system)}
    factors = {subject.key: subject.factors for subject in study.system}
    cells = sorted((key for key in samples.cells() if key.replica == 1), key=lambda key: order.get(key.subject, len(order)))
    return [
        _row(study.name, samples, key, metric, study.baseline_pair(key.subject, key.load), factors.get(key.subject, {}))
        for key in cells
        for metric in _metrics(samples, key)
    ]


def noise_floor(study: Study, samples: Samples) -> dict[str, Any]:
    """A/A: each subject that is measured twice per block, against itself. `spread95` covers 95 % of |ratio − 1|."""
    found = []
    for key in samples.cells():
        if key.replica == 2:
            for metric in ROW_METRICS:
                if METRICS[metric].floor and (ratio := samples.ratio(key, replace(key, replica=1), metric)):
                    deviations = [max(abs(end - 1) for end in (each.low, each.high)) for each in ratio.by_block.values()]
                    found.append(
                        {
                            "subject": key.subject,
                            "load": key.load,
                            "metric": metric,
                            **dict(key.factors),
                            "blocks": len(ratio.by_block),
                            "ratio": ratio.median.number,
                            "ratio_bounds": ratio.median.as_json,
                            "ratio_ci95": ratio.ci95 and ends_as_json(ratio.ci95),
                            "spread95": _finite(float(np.quantile(deviations, 0.95, method="higher"))),
                        }
                    )
    return {"rows": found}


def _metrics(samples: Samples, key: CellKey) -> list[RowMetric]:
    """Metrics the cell has; a cell in which every trial failed keeps its main one, so that the failure shows."""
    if key.load == "pps":
        return ["rate"]  # PDR@0.5 %: what single trials of a curve show is its business
    seen = {name for record in samples.trials(key) for name in record["metrics"]}
    return [name for name in ROW_METRICS if name in seen] or [LOADS[key.load].main(dict(key.factors))]


def _row(
    study: str,
    samples: Samples,
    key: CellKey,
    metric: RowMetric,
    baselines: tuple[str | None, str | None],
    factors: Collection[str],
) -> dict[str, Any]:
    """`baselines`: the native path of the application's family, and that of the other one."""
    baseline, other = baselines
    levels = {name: level for name, level in key.factors if name in factors}  # those of the system, which are below too
    system, datapath, family, hops = key.subject.split("/")
    middle = samples.median(key, metric)
    ratio = samples.ratio(key, samples.counterpart(key, baseline), metric) if baseline else None
    beside = samples.ratio(key, samples.counterpart(key, other), metric) if other else None
    values = [each.low for each in middle.by_block.values() if each.exact] if middle else []
    trials = samples.trials(key)
    outcomes = Counter(outcome(record) for record in trials)
    return {
        "study": study,
        "system": system,
        "datapath": datapath,
        "family": family,
        "hops": int(hops),
        "load": key.load,
        "metric": metric,
        "unit": METRICS[metric].unit,
        "trials": len(trials),
        "valid_trials": sum(record["valid"] and metric in record["metrics"] for record in trials),
        "failed_trials": outcomes[Outcome.SYSTEM_FAILED],
        "instrument_failed_trials": outcomes[Outcome.INSTRUMENT_FAILED],
        "blocks": len(middle.by_block) if middle else 0,
        **_middle("median", middle, "ci95"),
        **_spread(_single(samples, key, metric) if METRICS[metric].singles else values),
        "baseline": baseline,
        **_middle("ratio", ratio, "ratio_ci95"),
        **({"other_baseline": other, **_middle("other_ratio", beside, "other_ratio_ci95")} if other else {}),
        **({"levels": levels} if levels else {}),
        **(_by_host(samples, middle, ratio) if samples.runs > 1 else {}),
        **dict(key.factors),
    }


def _by_host(samples: Samples, middle: MedianOfBlocks | None, ratio: MedianOfBlocks | None) -> dict[str, Any]:
    """Of merged runs, the medians of each host by itself."""
    found = []
    for host in samples.hosts:
        each = {}
        for name, of in (("median", middle), ("ratio", ratio)):
            mine = samples.by_host(samples.of_host(of.by_block, host)) if of else []
            each[name] = hosts.value(mine[0]).number if mine else None
        found.append({"host": host, **each})
    return {"hosts": found}


def _middle(name: str, found: MedianOfBlocks | None, ends: str) -> dict[str, Any]:
    if found is None:
        return {name: None, f"{name}_bounds": None, ends: None}
    return {
        name: found.median.number,
        f"{name}_bounds": found.median.as_json,
        ends: found.ci95 and ends_as_json(found.ci95),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _single(samples: Samples, key: CellKey, metric: RowMetric) -> list[float]:
    """Readings of all trials that count. A trial that failed has as many as others have, each of them the worst."""
    trials = samples.trials(key)
    found = [
        [value for value in record["series"].get(metric, {}).get("y", []) if value is not None]
        for record in trials
        if record["valid"]
    ]
    usual = round(float(np.median([len(values) for values in found]))) if found else 0
    failed = sum(outcome(record) is Outcome.SYSTEM_FAILED for record in trials)
    better = METRICS[metric].better
    worst = [bounds.failed(better).low] * (usual * failed) if better else []
    return [value for values in found for value in values] + worst


def _spread(values: list[float]) -> dict[str, float | None]:
    """Null for what has no end, because a trial failed."""
    names = ("mean", "sd", "min", "max", "p95", "p99")
    if not values:
        return dict.fromkeys(names)
    data = np.asarray(values)
    ended = bool(np.isfinite(data).all())
    return {
        "mean": float(data.mean()) if ended else None,
        "sd": float(data.std(ddof=1)) if ended and len(data) > 1 else None,
        "min": _finite(float(data.min())),
        "max": _finite(float(data.max())),
        "p95": _percentile(data, 95),
        "p99": _percentile(data, 99),
    }


def _percentile(data: NDArray[np.float64], share: float) -> float | None:
    """Between two readings of which one has no end, the percentile has none."""
    with np.errstate(invalid="ignore"):
        return _finite(float(np.percentile(data, share)))
