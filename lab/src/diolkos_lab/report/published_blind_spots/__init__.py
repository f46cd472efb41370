# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the published studies could not see, each limit with what this run does about it; one module for each study."""

from __future__ import annotations

from collections.abc import Callable

from diolkos_lab.report.published_blind_spots import clat, nat64_parallel, nat_rules, router_accuracy
from diolkos_lab.report.read import Results

Pairs = list[tuple[str, str]]
STUDIES: dict[str, Callable[[Results], Pairs]] = {
    "clat": clat.pairs,
    "nat64-parallel": nat64_parallel.pairs,
    "nat-rules": nat_rules.pairs,
    "router-accuracy": router_accuracy.pairs,
}


def published_limits(results: Results) -> Pairs:
    """(what it could not see, what this run does); nothing for a study that repeats nobody's."""
    return STUDIES[results.name](results) if results.name in STUDIES else []
