# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Result folders of the study `failover`. SYNTHETIC: nothing in them was measured."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diolkos_lab.failover import definition, records
from diolkos_lab.failover.definition import FailoverStudy
from diolkos_lab.failover.records import Records

GOOD = {
    "victim": "gw1",
    "flows": 100,
    "established": 100,
    "kept": 100,
    "kept_share": 1.0,
    "gap_s": 0.2,
    "call_gap_s": 0.1,
    "new_flows_s": 0.2,
    "wrong": 0,
    "duplicates": 0,
    "moved": 0,
    "downloads": 12,
    "downloads_share": 1.0,
    "stream_stops_s": [0.2],
    "guards": [],
}


def study() -> FailoverStudy:
    found = definition.load("failover")
    assert found is not None
    return found


def row(fault: str = "kill-gateway", gateways: str = "cluster", repetition: int = 0, **changes: Any) -> dict[str, Any]:
    return {"gateways": gateways, "fault": fault, "repetition": repetition, **GOOD, **changes}


def host(kernel: str = "6.12.1", name: str = "alpha", digest: str | None = "aa" * 32) -> dict[str, Any]:
    facts: dict[str, Any] = {"hostname": name, "kernel": kernel, "cpu_model": "SYNTHETIC", "cores": 2, "load_average": [0.1]}
    if digest:
        facts["systems"] = {"diolkos": {"binary": "/opt/diolkos", "version": "diolkos 0.1.0", "sha256": digest}}
    return facts


def write(
    folder: Path,
    rows: Sequence[dict[str, Any]] | None = None,
    *,
    seed: int = 1,
    of: FailoverStudy | None = None,
    form: str = "quick",
    facts: dict[str, Any] | None = None,
) -> Path:
    """A run of `seed`, by which runs are told apart; of six good trials where no rows are given."""
    rows = [row(repetition=number) for number in range(6)] if rows is None else rows
    facts = {"run": f"run-{seed}", **(host() if facts is None else facts)}
    begun = f"2026-01-{seed:02}T00:00:00+00:00"
    with contextlib.closing(records.claim(folder)) as opened:
        Records(of or study(), form, seed, facts, begun, list(rows)).write(opened)
    return folder
