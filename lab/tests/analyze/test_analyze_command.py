# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos-lab analyze` as a user meets it: verdicts, files, faults and exit codes."""

import csv
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from diolkos_lab.analyze import command, output, page, raw, results
from diolkos_lab.report import charts
from diolkos_lab.report.charts import load_loss

RATES = np.arange(300_000, 1_500_001, 150_000)
RUNS = 6
GOOD_NAME = "clab_raw_6_k6.8_intel_bare-metal_as-is.txt"
BAD_NAME = "clab_raw_6_k6.5_intel_vm_nic_buf_4096_irq_pf0-1_pf1-1.txt"


def _write(file: Path, plr: np.ndarray, extra: str = "") -> Path:
    """Trials of 10 s that lose `plr`, a few packets more or less."""
    random = np.random.default_rng(7)
    with file.open("w") as stream:
        for rate, lost in zip(RATES.tolist(), plr, strict=True):
            tx = rate * 10 + 13
            rx = [round(tx * (1 - lost)) + int(random.integers(-9, 3)) for _ in range(RUNS)]
            stream.write(json.dumps([[rate, 0], *([tx, each, 0] for each in rx)]) + "\n")
        stream.write(extra)
    return file


def _saturated(at: float) -> np.ndarray:
    return np.maximum(0, 1 - at / RATES)


def _creeping() -> np.ndarray:
    """Loses 1 % long before it is saturated."""
    return np.where(RATES < 700_000, 0, 0.01) + np.where(RATES > 1_300_000, 0.15, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    _write(data / GOOD_NAME, _saturated(1e6))
    _write(data / BAD_NAME, _creeping())
    return data


def _analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diolkos_lab", "analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def _one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("diolkos-lab: "), done.stderr
    return lines[0]


def test_verdicts_on_the_screen_and_as_json(folder: Path, tmp_path: Path) -> None:
    done = _analyze(folder, "--rule", "all", "--json", tmp_path / "out.json")
    assert done.returncode == 0 and not done.stderr
    assert "GOOD by the rule paper (TIR < 0.1 at every load): 1 of 2" in done.stdout
    bad, good = json.loads((tmp_path / "out.json").read_text())
    assert good["file"] == str(folder / GOOD_NAME) and bad["file"] == str(folder / BAD_NAME)
    assert good["verdict"] == {"paper": "GOOD", "hysteresis": "GOOD", "notebook": "GOOD"}
    assert good["rates"] == RATES.tolist() and good["runs"] == RUNS
    assert good["plr"] == pytest.approx(_saturated(1e6), abs=1e-5)
    assert (good["first_index_above_pdr"], good["potential_index"]) == (5, 6)
    assert good["saturation_index"] == {"paper": 6, "hysteresis": 6, "notebook": 6}
    assert good["bracketed"] and good["pdr_0_5_bracket_pps"] == [900_000, 1_050_000]
    assert good["pdr_0_5_pps"] == pytest.approx(900_000 + 150_000 * 0.005 / (1 - 1 / 1.05), rel=1e-4)
    assert good["pdr_0_5_ci95"][0] <= good["pdr_0_5_pps"] <= good["pdr_0_5_ci95"][1]
    assert good["tir"][0] is None and good["tir_ci95"][0] == [None, None]
    assert good["factors"]["kernel"] == "6.8" and good["factors"]["nic_buffer"] == 512 and good["unknown_name_parts"] == []
    assert bad["verdict"]["paper"] == "BAD" and bad["factors"]["pinning"] == "1 CPU"
    assert bad["reason"].startswith("Throughput still grows at 900 kpps")
    assert not good["malformed"] and not good["depends_on_rule"]


def test_json_on_standard_output_stands_alone(folder: Path) -> None:
    done = _analyze(folder, "--json", "-")
    assert done.returncode == 0
    assert [len(entry["rates"]) for entry in json.loads(done.stdout)] == [9, 9]
    assert "1 of 2" in done.stderr


def test_what_is_no_file_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    """A device given as OUT must still be one afterwards; a pipe stands for it here."""
    pipe, file, link = tmp_path / "pipe", tmp_path / "file.json", tmp_path / "link.json"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    file.write_text("old")
    link.symlink_to(file)
    for each in (pipe, link):
        with output.document(each) as document:
            document.add({"a": 1})
    assert stat.S_ISFIFO(pipe.stat().st_mode) and json.loads(os.read(reader, 100)) == [{"a": 1}]
    assert link.is_symlink() and json.loads(file.read_text()) == [{"a": 1}]
    os.close(reader)
    assert sorted(tmp_path.iterdir()) == sorted((pipe, file, link))


def test_an_analysis_that_ends_early_leaves_the_older_document(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text("old")
    with pytest.raises(KeyboardInterrupt), output.document(file) as document:
        document.add({"a": 1})
        raise KeyboardInterrupt
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def test_a_malformed_line_is_named_and_the_rest_analyzed(folder: Path, tmp_path: Path) -> None:
    broken = _write(folder / "clab_raw_6_k6.8_intel_ns_odd.txt", _saturated(1e6), extra="[[1650000, 0], [165000")
    done = _analyze(broken, "--json", tmp_path / "out.json")
    assert done.returncode == 0
    assert _one_sentence(done).startswith(f"diolkos-lab: {broken}:10:23: not JSON: ")
    assert "name not understood" in done.stdout and "odd" in done.stdout
    (entry,) = json.loads((tmp_path / "out.json").read_text())
    assert entry["malformed"][0]["line"] == 10 and entry["unknown_name_parts"] == ["odd"]
    assert entry["verdict"]["paper"] == "GOOD"


def test_a_file_without_anything_to_use_exits_2_after_the_others(folder: Path, tmp_path: Path) -> None:
    (folder / "empty.txt").write_text("\n")
    (folder / "other.txt").write_text('[[250000, 4], {"PID": "x"}]\n')
    done = _analyze(folder, "--json", tmp_path / "out.json")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"diolkos-lab: {folder / 'empty.txt'}: holds no line that can be used",
        f"diolkos-lab: {folder / 'other.txt'}:1:1: trial 1 is not a list of tx, rx, …",
        f"diolkos-lab: {folder / 'other.txt'}: holds no line that can be used",
        "diolkos-lab: 2 of 4 files could not be analyzed; the reasons stand above",
    ]
    assert len(json.loads((tmp_path / "out.json").read_text())) == 2


def test_usage_faults_exit_2(folder: Path, tmp_path: Path) -> None:
    assert "there is no such file" in _one_sentence(done := _analyze(folder / "nothing.txt"))
    assert done.returncode == 2
    assert "--rule fair: there are paper, hysteresis, notebook, both, all" in _one_sentence(
        done := _analyze(folder, "--rule", "fair")
    )
    assert done.returncode == 2
    assert "holds something that is not an analysis" in _one_sentence(done := _analyze(folder, "--out", folder))
    assert done.returncode == 2 and len(list(folder.iterdir())) == 2
    assert _analyze().returncode == 2
    assert "is a folder" in _one_sentence(done := _analyze(folder, "--json", tmp_path))
    assert done.returncode == 2
    assert "there is no such folder" in _one_sentence(done := _analyze(folder, "--json", tmp_path / "nowhere" / "x.json"))
    assert done.returncode == 2
    (tmp_path / "nothing").mkdir()
    assert "no file in this folder ends in .txt" in _one_sentence(done := _analyze(tmp_path / "nothing"))
    assert done.returncode == 2


def test_the_folder_holds_pictures_tables_and_a_report(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _write(folder / "clab_raw_6_k5.15_intel_bare-metal_<odd>.txt", np.array([0, 0, 0, 0.02, 0.15, 0.25, 0.36, 0.43, 0.49]))
    done = _analyze(folder, "--rule", "notebook", "--out", out)
    assert done.returncode == 0, done.stderr
    drawn = {file.name for file in (out / "pictures").iterdir()}
    stems = [f"{number:03}-{file.stem}" for number, file in enumerate(sorted(folder.glob("*.txt")), start=1)]
    each = {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}
    assert drawn == each | {f"curves.{kind}" for kind in ("svg", "pdf")}
    text = (out / "report.html").read_text()
    assert "The curves on one sheet" in text and "&lt;odd&gt;" in text and "<odd>" not in text
    with (out / "verdicts.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["notebook"] for row in rows].count("GOOD") == sum(
        entry["verdict"]["notebook"] == "GOOD" for entry in json.loads((out / "analysis.json").read_text())
    )
    svg = (out / "pictures" / f"{stems[1]}.svg").read_text()
    assert "Rule notebook" in svg and "BAD" in svg and "PDR@0.5 %" in svg

    assert _analyze(folder, "--out", out).returncode == 0
    assert len([entry for entry in tmp_path.iterdir() if entry.name.startswith("out-")]) == 1, "the older analysis is kept"


def test_odd_names_of_files_do_no_harm(tmp_path: Path) -> None:
    for name in (b"50%#1?.txt", b"\xff\xfe [red].txt", "ä".encode() * 120 + b".txt"):
        (tmp_path / os.fsdecode(name)).write_text("[[1000, 0], [10, 10, 0]]\n")
    done = _analyze(tmp_path, "--out", tmp_path / "out", "--json", "-")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "report.html").read_text()
    links = re.findall(r'href="(pictures/[^"]+\.svg)"', text)
    assert len(links) == 3 and all((tmp_path / "out" / unquote(link)).is_file() for link in links)
    assert any(entry["file"].endswith("\ufffd\ufffd [red].txt") for entry in json.loads(done.stdout))


def test_many_files_are_shared_out_and_keep_their_order(tmp_path: Path) -> None:
    for number in range(2 * command.WORTH_A_PROCESS):
        _write(tmp_path / f"clab_raw_6_k5.{number + 10}_intel_vm_as-is.txt", _saturated(7e5 + 3e4 * number))
    (tmp_path / "broken.txt").write_text("x\n")
    out = tmp_path / "out"
    done = list(command.run(command.AnalyzeRequest((tmp_path,))))
    command.output.claim(out)
    drawn = list(command.run(command.AnalyzeRequest((tmp_path,), out=out)))
    assert [each.object for each in drawn] == [each.object for each in done]
    assert [each.faults for each in drawn] == [each.faults for each in done]
    assert len(list((out / "pictures").iterdir())) == 4 * command.WORTH_A_PROCESS


def test_one_file_is_read_at_a_time(folder: Path) -> None:
    """What was given first comes out before the next file is even opened."""
    stream = command.run(command.AnalyzeRequest((folder / GOOD_NAME, folder / BAD_NAME)))
    assert next(stream).line is not None
    (folder / BAD_NAME).unlink()
    assert next(stream).faults == (f"{folder / BAD_NAME}: No such file or directory",)


@pytest.mark.parametrize(
    "plr",
    [_saturated(1e6), _creeping(), np.zeros(9), np.full(9, 0.3), np.full(9, 1.0), -np.full(9, 1e-5)],
    ids=["good", "bad", "no loss", "lossy", "nothing arrives", "more than sent"],
)
def test_every_kind_of_curve_can_be_drawn(tmp_path: Path, plr: np.ndarray) -> None:
    analysis = results.analyze(raw.read(_write(tmp_path / GOOD_NAME, np.minimum(plr, 0.99999))), seed=1)
    assert "PDR@0.5 %" in charts.svg(load_loss.draw(analysis.found, analysis.title, "paper"))
    assert charts.svg(page.sheet([analysis, analysis], "paper").draw())


def test_one_load_with_one_trial_can_be_drawn(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text("[[1000, 0], [10, 10, 0]]\n")
    analysis = results.analyze(raw.read(file), seed=1)
    assert analysis.title == str(file)
    assert charts.svg(load_loss.draw(analysis.found, analysis.title, "paper"))
