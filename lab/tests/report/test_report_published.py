# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Published figures beside ours, for studies whose systems come in factor levels; what the originals could not see."""

import json
from dataclasses import replace

import pytest
import synthetic

from diolkos_lab.published import ratios
from diolkos_lab.report import counterparts, published, published_limits, published_rates, published_table, usual_page
from diolkos_lab.report.read import read

GBIT = 1e9


def row(system, datapath, family, load, median, ratio, metric="throughput", baseline="native/kernel/ipv6/1", **factors):
    native = system == "native"
    return {
        **{"system": system, "datapath": datapath, "family": family, "hops": 1, "load": load, "metric": metric, **factors},
        **{"unit": "bit/s", "trials": 9, "valid_trials": 9, "median": median, "ci95": [median * 0.99, median * 1.01]},
        **{"baseline": None if native else baseline, "ratio": None if native else ratio},
        "ratio_ci95": None if native else [ratio * 0.98, ratio * 1.02],
    }


def run(tmp_path, study, rows, missing=()):
    """A folder of statistics alone. SYNTHETIC."""
    folder = tmp_path / study
    folder.mkdir()
    (folder / "study.toml").write_text(f'format = 1\nname = "{study}"\ntitle = "SYNTHETIC"\nquestion = "none"\n')
    (folder / "host.json").write_text(json.dumps(synthetic.host(synthetic.Plan())))
    found = {"format": 1, "study": study, "quick": True, "rows": rows, "missing": list(missing)}
    (folder / "summary.json").write_text(json.dumps(found))
    return read(folder)


@pytest.fixture
def parallel(tmp_path):
    rows = []
    for streams in (1, 10, 20, 50, 64):
        for load in ("tcp-upload", "udp"):
            if load == "udp":  # at a rate that no path loses packets at, which the original does not have
                rows.append(row("tayga", "masquerade", "ipv6", load, GBIT, 0.9, streams=streams, rate="knee"))
            most = {"rate": "most"} if load == "udp" else {}
            rows.append(row("native", "kernel", "ipv6", load, 20 * GBIT, 1, streams=streams, **most))
            for system, datapath, share in (("tayga", "masquerade", 0.05), ("diolkos", "nat64-tc", 0.9)):
                rows.append(row(system, datapath, "ipv6", load, 20 * GBIT * share, share, streams=streams, **most))
    missing = [{"system": "jool64", "datapath": "nat64-module", "reason": "the kernel module is not loaded", "how": ""}]
    return run(tmp_path, "nat64-parallel", rows, missing)


def group(study, name):
    return next(each for each in ratios.published_figures(study).group if each.name == name)


def test_levels_that_were_published_stand_beside_ours(parallel):
    points = published.points(parallel, ratios.published_figures("nat64-parallel"), group("nat64-parallel", "tcp-v6-to-v4"))
    tayga = [point for point in points if point.panel == "Tayga"]
    assert [point.ours for point in tayga] == [False] * 4 + [True] * 4, "64 connections were not published"
    assert [point.name for point in tayga[:2]] == ["two hosts, 10 GbE, 1 connection", "two hosts, 10 GbE, 10 connections"]
    assert tayga[4].name == "Tayga + masquerade, 1 connection, this run"
    assert tayga[4].ratio == pytest.approx(0.05)


def test_systems_that_did_not_run_say_why(parallel):
    data, tcp = ratios.published_figures("nat64-parallel"), group("nat64-parallel", "tcp-v6-to-v4")
    said = {point.panel: point.why for point in published.points(parallel, data, tcp) if point.ours and point.ratio is None}
    assert said == {
        "Jool": "the kernel module is not loaded",
        "P4 on NetFPGA": "it needs an FPGA card",
    }
    table = published_table.table(parallel, data, tcp)
    assert ["Jool", "not measured: the kernel module is not loaded"] in [[line[0], line[3]] for line in table.lines]


def test_what_only_we_have_comes_last_with_all_its_levels(parallel):
    points = published.points(parallel, ratios.published_figures("nat64-parallel"), group("nat64-parallel", "udp-v6-to-v4"))
    assert [point.name for point in points][-1] == "diolkos nat64-tc, 64 connections, this run"


def test_of_several_rates_the_one_of_the_original_is_taken(parallel):
    points = published.points(parallel, ratios.published_figures("nat64-parallel"), group("nat64-parallel", "udp-v6-to-v4"))
    assert [point.ratio for point in points if point.panel == "Tayga" and point.ours] == [pytest.approx(0.05)] * 4


def test_the_other_direction_is_not_mixed_in(parallel):
    points = published.points(parallel, ratios.published_figures("nat64-parallel"), group("nat64-parallel", "tcp-v4-to-v6"))
    assert not [point for point in points if point.ours and point.ratio is not None]


def test_a_published_rate_above_its_link_is_marked(parallel):
    points = published.points(parallel, ratios.published_figures("nat64-parallel"), group("nat64-parallel", "udp-v4-to-v6"))
    marked = [point.name for point in points if "above the link" in point.text]
    assert len(marked) == 3 and all("20 conn" in name or "50 conn" in name for name in marked)


def test_ours_is_divided_by_native_of_its_own_level(parallel):
    found = next(r for r in parallel.rows if r.cell.system == "tayga" and r.raw["streams"] == 50)
    native = counterparts.native_row(parallel, found)
    assert native.cell.native and native.raw["streams"] == 50


@pytest.fixture
def rules(tmp_path):
    rows = [
        row("native", "kernel", "ipv6", "tcp-upload", 20 * GBIT, 1),
        row("native", "kernel", "ipv6", "ping", 1e-5, 1, "rtt"),
    ]
    for count in (0, 10, 1000, 10000):
        for place in ("client", "router"):
            for position in ("top", "middle", "append"):
                for backend in ("nft-list", "iptables-legacy"):
                    factors = {"rules": count, "place": place, "position": position, "backend": backend}
                    rows.append(row("natrules", "dnat", "ipv6", "tcp-upload", 17 * GBIT, 0.85, **factors))
    return run(tmp_path, "nat-rules", rows)


def test_a_range_over_rules_takes_ours_of_each_number_in_it(rules):
    points = published.points(rules, ratios.published_figures("nat-rules"), group("nat-rules", "tcp"))
    theirs = [point for point in points if not point.ours]
    ours = [point for point in points if point.ours and point.ratio]
    assert "place client, position top, 10 to 1000 rules" in theirs[0].name and theirs[0].ends
    assert theirs[0].text == "74\u201381\u202f%"
    assert len(ours) == 12, "two numbers of rules, two places, three positions"
    assert all("iptables-legacy" in point.name for point in ours), "of several backends the published one"
    assert not any(number in point.name for point in ours for number in (" 0 rules", "10000 rules"))


def test_a_load_that_the_run_does_not_have_is_said(rules):
    data = ratios.published_figures("nat-rules")
    table = published_table.table(rules, data, group("nat-rules", "udp"))
    assert [line[3] for line in table.lines][-1] == "not measured: this run has no such load"
    lines = published_table.table(rules, data, group("nat-rules", "tcp")).lines
    assert [line[5] for line in lines[:2]] == ["74\u201381\u202f%", "74\u202f%"], "ends that read alike are one number"


@pytest.mark.parametrize("study", ratios.studies())
def test_every_published_study_has_its_limits_with_an_answer(tmp_path, study):
    results = replace(read(synthetic.folder(tmp_path / "result")), name=study)
    pairs = published_limits.pairs(results, ratios.published_figures(study))
    assert len(pairs) >= 5
    for limit, answer in pairs:
        assert limit.endswith(".") and answer.endswith("."), (limit, answer)
        assert answer[0].isupper() or answer[0].isdigit()


def test_chapters_of_a_study_that_repeats_nobody_are_none(tmp_path):
    results = replace(read(synthetic.folder(tmp_path / "result")), name="siit")
    assert published.chapters(results) == []


def test_the_published_chapters_come_before_the_limits_of_this_run(tmp_path):
    results = read(synthetic.folder(tmp_path / "result"))
    anchors = [chapter.anchor for chapter in published.with_published(list(usual_page.content(results).chapters), results)]
    assert anchors[-3:] == ["published", "unseen-there", "unseen-here"]


def test_published_rates_are_set_beside_a_run_without_curves(tmp_path):
    results = replace(read(synthetic.folder(tmp_path / "result")), name="router-accuracy")
    chapter = published_rates.chapter(results, ratios.published_figures("router-accuracy"))
    assert "20 of the 58 published experiments" in chapter.bullets[0]
    assert "18.62 times the rate of IPv6 routing" in " ".join(chapter.bullets)
    assert "not in this run" in chapter.pictures[0].alt
    chapter.pictures[0].draw()
    assert len(chapter.tables[0].lines) == 58
