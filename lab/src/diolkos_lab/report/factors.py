# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which factors vary in a run, and which of them belong to a cell or to the name of a load."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any

ROW_KEYS = frozenset(("study", "system", "datapath", "family", "hops", "load", "metric", "unit", "trials", "valid_trials"))
ROW_KEYS |= frozenset(("median", "mean", "sd", "min", "max", "p95", "p99", "ci95", "baseline", "ratio", "ratio_ci95", "levels"))
ROW_KEYS |= frozenset(("hosts", "other_baseline", "other_ratio", "other_ratio_bounds", "other_ratio_ci95"))
# They say what is asked for, which is a matter of the load even where every load of a run has them.
OF_LOADS = frozenset(("object", "by", "cache", "offered", "streams", "rate", "datagram", "direction"))
OF_LOADS |= frozenset(("flows", "directions", "next_hops", "nodes", "native_share"))
ALWAYS = "flows"  # is named even where it does not vary: what looks ways up and what remembers them differ by it
# A trial of a procedure has a `test`. These tell such trials apart, and are no matter of the cell or of the load.
WITHIN_PROCEDURES = frozenset(("test", "attempt", "offered", "seconds"))


class Factors:
    """Which factors vary. One that every load has belongs to the cell; one of some loads belongs to the load's name."""

    def __init__(self, samples: list[dict[str, Any]], rows: list[dict[str, Any]], of_systems: Collection[str] = ()) -> None:
        """`of_systems` are factors of systems, which belong to cells even where not every load was given to them."""
        named = {key for s in samples for key in procedure_factors(s.get("factors") or {})}
        self._named = named or {key for r in rows for key in r if key not in ROW_KEYS}
        seen: dict[tuple[Any, ...], set[str]] = defaultdict(set)
        loads: dict[str, set[str]] = defaultdict(set)
        for record, values in [(s, procedure_factors(s.get("factors") or {})) for s in samples] + [(r, r) for r in rows]:
            load = str(record.get("load", ""))
            where = tuple(record.get(k) for k in ("system", "datapath", "family", "hops", "metric"))
            # One of two variants of a load may not say it: packets between two hosts have no `nodes`.
            for key in self._named & (values.keys() | OF_LOADS):
                seen[(*where, load, key)].add(plain(values.get(key)))
                if values.get(key) is not None:
                    loads[key].add(load)
        self.same_hops = len({record.get("hops") for record in [*samples, *rows]}) == 1
        every = set().union(*loads.values()) if loads else set()
        varying = sorted({where[-1] for where, values in seen.items() if len(values) > 1})
        mine = {key for key in varying if loads[key] == every and key not in OF_LOADS}
        # What differs between two entries of a study, or between systems, varies too.
        levels = {key: {plain(s["factors"][key]) for s in samples if key in (s.get("factors") or {})} for key in of_systems}
        self._of_cell = sorted(mine | {key for key, values in levels.items() if len(values) > 1})
        always = {ALWAYS} & self._named
        self._of_load = [key for key in sorted({*varying, *always}) if key not in self._of_cell]

    def of_cell(self, values: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        values = procedure_factors(values)
        return tuple((key, plain(values[key])) for key in self._of_cell if values.get(key) is not None)

    def load(self, record: dict[str, Any], values: dict[str, Any]) -> str:
        values = procedure_factors(values)
        parts = [f"{key}={plain(values[key])}" for key in self._of_load if values.get(key) is not None]
        return " ".join([str(record.get("load", "")), *parts])


def procedure_factors(factors: dict[str, Any]) -> dict[str, Any]:
    """Those of the procedure, where they are of one of its trials."""
    return {key: value for key, value in factors.items() if key not in WITHIN_PROCEDURES} if "test" in factors else factors


def plain(value: object) -> str:
    return json.dumps(value) if isinstance(value, (dict, list, bool)) else str(value)
