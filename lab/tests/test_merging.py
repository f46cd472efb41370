# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs of several hosts as one result: nothing is compared across runs, and every row says where it is from."""

import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parent / name) for name in ("serve", "report")]

import runs
import synthetic_curves

from diolkos_lab import comparing, merging, report, summary
from diolkos_lab.export import one_run
from diolkos_lab.faults import UsageFault
from diolkos_lab.samples import folder


@pytest.fixture
def campaign(tmp_path: Path) -> dict[str, Path]:
    """Two runs on alpha, where diolkos has 0.9 of native, and one on beta with 0.7. Beta is half as fast."""
    found = {
        "first": runs.write(tmp_path / "first", 1),
        "second": runs.write(tmp_path / "second", 2),
        "third": runs.write(tmp_path / "third", 3, host="beta", kernel="6.18.2", level=0.7),
    }
    _change(found["third"], lambda trial: trial["metrics"].update(throughput=trial["metrics"]["throughput"] / 2))
    return found


def _change(where: Path, change: Callable[[dict[str, Any]], None]) -> None:
    header, *trials = [json.loads(line) for line in (where / "samples.jsonl").read_text().splitlines()]
    for trial in trials:
        change(trial)
    (where / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (header, *trials)))


def _merged(campaign: dict[str, Path], out: Path, by: str | None = None) -> tuple[folder.Result, dict[str, Any]]:
    merging.merge(list(campaign.values()), out, by)
    result = folder.read(out)
    return result, summary.write(result)


def _row(found: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    (row,) = [row for row in found["rows"] if all(row.get(name) == value for name, value in wanted.items())]
    return row  # type: ignore[no-any-return]


def test_every_row_says_where_it_is_from(campaign: dict[str, Path], tmp_path: Path) -> None:
    result, _ = _merged(campaign, tmp_path / "all")
    origins = {(trial["host"], trial["run"], trial["kernel"]) for trial in result.trials}
    assert origins == {("alpha", "alpha #1", "6.12.1"), ("alpha", "alpha #2", "6.12.1"), ("beta", "beta", "6.18.2")}
    blocks = [{t["block"] for t in result.trials if t["run"] == run and t["block"]} for run in ("alpha #1", "alpha #2", "beta")]
    assert [len(each) for each in blocks] == [8, 8, 8] and not blocks[0] & blocks[1] and not blocks[1] & blocks[2]
    for name, where in campaign.items():
        assert len(folder.read(where).trials) == 18, f"{name} stays as it is"


def test_a_ratio_is_of_one_run_and_each_host_has_one_voice(campaign: dict[str, Path], tmp_path: Path) -> None:
    _, found = _merged(campaign, tmp_path / "all")
    row = _row(found, system="diolkos", metric="throughput")
    by_host = {each["host"]: each["ratio"] for each in row["hosts"]}
    assert by_host["alpha"] == pytest.approx(0.9, abs=0.02) and by_host["beta"] == pytest.approx(0.7, abs=0.02)
    assert row["ratio"] == pytest.approx(0.8, abs=0.02), "alpha's two runs do not outvote beta"
    low, high = row["ratio_ci95"]
    assert low < row["ratio"] < high and high - low < 0.05, "of just these hosts"
    assert found["merged"] == {"hosts": ["alpha", "beta"], "runs": 3}
    assert "24 blocks of 3 runs on 2 hosts" in found["verdicts"][0]["sentence"]


def test_a_fact_can_tell_cells_apart(campaign: dict[str, Path], tmp_path: Path) -> None:
    _, found = _merged(campaign, tmp_path / "all", "kernel")
    assert _row(found, system="diolkos", kernel="6.12.1", metric="throughput")["ratio"] == pytest.approx(0.9, abs=0.02)
    assert _row(found, system="diolkos", kernel="6.18.2", metric="throughput")["ratio"] == pytest.approx(0.7, abs=0.02)


def test_six_hosts_are_a_random_effect(tmp_path: Path) -> None:
    levels = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
    six = {f"h{n}": runs.write(tmp_path / f"h{n}", n + 1, host=f"h{n}", level=level) for n, level in enumerate(levels)}
    _, found = _merged(six, tmp_path / "all")
    low, high = _row(found, system="diolkos", metric="throughput")["ratio_ci95"]
    assert low < 0.65 and high > 0.9, "the interval covers how hosts differ"
    said = merging.merge(list(six.values()), tmp_path / "again")
    assert "The hosts are a random effect" in " ".join(said)


def test_report_comparison_and_export_read_it(campaign: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    result, _ = _merged(campaign, tmp_path / "all")
    page = report.write(tmp_path / "all").read_text()
    assert "Hosts and runs" in page and "alpha #2" in page and "2 hosts are too few to know how hosts differ" in page
    (tables,) = [list(csv.reader((tmp_path / "all" / "tables" / "by-host.csv").open()))]
    assert tables[0][3:5] == ["alpha", "beta"]
    method = one_run.files(tmp_path / "all")["method.txt"]
    assert "3 times on 2 hosts" in " ".join(method.split())
    changes = comparing.compare(folder.read(campaign["first"]), result)
    assert changes


def test_merged_folders_can_be_merged(campaign: dict[str, Path], tmp_path: Path) -> None:
    merging.merge([campaign["first"], campaign["third"]], tmp_path / "two")
    result, found = _merged({"two": tmp_path / "two", "second": campaign["second"]}, tmp_path / "all")
    assert {trial["run"] for trial in result.trials} == {"alpha #1", "alpha #2", "beta"}
    direct = _merged(campaign, tmp_path / "direct")[1]
    for metric in ("ratio", "ratio_ci95"):
        assert _row(found, system="diolkos")[metric] == pytest.approx(_row(direct, system="diolkos")[metric], abs=0.01)


def test_curves_stay_those_of_a_run(tmp_path: Path) -> None:
    """Each run looks for rates of its own, and has a generator of its own."""
    both = {"one": synthetic_curves.folder(tmp_path / "one"), "two": synthetic_curves.folder(tmp_path / "two", seed=4)}
    facts = json.loads((both["two"] / "host.json").read_text())
    (both["two"] / "host.json").write_text(json.dumps({**facts, "hostname": "beta", "generator": []}))
    result, found = _merged(both, tmp_path / "all")
    curves = summary.gathered(result)
    alone = summary.gathered(folder.read(both["one"]))
    assert len(curves) == 2 * len(alone)
    mine = {(c.setting.subject, c.setting.placement): c.found.pdr.rate for c in curves if c.setting.run == "unnamed"}
    assert mine == {(c.setting.subject, c.setting.placement): c.found.pdr.rate for c in alone}
    assert {c.generator for c in curves if c.setting.run == "beta"} == {None}
    assert {row["run"] for row in found["rows"]} == {"unnamed", "beta"}
    assert "on beta" in report.write(tmp_path / "all").read_text()


def test_what_cannot_be_put_together_is_refused(campaign: dict[str, Path], tmp_path: Path) -> None:
    first, third = campaign["first"], campaign["third"]
    other = runs.write(tmp_path / "other", 4, study="another")
    with pytest.raises(UsageFault, match=r"holds the study small, .* the study another; only runs of one study"):
        merging.merge([first, other], tmp_path / "x")
    with pytest.raises(UsageFault, match="one folder is whole already"):
        merging.merge([first], tmp_path / "x")
    with pytest.raises(UsageFault, match="is one of the folders"):
        merging.merge([first, third], third)
    with pytest.raises(UsageFault, match="--by colour: no such fact; there are host, kernel, run"):
        merging.merge([first, third], tmp_path / "x", "colour")
    shutil.copytree(first, tmp_path / "copy" / "first")
    with pytest.raises(UsageFault, match=r"first and .*copy/first hold the same run; name each run once"):
        merging.merge([first, tmp_path / "copy" / "first"], tmp_path / "x")
    text = (third / "study.toml").read_text()
    (third / "study.toml").write_text(text.replace("seconds = 1", "seconds = 2"))
    with pytest.raises(UsageFault, match="`form` of the study differs between"):
        merging.merge([first, third], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_two_machines_of_one_name_are_two_hosts(campaign: dict[str, Path], tmp_path: Path) -> None:
    facts = json.loads((campaign["second"] / "host.json").read_text())
    (campaign["second"] / "host.json").write_text(json.dumps({**facts, "cores": 64}))
    result, _ = _merged(campaign, tmp_path / "all")
    assert {trial["host"] for trial in result.trials} == {"alpha", "alpha (2)", "beta"}
