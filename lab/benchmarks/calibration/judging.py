# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One run of a path with a known answer: which answers are there, and is the truth inside the interval of each?

Each judge takes the form that was measured and the records of all trials, and makes a `Check` of every answer. Intervals are
the lab's own: 95 % over the blocks of the run, or, of a search, what it ends between. A run that brings no interval misses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import beta

from calibration import truths
from calibration.truths import Truth
from diolkos_lab import curves, procedures
from diolkos_lab.curve import known_curves
from diolkos_lab.curve.judge import DEFAULT_RULE
from diolkos_lab.experiment.definition import Form
from diolkos_lab.experiment.loads import AnyLoad, NewFlowsLoad, TcpLoad
from diolkos_lab.load.registry import LOADS
from diolkos_lab.metric import RowMetric
from diolkos_lab.outcome import outcome
from diolkos_lab.stats import median
from diolkos_lab.stats.median import CONFIDENCE, Interval
from diolkos_lab.stats.pairing import WARM_UP, CellKey, Record, Samples

Trials = Sequence[Record]


@dataclass(frozen=True)
class Check:
    """One answer. `criterion` names what is counted; several answers of one run may share one."""

    criterion: str
    inside: bool
    words: str


Judge = Callable[[Form, Trials, float], list[Check]]


def judge_curve(form: Form, trials: Trials, factor: float) -> list[Check]:
    """Saturation, PDR and verdict. A wrong truth has another verdict too; of a path without a PDR none is right."""
    measured = _curve(trials)
    if measured is None:
        return [Check(f"curve, {name}", False, "no curve") for name in ("saturation", "PDR", "verdict")]
    answer, found = known_curves.ANSWERS[measured.setting.datapath], measured.found
    is_right = found.verdict[DEFAULT_RULE] == answer.verdict and factor == 1 and found.pdr.rate is not None
    return [
        _check("curve, saturation", truths.exactly(answer.saturated).times(factor), found.saturated_ci95),
        _check("curve, PDR", truths.exactly(answer.pdr).times(factor), found.pdr_ci95),
        Check("curve, verdict", is_right, found.verdict[DEFAULT_RULE]),
    ]


def judge_tcp(form: Form, trials: Trials, factor: float) -> list[Check]:
    samples, made = Samples(trials), []
    for load in form.load:
        assert isinstance(load, TcpLoad)
        [key] = _cells(samples, load)
        middle = samples.median(key, "throughput")
        truth = truths.shaped_throughput(load.seconds - load.start_s).times(factor)
        made.append(_check(LOADS[load.name].words, truth, middle.ci95 if middle else None))
    return made


def judge_ping(form: Form, trials: Trials, factor: float) -> list[Check]:
    """The difference of two paths within a block, its median over the blocks, and the interval of that."""
    samples = Samples(trials)
    by_datapath = {key.subject.split("/")[1]: samples.figures(key, "rtt") for key in samples.cells() if key.load == "ping"}
    short, long = (by_datapath.get(name, {}) for name in truths.DELAYS)
    both = sorted(short.keys() & long.keys())
    differences = [long[block].low - short[block].low for block in both if short[block].finite and long[block].finite]
    return [_check("ping, difference of two delays", truths.delay_difference().times(factor), median.interval(differences))]


def judge_loss(form: Form, trials: Trials, factor: float) -> list[Check]:
    """At each rate."""
    measured, name = _curve(trials), "packets, loss at a rate"
    if measured is None:
        return [Check(name, False, "no curve")]
    found = measured.finest
    ends = zip(found.lcl95, found.ucl95, strict=True)
    return [_check(name, truths.loss().times(factor), (float(low), float(high))) for low, high in ends]


def judge_capacity(form: Form, trials: Trials, factor: float) -> list[Check]:
    """Between the most sessions that were held and the fewest that were too many."""
    return [
        _check("table capacity", truths.capacity().times(factor), _between(trial, "capacity", "too_many"))
        for trial in _counted(trials)
    ]


def judge_new_flows(form: Form, trials: Trials, factor: float) -> list[Check]:
    """Between the rate that the search found and its next step. It begins at half of a rate that loses sessions and halves the
    interval `halvings` times, so the last step is at most so many halves of what it found.
    """
    [load] = form.load
    assert isinstance(load, NewFlowsLoad)
    made = []
    for trial in _counted(trials):
        rate = trial["metrics"].get("rate")
        ends = (rate, rate * (1 + 0.5**load.halvings)) if rate else None
        made.append(_check("new flows, rate", truths.new_flows(load.sessions).times(factor), ends))
    return made


def judge_mlrsearch(form: Form, trials: Trials, factor: float) -> list[Check]:
    """NDR and PDR, each between its relevant bounds (RFC 9971)."""
    [found] = procedures.gather(trials, [])
    bounds = {rate.loss_ratio: _bounds(rate) for rate in found.rates}
    [load] = form.load
    return [
        _check(f"MLRsearch, {procedures.rate_name(ratio)}", truths.pdr(ratio).times(factor), bounds.get(ratio))
        for ratio in (goal.loss_ratio for goal in getattr(load, "goal", ()))
    ]


def judge_rfc8219(form: Form, trials: Trials, factor: float) -> list[Check]:
    """Throughput between the bounds of its search; and the loss at each step of the frame loss test, of which the lab gives no
    interval: that of a binomial distribution is taken (Clopper and Pearson)."""
    [found] = procedures.gather(trials, [])
    bounds = next((_bounds(rate) for rate in found.rates), None)
    made = [_check("RFC 8219, throughput", truths.ndr().times(factor), bounds)]
    steps = [step for part in found.of_test("frame_loss") for step in part["steps"]]
    name = "RFC 8219, frame loss at a rate"
    for step in steps:
        truth = truths.frame_loss(step["offered_pps"])
        made.append(_check(name, truth.times(factor), _share(round(step["loss_ratio"] * step["sent"]), step["sent"])))
    return made if steps else [*made, Check(name, False, "not made")]


JUDGES: Mapping[str, Judge] = {
    "curve": judge_curve,
    "tcp": judge_tcp,
    "ping": judge_ping,
    "loss": judge_loss,
    "capacity": judge_capacity,
    "new-flows": judge_new_flows,
    "mlrsearch": judge_mlrsearch,
    "rfc8219": judge_rfc8219,
}


def _check(criterion: str, truth: Truth, ends: Interval | None) -> Check:
    is_inside = truth.inside(ends)
    found = "no interval" if ends is None else f"{ends[0]:.6g} to {ends[1]:.6g}"
    return Check(criterion, is_inside, f"{found}{'' if is_inside else f' misses {(truth.low + truth.high) / 2:.6g}'}")


def _curve(trials: Trials) -> curves.Measured | None:
    return next(iter(curves.gather(trials, [])), None)


def _cells(samples: Samples, load: AnyLoad) -> list[CellKey]:
    return [key for key in samples.cells() if key.load == load.name]


def _counted(trials: Trials) -> list[Record]:
    """Of searches that are one trial each: in every block the first that no guard objects to, or else the last."""
    found: dict[int, Record] = {}
    for trial in trials:
        block = trial["block"]
        if block != WARM_UP and not (block in found and _stands(found[block])):
            found[block] = trial
    return list(found.values())


def _stands(trial: Record) -> bool:
    return outcome(trial).counts


def _between(trial: Record, low: RowMetric, high: RowMetric) -> Interval | None:
    metrics: Mapping[str, Any] = trial["metrics"]
    return (metrics[low], metrics[high] - 1) if {low, high} <= metrics.keys() else None


def _bounds(rate: procedures.Rate) -> Interval | None:
    return (rate.value, rate.above) if rate.value is not None and rate.above is not None else None


def _share(lost: int, sent: int) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, lost, sent - lost + 1)) if lost > 0 else 0.0
    return low, float(beta.ppf(1 - tail, lost + 1, sent - lost)) if lost < sent else 1.0
