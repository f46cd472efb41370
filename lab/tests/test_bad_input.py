# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files that are half written, of a newer lab, or made to do harm: one sentence, exit code 2, nothing run, nothing written."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from diolkos_lab import screen
from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Study
from diolkos_lab.faults import UsageFault, printable
from diolkos_lab.samples import folder as samples_folder
from whole_program import Lab, refused

HERE = Path(__file__).parent
SMALL = (HERE / "study_small.toml").read_text()
HOST = '{"format": 1}'
HARM = "[/red]\x1b[2J\x1b]0;title\x07\n\u202e<script>"
Record = Callable[..., dict[str, Any]]


def _written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def result(tmp_path: Path, record: Record) -> Path:
    """Six blocks of native, which can be compared."""
    path = tmp_path / "in" / "result"
    path.mkdir(parents=True)
    (path / "study.toml").write_text(SMALL)
    (path / "host.json").write_text(HOST)
    lines = [{"format": 1, "study": "small"}, *(record(block=block) for block in range(7))]
    (path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _header(path: Path, **more: Any) -> None:
    (path / "samples.jsonl").write_text(json.dumps({"format": 1, "study": "small", **more}) + "\n")


HALF_WRITTEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no study": (lambda path: (path / "study.toml").unlink(), "not a result folder: it has no study.toml"),
    "no samples": (lambda path: (path / "samples.jsonl").unlink(), "not a result folder: it has no samples.jsonl"),
    "empty samples": (lambda path: (path / "samples.jsonl").write_text(""), "this lab reads format 1, not nothing"),
    "header alone": (_header, "holds no trials"),
    "half a study": (lambda path: (path / "study.toml").write_text(SMALL[:200]), "study.toml:"),
    "half a host": (lambda path: (path / "host.json").write_text(HOST[:7]), "host.json: "),
}
NEWER: dict[str, tuple[Callable[[Path], object], str]] = {
    "samples": (lambda path: _header(path, format=2), "samples.jsonl:1:1: this lab reads format 1, not 2"),
    "study": (
        lambda path: (path / "study.toml").write_text(SMALL.replace("format = 1", "format = 2")),
        "study.toml:3:1: format: this lab reads format 1, not 2",
    ),
    "host": (lambda path: (path / "host.json").write_text('{"format": 2}'), "host.json: this lab reads format 1, not 2\n"),
    "load": (
        lambda path: (path / "samples.jsonl").write_text((path / "samples.jsonl").read_text().replace("tcp-upload", "quic")),
        "samples.jsonl:2:1: load: ",
    ),
    "key": (lambda path: (path / "study.toml").write_text(f"colour = 1\n{SMALL}"), "study.toml:1:1: colour: "),
}


@pytest.mark.parametrize(("harm", "says"), [*HALF_WRITTEN.values(), *NEWER.values()], ids=[*HALF_WRITTEN, *NEWER])
def test_half_written_and_newer_folders(result: Path, harm: Callable[[Path], object], says: str, lab: Lab) -> None:
    harm(result)
    before = _written(result.parents[1])
    assert says in refused(lab("report", result))
    assert says in refused(lab("compare", result, result, "--json"))
    assert _written(result.parents[1]) == before


def test_a_run_that_ended_in_its_warm_up_is_not_compared(result: Path, record: Record, lab: Lab) -> None:
    (result / "samples.jsonl").write_text(f"{json.dumps({'format': 1, 'study': 'small'})}\n{json.dumps(record(block=0))}\n")
    assert "holds no trials after the warm-up" in refused(lab("compare", result, result))


def test_a_metric_of_a_newer_lab_is_left_alone(result: Path, record: Record, lab: Lab) -> None:
    lines = [
        {"format": 1, "study": "small"},
        *(record(block=block, metrics={"throughput": 1e9, "joy": 3}) for block in range(7)),
    ]
    (result / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, output, errors = lab("compare", result, result, "--json")
    assert (code, errors) == (0, "")
    assert [change["metric"] for change in json.loads(output)["changes"]] == ["throughput"]


def test_folders_of_different_studies(result: Path, tmp_path: Path, lab: Lab) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in result.iterdir():
        (other / file.name).write_text(file.read_text().replace('"small"', '"large"'))
    said = refused(lab("compare", result, other))
    assert said == f"{result} holds the study small, {other} the study large: they cannot be compared\n"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "small"', 'name = "../small"', "4:1: name: "),
        ('name = "small"', 'name = "[red]small"', "4:1: name: "),
        ('name = "small"', f'name = "{"s" * 300}"', "4:1: name: "),
        ('system = "native"', 'system = "../native"', "9:1: system.0.system: "),
        ('system = "native"', r'system = "[/red]\u001b[2J"', "9:1: system.0.system: "),
        ('datapath = "tun"', 'datapath = "../tun"', "15:1: system.1.datapath: "),
        ("blocks = 2", f"blocks = {'9' * 5000}", "a number has too many digits"),
        ("blocks = 2", f"blocks = {'[' * 20000}", "too deeply nested"),
        ("blocks = 2", "blocks = 2\ntime_budget_s = inf", "21:1: form.quick.time_budget_s: "),
        ("at_least = 0.5", "at_least = nan", "claim.0.at_least: "),
        ("seconds = 1", r'seconds = 1\ncongestion_control = "; reboot\u001b[2J"', "congestion_control: "),
        ("blocks = 2", r'blocks = 2\n"a\u001b[2J\nb" = 2', r"form.quick.a\x1b[2J\nb: "),
        ("format = 1", "format = 2", "3:1: format: this lab reads format 1, not 2"),
    ],
)
def test_a_study_that_means_harm(old: str, new: str, says: str, tmp_path: Path, lab: Lab) -> None:
    file = tmp_path / "study.toml"
    file.write_text(SMALL.replace(old, new.replace(r"\ncong", "\ncong").replace(r'2\n"a', '2\n"a'), 1))
    assert says in refused(lab("run", file, "--quick", "--out", tmp_path / "out"))
    assert _written(tmp_path) == {"study.toml"}


def test_a_study_that_is_no_file(tmp_path: Path, lab: Lab) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "endless.toml").symlink_to("/dev/zero")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "large.toml").write_text("#" * (1 << 20) + "\n")
    assert "is not a regular file" in refused(lab("run", tmp_path / "pipe.toml"))
    assert "is not a regular file" in refused(lab("run", tmp_path / "endless.toml"))
    assert "Is a directory" in refused(lab("run", tmp_path / "folder.toml"))
    assert "larger than 1 MiB" in refused(lab("run", tmp_path / "large.toml"))


def test_texts_of_a_study_are_texts(result: Path, lab: Lab) -> None:
    study = SMALL
    for key in ("title", "question", "claim"):
        line = next(line for line in SMALL.splitlines() if line.startswith(f"{key} = "))
        study = study.replace(line, f"{key} = {json.dumps(HARM)}")
    (result / "study.toml").write_text(study)
    code, output, errors = lab("report", result)
    assert (code, errors) == (0, "") and "\x1b" not in output
    page = (result / "report.html").read_text()
    assert "<script>alert" not in page and f"{HARM}" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize("name", ["[/red]", "[red]x", "line\nbreak", "\x1b[2J", os.fsdecode(b"\xff")])
def test_names_of_folders_are_shown_and_not_obeyed(name: str, result: Path, lab: Lab) -> None:
    (result.parent / name).parent.mkdir(exist_ok=True)
    path = result.rename(result.parent / name)
    code, output, errors = lab("report", path)
    assert (code, errors) == (0, "") and f"Report: {printable(str(path))}/report.html\n" in output
    (path / "study.toml").unlink()
    assert refused(lab("report", path)) == f"{printable(str(path))}: not a result folder: it has no study.toml\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bogus"], "No such command 'bogus'; see `diolkos-lab --help`"),
        (["compare", "one", "--json"], "Missing argument 'DIR'; see `diolkos-lab compare --help`"),
        (["list", "--jso"], "No such option: --jso"),
        (["doctor", "--json", "more"], " (more); see `diolkos-lab doctor --help`"),
        (["run", "siit", "--seed", "x"], "Invalid value for '--seed'"),
        (["[/red]\x1b[2J"], r"No such command '[/red]\x1b[2J'"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], says: str, lab: Lab) -> None:
    assert says in refused(lab(*arguments))


def test_without_a_command_the_help_is_shown(lab: Lab) -> None:
    code, output, errors = lab()
    assert code in (0, 2) and "compare" in output + errors


def test_an_analysis_replaces_none_of_its_files(tmp_path: Path, lab: Lab) -> None:
    file = tmp_path / "raw.txt"
    file.write_text('{"rate": 1000, "runs": []}\n')
    before = file.read_text()
    assert "is one of the files to analyze" in refused(lab("analyze", file, "--json", file))
    assert "is one of the files to analyze" in refused(lab("analyze", tmp_path, "--json", tmp_path / "." / "raw.txt"))
    assert file.read_text() == before


@pytest.mark.parametrize("seed", ["-1", str(10**18), "x"])
def test_seeds_that_no_reader_takes(seed: str, tmp_path: Path, lab: Lab) -> None:
    code, _, errors = lab("run", "siit", "--quick", "--seed", seed, "--out", tmp_path / "out")
    assert code == 2 and "--seed" in errors and not (tmp_path / "out").exists()


def test_a_result_in_the_folder_itself_is_moved_aside(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(result)
    samples_folder.claim(Path()).close()
    assert not list(result.iterdir()) and len(list(result.parent.iterdir())) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is kept from following links")
def test_a_link_in_place_of_the_folder_is_not_resolved(result: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(result)
    with pytest.raises(UsageFault, match="is a symbolic link"):
        samples_folder.claim(tmp_path / "link")
    assert (result / "samples.jsonl").exists()


def test_a_terminal_without_these_characters() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "diolkos_lab", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "464XLAT" in done.stdout and done.stdout.isascii()


def test_words_of_programs_are_shown_and_not_obeyed(lab: Lab, tmp_path: Path) -> None:
    """A version, and what a generator that fails says."""
    program = tmp_path / "tundra"
    program.write_text("#!/bin/sh\nprintf '[/red]\\033[2J\\n'\n")
    program.chmod(0o755)
    code, output, errors = lab("list", "--path", f"tundra={program}")
    assert (code, errors) == (0, "") and "\x1b[2J" not in output


def test_texts_of_a_study_and_a_system_are_texts_while_it_runs() -> None:
    study = document.parse(SMALL.replace('title = "Small"', f"title = {json.dumps(HARM)}"), Path("study.toml"), Study)
    session: Any = SimpleNamespace(remaining_s=lambda: 60.0, form=study.form["quick"], lanes=[])
    testbed: Any = SimpleNamespace(failure=HARM)
    shown = io.StringIO()
    observer = screen.Screen(Console(file=shown, width=160))
    observer.planned(study, session, [], Path("out"))
    observer.testbed_ready(testbed)
    assert shown.getvalue().count(printable(HARM)) == 2
