# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A result folder of `nat-rules` drawn from a seeded generator. SYNTHETIC: nothing in it was measured.

By construction rules cost nothing but new flows: each rule before the one that counts adds time to a flow's first packet.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from diolkos_lab import studies, summary
from diolkos_lab.experiment.cells import LaneCell, TrialCell, lane_cells, trial_cells
from diolkos_lab.experiment.definition import FormName
from diolkos_lab.run.trial import Trial
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.sut import definition, offer

BEFORE = {"top": 0.0, "middle": 0.5, "append": 1.0}


def folder(path: Path, form: FormName = "quick", blocks: int = 8, seed: int = 5) -> Path:
    rng = np.random.default_rng(seed)
    study = offer.with_factor_levels(studies.load("nat-rules").of_form(form), definition.load_all())
    lanes = lane_cells(study, study.form[form], {subject.system for subject in study.system})
    absent = {"system": "wireguard", "datapath": "tunnel", "factor": "engine", "level": "kernel", "how": ""}
    absent |= {"reason": "`ip link add wg0 type wireguard` ended with exit code 2"}
    header = {"quick": form == "quick", "seed": seed, "missing": [absent]}
    with contextlib.closing(samples_folder.Writer(path, study, {}, header)) as writer:
        writer.host({"synthetic": True, "cores": 2})
        for block in range(blocks + 1):
            for order, cell in enumerate(trial_cells(study.form[form], lanes)):
                trial = TrialCell(cell.lane, cell.load)  # type: ignore[arg-type]
                found = _metrics(rng, cell.lane, cell.load.name)
                series = {
                    "rtt": {"t": [0.1 * i for i in range(20)], "y": list(found.get("rtt", 0.0) * rng.normal(1, 0.05, 20))}
                }
                writer.add(Trial(block, order, trial, "2026-01-01T00:00:00+00:00", 1.0, metrics=found,
                                 series=series if cell.load.name == "ping" else {}, build=block))  # fmt: skip
    summary.write(samples_folder.read(path))
    return path


def _metrics(rng: np.random.Generator, lane: LaneCell, load: str) -> dict[Any, float]:
    level = dict(lane.levels)
    nat = lane.subject.datapath in ("dnat", "conntrack")
    walked = float(level.get("rules", 0)) * BEFORE[str(level.get("position", "top"))]
    if level.get("backend") == "nft-map":
        walked = 0.0
    noise = rng.normal(1, 0.01)
    if load == "ping":
        return {"rtt": (1.2e-5 if nat else 1e-5) * noise, "loss": 0.0}
    if load.startswith("tcp"):
        return {"throughput": (1.6e10 if nat else 2e10) * noise, "cpu_s_per_gb": noise}
    if load == "udp":
        received = (2.5e9 if nat else 3.5e9) * noise
        return {"throughput": received, "sent_rate": 1.1 * received, "loss": 0.1, "socket_loss": 0.0, "cpu_s_per_gb": noise}
    first = 1e-6 * (3 if nat else 1) + walked * 2e-8
    if load == "http":
        return {"latency": (1e-4 + first) * noise, "rate": 1 / (1e-4 + first) * noise}
    return {"rate": noise / first, "loss": 0.0, "unanswered": 0.0, "established": 1e6 * noise, "attempts": 1.0}
