# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs of a guest in a site, and what an export does when something of it fails."""

from pathlib import Path

import pytest
import runs

from diolkos_lab import report
from diolkos_lab.export import command
from diolkos_lab.faults import Fault
from diolkos_lab.report.charts.rows import Mark
from diolkos_lab.report.systems import LOOKS
from diolkos_lab.serve import changes, site
from diolkos_lab.serve.index import Index


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    runs.write(folder / "old", 1, study="clat", level=0.5)
    runs.write(folder / "new", 2, study="clat", level=0.9)
    runs.write(folder / "other", 3, study="small")
    return folder


def test_a_run_in_a_guest_is_marked(results: Path) -> None:
    """The form has its own name."""
    emulated = {"acceleration": "TCG", "emulator": "QEMU 7", "kernel": "6.1"}
    runs.write(results / "guest", 5, study="clat", guest=emulated, form="clocksources")
    runs.write(results / "lent", 7, study="clat", guest={**emulated, "acceleration": "KVM"})
    with Index([results]) as index:
        by_place = {run.place: (run.form, run.emulated) for run in index.listing.runs}
        assert by_place["guest"] == ("clocksources", True) and by_place["new"] == ("quick", False)
        assert not by_place["lent"][1], "the host's processor is real hardware"
        made: dict[str, bytes] = {}
        site.write("SYNTHETIC", index, 0, 0, made.__setitem__, lambda _: None)
    page = made["index.html"].decode()
    assert page.count(", emulated</small>") == 1 and "<small>clocksources, emulated</small>" in page


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
