# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The tests of RFC 2544 §26 and RFC 8219 §7 for one frame size.

Stages: throughput → frame loss rate → latency → delay variation. Those after the first are made at its rate, or around it.
"""

from collections.abc import Generator
from typing import Any

from diolkos_lab.experiment.procedures import TAGGED, PacketTrial, Rfc8219
from diolkos_lab.metric import MetricName
from diolkos_lab.run.steps import Steps, TrialResult

STEP = 10  # % of the maximum rate (RFC 2544 §26.3)
LOSSLESS_IN_A_ROW = 2  # that end the frame loss test (RFC 2544 §26.3)
NO_RATE = "no rate without loss was found, at which it is made"


def steps(load: Rfc8219) -> Steps:
    """The outcome has a key for each test: `throughput`, `frame_loss`, `latency`, `delay_variation`; times are in s.

    A test that cannot be made has `error` alone. Each says how many of the trials that it rests on are not trusted.
    """
    found: dict[str, Any] = {"throughput": (yield from _throughput(load))}
    rate = found["throughput"]["lower_pps"]
    if "frame-loss" in load.tests:
        found["frame_loss"] = yield from _frame_loss(load, rate)
    if "latency" in load.tests:
        found["latency"] = (yield from _latency(load, rate)) if rate else {"error": NO_RATE}
    if "delay-variation" in load.tests:
        found["delay_variation"] = (yield from _delay_variation(load, rate)) if rate else {"error": NO_RATE}
    return found


def _throughput(load: Rfc8219) -> Generator[PacketTrial, TrialResult, dict[str, Any]]:
    """The fastest rate at which no frame is lost (RFC 2544 §26.1), between a rate that loses none and one that does.

    The rate doubles from the lowest on; the interval is then halved until it is narrow enough.
    """
    passes: int | None = None
    loses: int | None = None
    trusted: dict[int, bool] = {}
    rate = load.lowest
    while True:
        result = yield load.trial(rate, load.seconds, "throughput")
        trusted[rate] = result.trusted
        passes, loses = (passes, rate) if result.lost > 0 else (rate, loses)
        if passes is None or (loses is None and rate == load.highest):
            break
        if loses is None:
            rate = min(2 * rate, load.highest)
        elif loses - passes > max(1.0, load.resolution * loses):
            rate = (passes + loses) // 2
        else:
            break
    bounds = [bound for bound in (passes, loses) if bound is not None]
    untrusted = sum(not trusted[bound] for bound in bounds)
    return {"lower_pps": passes, "upper_pps": loses, "distrusted": untrusted}


def _frame_loss(load: Rfc8219, throughput: int | None) -> Generator[PacketTrial, TrialResult, dict[str, Any]]:
    """Loss from 100 % of the maximum rate down, until two trials in a row lose nothing (RFC 2544 §26.3)."""
    maximum = load.maximum or (min(2 * throughput, load.highest) if throughput else load.highest)
    found: list[dict[str, Any]] = []
    lossless = 0
    for percent in range(100, 0, -STEP):
        result = yield load.trial(maximum * percent / 100, load.seconds, "frame-loss")
        step = {"percent": percent, "offered_pps": max(1, round(maximum * percent / 100)), "sent": result.sent}
        found.append({**step, "loss_ratio": result.loss_ratio, **_of_both_kinds(result), "trusted": result.trusted})
        lossless = 0 if result.lost > 0 else lossless + 1
        if lossless == LOSSLESS_IN_A_ROW:
            break
    return {"maximum_pps": maximum, "steps": found, "distrusted": sum(not step["trusted"] for step in found)}


def _of_both_kinds(result: TrialResult) -> dict[str, float]:
    """What is lost of the native frames and of the others, where both are sent."""
    metrics = result.metrics
    if "native_sent" not in metrics:
        return {}
    native = 1 - metrics["native_received"] / metrics["native_sent"]
    return {"native_loss_ratio": native, "translated_loss_ratio": metrics["translated_loss"]}


def _latency(load: Rfc8219, rate: int) -> Generator[PacketTrial, TrialResult, dict[str, Any]]:
    """Typical latency (median) and worst case latency (99.9th percentile) of each stream (RFC 8219 §7.2)."""
    runs = yield from _streams(load, rate, load.latency_s, "latency", {"typical_s": "latency", "worst_s": "latency_worst"})
    fewest = min(runs["frames"], default=0)
    return {**runs, "short": fewest < TAGGED}


def _delay_variation(load: Rfc8219, rate: int) -> Generator[PacketTrial, TrialResult, dict[str, Any]]:
    """PDV (RFC 8219 §7.3.1) and least, median and greatest IPDV (§7.3.2) of each stream."""
    names: dict[str, MetricName] = {
        "pdv_s": "pdv",
        "ipdv_min_s": "ipdv_min",
        "ipdv_median_s": "ipdv_median",
        "ipdv_max_s": "ipdv_max",
    }
    return (yield from _streams(load, rate, load.variation_s, "delay-variation", names))


def _streams(
    load: Rfc8219, rate: int, seconds: float, test: Any, names: dict[str, MetricName]
) -> Generator[PacketTrial, TrialResult, dict[str, Any]]:
    """Streams at one rate. Lists of the metrics of those that are trusted, or of all where none is."""
    result = []
    for _ in range(load.repeats):
        result.append((yield load.trial(rate, seconds, test)))
    used = [each for each in result if each.trusted] or result
    values = {ours: [each.metrics[name] for each in used if name in each.metrics] for ours, name in names.items()}
    untrusted = sum(not each.trusted for each in result)
    return {
        "offered_pps": rate,
        "seconds": seconds,
        **values,
        "frames": [each.received for each in used],
        "lost": sum(each.lost for each in used),
        "distrusted": untrusted,
        "trusted": untrusted < len(result),
    }
