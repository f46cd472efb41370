# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One ratio in words: what a path keeps of native's throughput or rate, and how much longer something takes on it."""

from __future__ import annotations

import math

from diolkos_lab.report.quantities import ENDLESS, MINUS, THIN, factor, join_words, percent, times
from diolkos_lab.report.read import Row
from diolkos_lab.report.systems import baseline_label
from diolkos_lab.report.values import Interval

# From here on "times as long" reads better than "per cent longer".
TIMES_FROM = 2.0
LEAST = 0.0005  # a smaller difference would read "0.0 %"


def includes_one(ci: Interval | None) -> bool:
    return ci is not None and ci[0] <= 1 <= ci[1]


def share(row: Row) -> str:
    """The share of native that a throughput row keeps: "98 % [97-99 %]"."""
    return percent(row.ratio, row.ratio_ci95)


def longer(ratio: float, ci: Interval | None) -> str:
    """A ratio of times as a difference: "3 % [1-5 %] longer", "5.9 times [5.5-6.3] as long"."""
    if ratio >= TIMES_FROM:
        return f"{times(ratio, ci)} as long"
    change, word = (ratio - 1, "longer") if ratio >= 1 else (1 - ratio, "shorter")
    if change < LEAST and (ci is None or includes_one(ci)):
        return "as long" if ci is None else f"as long [{_signed(ci[0])} to {_signed(ci[1])}]"
    if ci is None:
        return f"{percent(change)} {word}"
    if includes_one(ci):
        return f"{percent(change)} {word} [{_signed(ci[0])} to {_signed(ci[1])}]"
    ends = (ci[0] - 1, ci[1] - 1) if ratio >= 1 else (1 - ci[1], 1 - ci[0])
    return f"{percent(change, ends, fewest=0)} {word}"


def _signed(ratio: float) -> str:
    if math.isinf(ratio):
        return f"+{ENDLESS}"
    change = 100 * (ratio - 1)
    decimals = 0 if abs(change) >= 1 else 1
    return f"{change:+.{decimals}f}{THIN}%".replace("-", MINUS)


def throughput_words(upload: Row | None, download: Row | None) -> str | None:
    """What one TCP stream keeps, in both directions where both were measured."""
    found = [(row, name) for row, name in ((upload, "up"), (download, "down")) if row and row.ratio is not None]
    if not found:
        return None
    shares = join_words([f"{share(row)} {name}" for row, name in found])
    text = f"a TCP stream gets {shares} of what {against(found[0][0])} gets"
    if all(includes_one(row.ratio_ci95) for row, _ in found):
        text += ", a difference that this run cannot tell from none"
    elif any(row.ratio_ci95 and row.ratio_ci95[0] > 1 for row, _ in found):
        text += ", more than native in at least one direction"
    return text


def against(row: Row) -> str:
    """The baseline in a sentence: "native IPv6", "native IPv4 over 2 hops"."""
    return baseline_label(row.baseline).replace(", ", " over ", 1)


def rtt_words(row: Row | None) -> str | None:
    if row is None or row.ratio is None:
        return None
    if row.ratio_ci95 and includes_one(row.ratio_ci95):
        lo, hi = row.ratio_ci95
        return f"a ping takes as long as native, as far as this run can tell [{_signed(lo)} to {_signed(hi)}]"
    return f"a ping takes {longer(row.ratio, row.ratio_ci95)}"


def application_words(row: Row, ratio: float, levels: dict[str, str]) -> str:
    """What a row of HTTP or DNS with its ratio says. `levels` are those in the name of its load."""
    if row.load.startswith("http"):
        return f"fetching a small object by name takes {longer(ratio, row.ratio_ci95)}"
    names = {"cold": "a new name", "warm": "a known name"}.get(levels.get("cache", ""), "a name")
    if row.metric == "rate":
        return f"for {names}, it gives {share(row)} of the answers per second that native's resolver gives"
    if row.metric == "cpu_answer":
        return f"an answer for {names} costs the resolver {factor(ratio, row.ratio_ci95)} times the CPU time"
    return f"the answer for {names} takes {longer(ratio, row.ratio_ci95)}"
