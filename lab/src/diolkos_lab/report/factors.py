# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which factors vary in a run, and which of them belong to a cell or to the name of a load."""

from __future__ import annotations

import json
from collections import defaultdict

ROW_KEYS = frozenset(("study", "system", "datapath", "family", "hops", "load", "metric", "unit", "trials", "valid_trials"))
ROW_KEYS |= frozenset(("median", "mean", "sd", "min", "max", "p95", "p99", "ci95", "baseline", "ratio", "ratio_ci95"))


class Factors:
    """Which factors vary. One that every load has belongs to the cell; one of some loads belongs to the load's name."""

    def __init__(self, samples: list[dict], rows: list[dict]) -> None:
        named = {key for s in samples for key in (s.get("factors") or {})}
        self._named = named or {key for r in rows for key in r if key not in ROW_KEYS}
        seen: dict[tuple, set[str]] = defaultdict(set)
        loads: dict[str, set[str]] = defaultdict(set)
        for record, values in [(s, s.get("factors") or {}) for s in samples] + [(r, r) for r in rows]:
            load = str(record.get("load", ""))
            where = tuple(record.get(k) for k in ("system", "datapath", "family", "hops", "metric"))
            for key in self._named & values.keys():
                if values[key] is not None:
                    seen[(*where, load, key)].add(plain(values[key]))
                    loads[key].add(load)
        self.same_hops = len({record.get("hops") for record in [*samples, *rows]}) == 1
        every = set().union(*loads.values()) if loads else set()
        varying = sorted({where[-1] for where, values in seen.items() if len(values) > 1})
        self._of_cell = [key for key in varying if loads[key] == every]
        self._of_load = [key for key in varying if loads[key] != every]

    def of_cell(self, values: dict) -> tuple[tuple[str, str], ...]:
        return tuple((key, plain(values[key])) for key in self._of_cell if values.get(key) is not None)

    def load(self, record: dict, values: dict) -> str:
        parts = [f"{key}={plain(values[key])}" for key in self._of_load if values.get(key) is not None]
        return " ".join([str(record.get("load", "")), *parts])


def plain(value: object) -> str:
    return json.dumps(value) if isinstance(value, (dict, list, bool)) else str(value)
