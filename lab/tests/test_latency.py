# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Delays at half load: what the generator is told, what it says, and that every path gets one rate."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from contexts import context, option
from diolkos_lab import report, run_study
from diolkos_lab.experiment import document
from diolkos_lab.experiment.cells import TrialCell, lane_cells, trial_cells
from diolkos_lab.experiment.definition import Study
from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.faults import UsageFault
from diolkos_lab.load import latency, registry
from diolkos_lab.load.reading import LoadFault
from diolkos_lab.run.completed import CompletedTrials
from diolkos_lab.run.native_rate import NativeRates
from diolkos_lab.run.trial import Trial, cell_keys
from observer import Silent

HERE = Path(__file__).parent
FILE = HERE / "study_latency.toml"
LOAD = LatencyLoad(name="latency")
SATURATION = 1e6
PDR = SATURATION * 0.9498  # where the double's 10 ** (-8 + 6x) is 0.5 %


def test_packets_are_sent_one_at_a_time_and_probes_as_those_of_a_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")
    command = registry.load_of(LOAD).command(LOAD.at(1234.4), context(6))
    assert (option(command, "--rate"), option(command, "--burst"), option(command, "--seconds")) == ("1234", "1", "16.2075")
    probe = registry.load_of(LOAD).command(LOAD.probe(5000, 0.1), context(4))
    assert "--burst" not in probe
    assert (option(probe, "--rate"), option(probe, "--size"), option(probe, "--seconds")) == ("5000", "64", "0.1")


def _report(data: Path, written: int, received: int) -> str:
    found: dict[str, Any] = json.loads((data / "pktgen-0.1.0-measured.jsonl").read_text().splitlines()[-1])
    direction = found["directions"][0]
    direction["sent"]["written"], direction["received"]["received"] = written, received
    return json.dumps(found)


def test_a_report_is_read(data: Path) -> None:
    reading = latency.parse(_report(data, 20_000, 19_990), LOAD.at(100_000))
    assert reading.metrics["latency_worst"] == pytest.approx(26.0555e-6)
    assert 0 < reading.metrics["latency"] < reading.metrics["latency_worst"]
    assert reading.metrics["offered"] == 100_000 and not reading.bounds, "one in 2000 was lost"
    assert set(reading.metrics) <= set(registry.load_of(LOAD).metrics)


@pytest.mark.parametrize(("received", "endless"), [(19_979, ["latency_worst"]), (9_999, ["latency", "latency_worst"])])
def test_a_packet_that_is_lost_never_arrives(data: Path, received: int, endless: list[str]) -> None:
    reading = latency.parse(_report(data, 20_000, received), LOAD.at(100_000))
    assert {name: ends[1] for name, ends in reading.bounds.items()} == dict.fromkeys(endless)
    assert all(reading.bounds[name][0] == reading.metrics[name] for name in reading.bounds)  # type: ignore[index]


def test_a_trial_has_packets_beyond_its_percentile() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 10000"):
        LatencyLoad(name="latency", packets=9_999)
    assert LOAD.at(400_000).seconds == 0.05, "as long as its packets take"


def test_where_nothing_arrives_there_is_no_delay(data: Path) -> None:
    found = json.loads(_report(data, 20_000, 0))
    found["directions"][0]["received"]["delay_ns"] = None
    with pytest.raises(LoadFault, match="no packet arrived"):
        latency.parse(json.dumps(found), LOAD.at(1000))
    assert latency.parse(json.dumps(found), LOAD.probe(1000, 0.1)).metrics["loss"] == 1, "a probe asks for loss"


def _cells() -> tuple[list[TrialCell], list[Any]]:
    study = document.parse(FILE.read_text(), FILE, Study)
    form = study.form["quick"]
    lanes = lane_cells(study, form, {"native", "nat44"})
    return [TrialCell(cell.lane, cell.load) for cell in trial_cells(form, lanes)], lanes  # type: ignore[arg-type]


def test_every_path_gets_half_of_what_the_native_one_carries() -> None:
    cells, lanes = _cells()
    rates = NativeRates(cells, lanes, CompletedTrials())
    assert [rates.trial(cell, 1) for cell in cells] == [None, None]
    [search] = rates.searches
    assert search.lane.subject.system == "native"
    for probe in search.probes():
        assert isinstance(probe.load, LatencyLoad) and probe.load.offered and rates.trial(probe, 0) == probe
        loss = max(0.0, 1 - 300_000 / probe.load.offered)
        search.record(Trial(0, 0, probe, "", 0.1, metrics={"loss": loss}))
    offered = [each.load.offered for cell in cells if (each := rates.trial(cell, 1)) and isinstance(each.load, LatencyLoad)]
    assert offered == [offered[0]] * 2 and offered[0] == pytest.approx(150_000, rel=0.05)
    assert rates.searches == []


def test_a_run_that_goes_on_keeps_its_rate() -> None:
    cells, lanes = _cells()
    made = {**cell_keys(cells[1]), "block": 1, "metrics": {"offered": 77_000.0}}
    rates = NativeRates(cells, lanes, CompletedTrials([made]))
    assert rates.searches == []
    assert [each.load.offered for cell in cells if (each := rates.trial(cell, 2)) and isinstance(each.load, LatencyLoad)] == [
        77_000
    ] * 2


def test_without_any_result_the_rate_is_not_known() -> None:
    cells, lanes = _cells()
    rates = NativeRates(cells, lanes, CompletedTrials())
    for probe in rates.searches[0].probes():
        rates.searches[0].record(Trial(0, 0, probe, "", 0.1, error="it died"))
        break
    assert [rates.trial(cell, 1) for cell in cells] == [None, None]
    first = rates.trial(cells[0], 0)
    assert first == replace(cells[0], load=LatencyLoad(name="latency", lowest=100_000).at(100_000)), "to warm up"


def test_a_path_needs_the_native_one_beside_it() -> None:
    text = FILE.read_text().replace('loads = ["latency"]', 'loads = ["ping"]', 1)
    with pytest.raises(UsageFault, match=r"native/kernel/ipv6/1 has to have it too"):
        document.parse(text, FILE, Study)


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_run_measures_all_paths_at_the_found_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", str(HERE / "doubles" / "pktgen"))
    monkeypatch.setenv("SATURATION", str(SATURATION))
    result, summary = run_study.run(run_study.RunRequest(str(FILE), True, (), tmp_path / "r", 1, {}), Silent())
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    made = [trial for trial in result.trials if trial["block"]]
    assert len({trial["metrics"]["offered"] for trial in made}) == 1
    assert made[0]["metrics"]["offered"] == pytest.approx(PDR / 2, rel=0.05)
    assert {trial["system"] for trial in made} == {"native", "nat44"}
    rows = {(row["system"], row["metric"]): row for row in summary["rows"]}
    assert rows["nat44", "latency"]["median"] == 3e-6 and rows["nat44", "latency_worst"]["median"] == 9e-6
    assert rows["nat44", "latency_worst"]["ratio"] == 1
    assert {row["share"] for row in summary["rows"]} == {0.5}
    page = report.write(tmp_path / "r").read_text()
    assert "Latency at half load: 99.9th percentile" in page
