# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Instructions per packet: what each path takes, and how much of it is more than native."""

from collections.abc import Iterable, Mapping
from typing import Any

METRIC = "instructions"
DIRECTIONS = {"tcp-upload": "up", "tcp-download": "down"}


def entries(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One for each path that was counted: `up` and `down`, and both over the native path that it is compared with."""
    mine = [row for row in rows if row["metric"] == METRIC and row["load"] in DIRECTIONS]
    counts = {(subject(row), row["load"]): row["median"] for row in mine}
    found: dict[str, dict[str, Any]] = {}
    for row in mine:
        name, way = subject(row), DIRECTIONS[row["load"]]
        entry = found.setdefault(
            name,
            {
                **{key: row[key] for key in ("system", "datapath", "family", "hops")},
                "levels": row.get("levels") or {},
                "kernel": row.get("kernel"),
                "baseline": row["baseline"],
            },
        )
        entry[way] = row["median"]
        base = counts.get((row["baseline"], row["load"]))
        entry[f"{way}_over_native"] = None if base is None or row["median"] is None else row["median"] - base
        entry[f"{way}_spread"] = _spread(row)
    return list(found.values())


def subject(row: Mapping[str, Any]) -> str:
    """The path of a row or of an entry, with the levels of the system's factors."""
    levels = (f"{name}={level}" for name, level in sorted((row.get("levels") or {}).items()))
    return "/".join([row["system"], row["datapath"], row["family"], str(row["hops"]), *levels])


def _spread(row: Mapping[str, Any]) -> float | None:
    """By how much the repetitions differ, relative to the median."""
    low, high, middle = row.get("min"), row.get("max"), row["median"]
    return None if low is None or high is None or not middle else (high - low) / middle
