# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Charts: they are what Vega-Lite calls a specification, show every figure in its place, and hide no failure."""

import json
import math
import re
from dataclasses import replace
from html import unescape

import altair as alt
import numpy as np
import pytest
import synthetic
from altair.utils.schemapi import validate_jsonschema

from diolkos_lab.report import baselines, charts, load_chapters, over_time, tables
from diolkos_lab.report.charts import blocks, box_plots, distribution, glance, rows, theme
from diolkos_lab.report.charts import over_time as lines
from diolkos_lab.report.quantities import scale
from diolkos_lab.report.read import Cell, read
from diolkos_lab.report.systems import LOOKS, label, look


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return read(synthetic.folder(tmp_path_factory.mktemp("charts") / "result"))


def valid(spec):
    validate_jsonschema(spec, {"$ref": "#/definitions/TopLevelSpec"}, alt.vegalite.v6.schema.core.load_schema())
    return spec


def texts(spec):
    return [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)<", charts.svg(spec))]


def records(spec):
    return [record for rows in spec["datasets"].values() for record in rows]


def test_every_picture_is_a_valid_specification(results):
    pictures = [picture for chapter in load_chapters.chapters(results) for picture in chapter.pictures]
    assert len(pictures) > 8
    for picture in pictures:
        valid(charts.spec(picture))


def test_in_a_page_stands_what_can_be_seen():
    """Marks that only catch the pointer are not drawn, those with an outline are."""
    seen = '<path d="M0,1" fill="red" fill-opacity="0" stroke="red"/>'
    unseen = '<path transform="translate(1,2)" d="M0,0" fill="red" fill-opacity="0" stroke-width="2"/>'
    drawn = f'<svg class="marks" xmlns="x"><g class="mark-group" aria-hidden="true">{seen}{unseen}</g></svg>'
    assert charts.inline(drawn, "p") == f'<svg aria-hidden="true" focusable="false" class="marks"><g>{seen}</g></svg>'


def mark(name, value, ends, **more):
    return rows.Mark(name, LOOKS[2], value, ends, f"text of {name}", **more)


def test_an_end_that_is_infinite_is_an_arrow_and_a_failure_a_cross():
    spec = valid(
        rows.draw(
            [
                rows.Panel(
                    "load",
                    "times native",
                    [
                        mark("plain", 1.0, (0.9, 1.1)),
                        mark("open", 1.2, (1.0, math.inf), failed=True),
                        mark("endless", None, (math.inf, math.inf), ranged=True),
                        mark("at least", None, (2.0, math.inf), ranged=True),
                    ],
                    worst_is_high=True,
                )
            ]
        )
    )
    by_name = {record["path"]: record for record in records(spec)}
    assert [name for name, record in by_name.items() if record["open"]] == ["open", "endless", "at least"]
    assert [name for name, record in by_name.items() if record["failed"]] == ["open"]
    right = spec["concat"][0]["layer"][0]["encoding"]["x"]["scale"]["domain"][1]
    assert by_name["open"]["high"] == pytest.approx(right), "the bar goes on to the edge"
    assert by_name["endless"]["low"] is None, "nothing is drawn at a place that does not exist"
    assert {f"text of {name}" for name in by_name} <= set(texts(spec))


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """Of nine trials of Tayga with each load, one is untrusted and two failed."""
    folder = synthetic.folder(tmp_path_factory.mktemp("failing") / "result")
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    for line in lines[1:]:
        if line["system"] == "tayga" and line["block"] in (3, 4):
            line.update(valid=False, error="no route", metrics={}, series={})
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read(folder)


def test_failed_trials_are_in_every_picture_of_single_readings_as_the_worst(failing):
    """Before, all of these left them out."""
    tayga = next(cell for cell in failing.cells if cell.system == "tayga")
    (panel, *_), (echoes, *_) = lines.measured(failing, "throughput"), lines.measured(failing, "rtt")
    for shown, counted in ((panel, 8), (echoes, 8)):
        line = next(line for line in shown.lines if line.cell == tayga)
        assert (line.failed, line.trials) == (2, counted)
    line = next(line for line in panel.lines if line.cell == tayga)
    assert line.level < 1.1e9, "a throughput of 0 is in the mean"
    spec = valid(lines.draw([panel], "throughput", log=False))
    assert [record["trials"] for record in records(spec) if "mean" not in record] == ["2 of 8"]
    found = distribution.echoes(failing)
    marked = [record["path"] for record in records(valid(distribution.draw(found))) if record.get("failed")]
    assert marked == ["Tayga"]
    values, trials = tables.readings(failing, tayga, "ping", "rtt")
    assert np.isinf(values).sum() == 200 and trials == 8
    low, mean, high, spread, p95 = tables.moments(values)
    assert low < 1e-4 and mean == high == p95 == math.inf and spread is None
    box = box_plots.BoxPlot("Tayga", theme.BLUE, values, failed=2)
    spec = valid(box_plots.draw([box, box_plots.BoxPlot("other", theme.BLUE, values[:50])], "rtt", scale("rtt", [1e-5])))
    assert [record["n"] for record in records(spec) if "median" not in record and "n" in record] == [2]


def test_one_wide_interval_does_not_flatten_the_others():
    marks = [mark("narrow", 1.0, (0.9, 1.1)), mark("wide", 2.0, (1.7, 194.0))]
    spec = valid(rows.draw([rows.Panel("load", "times native", marks, reference=1)]))
    assert max(record["high"] for record in records(spec) if "high" in record) < 5
    assert [record["path"] for record in records(spec) if record.get("open")] == ["wide"]


def test_failed_trials_are_counted_beside_the_ratio(results):
    row = next(row for row in results.rows if row.ratio is not None and not row.cell.native)
    failing = replace(row, raw={**row.raw, "failed_trials": 2})
    assert glance.mark(row.cell, failing).text.endswith(f", 2 of {row.trials} failed")
    assert glance.mark(row.cell, failing).failed and not glance.mark(row.cell, row).failed
    gone = replace(row, raw={**row.raw, "failed_trials": row.trials})
    assert glance.mark(row.cell, gone).text == f"all {row.trials} trials failed"


def test_a_ratio_that_is_only_known_to_be_at_least_so_much_is_shown(results):
    row = next(row for row in results.rows if row.metric == "throughput" and row.ratio is not None and not row.cell.native)
    least = replace(row, ratio=None, ratio_ci95=None, ratio_bounds=(0.9, math.inf))
    found = glance.mark(row.cell, least)
    assert found.text.startswith("≥ 90") and found.ends == (0.9, math.inf) and found.ranged


def test_what_the_blocks_say_is_the_ratio_within_each(results):
    row = next(row for row in results.rows if row.metric == "rtt" and row.cell.system == "diolkos" and row.ratio is not None)
    found = baselines.by_block(results, row)

    def figure(subject, block):
        return next(
            trial["metrics"]["rtt"]
            for trial in results.contents.trials
            if f"{trial['system']}/{trial['datapath']}/{trial['family']}/{trial['hops']}" == subject
            and (trial["load"], trial["block"]) == (row.load, block)
        )

    mine = f"diolkos/{row.cell.datapath}/{row.cell.family}/{row.cell.hops}"
    assert len(found) > 5
    for block, (low, high) in found.items():
        assert low == high == pytest.approx(figure(mine, block) / figure(row.baseline, block))


def test_a_missing_cell_of_the_grid_leaves_its_place_empty(results):
    """Without a record of its own, the cells behind it would move up, below the name of another system."""
    (loads, *_) = blocks.names(results, "throughput")
    gone = next(row for row in results.rows if row.metric == "throughput" and row.load == loads[0] and row.ratio is not None)
    spec = valid(blocks.draw(replace(results, rows=[row for row in results.rows if row is not gone]), "throughput", loads))
    places = {(record["path"], record["load"]) for record in records(spec)}
    systems = {path for path, _ in places}
    assert label(gone.cell) in systems and len(loads) == 2
    assert len(places) == len(systems) * len(loads)


def test_a_system_has_one_colour_in_all_panels(results):
    """Also where the first panel lacks a system that the second has."""
    shown = lines.measured(results, "throughput")
    first = over_time.Panel(shown[0].title, shown[0].lines[1:])
    spec = valid(lines.draw([first, *shown[1:]], "throughput", log=False))
    scales = [
        part["encoding"]["color"]["scale"] for panel in spec["concat"] for part in panel["layer"] if "color" in part["encoding"]
    ]
    assert len(scales) > 4 and all(scale == scales[0] for scale in scales)
    colours = dict(zip(scales[0]["domain"], scales[0]["range"], strict=True))
    cell = shown[0].lines[0].cell
    assert colours[label(cell)] == look(cell).light


def test_every_colour_of_a_chart_has_one_for_the_night(results):
    known = {light for _, light, _ in theme.COLOURS} | {theme.GOOD, theme.BAD, theme.BLUE, theme.ORANGE}
    for chapter in load_chapters.chapters(results):
        for picture in chapter.pictures:
            assert set(re.findall(r"#[0-9a-f]{6}\b", str(charts.spec(picture)))) <= known, picture.name


def test_no_mark_stands_for_a_cell_without_a_figure():
    cell = Cell("tayga", "tun", "ipv4", 1)
    assert glance.mark(cell, None).text == "not measured" and glance.mark(cell, None).value is None


@pytest.mark.parametrize(
    ("subjects", "asked"),
    [
        ([], True),
        ([{"system": "tayga", "datapath": "tun", "family": "ipv4"}], True),
        ([{"system": "tayga", "datapath": "tun", "family": "ipv4", "loads": ["ping"]}], False),
        ([{"system": "tayga", "datapath": "tun", "family": "ipv4", "loads": ["udp"]}], True),
        ([{"system": "tayga", "datapath": "tun", "family": "ipv4", "hops": 2, "loads": ["ping"]}], True),
    ],
)
def test_a_load_that_the_study_does_not_give_a_path_has_no_line_of_it(results, subjects, asked):
    of_study = replace(results, study={**results.study, "system": subjects})
    assert glance.is_asked(of_study, Cell("tayga", "tun", "ipv4", 1), "udp rate=most") is asked
