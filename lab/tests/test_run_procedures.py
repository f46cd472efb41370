# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Procedures from the definition to the report: what is made again, what is recorded, and whole runs."""

import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from diolkos_lab import outcome as trial_outcome
from diolkos_lab import own_files, procedures, report, run_study, summary
from diolkos_lab.experiment import document
from diolkos_lab.experiment.cells import LaneCell, TrialCell
from diolkos_lab.experiment.definition import Study, Subject
from diolkos_lab.experiment.procedures import MlrSearch, PacketTrial, Rfc8219
from diolkos_lab.faults import UsageFault
from diolkos_lab.report import terminal
from diolkos_lab.report.read import read
from diolkos_lab.run.guards import Objection
from diolkos_lab.run.procedure import run_procedure
from diolkos_lab.run.trial import Trial
from diolkos_lab.samples import folder
from observer import Silent

HERE = Path(__file__).parent
STUDY = HERE / "study_procedures.toml"
LANE = LaneCell(Subject(system="native", datapath="kernel", family="ipv6"), "on", 1)
PART = Rfc8219(name="rfc8219", sizes=(84,), tests=("throughput",), seconds=1, highest=100_000, resolution=0.1)
DOUBT = Objection("pace", "the generator was late")


def _trial(load: PacketTrial, *, doubts: list[Objection] | None = None, error: str | None = None) -> Trial:
    """A path that carries 40 000 packets/s."""
    assert load.offered
    sent = float(load.offered)
    metrics = {"sent": sent, "received": min(sent, 40_000.0)}
    return Trial(1, 0, TrialCell(LANE, load), "", 1.0, error, doubts or [], {} if error else metrics)


def _carry_out(measure: Callable[[PacketTrial], Trial], part: Any = PART) -> tuple[list[Trial], list[None]]:
    repairs: list[None] = []
    return list(run_procedure(part, part, measure, lambda: repairs.append(None))), repairs


# ---- trials that are not trusted


def test_the_outcome_stands_in_the_last_trial_alone() -> None:
    trials, repairs = _carry_out(_trial)
    assert [trial.outcome is None for trial in trials] == [True] * (len(trials) - 1) + [False]
    outcome = trials[-1].outcome
    assert outcome and outcome["procedure"] == "rfc8219" and outcome["error"] is None and not repairs
    assert outcome["throughput"]["lower_pps"] <= 40_000 < outcome["throughput"]["upper_pps"]
    assert outcome["tally"] == {"trials": len(trials), "repeated": 0, "distrusted": 0, "guards": {}}
    assert "outcome" in trials[-1].as_json() and "outcome" not in trials[0].as_json()


def test_a_trial_that_is_not_trusted_is_made_again() -> None:
    trials, _ = _carry_out(lambda load: _trial(load, doubts=[DOUBT] if load.attempt < 3 else None))
    attempts = [trial.cell.factors["attempt"] for trial in trials]
    assert attempts == [1, 2, 3] * (len(trials) // 3)
    outcome = trials[-1].outcome
    assert outcome and outcome["throughput"]["distrusted"] == 0
    assert outcome["tally"]["repeated"] == len(trials) * 2 // 3 and outcome["tally"]["distrusted"] == 0
    assert outcome["tally"]["guards"] == {"pace": len(trials) * 2 // 3}


def test_where_no_attempt_is_trusted_the_last_one_is_used_and_said_to_be() -> None:
    trials, _ = _carry_out(lambda load: _trial(load, doubts=[DOUBT]))
    outcome = trials[-1].outcome
    assert outcome and outcome["throughput"]["distrusted"] == 2, "at both bounds"
    assert outcome["tally"]["distrusted"] == len(trials) // 3


def test_a_path_that_fails_is_repaired_and_has_no_rate() -> None:
    trials, repairs = _carry_out(lambda load: _trial(load, error="tayga has died"))
    assert len(trials) == len(repairs) <= PART.tries
    assert trials[-1].outcome and trials[-1].outcome["error"] == "tayga has died"


def test_an_instrument_that_fails_is_asked_again_and_then_nobodys_result() -> None:
    def broken(load: PacketTrial) -> Trial:
        return Trial.without_instrument(TrialCell(LANE, load), 1, 0, "diolkos-pktgen: no output")

    trials, repairs = _carry_out(broken)
    assert len(trials) == PART.tries and not repairs, "the path has nothing to be repaired"
    outcome = trials[-1].outcome
    assert outcome and outcome["instrument_failed"] and outcome["error"] == "diolkos-pktgen: no output"
    (record,) = procedures.replace_trials_by_rates([trial.as_json() for trial in trials])
    assert trial_outcome.outcome(record) is trial_outcome.Outcome.INSTRUMENT_FAILED
    good, _ = _carry_out(lambda load: broken(load) if load.attempt < 2 else _trial(load))
    last = good[-1].outcome
    assert last and last["error"] is None and last["throughput"]["lower_pps"] <= 40_000 < last["throughput"]["upper_pps"]


def test_a_trial_that_fails_is_not_made_again_until_it_succeeds() -> None:
    """It has lost all its packets: the rate is below, although the next trial at that rate would have lost none."""
    whole, _ = _carry_out(_trial)
    failed = max(trial.cell.load.offered for trial in whole if trial.metrics["sent"] == trial.metrics["received"])
    once, repairs = _carry_out(lambda load: _trial(load, error="died" if load.offered == failed else None))
    assert len(repairs) == 1 and once[-1].outcome and once[-1].outcome["error"] is None
    found, without = (trials[-1].outcome["throughput"]["lower_pps"] for trials in (once, whole))
    assert found < failed and found <= without
    assert once[-1].outcome["tally"]["repeated"] == 0


@pytest.mark.parametrize("part", [PART, MlrSearch(name="mlrsearch")])
def test_an_abandoned_procedure_stops_at_once(part: Any) -> None:
    running = run_procedure(part, part, _trial, lambda: None)
    assert next(running).outcome is None
    running.close()  # type: ignore[attr-defined]


# ---- definitions


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("lowest = 500", "lowest = 9000", "lowest has to be below highest"),
        (
            "duration_sum_s = 0.2\n\n[[form.quick.load.goal]]",
            "duration_sum_s = 0.1\n\n[[form.quick.load.goal]]",
            "below seconds",
        ),
        ("loss_ratio = 0.005", "loss_ratio = 0.0", "two goals have the loss ratio 0"),
        ("relative_width = 0.1", "preceding_targets = 100000", "preceding_targets: Input should be less than or equal to 100"),
        ("sizes = [84]", "sizes = [84, 84]", "sizes has a value twice"),
        ("sizes = [84]", "sizes = [0]", "a frame of 0 bytes: sizes are 84 to 9018"),
        ("sizes = [84]", "sizes = [1519]", "a frame of 1519 bytes does not fit the MTU of 1500"),
        ("repeats = 1", 'tests = ["latency"]', "tests need throughput"),
        ("repeats = 1", 'subjects = ["tayga/tun"]', "a load is for tayga/tun, which is not in the study"),
        (
            'name = "rfc8219"',
            'name = "mlrsearch"\nseconds = 0.2\n[[form.quick.load]]\nname = "rfc8219"',
            "gets the same procedure twice",
        ),
        ("repeats = 1", "offered = 1000", "Extra inputs are not permitted"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused_with_its_place(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    file = tmp_path / "study.toml"
    text = STUDY.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))
    with pytest.raises(UsageFault, match=re.escape(message)) as caught:
        document.read(file, Study)
    assert re.match(rf"{file}:\d+:\d+: ", str(caught.value))


# ---- results


def _write(folder_: Path, trials: list[Trial]) -> folder.Result:
    study = document.read(STUDY, Study)
    writer = folder.Writer(folder_, study, {}, {"quick": True})
    alone = [{"family": "ipv6", "placement": "apart", "size": 84, "directions": "both", "rate": 1e6}]
    writer.host({"generator": alone})
    for trial in trials:
        writer.add(trial)
    writer.close()
    return folder.read(folder_)


def _in_block(trials: list[Trial], block: int) -> list[Trial]:
    return [replace(trial, block=block) for trial in trials]


def test_each_block_gives_one_value_and_the_row_is_their_median(tmp_path: Path) -> None:
    trials = _carry_out(_trial)[0]
    doubtful = _carry_out(lambda load: _trial(load, doubts=[DOUBT]))[0]
    result = _write(tmp_path / "r", [*_in_block(trials, 1), *_in_block(doubtful, 2), *_in_block(trials, 3)])
    made = summary.write(result)
    [row] = made["rows"]
    lower = trials[-1].outcome["throughput"]["lower_pps"] if trials[-1].outcome else None
    assert (row["load"], row["metric"], row["median"], row["loss_ratio"]) == ("rfc8219", "rate", lower, 0.0)
    assert (row["trials"], row["valid_trials"]) == (3, 2), "procedures, not their trials"
    [entry] = made["procedures"]
    assert entry["rates"][0]["trusted"] and entry["distrusted"] and not entry["generator_bound"]
    assert made["curves"] == [], "no load–loss curve is made of them"
    assert "with trusted trials, 1 of 1 rates: throughput" in report.write(result.folder).read_text()


def test_what_is_not_trusted_is_shown_in_brackets_and_is_no_figure(tmp_path: Path) -> None:
    result = _write(tmp_path / "r", _carry_out(lambda load: _trial(load, doubts=[DOUBT]))[0])
    made = summary.write(result)
    assert made["rows"][0]["median"] is None and made["untrusted"][0]["median"] > 0
    assert not made["procedures"][0]["rates"][0]["trusted"]
    page = report.write(result.folder).read_text()
    assert re.search(r"\(\d+(\.\d+)? kpps\)", page) and "not trusted" in page
    assert "no rate that is trusted" in page


def test_a_rate_beyond_the_limit_is_no_figure(tmp_path: Path) -> None:
    part = PART.model_copy(update={"highest": 30_000})
    result = _write(tmp_path / "r", _carry_out(_trial, part)[0])
    made = summary.write(result)
    assert made["rows"][0]["median"] is None
    [rate] = made["procedures"][0]["rates"]
    assert (rate["lower_pps"], rate["upper_pps"]) == (30_000, None)
    assert "even at the highest rate, 30000" in rate["remark"]
    assert "≥ 30 kpps" in report.write(result.folder).read_text()


def _rate_of(*bounds: tuple[float | None, float | None]) -> dict[str, Any]:
    """The rate of the throughput test, of blocks with these bounds."""
    last = _carry_out(_trial)[0][-1]
    assert last.outcome
    blocks = [
        replace(last, block=block, outcome={**last.outcome, "throughput": {**last.outcome["throughput"], **found}})
        for block, found in enumerate(({"lower_pps": low, "upper_pps": high} for low, high in bounds), start=1)
    ]
    [entry] = procedures.entries(procedures.gather([trial.as_json() for trial in blocks], []))
    [rate] = entry["rates"]
    return rate


def test_blocks_that_met_a_limit_count_as_what_lies_beyond_it() -> None:
    """To leave out the block in which nothing was lost would make the rate lower than the median of all."""
    rate = _rate_of((100_000, None), (75_000, 75_500), (74_000, 74_200))
    assert (rate["lower_pps"], rate["upper_pps"]) == (75_000, 75_500)
    assert rate["remark"] == "of 3 blocks, 1 at the highest met a limit of the rates; they count as what lies beyond it"
    most = _rate_of((100_000, None), (100_000, None), (74_000, 74_200))
    assert (most["lower_pps"], most["upper_pps"], most["bounds"]) == (100_000, None, [100_000, None])


def test_blocks_of_which_each_met_another_limit_say_little() -> None:
    rate = _rate_of((100_000, None), (None, 10_000))
    assert rate["upper_pps"] is None and rate["bounds"][1] is None
    assert rate["remark"].startswith("of 2 blocks, 1 at the highest and 1 at the lowest met a limit of the rates")


def test_what_was_interrupted_or_failed_is_said(tmp_path: Path) -> None:
    trials = _carry_out(_trial)[0]
    result = _write(tmp_path / "r", trials[:-1])
    [entry] = summary.write(result)["procedures"]
    assert entry["unfinished"] == 1 and entry["rates"] == []
    assert "stopped before its end" in report.write(result.folder).read_text()

    failed = _write(tmp_path / "f", _carry_out(lambda load: _trial(load, error="tayga has died"))[0])
    made = summary.write(failed)
    assert made["procedures"][0]["errors"] == ["tayga has died"]
    assert made["rows"][0]["median"] == 0 and made["rows"][0]["valid_trials"] == 0, "a rate of nothing"
    assert "tayga has died" in report.write(failed.folder).read_text()


def test_two_runs_can_be_compared_by_their_rates(tmp_path: Path) -> None:
    records = _write(tmp_path / "r", _carry_out(_trial)[0]).trials
    [record] = procedures.replace_trials_by_rates(records)
    assert record["metrics"].keys() == {"rate"} and "offered" not in record["factors"]


def test_a_study_with_other_loads_has_the_chapters_too(tmp_path: Path, record: Callable[..., dict[str, Any]]) -> None:
    trials = [each.as_json() for replica in (1, 2) for each in _replica(_carry_out(_trial)[0], replica)]
    pings = [record(block=block, load="ping", factors={"offloads": "on"}, metrics={"rtt": 1e-5}, series={}) for block in (1, 2)]
    result = _write(tmp_path / "r", [])
    with (result.folder / "samples.jsonl").open("a") as samples:
        samples.writelines(json.dumps(line) + "\n" for line in [*trials, *pings])
    made = summary.write(folder.read(result.folder))
    assert {row["load"] for row in made["rows"]} == {"ping", "rfc8219"}
    assert [(row["load"], row["ratio"]) for row in made["noise_floor"]["rows"]] == [("rfc8219", 1.0)]
    terminal.show(Console(file=(shown := io.StringIO()), width=160), read(result.folder))
    assert "throughput" in shown.getvalue() and "10.0" in shown.getvalue()
    page = report.write(result.folder).read_text()
    assert "Rates without loss" in page and "Round-trip time" in page


def _replica(trials: list[Trial], replica: int) -> list[Trial]:
    lane = LaneCell(LANE.subject, LANE.offloads, replica)
    return [replace(trial, cell=TrialCell(lane, trial.cell.load)) for trial in trials]


# ---- whole runs


SLOW, BURST = 2000, 100  # packets/s, packets
HIGHEST = 8000  # packets/s, of the study


@pytest.fixture
def slow_policer(tmp_path: Path) -> Iterator[None]:
    """A system of the tests' own. Root reads it where nobody else can change it, which a clone need not be."""
    (tmp_path / "systems").mkdir()
    shutil.copy(HERE / "systems" / "policer.toml", tmp_path / "systems")
    own_files.use(tmp_path / "systems")
    yield
    own_files.use(None)


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine", "slow_policer")
def test_a_run_finds_the_rate_of_a_policer(tmp_path: Path) -> None:
    request = run_study.RunRequest(str(STUDY), True, (), tmp_path / "r", 1, {})
    result, made = run_study.run(request, Silent())
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    found = {(entry["system"], entry["procedure"], entry["size"]): entry for entry in made["procedures"]}
    assert len(found) == 3
    truth = SLOW + BURST / 0.2
    for (system, _, _), entry in found.items():
        for rate in entry["rates"]:
            if not rate["trusted"]:
                # Disturbance makes a rate look lower, and lateness makes it look higher, but by no order of magnitude.
                if system == "native":
                    assert rate["lower_pps"] and rate["lower_pps"] >= HIGHEST / 10
                else:
                    assert rate["upper_pps"] and rate["upper_pps"] >= truth / 3
                    assert rate["lower_pps"] is None or rate["lower_pps"] <= 3 * truth < HIGHEST
                continue
            if system == "native":
                assert rate["upper_pps"] is None, "it carries what is offered here"
                continue
            # Half a block of tokens is what the steps of the kernel's clock and late bursts are allowed to change.
            assert rate["lower_pps"] <= truth / (1 - rate["loss_ratio"]) + BURST / 0.4
            assert rate["upper_pps"] >= truth - BURST / 0.4
    policed = found["policer", "rfc8219", 84]
    if policed["rates"][0]["trusted"] and policed["frame_loss"][0]["trusted"]:
        step = policed["frame_loss"][0]
        assert step["loss_ratio"] == pytest.approx(1 - truth / step["offered_pps"], abs=0.05)
    last = [trial for trial in result.trials if "outcome" in trial]
    assert len(last) == 3 and all(json.dumps(trial["outcome"]) for trial in last)
    page = report.write(tmp_path / "r").read_text()
    for title in ("Frame loss rate", "Latency and delay variation", "in another way than the RFCs say"):
        assert title in page
