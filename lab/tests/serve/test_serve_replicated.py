# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The first page of a site leads to the latest run of each published study, with its question and its answer."""

import json
import re
from pathlib import Path

import pytest
import runs

from diolkos_lab import report
from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Study
from diolkos_lab.export import command
from diolkos_lab.faults import Fault
from diolkos_lab.published import ratios
from diolkos_lab.report.charts.rows import Mark
from diolkos_lab.report.systems import LOOKS
from diolkos_lab.serve import changes, replicated, site
from diolkos_lab.serve.index import Index
from diolkos_lab.serve.replicated import latest
from diolkos_lab.studies import shipped


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    runs.write(folder / "old", 1, study="clat", level=0.5)
    runs.write(folder / "new", 2, study="clat", level=0.9)
    runs.write(folder / "other", 3, study="small")
    return folder


def test_the_latest_run_answers_for_its_study(results: Path) -> None:
    with Index([results]) as index:
        studies = {each.title: each for each in replicated.studies(index)}
        assert set(studies) == {ratios.published_figures(name).title for name in ratios.studies()}
        clat = studies["Dual-stack against 464XLAT"]
        assert clat.run and clat.run.place == "new"
        assert re.search(r"Through diolkos tc, TCP keeps 90.*of native IPv6", clat.answer), clat.answer
        rules = studies["What NAT rules cost"]
        assert rules.run is None and "`sudo diolkos-lab run nat-rules --quick` makes one" in rules.answer


def test_a_run_that_goes_on_does_not_hide_one_that_has_ended(results: Path) -> None:
    runs.write(results / "going-on", 4, study="clat", evaluated=False)
    with Index([results]) as index:
        assert latest(index.listing, "clat").place == "new"


def test_a_run_of_real_hardware_goes_before_an_emulated_one(results: Path) -> None:
    """Which stands in where there is no other, and is marked. The form has its own name."""
    emulated = {"acceleration": "TCG", "emulator": "QEMU 7", "kernel": "6.1"}
    runs.write(results / "guest", 5, study="clat", guest=emulated, form="clocksources")
    runs.write(results / "rules", 6, study="nat-rules", guest=emulated, form="full")
    with Index([results]) as index:
        found = index.listing
        assert latest(found, "clat").place == "new" and latest(found, "nat-rules").place == "rules"
        by_place = {run.place: (run.form, run.emulated) for run in found.runs}
        assert by_place["guest"] == ("clocksources", True) and by_place["new"] == ("quick", False)
        made: dict[str, bytes] = {}
        site.write("SYNTHETIC", index, 0, 0, made.__setitem__, lambda _: None)
    page = made["index.html"].decode()
    lent = {"acceleration": "KVM", "emulator": "QEMU 7", "kernel": "6.1"}
    runs.write(results / "lent", 7, study="clat", guest=lent)
    with Index([results]) as index:
        assert latest(index.listing, "clat").place == "lent", "the host's processor is real hardware"
    [row] = re.findall(r"<tr .*>guest</span>.*</tr>", page)
    assert "<small>clocksources</small>" in row and ">emulated</small>" in row
    [row] = re.findall(r"<tr .*>new</span>.*</tr>", page)
    assert "<small>quick</small>" in row and "emulated" not in row
    assert "2026-01-06, alpha, full form, emulated processor</small>" in page
    assert "2026-01-02, alpha, quick form</small>" in page


def test_without_a_run_of_them_there_is_no_such_list(tmp_path: Path) -> None:
    runs.write(tmp_path / "results" / "one", study="small")
    with Index([tmp_path / "results"]) as index:
        assert replicated.studies(index) == []


def test_a_damaged_run_is_one_sentence_in_its_place(results: Path) -> None:
    summary = json.loads((results / "new" / "summary.json").read_text()) | {"rows": []}
    (results / "new" / "summary.json").write_text(json.dumps(summary))
    lines = (results / "new" / "samples.jsonl").read_text().splitlines()
    (results / "new" / "samples.jsonl").write_text(lines[0] + "\n")
    (results / "old" / "samples.jsonl").unlink()
    with Index([results]) as index:
        (clat, *_) = replicated.studies(index)
    assert clat.answer.startswith("Its latest run cannot be read: ") and clat.answer.count("\n") == 0


def test_questions_are_those_of_published_studies_that_the_lab_has() -> None:
    for name in set(ratios.studies()) & shipped().keys():
        assert ratios.published_figures(name).title == document.read(shipped()[name], Study).title


def test_the_first_page_of_an_export_leads_to_the_page_of_the_study(results: Path, tmp_path: Path, monkeypatch) -> None:
    made = []

    def write(folder: Path) -> Path:
        made.append(folder)
        (folder / "report.html").write_text("SYNTHETIC")
        return folder / "report.html"

    monkeypatch.setattr(report, "write", write)
    command.export(command.ExportRequest([results], tmp_path / "out", pairs=0, reports=1), lambda _: None)
    page = (tmp_path / "out" / "index.html").read_text()
    link = re.search(r'<a class="study" href="([^"]+)">Dual-stack against 464XLAT</a>', page)
    assert link and (tmp_path / "out" / link[1]).read_text() == "SYNTHETIC"
    assert len(made) == 1, "of the newest run of all, there was no room for a report"


@pytest.mark.parametrize(
    "problem", [Fault("the program that draws pictures has ended"), OSError(28, "No space left"), KeyError("x")]
)
def test_one_run_whose_report_fails_does_not_end_the_export(results: Path, tmp_path: Path, monkeypatch, problem) -> None:
    def write(folder: Path) -> Path:
        raise problem

    monkeypatch.setattr(report, "write", write)
    said: list[str] = []
    assert command.export(command.ExportRequest([results], tmp_path / "out", pairs=0), said.append).endswith("index.html")
    failed = [sentence for sentence in said if sentence.startswith("No report: ")]
    assert len(failed) == 3 and not any("\n" in sentence for sentence in failed)
    assert (tmp_path / "out" / "index.html").exists()


def test_an_export_that_cannot_write_says_so_in_one_sentence(results: Path, tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "index.html")

    monkeypatch.setattr(command.site, "write", full)
    with pytest.raises(Fault, match=r"^index\.html: the export cannot be written: No space left on device$"):
        command.export(command.ExportRequest([results], tmp_path / "out"), lambda _: None)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.1, 0.9], False),
        ([2.9], False),
        ([3.5], True),
        ([0.3], True),
        ([0.2, 1.0], True),
        ([0.0, 0.2], False),
        ([float("inf")], False),
    ],
)
def test_a_change_by_far_in_either_direction_has_a_logarithmic_scale(values: list[float], expected: bool) -> None:
    marks = [Mark("x", LOOKS[0], value, (value * 0.99, value * 1.01), "") for value in values]
    assert changes._spreads(marks) is expected
