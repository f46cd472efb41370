# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Numbers, pairs of numbers and names, as result folders have them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

Interval = tuple[float, float]
Ends = tuple[float, float]  # equal ones are a number; either may be infinite


def number(raw: object) -> float | None:
    """A finite number, or None."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        return None
    return float(raw) if math.isfinite(raw) else None


def interval(raw: object) -> Interval | None:
    """A pair of numbers in order, or None. A second one that is null has no end."""
    if not isinstance(raw, Iterable) or isinstance(raw, (str, dict)):
        return None
    found = list(raw)
    low = number(found[0]) if len(found) == 2 else None
    high = math.inf if low is not None and found[1] is None else number(found[1]) if low is not None else None
    return None if low is None or high is None else (min(low, high), max(low, high))


def ends(raw: object) -> Ends | None:
    """What a figure lies between. Infinite ends are null in files, both of what never came to its end."""
    if isinstance(raw, list) and raw == [None, None]:
        return math.inf, math.inf
    return interval(raw)


def natural(value: object) -> list[Any]:
    """A sort key: numbers in texts by size, and "on" (the kernel's default) before "off"."""
    text = " ".join(map("=".join, value)) if isinstance(value, tuple) else str(value)
    parts = re.split(r"(\d+(?:\.\d+)?)", re.sub(r"\bon\b", "0", re.sub(r"\boff\b", "1", text)))
    return [(1, float(p), "") if i % 2 else (0, 0.0, p) for i, p in enumerate(parts)]
