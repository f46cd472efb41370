# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A run of load–loss curves: what is judged, what the summary says, and the page."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import synthetic_curves
from rich.console import Console
from synthetic_curves import PATHS

from diolkos_lab import report, summary
from diolkos_lab.curve.judge import judge
from diolkos_lab.curve.loss import measure
from diolkos_lab.curves import Measured
from diolkos_lab.experiment.frames import CpuPlacement
from diolkos_lab.report import charts, terminal
from diolkos_lab.report.charts import load_loss_sheet
from diolkos_lab.report.read import read
from diolkos_lab.report.systems import LOOKS
from diolkos_lab.samples import folder

GOOD, BAD = "GOOD", "BAD"


def _curves(path: Path, **how: Any) -> dict[tuple, Measured]:
    found = summary.gathered(folder.read(synthetic_curves.folder(path, **how)))
    names = ("system", "datapath", "family", "hops", "placement")
    return {tuple(getattr(curve.setting, name) for name in names): curve for curve in found}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = synthetic_curves.folder(tmp_path_factory.mktemp("curves") / "result")
    summary.write(folder.read(path))
    report.write(path)
    return path


def test_every_path_and_setting_is_a_curve_with_its_known_answer(tmp_path: Path) -> None:
    curves = _curves(tmp_path / "r")
    assert curves.keys() == PATHS.keys()
    for key, (saturation, _, beyond) in PATHS.items():
        found = curves[key].found
        assert found.verdict["paper"] == (BAD if beyond == "grows" else GOOD), key
        assert found.pdr.below is not None and found.pdr.below <= saturation <= (found.pdr.above or 0)
        assert curves[key].trusted and not curves[key].untrusted
        assert curves[key].latency == (4e-6, 9e-5)


def test_distrusted_trials_are_left_out_where_others_are_enough(tmp_path: Path) -> None:
    curves = _curves(tmp_path / "r", valid=lambda number: number % 3 != 0)
    for curve in curves.values():
        assert curve.trusted and curve.untrusted
        assert curve.found.curve.runs.sum() == curve.trials - curve.untrusted


def test_without_trusted_trials_all_are_shown_and_marked(tmp_path: Path) -> None:
    result = folder.read(synthetic_curves.folder(tmp_path / "r", valid=lambda number: False))
    found = summary.summarize(result)
    assert all(not curve["trusted"] for curve in found["curves"])
    assert all("not trusted" in curve["remarks"][0] for curve in found["curves"])
    assert {row["median"] for row in found["rows"]} == {None}, "a row holds trusted figures only"


def test_a_generator_without_reserve_is_said(tmp_path: Path) -> None:
    curves = _curves(tmp_path / "r")
    assert curves["native", "kernel", "ipv6", 2, "apart"].limited_by_generator is False
    fast = curves["native", "kernel", "ipv6", 1, "apart"]
    assert fast.limited_by_generator, "2.3 Mpps are less than twice 1.38"
    assert any("generator-bound" in remark for remark in fast.remarks)


def test_rows_compare_with_the_native_path_of_the_same_setting(written: Path) -> None:
    rows = json.loads((written / "summary.json").read_text())["rows"]
    [row] = [row for row in rows if row["system"] == "diolkos" and row["datapath"] == "siit-tc"]
    assert (row["metric"], row["unit"], row["baseline"]) == ("rate", "1/s", "native/kernel/ipv6/2")
    assert row["ratio"] == pytest.approx(548 / 612, rel=0.05)
    assert row["ci95"][0] < row["median"] < row["ci95"][1]


def test_the_summary_is_plain_json_with_reasons(written: Path) -> None:
    found = json.loads((written / "summary.json").read_text(), parse_constant=pytest.fail)
    for curve in found["curves"]:
        assert curve["reason"].keys() == curve["verdict"].keys() == {"paper", "hysteresis", "notebook"}
        assert len(curve["rates"]) == len(curve["plr"]) == len(curve["runs"]) == len(curve["tir"])


def test_the_page_has_every_curve_with_its_verdict(written: Path) -> None:
    page = (written / "report.html").read_text()
    assert "5 of 7 curves are GOOD" in page
    for text in ("native IPv6", "Tayga siit", "diolkos siit-tc", "Who paid", "Throughput still grows", "all on one CPU"):
        assert text in page, text
    assert len(list((written / "pictures").glob("curve-*.pdf"))) == len(PATHS)
    with (written / "tables" / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(PATHS)
    assert {row["verdict_paper"] for row in rows} == {GOOD, BAD}


def test_the_verdict_by_intervals_stands_beside_the_paper_s(written: Path) -> None:
    """On the page, in each curve's picture, in the table and its file, and in the terminal."""
    found = json.loads((written / "summary.json").read_text())
    firm = [curve["firm"]["paper"] for curve in found["curves"]]
    undecided = firm.count("undecided")
    assert 0 < undecided < len(firm)
    page = (written / "report.html").read_text()
    assert re.search(rf"By their intervals, {undecided} of the \d are undecided", page)
    with (written / "tables" / "curves.csv").open() as file:
        assert sorted(row["firm_paper"] for row in csv.DictReader(file)) == sorted(firm)
    drawn = [file.read_text() for file in (written / "pictures").glob("curve-*.svg")]
    assert sum("by intervals: undecided" in each for each in drawn) == undecided
    terminal.show(Console(file=(shown := io.StringIO()), width=160), read(written))
    assert "by intervals" in shown.getvalue() and shown.getvalue().count("undecided") >= undecided


def test_pdrs_are_at_a_glance_with_their_ratio_and_interval(written: Path) -> None:
    rows = [row for row in json.loads((written / "summary.json").read_text())["rows"] if row["ratio"] and row["ratio_ci95"]]
    picture = (written / "pictures" / "glance.svg").read_text()
    compared = [row for row in rows if row["system"] == "tayga"]
    assert compared
    for row in compared:
        assert f"{100 * row['ratio']:.1f}" in picture or f"{100 * row['ratio']:.2f}" in picture
    assert (written / "pictures" / "blocks-pps-rate.svg").is_file()


def test_curves_far_from_one_another_share_a_sheet_on_logarithmic_axes(tmp_path: Path) -> None:
    curve = next(iter(_curves(tmp_path / "r").values()))
    slow = judge(measure(curve.found.curve.rates / 20, *_counts(curve)))
    for others, scale in ((curve.found, "linear"), (slow, "log")):
        entries = [load_loss_sheet.Entry("a", curve.found, LOOKS[0]), load_loss_sheet.Entry("b", others, LOOKS[1], False)]
        drawn = load_loss_sheet.draw(entries, "paper")
        loss, throughput = drawn["vconcat"][0]["hconcat"]
        channels = [throughput["layer"][2]["encoding"][axis] for axis in ("x", "y")] + [loss["layer"][2]["encoding"]["x"]]
        assert {channel["scale"]["type"] for channel in channels} == {scale}
        words = re.findall(r"<text[^>]*>([^<]*)<", charts.svg(drawn))
        assert curve.found.verdict["paper"] in words, "trusted"
        assert f"({others.verdict['paper']})" in words, "not trusted"


def _counts(curve: Measured) -> tuple[Any, Any]:
    sent = np.full(curve.found.curve.trials.shape, 1e5)
    return sent, sent * (1 - curve.found.curve.trials)


@pytest.mark.parametrize("placement", get_args(CpuPlacement))
def test_the_page_has_words_for_every_placement(tmp_path: Path, placement: CpuPlacement) -> None:
    """Of the curves, and of the generator by itself."""
    path = synthetic_curves.folder(tmp_path / "r")
    for name in ("samples.jsonl", "host.json"):
        (path / name).write_text((path / name).read_text().replace('"one-cpu"', f'"{placement}"'))
    summary.write(folder.read(path))
    assert report.write(path).read_text()


def test_curves_of_the_same_name_keep_apart_on_a_sheet(tmp_path: Path) -> None:
    curve = next(iter(_curves(tmp_path / "r").values()))
    drawn = load_loss_sheet.draw([load_loss_sheet.Entry("a", curve.found, look) for look in LOOKS[:2]], "paper")
    assert [system["name"] for system in drawn["usermeta"]["systems"]] == ["a (1)", "a (2)"]
