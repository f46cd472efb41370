# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What programs read: one JSON document on standard output and nothing else there, with the keys that docs/results.md lists."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import json_output
from diolkos_lab.doctor import Finding
from diolkos_lab.stats.comparison import Change
from diolkos_lab.stats.pairing import CellKey

HERE = Path(__file__).parent
STUDY = {"name", "title", "question", "systems", "expected_s"}
SYSTEM = {"name", "title", "datapaths", "known_answer", "file", "available", "binary", "version", "reason", "how"}
CHANGE = {
    "subject",
    "load",
    "factors",
    "metric",
    "unit",
    "better",
    "relative_to_native",
    "first",
    "second",
    "change",
    "ci95",
    "p",
    "significant",
}


def _lab(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diolkos_lab", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "FORCE_COLOR": "1", **environment}
    )


def _document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found = json.loads(done.stdout)
    assert found.pop("format") == 1
    assert isinstance(found, dict)
    return found


def _fault(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2 and not done.stdout, done.stdout
    (line,) = done.stderr.splitlines()
    return line


def _result(folder: Path, record: Callable[..., dict[str, Any]], throughput: float, study: str = "small") -> Path:
    """Eight blocks of native, and of a system that has this much of its throughput."""
    folder.mkdir()
    text = (HERE / "study_small.toml").read_text().replace('name = "small"', f'name = "{study}"')
    (folder / "study.toml").write_text(text)
    system = {"system": "diolkos", "datapath": "tun", "family": "ipv4"}
    lines: list[dict[str, Any]] = [{"format": 1, "study": study}]
    for block in range(1, 9):
        lines.append(record(block=block, metrics={"throughput": 1e9 + block}))
        lines.append(record(block=block, **system, metrics={"throughput": throughput * (1e9 + block) + 1e6 * block}))
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "host.json").write_text(json.dumps({"format": 1, "kernel": str(throughput)}))
    return folder


def test_list() -> None:
    done = _lab("list", "--json", PATH="/nowhere")
    found = _document(done)
    assert done.returncode == 0 and not done.stderr
    assert set(found) == {"studies", "systems", "faults", "missing_tools"}
    studies = {study["name"]: study for study in found["studies"]}
    assert all(set(study) == STUDY for study in studies.values())
    assert set(studies["siit"]["expected_s"]) == {"quick", "full"} and 60 < studies["siit"]["expected_s"]["quick"] < 600
    systems = {system["name"]: system for system in found["systems"]}
    assert all(set(system) == SYSTEM for system in systems.values())
    assert systems["native"]["available"] and systems["native"]["reason"] is None
    assert not systems["tundra"]["available"] and "--path tundra=PATH" in systems["tundra"]["how"]
    assert set(studies["clat"]["systems"]) <= set(systems)


def test_list_names_missing_tools() -> None:
    document = json_output.list_document([], [], {"curl": ("apt-get install curl", ["clat"])}, {}, [])
    assert document["missing_tools"] == [{"tool": "curl", "how": "apt-get install curl", "studies": ["clat"]}]


@pytest.mark.root
def test_doctor() -> None:
    done = _lab("doctor", "--json")
    found = _document(done)
    busy = any(finding["state"] == "unfit" for finding in found["findings"])  # while tests run beside other work
    assert done.returncode == int(busy) and bool(done.stderr) is busy, done.stderr
    assert set(found) == {"fit", "findings"} and found["fit"] is not busy
    assert all(set(finding) == {"state", "subject", "detail"} for finding in found["findings"])
    assert {"root", "clocksource", "steal"} <= {finding["subject"] for finding in found["findings"]}


@pytest.mark.root
def test_a_host_that_is_not_fit_exits_3_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("ping", "nft", "nsenter", "taskset"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") or "/nowhere")
    program = (
        "import sys\nfrom diolkos_lab import cli\nfrom diolkos_lab.sut import lookup\n"
        "lookup.SYSTEM_FOLDERS = '/nowhere'\nsys.argv = ['diolkos-lab', 'doctor', '--json']\ncli.main()"
    )
    environment = {**os.environ, "PATH": str(tmp_path / "bin")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert done.returncode == 3, done.stderr
    assert _document(done)["fit"] is False
    (line,) = done.stderr.splitlines()
    assert "this host cannot measure; missing: iperf3" in line


def test_findings_of_each_state() -> None:
    doubtful, missing = Finding("doubtful", "steal", "20 %"), Finding("missing", "root", "sudo")
    assert json_output.doctor_document([doubtful])["fit"] is True
    assert json_output.doctor_document([doubtful, missing])["fit"] is False


def test_compare(tmp_path: Path, record: Callable[..., dict[str, Any]]) -> None:
    first, second = (_result(tmp_path / str(share), record, share) for share in (0.5, 0.75))
    done = _lab("compare", first, second, "--json")
    found = _document(done)
    assert done.returncode == 0 and not done.stderr
    assert set(found) == {"study", "first", "second", "host_differences", "changes"}
    assert (found["study"], found["first"], found["second"]) == ("small", str(first), str(second))
    assert found["host_differences"] == [{"fact": "kernel", "first": "0.5", "second": "0.75"}]
    assert all(set(change) == CHANGE for change in found["changes"])
    (change,) = (change for change in found["changes"] if change["relative_to_native"])
    assert (change["subject"], change["load"], change["metric"]) == ("diolkos/tun/ipv4/1", "tcp-upload", "throughput")
    assert change["unit"] == "ratio" and change["better"] == "higher" and change["significant"] is True
    assert change["first"] == pytest.approx(0.5, rel=0.02) and change["change"] == pytest.approx(1.5, rel=0.02)
    (native,) = (change for change in found["changes"] if not change["relative_to_native"])
    assert native["unit"] == "bit/s" and native["significant"] is False


def test_what_is_infinite_is_null() -> None:
    cell = CellKey("diolkos/tun/ipv4/1", "ping", (("count", 5),))
    change = Change(cell, "rtt", False, (0.25, math.inf), math.inf, (1.0, math.inf), 0.01)
    (found,) = json.loads(
        json_output.text(json_output.compare_document("small", (Path("a"), Path("b")), [json_output.change_entry(change)], {}))
    )["changes"]
    assert (found["first"], found["second"], found["change"], found["ci95"]) == (0.25, None, None, [1.0, None])
    assert found["factors"] == {"count": 5} and found["unit"] == "s"


def test_faults_are_one_sentence_and_no_document(tmp_path: Path, record: Callable[..., dict[str, Any]]) -> None:
    first, other = _result(tmp_path / "first", record, 0.5), _result(tmp_path / "other", record, 0.5, "another")
    assert "holds the study small" in _fault(_lab("compare", first, other, "--json"))
    assert "is not a folder: there is nothing of that name" in _fault(_lab("compare", first, tmp_path / "no", "--json"))
    (other / "samples.jsonl").write_text('{"format": 2, "study": "another"}\n')
    assert "this lab reads format 1, not 2" in _fault(_lab("compare", other, other, "--json"))
    assert "expected SYSTEM=PATH" in _fault(_lab("list", "--json", "--path", "tayga"))
