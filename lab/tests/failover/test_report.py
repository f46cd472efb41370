# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rules, figures and files of a run, without a network."""

import contextlib
import math
from pathlib import Path
from typing import Any

import pytest
from failover_runs import row, study

from diolkos_lab.failover import command, definition, judge, records, report, trial
from diolkos_lab.failover.records import Records
from diolkos_lab.faults import UsageFault

NEVER = math.inf
HOST = {"hostname": "alpha", "kernel": "6.18", "cpu_model": "SYNTHETIC CPU", "cores": 2}


def of(*rows: dict[str, Any]) -> Records:
    return Records(study(), "quick", 7, HOST, "2026-01-01T00:00:00+00:00", list(rows))


WORST_FIRST = ("not met", "undecided", "met")


def verdicts(*rows: dict[str, Any]) -> dict[str, str]:
    """By quantity: the worst of its rules that any of the trials is about."""
    found: dict[str, list[str]] = {}
    for each in judge.judge(study(), rows):
        if each.trials + each.disturbed:
            found.setdefault(each.rule.quantity, []).append(each.verdict)
    return {quantity: min(of, key=WORST_FIRST.index) for quantity, of in found.items()}


def test_good_trials_meet_every_rule() -> None:
    rows = [row(), row(fault="cut-gateway")]
    assert set(verdicts(*rows).values()) == {"met"}
    assert report.verdict(judge.judge(study(), rows)) == "Yes: all 8 rules are met."


@pytest.mark.parametrize(
    ("change", "quantity"),
    [
        ({"kept_share": 0.9989}, "kept_share"),
        ({"gap_s": 0.31}, "gap_s"),
        ({"gap_s": None}, "gap_s"),
        ({"wrong": 1}, "wrong"),
        ({"duplicates": 1}, "duplicates"),
        ({"downloads_share": 0.9}, "downloads_share"),
        ({"new_flows_s": None}, "new_flows_s"),
    ],
)
def test_one_trial_is_enough_to_break_a_rule(change: dict[str, Any], quantity: str) -> None:
    found = verdicts(row(), row(repetition=1, **change))
    assert found.pop(quantity) == "not met"
    assert set(found.values()) == {"met"}


def test_rules_are_about_a_cluster_and_their_faults_alone() -> None:
    """Gateways that share nothing lose flows: that is what they are measured for."""
    found = verdicts(row(), row(gateways="independent", kept_share=0.7), row(fault="upgrade-gateways", new_flows_s=None))
    assert set(found.values()) == {"met"}


def test_a_disturbed_trial_decides_nothing_and_is_told() -> None:
    disturbed = row(kept_share=0.5, guards=["the generator of many was 0.20 s late"])
    failed = {"gateways": "cluster", "fault": "cut-lan", "repetition": 0, "error": "bgpd in gw1 does not get ready"}
    assert set(verdicts(disturbed, failed).values()) == {"undecided"}
    text = report.markdown(of(disturbed, failed))
    assert "Undecided" in text
    assert "- cluster, kill-gateway, trial 1: the generator of many was 0.20 s late" in text
    assert "- cluster, cut-lan, trial 1: bgpd in gw1 does not get ready" in text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.25], "0.25 s"),
        ([0.1, 0.3, 0.2], "0.20 s (0.10 s–0.30 s)"),
        ([0.1, NEVER], "never (0.10 s–never)"),
        ([0.1, 0.2, NEVER], "0.20 s (0.10 s–never)"),
        ([NEVER], "never"),
        ([], "–"),
    ],
)
def test_a_figure_has_its_spread_and_what_never_ends(values: list[float], text: str) -> None:
    assert report.figure(values, lambda value: f"{value:.2f} s") == text


def judged(*rows: dict[str, Any]) -> dict[str, judge.Judged]:
    """By quantity: the first rule of each, which of gaps is about every fault."""
    found: dict[str, judge.Judged] = {}
    for each in judge.judge(study(), rows):
        found.setdefault(each.rule.quantity, each)
    return found


def test_trials_of_one_fault_say_nothing_of_another() -> None:
    silent = row(fault="cut-lan", guards=["the generator of fine was 0.20 s late"])
    found = judged(row(), silent)
    assert (found["gap_s"].verdict, found["gap_s"].silent) == ("undecided", ("cut-lan",))
    assert found["new_flows_s"].verdict == "met", "which is not about that fault"
    assert "1 trial, 1 more decide nothing; of cut-lan none decides" in report.markdown(of(row(), silent))
    broken = judged(row(gap_s=1.5004), silent)
    assert (broken["gap_s"].verdict, report.against(broken["gap_s"])) == ("not met", "kill-gateway, trial 1: 1.5004 s")


def test_without_downloads_there_is_no_share_of_them() -> None:
    without = row(downloads=0, downloads_share=None)
    assert judged(without)["downloads_share"].verdict == "undecided"
    assert set(verdicts(without).values()) == {"met"}
    assert judge.figures([without, row()], "downloads_share") == [1.0]


def test_a_gateway_that_does_not_come_back_is_the_worst_result_and_no_fault_of_the_lab() -> None:
    lost = row(fault="upgrade-gateways", **trial.LOST, lost="after its restart, gw2 is not announced again")
    found = judged(*(row(fault="upgrade-gateways", repetition=number) for number in range(1, 6)), lost)
    assert (found["kept_share"].verdict, found["gap_s"].verdict) == ("not met", "not met")
    assert found["wrong"].verdict == "met", "what went wrong before was measured"
    text = report.markdown(of(lost))
    assert "upgrade-gateways, trial 1: never (after its restart, gw2 is not announced again)" in text
    assert "No: " in text and "Trials that decide nothing" not in text


@pytest.mark.parametrize(("trials", "says"), [(1, "95 %"), (6, "39 %"), (59, "5 %")])
def test_trials_that_all_keep_a_rule_bound_the_share_that_would_not(trials: int, says: str) -> None:
    assert report.odds(trials).startswith(f"at most {says} of all such trials")
    assert says in report.markdown(of(*(row(repetition=number) for number in range(trials))))


def test_a_trial_with_few_flows_decides_nothing_even_if_it_was_not_guarded_then() -> None:
    older = row(flows=100, established=40)
    assert judge.reasons(older) == ["only 40 of 100 flows were established before the fault"]
    assert judge.reasons({**older, "guards": judge.reasons(older)}) == judge.reasons(older), "said once"
    assert judge.figures([older], "gap_s") == []


def test_a_run_reads_back_as_it_was_written(tmp_path: Path) -> None:
    found = of(row(), row(fault="cut-lan"))
    with contextlib.closing(records.claim(tmp_path / "new")) as folder:
        found.write(folder)
    assert records.read(tmp_path / "new") == found
    page = command.again(tmp_path / "new").read_text()
    assert "<td>kill-gateway</td>" in page
    assert "100.000 %" in page


def test_an_older_result_is_moved_aside_and_not_overwritten(tmp_path: Path) -> None:
    for seed in (1, 2):
        found = of(row())
        found.seed = seed
        with contextlib.closing(records.claim(tmp_path / "run")) as folder:
            found.write(folder)
    (aside,) = (each for each in tmp_path.iterdir() if each.name != "run")
    assert (records.read(aside).seed, records.read(tmp_path / "run").seed) == (1, 2)


def test_the_report_says_limits_units_host_and_what_is_missing() -> None:
    text = report.markdown(of(row()))
    for part in (
        "longest gap ≤ 1.50 s",
        "flows kept ≥ 99.900 %",
        "cluster, freeze-gateway, cut-lan, cut-gateway-link, cut-gateway, drain-gateway",
        "Only 1 of 8 trials are here: the run was interrupted, or goes on.",
        "30000 UDP flows",
        "Linux 6.18, SYNTHETIC CPU, 2 CPUs.",
        "A trial decides nothing if",
    ):
        assert part in text, part
    page = report.page(of(row()))
    assert "Only 1 of 8 trials are here" in page and "longest gap ≤ 1.50 s" in page


def test_wrong_folders_are_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageFault, match=r"holds something that is not a result"):
        records.claim(tmp_path)


def test_every_kind_meets_every_fault_once_in_each_repetition() -> None:
    form = definition.form_named(study(), "quick")
    order = command.order(study(), form, 3)
    assert order == command.order(study(), form, 3)
    assert order != command.order(study(), form, 4)
    each = [(planned.kind, planned.fault.name, planned.repetition) for planned in order]
    # Two kinds with five faults, two of which are of the engine, which `independent` gateways do not have.
    assert form.gateways == ("independent", "cluster") and len(form.faults) == 5
    assert len(each) == len(set(each)) == form.repetitions * (3 + 5)


def test_a_study_names_only_faults_that_it_has(tmp_path: Path) -> None:
    text = (
        definition.shipped()["failover"]
        .read_text()
        .replace('faults = ["kill-gateway", "cut-gateway"', 'faults = ["cut-gateway"')
    )
    file = tmp_path / "other.toml"
    file.write_text(text.replace('name = "kill-gateway"', 'name = "no-fault"'))
    with pytest.raises(UsageFault, match="kill-gateway"):
        definition.load(str(file))
