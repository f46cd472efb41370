# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Result folders of the study `failover`. SYNTHETIC: nothing in them was measured."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from diolkos_lab import studies
from diolkos_lab.experiment.failover import FailoverStudy, FaultPlan
from diolkos_lab.failover import trial
from diolkos_lab.failover.trial import Planned
from diolkos_lab.outcome import INSTRUMENT
from diolkos_lab.run.guards import Objection
from diolkos_lab.samples import folder as samples_folder

GOOD = {
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
}


def study() -> FailoverStudy:
    found = studies.of_faults_named("failover")
    assert found is not None
    return found


def row(
    fault: str = "kill-gateway",
    gateways: str = "cluster",
    repetition: int = 0,
    guards: Sequence[str] = (),
    error: str | None = None,
    without: Collection[str] = (),
    **changes: Any,
) -> dict[str, Any]:
    """A trial, good but for `changes`: None is a figure without end. `error` is of an instrument, `lost` of a gateway."""
    planned = Planned(gateways, FaultPlan(name=fault), repetition, seed=1)  # type: ignore[arg-type]
    objections = [Objection("generator", guard) for guard in guards] + ([Objection(INSTRUMENT, error)] if error else [])
    measured = {} if error else {name: value for name, value in {**GOOD, **changes}.items() if name not in without}
    started = f"2026-01-01T00:{repetition:02}:00.000+00:00"
    return {**trial.line(planned, {**measured, "guards": objections}), "started": started, "duration": 60.0}


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
    header = {"form": form, "quick": form == "quick", "seed": seed, "started": f"2026-01-{seed:02}T00:00:00+00:00"}
    writer = samples_folder.Writer(folder, of or study(), facts.get("systems", {}), header)
    writer.host(facts)
    for each in rows:
        writer.record(each)
    writer.close()
    return folder


def read(folder: Path) -> samples_folder.FailoverResult:
    found = samples_folder.read(folder)
    assert isinstance(found, samples_folder.FailoverResult)
    return found
