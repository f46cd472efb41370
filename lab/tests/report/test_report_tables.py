# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tables against values computed by hand, and readings that must not be counted."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import synthetic

from diolkos_lab.published import ratios
from diolkos_lab.report import over_time, published_table, tables
from diolkos_lab.report.costs import table as costs
from diolkos_lab.report.read import read

HEADER = {"format": 1, "study": "clat", "quick": True}


def trial(block, values, *, replica=1, valid=True, load="ping", quantity="rtt"):
    return {
        "block": block,
        "order": 0,
        "system": "tayga",
        "datapath": "tun",
        "family": "ipv4",
        "hops": 1,
        "replica": replica,
        "load": load,
        "factors": {},
        "valid": valid,
        "distrust": [],
        "error": None,
        "metrics": {},
        "series": {quantity: {"t": [0.1 * (i + 1) for i in range(len(values))], "y": values}},
    }


def folder(path, *trials):
    path.mkdir(exist_ok=True)
    (path / "samples.jsonl").write_text("\n".join(json.dumps(line) for line in (HEADER, *trials)))
    return path


def test_moments_by_hand():
    assert tables.moments(np.array([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])) == pytest.approx(
        [2.0, 5.0, 9.0, 2.13809, 8.3], rel=1e-5
    )


def test_one_reading_has_no_standard_deviation():
    assert tables.moments(np.array([3.0])) == [3.0, 3.0, 3.0, None, 3.0]


def test_readings_leave_out_warm_up_twins_and_distrusted_trials(tmp_path):
    run = read(
        folder(
            tmp_path,
            trial(0, [9e-3]),
            trial(1, [1e-3, 2e-3]),
            trial(1, [8e-3], replica=2),
            trial(2, [3e-3]),
            trial(3, [7e-3], valid=False),
        )
    )
    values, trials = tables.readings(run, run.cells[0], "ping", "rtt")
    assert sorted(values) == [1e-3, 2e-3, 3e-3]
    assert trials == 2


def test_readings_leave_out_the_start_that_the_study_does_not_count(tmp_path):
    run = read(folder(tmp_path, trial(1, [1.0, 2.0, 3.0, 4.0, 5.0], load="tcp-upload", quantity="throughput")))
    run.study["form"] = {"quick": {"load": [{"name": "tcp-upload", "start_s": 0.3}]}}
    values, _ = tables.readings(run, run.cells[0], "tcp-upload", "throughput")
    assert list(values) == [4.0, 5.0]


def test_lost_echoes_are_no_readings(tmp_path):
    run = read(folder(tmp_path, trial(1, [1e-3, None, 3e-3])))
    assert list(tables.readings(run, run.cells[0], "ping", "rtt")[0]) == [1e-3, 3e-3]


def test_a_table_of_the_thesis_form(tmp_path):
    run = read(folder(tmp_path, trial(1, [1e-3, 2e-3, 6e-3])))
    table = tables.distribution(run, "ping", "rtt", "RTT", "rtt")
    assert table.heads[:4] == ["Tool", "Env.", "IP", "Type"]
    assert table.lines == [["Tayga", "one host, clock unknown", "v4", "CLAT", "1.00", "3.00", "6.00", "2.65", "5.60", "3", "1"]]


def test_a_variant_that_lacks_a_factor_has_a_row_of_its_own(tmp_path):
    """Packets between two hosts name no number of nodes; those of as many flows of many nodes do."""
    common = {"placement": "apart", "size": 84, "flows": 4096, "offloads": "on", "seconds": 0.2}

    def packets(rate, **more):
        own = {"factors": common | more, "metrics": {"rate": rate}}
        return [trial(block, [1e-3], load="forwarding-rate") | own for block in (1, 2)]

    names = {"forwarding-rate flows=4096": 10.0, "forwarding-rate flows=4096 nodes=16384": 30.0}
    run = read(folder(tmp_path, *packets(10.0), *packets(30.0, nodes=16384)))
    assert set(run.loads("forwarding-rate")) == names.keys()
    (cell,) = run.cells
    for load, rate in names.items():
        assert {each.metrics["rate"] for each in run.used(cell, load)} == {rate}


def test_csv_holds_raw_units(whole):
    with (whole / "tables" / "throughput.csv").open() as file:
        lines = list(csv.DictReader(file))
    tc = next(line for line in lines if line["datapath"] == "tc" and line["load"] == "tcp-upload")
    row = next(
        r
        for r in json.loads((whole / "summary.json").read_text())["rows"]
        if (r["datapath"], r["load"], r["metric"]) == ("tc", "tcp-upload", "throughput")
    )
    assert float(tc["median (bit/s)"]) == row["median"]
    assert float(tc["ratio_ci95_high"]) == row["ratio_ci95"][1]


def test_mean_and_interval_over_trials_by_hand(tmp_path):
    run = read(folder(tmp_path, *(trial(b, [y, y]) for b, y in ((1, 1.0), (2, 2.0), (3, 3.0)))))
    (line,) = over_time.panels(run, ["ping"], "rtt")[0].lines
    assert line.mean == pytest.approx([2.0, 2.0])
    assert line.high - line.mean == pytest.approx([2.484, 2.484], abs=1e-3)  # t(0.975, 2) * 1 / sqrt(3)


def test_a_single_trial_has_a_line_without_band(tmp_path):
    run = read(folder(tmp_path, trial(1, [1.0, 2.0])))
    (line,) = over_time.panels(run, ["ping"], "rtt")[0].lines
    assert np.isnan(line.low).all()
    assert list(line.mean) == [1.0, 2.0]


def test_long_trials_are_drawn_in_few_steps(tmp_path):
    run = read(folder(tmp_path, trial(1, list(range(1, 1001)))))
    (line,) = over_time.panels(run, ["ping"], "rtt")[0].lines
    assert len(line.mean) <= over_time.MOST_STEPS["rtt"] + 1
    assert np.all(np.diff(line.mean) > 0)


def test_doubtful_trials_are_all_in_the_csv_and_the_first_on_the_page(tmp_path):
    every = frozenset((system, block) for system in ("tayga", "native") for block in range(10))
    run = read(synthetic.folder(tmp_path / "result", synthetic.Plan(untrusted=every)))
    table = tables.doubtful(run)
    assert len(table.lines) == tables.MOST_PRINTED
    assert len(table.raw_lines) == sum(bool(t.objections) for t in run.trials) > tables.MOST_PRINTED
    assert f"of {len(table.raw_lines)}" in table.caption
    assert {line[3] for line in table.lines} <= {"warm-up", "not used"}


# ---- published figures


def test_ours_stands_beside_the_published_with_the_native_it_was_divided_by(tmp_path):
    run = read(synthetic.folder(tmp_path / "result", synthetic.Plan(absent=frozenset())))
    data = ratios.published_figures("clat")
    table = published_table.table(run, data, data.group[0])
    ours = {line[0]: line for line in table.raw_lines if line[2] == "this run"}
    assert {"Tayga", "Tundra", "Jool", "diolkos tc", "diolkos tun"} == set(ours)
    natives = {
        r.cell.hops: r.median
        for r in run.rows
        if r.cell.native and r.cell.family == "ipv6" and r.load == "tcp-upload" and r.metric == "throughput"
    }
    assert ours["Jool"][7] == natives[2]
    assert ours["Tayga"][7] == natives[1]
    assert [table.lines[i][0] for i in sorted(table.strong)] == [line[0] for line in table.raw_lines if line[2] == "this run"]


def test_a_system_that_did_not_run_is_shown_as_missing_with_its_reason(tmp_path):
    run = read(synthetic.folder(tmp_path / "result", synthetic.Plan(absent=frozenset({"jool", "tundra"}))))
    data = ratios.published_figures("clat")
    table = published_table.table(run, data, data.group[0])
    reasons = {entry["system"]: entry["reason"] for entry in run.missing}
    for line in (line for line in table.lines if line[1].startswith("this run") and line[0] in ("Jool", "Tundra")):
        assert line[3] == f"not measured: {reasons[line[0].lower()].rstrip('.')}"
    assert sum(line[3].startswith("not measured") for line in table.lines) == 2


# ---- the first screen


def test_the_first_screen_has_native_first_and_one_line_for_each_system(tmp_path):
    run = read(synthetic.folder(tmp_path / "result"))
    headings, lines, _ = costs(run, ())
    assert headings == ["TCP up", "TCP down", "CPU per GB", "Ping takes", "Trials"]
    assert [line.name for line in lines] == ["native IPv6", "native IPv4", "diolkos tc", "diolkos tun", "NAT44", "Tayga"]
    assert lines[0].native and "Gbit/s" in lines[0].cells[0][0]
    nat44 = lines[4]
    assert nat44.against == "of native IPv4, 2 hops"
    assert lines[5].cells[-1].value == "24 of 27"
    tc = lines[2].cells[0]
    assert [each[:6] for each in tc.small] == ["IPv4: ", "IPv6: "], "both families, first the one that asks more"
    assert tc.small[0].startswith(f"IPv4: {tc.value.split(chr(0x202F))[0]} [")


def test_a_load_that_was_not_measured_has_no_column(tmp_path):
    folder = synthetic.folder(tmp_path / "result")
    summary = json.loads((folder / "summary.json").read_text())
    summary["rows"] = [row for row in summary["rows"] if row["load"] != "tcp-download"]
    (folder / "summary.json").write_text(json.dumps(summary))
    headings, lines, _ = costs(read(folder), ())
    assert headings == ["TCP up", "CPU per GB", "Ping takes", "Trials"]
    assert {len(line.cells) for line in lines} == {4}


def test_a_ratio_above_one_is_no_loss_that_is_seen_and_has_its_number(tmp_path):
    run = read(synthetic.folder(tmp_path / "result"))
    rows = [
        replace(row, ratio=1.2, ratio_ci95=(1.1, 1.3)) if row.cell.system == "nat44" and row.load == "tcp-upload" else row
        for row in run.rows
    ]
    line = next(line for line in costs(replace(run, rows=rows), ()).lines if line.name == "NAT44")
    assert line.cells[0].value == "no loss seen" or line.cells[0].value.endswith("%")
    assert any("120 [110" in small for small in line.cells[0].small)


def test_the_first_screen_says_when_a_system_has_no_figure(tmp_path):
    run = read(synthetic.folder(tmp_path / "result", synthetic.Plan(failed=frozenset({"tayga"}))))
    tayga = next(line for line in costs(run, ()).lines if line.name == "Tayga")
    assert "failed" in tayga.failed
