# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an export writes, and what it does not write into."""

import csv
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import runs
from hypothesis import given
from hypothesis import strategies as st

from diolkos_lab.export import command, latex
from diolkos_lab.faults import UsageFault
from diolkos_lab.report.tables import Table
from diolkos_lab.serve import site
from diolkos_lab.serve.index import Index

HOSTILE = (
    "\\input{/etc/passwd} $x^2$ 50 % & #1 _a_ ~ {b} -- [c] \u202f\u2265 \u221e \u00b5s \u4e2d \u00e9 \x1b[2J \"q\" <<d>> 'e'`"
)


def _export(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diolkos_lab", "export", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return runs.write(tmp_path / "results" / "one")


def test_a_run_becomes_tables_a_paragraph_and_checksums(one: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in one.iterdir()}
    done = _export(one, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((one / name).read_bytes()).hexdigest() for name in runs.DATA}
    text = " ".join((out / "method.txt").read_text().split())
    for part in (
        "The study “SYNTHETIC” (small, quick form) ran on 2026-01-01 on one host, alpha (SYNTHETIC, 2 CPUs, Linux 6.12.1).",
        "Systems under test: diolkos 0.1.0 (tc).",
        "The run has 16 trials in 8 blocks, after a warm-up that is not counted.",
        "The order within a block was drawn at random (seed 7)",
        "Intervals are 95 % intervals of order statistics over the blocks.",
        "100 % of 16 trials are trusted: guards reject 0.",
        f"SHA-256 checksum {sums['samples.jsonl']}",
    ):
        assert part in text
    assert r"100 \% of 16 trials are trusted: guards reject 0." in (out / "method.tex").read_text()
    table = (out / "tables" / "throughput.tex").read_text()
    assert r"\toprule" in table and re.search(r"^diolkos tc & TCP upload & [89]\.\d+ \[[89]\.\d+--[89]\.\d+\] & ", table, re.M)
    with (out / "tables" / "throughput.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["system"] for line in lines] == ["native", "diolkos"]
    assert 0.85 < float(lines[1]["ratio"]) < 0.95
    assert re.search(r"at least 0\.5 & met & 0\.[89]", (out / "tables" / "verdicts.tex").read_text())
    assert {file.name: file.read_bytes() for file in one.iterdir()} == before, "the run's folder stays as it is"


def test_rejected_and_failed_trials_stand_in_the_paragraph(one: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (one / "samples.jsonl").read_text().splitlines()]
    lines[0]["missing"] = [{"system": "tayga", "datapath": "tun", "reason": "it is not installed", "how": "install it"}]
    lines[5] |= {"valid": False, "distrust": [{"guard": "steal", "detail": "9 %"}]}
    lines[6] |= {"valid": False, "error": "it died", "metrics": {}}
    for line in lines[1:]:
        line["build"] = line["block"] // 2
    (one / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = " ".join(command.one_run.files(one)["method.txt"].split())
    assert "94 % of 16 trials are trusted: guards reject 1; 1 failed." in text
    assert "they objected by steal (1). A failure counts as the worst value" in text
    assert "Tayga was not measured: it is not installed." in text
    assert "of order statistics over the builds" in text


def _braces(text: str) -> int:
    """Open braces at the end, those of `\\{` not counted; fails where one is closed that was never opened."""
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    return depth


@given(st.text())
def test_no_text_is_a_command(text: str) -> None:
    found = latex.escaped(text)
    plain = found.replace(r"\$", "").replace("$", " ")
    assert set(re.findall(r"\\(?:[A-Za-z]+(?:\{\})?|.)", plain)) <= {each.strip("$") for each in latex.SPECIAL.values()}
    assert _braces(found) == 0
    outside = re.sub(r"\\[$%&#_{}]|\$[^$]*\$", "", found)
    assert not re.search(r"[$%&#_^]", outside)
    assert all(letter >= " " for letter in found)


def test_a_ligature_is_none_and_a_bracket_no_argument() -> None:
    assert latex.escaped("a--b---c") == "a-{}-b-{}-{}-c"
    assert latex.escaped("1\u20132") == "1--2"
    line = Table("t", "", ["[x]"], [["[y]"]], [], []).lines[0]
    assert latex.table(Table("t", "", ["[x]"], [line], [], [])).count("{}[") == 2


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles_whatever_the_files_say(one: Path, tmp_path: Path) -> None:
    lines = (one / "samples.jsonl").read_text().splitlines()
    header = json.loads(lines[0]) | {"missing": [{"system": HOSTILE, "datapath": None, "reason": HOSTILE, "how": ""}]}
    (one / "samples.jsonl").write_text("\n".join([json.dumps(header), *lines[1:]]) + "\n")
    (one / "host.json").write_text(json.dumps({"format": 1, "kernel": HOSTILE, "hostname": HOSTILE}))
    summary = json.loads((one / "summary.json").read_text())
    summary["verdicts"] = [{**summary["verdicts"][0], "rule": HOSTILE, "outcome": f"[{HOSTILE}"}] * 50  # longer than a page
    (one / "summary.json").write_text(json.dumps(summary))
    command.export(command.ExportRequest([one], tmp_path / "out"), lambda _: None)
    latex_command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    done = subprocess.run(
        latex_command, cwd=tmp_path / "out", capture_output=True, text=True, errors="replace", check=False, timeout=250
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "(/etc/passwd" not in done.stdout


def test_runs_become_a_site_whose_links_lead_somewhere(few: Path, tmp_path: Path) -> None:
    said: list[str] = []
    command.export(command.ExportRequest([few], tmp_path / "out", pairs=2, reports=1), said.append)
    out = tmp_path / "out"
    text = (out / "index.html").read_text()
    assert "2 comparisons are in these files" in text and "1 runs have a report here." in text.replace(
        "1 run has", "1 runs have"
    )
    pages = list(out.rglob("*.html"))
    assert len([page for page in pages if page.parent.name == "compare"]) == 2
    for page in pages:
        if page.name != "report.html":
            for link in re.findall(r'href="([^"#]+)"', page.read_text()):
                assert (page.parent / link).resolve().is_file(), f"{page}: {link}"
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text), "nothing is loaded from elsewhere"


def test_a_site_beside_the_runs_is_no_run(one: Path) -> None:
    command.export(command.ExportRequest([one.parent], one.parent / "site", pairs=0), lambda _: None)
    assert list((one.parent / "site").rglob("samples.jsonl")), "the site has copies"
    with Index([one.parent]) as index:
        assert [run.place for run in index.listing.runs] == ["one"]


def test_neighbours_in_time_are_compared_first(few: Path) -> None:
    with Index([few]) as index:
        found = index.listing.runs
    pairs = [(first.place, second.place) for first, second in site.nearest(found, 100)]
    assert pairs[:2] == [("beta/fourth", "stopped"), ("beta/third", "beta/fourth")]
    assert len(pairs) == len(set(pairs)) == 10 and pairs[-1] == ("alpha/first", "stopped")
    assert site.nearest(found, 3) == site.nearest(found, 100)[:3]


def test_an_export_is_replaced_by_the_next_one(one: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    request = command.ExportRequest([one], out)
    command.export(request, lambda _: None)
    mark = json.loads((out / "export.json").read_text())
    (out / "tables" / "older.csv").write_text("of an earlier export")
    (out / "mine.txt").write_text("somebody's")
    victim = tmp_path / "victim"
    victim.write_text("years of work")
    mark["files"] += ["tables/older.csv", "../victim", "/etc/hostname", "a/../../victim"]
    (out / "export.json").write_text(json.dumps(mark))
    command.export(request, lambda _: None)
    assert not (out / "tables" / "older.csv").exists()
    assert (out / "mine.txt").read_text() == "somebody's" and victim.read_text() == "years of work"


def test_no_link_in_the_folder_is_written_through(one: Path, tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    command.export(command.ExportRequest([one], out), lambda _: None)
    victim.write_text("years of work")
    (out / "method.txt").unlink()
    (out / "method.txt").symlink_to(victim)
    command.export(command.ExportRequest([one], out), lambda _: None)
    assert victim.read_text() == "years of work" and not (out / "method.txt").is_symlink()
    shutil.rmtree(out / "tables")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (out / "tables").symlink_to(elsewhere)
    with pytest.raises(UsageFault, match="is a symbolic link or a file where a result has a folder"):
        command.export(command.ExportRequest([one], out), lambda _: None)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda out, one: (out.mkdir(), (out / "x").write_text("")), "holds something that is not an export"),
        (lambda out, one: shutil.copytree(one, out), "holds something that is not an export"),
        (lambda out, one: out.write_text(""), "exists and is not a folder"),
        (
            lambda out, one: (out.mkdir(), (out / "export.json").write_text('{"format": 2}')),
            "is not of an export of this version",
        ),
    ],
)
def test_a_folder_of_something_else_is_left_alone(one: Path, tmp_path: Path, prepare, said: str) -> None:
    out = tmp_path / "out"
    prepare(out, one)
    before = sorted(str(file) for file in tmp_path.rglob("*"))
    done = _export(one, "--out", out)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
    assert sorted(str(file) for file in tmp_path.rglob("*")) == before


def test_what_holds_no_run_is_one_sentence_and_writes_nothing(tmp_path: Path, one: Path) -> None:
    (tmp_path / "empty").mkdir()
    damaged = runs.write(tmp_path / "damaged")
    (damaged / "samples.jsonl").write_text("{}\n")
    for folder, said in (
        (tmp_path / "empty", "holds no result folder"),
        (tmp_path / "none", "is not a folder"),
        (damaged, "format"),
    ):
        done = _export(folder, "--out", tmp_path / "out")
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
        assert not (tmp_path / "out").exists()
