# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Numbers as a reader wants them: scaled units, few digits, a ratio with its interval.

Inputs are in the units of the files (bit/s, s, s/GB, ratios); outputs are text. A value that does not exist is
an en dash.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from diolkos_lab.metric import named
from diolkos_lab.report.values import Ends, Interval

NONE = TO = "\u2013"  # en dash
MINUS = "\u2212"
ENDLESS = "\u221e"
THIN = "\u202f"  # narrow no-break space, between a number and its unit


@dataclass(frozen=True)
class Scale:
    """A unit fit for a set of values: shown = value * factor."""

    factor: float
    unit: str

    def text(self, value: float | None) -> str:
        return NONE if value is None else digits(value * self.factor)


def scale(metric: str, values: Iterable[float | None], unit: str = "") -> Scale:
    """The unit in which the largest of the values reads best; one unit for a whole table or axis.

    `unit` is that of a metric which another version of the lab wrote.
    """
    known = named(metric)
    if known is None:
        return Scale(1, unit)
    prefix = known.prefix(values)
    return Scale(prefix.factor, prefix.unit)


def digits(value: float | None, significant: int = 3) -> str:
    """`significant` digits, never an exponent: 0.0123, 1.23, 123, 12345."""
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return ENDLESS
    if value == 0:
        return "0"
    decimals = significant - 1 - math.floor(math.log10(abs(value)))
    text = f"{value:.{min(max(decimals, 0), 9)}f}"
    return text.replace("-", MINUS)


def percent_decimals(ratio: float, ci: Interval | None, fewest: int | None = None) -> int:
    """As many decimals as the interval deserves: its two ends must read differently.

    `fewest` is 1 below ten per cent unless it is given.
    """
    if fewest is None:
        fewest = 0 if abs(ratio) >= 0.1 else 1
    if ci is None:
        return fewest
    width = 100 * (ci[1] - ci[0])  # infinite where an end is
    for decimals in range(fewest, 3):
        if width >= 1.5 * 10**-decimals:
            return decimals
    return 2


def percent(ratio: float | None, ci: Interval | None = None, fewest: int | None = None) -> str:
    """0.981 [0.971, 0.992] → "98 % [97-99 %]"."""
    if ratio is None:
        return NONE
    d = percent_decimals(ratio, ci, fewest)
    text = f"{_fixed(100 * ratio, d)}{THIN}%"
    if ci is None:
        return text
    return f"{text} [{_fixed(100 * ci[0], d)}{TO}{_fixed(100 * ci[1], d)}{THIN}%]".replace("-", MINUS)


def factor(ratio: float, ci: Interval | None = None) -> str:
    """5.93 [5.5, 6.3] → "5.9 [5.5-6.3]"; as many decimals as the interval deserves, two where a ratio is near one."""
    width = None if ci is None else ci[1] - ci[0]
    fewest = 1 if ratio >= 2 else 2
    d = 2 if width is None else next((d for d in range(fewest, 3) if width >= 1.5 * 10**-d), 3)
    text = _fixed(ratio, d)
    return text if ci is None else f"{text} [{_fixed(ci[0], d)}{TO}{_fixed(ci[1], d)}]"


def _fixed(value: float, decimals: int) -> str:
    return ENDLESS if math.isinf(value) else f"{value:.{decimals}f}"


def limits(ends: Ends, text: Callable[[float], str]) -> str:
    """A figure that is no number: "\u2265 1.5" where a search met its highest rate, "\u221e" for a time that had no end."""
    low, high = ends
    if low == high:
        return text(low)
    if math.isinf(high):
        return f"\u2265 {text(low)}" if low else "not known"
    return f"{text(low)}{TO}{text(high)}" if low else f"\u2264 {text(high)}"


def ratio_of(metric: str) -> Callable[..., str]:
    """How a ratio to native of that metric is written: as a share where more is better, elsewhere as so many times."""
    known = named(metric)
    return percent if known and known.ratio_is_share else factor


def with_interval(value: float | None, ci: Interval | None, unit: Scale) -> str:
    """A value with its interval, "16.1 [15.9-16.3]"; the unit stands in the column's head."""
    if value is None:
        return NONE
    text = unit.text(value)
    if ci is not None:
        text += f" [{unit.text(ci[0])}{TO}{unit.text(ci[1])}]"
    return text


def count(n: int, noun: str, plural: str | None = None) -> str:
    return f"{n} {noun if n == 1 else plural or noun + 's'}"


def join_words(parts: list[str]) -> str:
    """a; a and b; a, b and c"""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1] if parts else ""
