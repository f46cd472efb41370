# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The result folder: what is written is read again, nothing is overwritten, damage is named."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from diolkos_lab import studies, summary
from diolkos_lab.experiment.cells import TrialCell, lane_cells
from diolkos_lab.experiment.loads import TcpLoad
from diolkos_lab.faults import UsageFault
from diolkos_lab.run.trial import Trial
from diolkos_lab.samples import folder, host
from diolkos_lab.samples.folder import Writer
from diolkos_lab.samples.records import TrialRecord, require

Make = Callable[..., dict[str, Any]]
STUDY = studies.load("clat")
LANE = lane_cells(STUDY, STUDY.form["quick"], {"native"})[0]
CELL = TrialCell(LANE, next(load for load in STUDY.form["quick"].load if isinstance(load, TcpLoad)))


def _write(path: Path, trials: int = 3) -> None:
    writer = Writer(path, STUDY, {"native": {"binary": None, "version": "1"}}, {"quick": True, "seed": 5, "missing": []})
    writer.host({"kernel": "6.1"})
    for number in range(trials):
        writer.add(Trial(number, 0, CELL, "2026-01-01T00:00:00+00:00", 1.0, metrics={"throughput": 1e9}))
    writer.close()


def test_round_trip(tmp_path: Path) -> None:
    _write(tmp_path / "r")
    result = folder.read(tmp_path / "r")
    assert result.study.model_dump(exclude={"resolved"}) == STUDY.model_dump()
    assert result.header == {"format": 1, "study": "clat", "quick": True, "seed": 5, "missing": []}
    assert result.host == {"format": 1, "kernel": "6.1"}
    assert [trial["block"] for trial in result.trials] == [0, 1, 2]
    assert summary.write(result)["rows"][0]["trials"] == 2
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["format"] == 1


def test_a_folder_of_an_older_lab_is_read(tmp_path: Path) -> None:
    """With keys that there are no longer, and `cpu` for the CPU time per gigabyte."""
    _write(tmp_path / "r")
    study = tmp_path / "r" / "study.toml"
    old = tomllib.loads(study.read_text())
    old["guards"] |= {"retransmit_ratio": 0.1, "late_ratio": 0.1}
    old["form"]["quick"]["vary"] = {"ring": [512, 4096]}
    old["claim"] = [{**old["claim"][0], "metric": "cpu"}]
    study.write_text(tomli_w.dumps(old))
    samples = tmp_path / "r" / "samples.jsonl"
    samples.write_text(samples.read_text().replace('"throughput":1000000000.0', '"throughput":1000000000.0,"cpu":0.5'))
    result = folder.read(tmp_path / "r")
    assert result.study.claim[0].metric == "cpu_s_per_gb" and not result.study.form["quick"].vary.levels
    assert result.trials[1]["metrics"]["cpu_s_per_gb"] == 0.5


def test_an_older_result_is_moved_aside(tmp_path: Path) -> None:
    _write(tmp_path / "r", trials=1)
    _write(tmp_path / "r", trials=2)
    assert len(folder.read(tmp_path / "r").trials) == 2
    (aside,) = [path for path in tmp_path.iterdir() if path.name != "r"]
    assert len(folder.read(aside).trials) == 1


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageFault, match="holds something that is not a result"):
        folder.claim(tmp_path)
    with pytest.raises(UsageFault, match="is not a folder"):
        folder.claim(tmp_path / "thesis.tex")


def test_a_cut_off_last_line_is_left_out_and_a_broken_one_is_named(tmp_path: Path) -> None:
    _write(tmp_path / "r")
    file = tmp_path / "r" / "samples.jsonl"
    text = file.read_text()
    file.write_text(text[:-20])
    assert len(folder.read(tmp_path / "r").trials) == 2
    file.write_text(text.replace('{"block":1', '{"block":', 1))
    with pytest.raises(UsageFault, match=r"samples\.jsonl:3:1: not a JSON object"):
        folder.read(tmp_path / "r")


def test_other_formats_and_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="not a result folder"):
        folder.read(tmp_path)
    _write(tmp_path / "r")
    file = tmp_path / "r" / "samples.jsonl"
    file.write_text(file.read_text().replace('"format":1', '"format":99', 1))
    with pytest.raises(UsageFault, match="this lab reads format 1, not 99"):
        folder.read(tmp_path / "r")


def test_summary_counts_failures_and_distrust(record: Make) -> None:
    dead = record(system="tayga", datapath="tun", valid=False, error="tayga was killed by SIGKILL", metrics={})
    doubted = record(valid=False, distrust=[{"guard": "steal", "detail": "the hypervisor took 9 % of the CPUs"}])
    (failure,) = summary.failures([dead, dead | {"block": 2}, record()])
    assert (failure["system"], failure["trials"], failure["first_block"]) == ("tayga", 2, 1)
    assert summary.objections_by_guard([doubted, doubted, record(), doubted | {"block": 0}]) == [
        {"guard": "steal", "trials": 2, "example": "the hypervisor took 9 % of the CPUs"}
    ]


def test_host_facts_can_be_stored_and_say_what_matters() -> None:
    facts = host.facts()
    json.dumps(facts, allow_nan=False)
    for name in ("kernel", "cores", "clocksource", "mitigations", "virtualisation", "memory_bytes", "versions", "affinity"):
        assert name in facts
    assert facts["versions"]["python:numpy"]


def test_differing_facts_leave_out_what_always_differs(tmp_path: Path) -> None:
    _write(tmp_path / "a")
    first = folder.read(tmp_path / "a")
    first.host.update(date="1", kernel="6.1")
    _write(tmp_path / "b")
    second = folder.read(tmp_path / "b")
    second.host.update(date="2", kernel="6.12")
    assert folder.differing_facts(first, second) == {"kernel": ("6.1", "6.12")}


@pytest.mark.parametrize("ends", [[None, 1.0], [2.0, 1.0], [-1.0, None], [1.0], [1.0, 2.0, 3.0], ["1", None]])
def test_a_range_that_is_none_is_refused(record: Make, ends: list[Any]) -> None:
    require(TrialRecord, record(bounds={"rate": [1.0, None]}, build=3))
    with pytest.raises(ValueError, match=r"bounds\.rate"):
        require(TrialRecord, record(bounds={"rate": ends}))
