# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every metric of the lab in one place: what it is called, its unit, which direction is better, and where it counts.

A `RowMetric` has rows in summary.json, in the order of this file; a `DetailMetric` stands in the records of trials only.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

RowMetric = Literal[
    "throughput",
    "rtt",
    "latency",
    "latency_worst",
    "lookup",
    "rate",
    "established",
    "teardown",
    "capacity",
    "too_many",
    "cpu_answer",
    "busy",
    "sent_rate",
    "loss",
    "socket_loss",
    "cpu_s_per_gb",
    "instructions",
    "generator_share",
    "system_share",
    "receiver_share",
    "rest_share",
]
DetailMetric = Literal[
    "retransmits",
    "saturated",
    "slow_share",
    "sent",
    "received",
    "native_sent",
    "native_received",
    "translated_loss",
    "refused",
    "duplicate",
    "reordered",
    "corrupted",
    "offered",
    "pdv",
    "ipdv_min",
    "ipdv_median",
    "ipdv_max",
    "cpu_generator",
    "cpu_system",
    "cpu_threads",
    "cpu_all",
    "unanswered",
    "established_loss",
    "sessions",
    "attempts",
    "limit",
    "held_of_too_many",
    "lost_of_too_many",
]
MetricName = RowMetric | DetailMetric
RENAMED = {"cpu": "cpu_s_per_gb"}  # names in folders of older labs
Unit = Literal["bit/s", "s", "1/s", "s/GB", "instructions", "sessions", "ratio", "segments", "packets", "attempts"]
Direction = Literal["higher", "lower"]
ROW_METRICS: tuple[RowMetric, ...] = get_args(RowMetric)


@dataclass(frozen=True)
class Prefix:
    """A unit that reads well: shown = value * factor, for values that reach `at_least`."""

    at_least: float
    factor: float
    unit: str


@dataclass(frozen=True)
class Metric:
    """One metric. Values in files are in `unit`; `prefixes` are for readers, the largest first."""

    name: MetricName
    words: str  # in a sentence: "RTT is 1.2 times that of native"
    unit: Unit
    better: Direction | None  # None: neither
    prefixes: tuple[Prefix, ...]
    axis: str = ""  # in pictures, without the unit
    singles: bool = False  # single readings are in the series of a trial
    compared: bool = False  # between two runs
    floor: bool = False  # enters the noise floor
    signed: bool = False  # may be below zero: a difference of two delays

    @property
    def ratio_is_share(self) -> bool:
        """More is better: a ratio to native reads as the share that is kept, otherwise as so many times."""
        return self.better == "higher"

    @property
    def is_share(self) -> bool:
        """A share of something, which has no median worth a look while its trials are untrusted."""
        return self.unit == "ratio"

    def prefix(self, values: Iterable[float | None]) -> Prefix:
        """The unit in which the largest of the values reads best."""
        largest = max((abs(value) for value in values if value is not None), default=0.0)
        return next((prefix for prefix in self.prefixes if largest >= prefix.at_least), self.prefixes[-1])


_BITS = (Prefix(1e9, 1e-9, "Gbit/s"), Prefix(1e6, 1e-6, "Mbit/s"), Prefix(0, 1e-3, "kbit/s"))
_TIMES = (Prefix(1, 1, "s"), Prefix(1e-3, 1e3, "ms"), Prefix(0, 1e6, "µs"))
_RATES = (Prefix(1e6, 1e-6, "million/s"), Prefix(1e3, 1e-3, "thousand/s"), Prefix(0, 1, "1/s"))
_SESSIONS = (Prefix(1e6, 1e-6, "million sessions"), Prefix(1e3, 1e-3, "thousand sessions"), Prefix(0, 1, "sessions"))

_SHARE = (Prefix(0, 100, "%"),)


def _plain(unit: str) -> tuple[Prefix]:
    return (Prefix(0, 1, unit),)


def _detail(name: DetailMetric, words: str, unit: Unit, better: Direction | None, *, signed: bool = False) -> Metric:
    return Metric(name, words, unit, better, _TIMES if unit == "s" else _plain(unit), signed=signed)


_ALL = (
    Metric("throughput", "throughput", "bit/s", "higher", _BITS, axis="throughput", compared=True, floor=True),
    Metric("rtt", "RTT", "s", "lower", _TIMES, axis="round-trip time", singles=True, compared=True, floor=True),
    Metric("latency", "latency", "s", "lower", _TIMES, axis="latency", singles=True, compared=True, floor=True),
    Metric(
        "latency_worst",
        "99.9th percentile of the latency",
        "s",
        "lower",
        _TIMES,
        axis="99.9th percentile of the latency",
        compared=True,
        floor=True,
    ),
    Metric("lookup", "time of a name lookup", "s", "lower", _TIMES, axis="time of a lookup"),
    Metric("rate", "rate", "1/s", "higher", _RATES, axis="rate", compared=True, floor=True),
    Metric(
        "established",
        "rate over open sessions",
        "1/s",
        "higher",
        _RATES,
        axis="rate over open sessions",
        compared=True,
        floor=True,
    ),
    Metric("teardown", "tear-down rate", "1/s", "higher", _RATES, axis="tear-down rate", compared=True, floor=True),
    Metric("capacity", "table capacity", "sessions", "higher", _SESSIONS, axis="sessions held", compared=True, floor=True),
    Metric("too_many", "sessions that are too many", "sessions", None, _plain("sessions")),
    Metric("cpu_answer", "CPU time per answer", "s", "lower", _TIMES, axis="CPU time", compared=True),
    Metric("busy", "share of the time that the resolver is busy", "ratio", None, _plain("ratio")),
    Metric("sent_rate", "rate of the sender", "bit/s", None, _BITS, axis="rate of the sender"),
    Metric("loss", "loss", "ratio", "lower", _SHARE, axis="loss"),
    Metric("socket_loss", "loss at the receiver's socket", "ratio", None, _SHARE, axis="loss at the receiver's socket"),
    Metric(
        "cpu_s_per_gb", "CPU time per gigabyte", "s/GB", "lower", _plain("s/GB"), axis="CPU time per gigabyte", compared=True
    ),
    Metric(
        "instructions",
        "instructions per packet",
        "instructions",
        "lower",
        _plain("instructions"),
        axis="instructions per packet",
        compared=True,
    ),
    Metric("generator_share", "CPU of the generator", "ratio", None, _SHARE, axis="CPU of the generator"),
    Metric("system_share", "CPU of the system's processes", "ratio", None, _SHARE, axis="CPU of the system's processes"),
    Metric("receiver_share", "CPU of the receiver", "ratio", None, _SHARE, axis="CPU of the receiver"),
    Metric("rest_share", "CPU of all the rest", "ratio", None, _SHARE, axis="CPU of all the rest"),
    _detail("saturated", "the generator had no CPU to spare", "ratio", None),
    _detail("slow_share", "share of the traffic that took the slow path", "ratio", None),
    _detail("retransmits", "retransmitted segments", "segments", "lower"),
    _detail("sent", "packets sent", "packets", None),
    _detail("received", "packets received", "packets", "higher"),
    _detail("native_sent", "native packets sent", "packets", None),
    _detail("native_received", "native packets received", "packets", "higher"),
    _detail("translated_loss", "loss of what is not native", "ratio", "lower"),
    _detail("refused", "packets that the first ring refused", "packets", "lower"),
    _detail("duplicate", "duplicate packets", "packets", "lower"),
    _detail("reordered", "reordered packets", "packets", "lower"),
    _detail("corrupted", "corrupted packets", "packets", "lower"),
    _detail("offered", "offered rate", "1/s", None),
    _detail("pdv", "packet delay variation", "s", "lower"),
    _detail("ipdv_min", "least inter-packet delay variation", "s", None, signed=True),
    _detail("ipdv_median", "median inter-packet delay variation", "s", None, signed=True),
    _detail("ipdv_max", "largest inter-packet delay variation", "s", None, signed=True),
    _detail("cpu_generator", "CPU time of the generator", "s", None),
    _detail("cpu_system", "CPU time of the system's processes", "s", "lower"),
    _detail("cpu_threads", "CPU time of the system's queue threads", "s", "lower"),
    _detail("cpu_all", "CPU time of all CPUs", "s", "lower"),
    _detail("unanswered", "share of the sessions without an answer", "ratio", "lower"),
    _detail("established_loss", "loss over open sessions", "ratio", "lower"),
    _detail("sessions", "sessions in the table", "sessions", None),
    _detail("attempts", "attempts of a search", "attempts", None),
    _detail("limit", "limit that the system states", "sessions", None),
    _detail("held_of_too_many", "sessions held of too many", "sessions", None),
    _detail("lost_of_too_many", "share lost of too many", "ratio", None),
)
METRICS: dict[MetricName, Metric] = {metric.name: metric for metric in _ALL}


def named(name: str) -> Metric | None:
    """The metric of that name; None for one that another version of the lab wrote."""
    return METRICS.get(name)  # type: ignore[call-overload, no-any-return]
