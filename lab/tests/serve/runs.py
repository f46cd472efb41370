# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Small result folders. SYNTHETIC: nothing in them was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import lines
from diolkos_lab import summary
from diolkos_lab.samples import folder as samples_folder

STUDY = """format = 1
name = "{name}"
title = "SYNTHETIC"
question = "none"

[[system]]
system = "native"
datapath = "kernel"
family = "ipv6"

[[system]]
system = "diolkos"
datapath = "tc"
family = "ipv4"
baseline_family = "ipv6"

[form.quick]
blocks = 9

[[form.quick.load]]
name = "tcp-upload"
seconds = 1

[[claim]]
claim = "SYNTHETIC"
system = "diolkos"
datapath = "tc"
loads = ["tcp-upload"]
metric = "throughput"
at_least = 0.5
"""
DATA = ("study.toml", "host.json", "samples.jsonl", "summary.json")


def write(
    folder: Path,
    day: int = 1,
    *,
    study: str = "small",
    host: str = "alpha",
    kernel: str = "6.12.1",
    version: str = "0.1.0",
    level: float = 0.9,
    evaluated: bool = True,
    seed: int = 1,
    form: str | None = None,
    guest: dict[str, str] | None = None,
) -> Path:
    """A whole run of the given day, in which diolkos reaches `level` of native."""
    folder.mkdir(parents=True)
    draw = np.random.default_rng(seed + day)
    (folder / "study.toml").write_text(STUDY.format(name=study))
    facts = {"format": 1, "hostname": host, "kernel": kernel, "cpu_model": "SYNTHETIC", "cores": 2, "seed": 7}
    facts["systems"] = {"native": {"version": None}, "diolkos": {"version": f"diolkos {version}"}}
    if guest:
        facts["guest"] = guest
    (folder / "host.json").write_text(json.dumps(facts))
    header = {"format": 1, "study": study, "quick": True, "seed": 7, "started": f"2026-01-{day:02}T12:00:00+00:00"}
    if form:
        header |= {"quick": form == "quick", "form": form}
    written = [header, *(trial(draw, block, name, level) for block in range(9) for name in ("native", "diolkos"))]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    if evaluated:
        summary.write(samples_folder.read(folder))
    return folder


def trial(draw: np.random.Generator, block: int, system: str, level: float) -> dict[str, object]:
    native = system == "native"
    throughput = 1e10 * draw.normal(1, 0.01) * (1 if native else level)
    return lines.line(
        block=block,
        system=system,
        datapath="kernel" if native else "tc",
        family="ipv6" if native else "ipv4",
        metrics={"throughput": throughput},
        series={"throughput": {"t": [0.5, 1.0], "y": [throughput, throughput]}},
    )
