# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Instructions per packet: what each path takes, and how much of it is more than native. One entry for each kind of packet."""

from collections.abc import Iterable, Mapping
from typing import Any

from diolkos_lab.experiment.frames import flows_words
from diolkos_lab.procedures import APART

Subject = tuple[str | None, ...]
METRIC = "instructions"
TCP = {"tcp-upload": "up", "tcp-download": "down"}
TCP_PACKETS = "TCP of 1500 bytes, one stream"


def entries(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One for each path that was counted: `up` and `down`, and both over the native path that it is compared with."""
    mine = [row for row in rows if row["metric"] == METRIC]
    counts = {(*subject(row), packets(row), direction(row)): row["median"] for row in mine}
    found: dict[Subject, dict[str, Any]] = {}
    for row in mine:
        way = direction(row)
        name = (*subject(row), packets(row))
        entry = found.setdefault(
            name,
            {
                **{key: row[key] for key in ("system", "datapath", "family", "hops")},
                "levels": row.get("levels") or {},
                "packets": packets(row),
                **{key: row[key] for key in APART if key in row},
                "baseline": row["baseline"],
            },
        )
        entry[way] = row["median"]
        base = counts.get((row["baseline"], *name[1:], way))
        entry[f"{way}_over_native"] = None if base is None or row["median"] is None else row["median"] - base
        entry[f"{way}_spread"] = _spread(row)
    return list(found.values())


def direction(row: Mapping[str, Any]) -> str:
    """From the client to the server is up."""
    return TCP.get(row["load"]) or ("down" if row.get("backwards") else "up")


def packets(row: Mapping[str, Any]) -> str:
    """In words; those of IPv4 are as much shorter as its header is."""
    match row["load"]:
        case "forwarding-rate":
            return f"UDP in IPv6 frames of {row['size']} bytes, {flows_words(row['flows'])}"
        case "udp-gso":
            return f"super-packets of UDP datagrams of {row['datagram']} bytes"
        case _:
            return TCP_PACKETS


def subject(row: Mapping[str, Any]) -> Subject:
    """Of a row or of an entry: its path with the levels of the system's factors; of merged runs told apart, also whose."""
    levels = (f"{name}={level}" for name, level in sorted((row.get("levels") or {}).items()))
    path = "/".join([row["system"], row["datapath"], row["family"], str(row["hops"]), *levels])
    return path, *(row.get(name) for name in APART)


def _spread(row: Mapping[str, Any]) -> float | None:
    """By how much the repetitions differ, relative to the median."""
    low, high, middle = row.get("min"), row.get("max"), row["median"]
    return None if low is None or high is None or not middle else (high - low) / middle
