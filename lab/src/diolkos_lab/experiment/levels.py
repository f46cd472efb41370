# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Levels of a system's factors, as a study names them: which cells they span, and how a cell is called by them.

What a factor is, and which levels it has, stands in the system's own file.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, StringConstraints

Level = Annotated[StrictStr, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=40)] | StrictInt
FactorName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
# Rows of results have these keys already, and loads these factors.
TAKEN = frozenset(
    [
        "study",
        "system",
        "datapath",
        "family",
        "hops",
        "replica",
        "load",
        "metric",
        "unit",
        "trials",
        "valid_trials",
        "failed_trials",
        "blocks",
        "baseline",
        "median",
        "median_bounds",
        "ci95",
        "mean",
        "sd",
        "min",
        "max",
        "p95",
        "p99",
        "ratio",
        "ratio_bounds",
        "ratio_ci95",
        "other_baseline",
        "other_ratio",
        "other_ratio_bounds",
        "other_ratio_ci95",
        "subject",
        "spread95",
        "offloads",
        "streams",
        "seconds",
        "count",
        "interval",
        "size",
        "flows",
        "directions",
        "next_hops",
        "native_share",
        "placement",
        "offered",
        "share",
        "packets",
        "refines",
        "sessions",
        "bindings",
        "nodes",
        "first",
        "most",
        "resolution",
        "fill_rate",
        "cache",
        "object",
        "by",
        "test",
        "attempt",
        "kernel",
        "host",
        "run",
        "rate",
        "levels",
        "udp",
        "hosts",
        "clocksource",
        "ring",
        "datagram",
        "direction",
        "knee_loss",
    ]
)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


_Many = Annotated[tuple[Level, ...], Field(min_length=1)]
Levels = Annotated[_Many, BeforeValidator(_as_list, json_schema_input_type=Level | _Many)]  # one level, or a list
Chosen = tuple[tuple[str, Level], ...]  # one level of each factor, by name


def combinations(factors: Mapping[str, tuple[Level, ...]]) -> Iterator[Chosen]:
    """Every cell that the factors span; one empty one where there are none."""
    names = sorted(factors)
    for levels in itertools.product(*(factors[name] for name in names)):
        yield tuple(zip(names, levels, strict=True))


def words(chosen: Chosen) -> str:
    """Fit for the name of a namespace: "backend.nft-list-rules.10"."""
    return "-".join(f"{name}.{level}" for name, level in chosen)
