# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rules, figures and files of a run, without a network."""

import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from failover_runs import read, row, study, write
from hypothesis import given
from hypothesis import strategies as st

from diolkos_lab import every_trial, report, studies, summary
from diolkos_lab.failover import command, trial
from diolkos_lab.faults import UsageFault
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.report import failover_page
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.stats.quantiles import binomial_at_most
from diolkos_lab.stats.shares import fewest, interval

NEVER = math.inf
HOST = {"hostname": "alpha", "kernel": "6.18", "cpu_model": "SYNTHETIC CPU", "cores": 2}


def words(*rows: dict[str, Any]) -> str:
    """What is said of the rules, as on the terminal and the page."""
    return "\n".join(each["sentence"] for each in every_trial.verdicts(every_trial.judge(study(), rows)))


def page(folder: Path, *rows: dict[str, Any]) -> str:
    """The text of the page."""
    write(folder, rows, facts=HOST)
    summary.write(read(folder))
    text = report.write(folder).read_text()
    return " ".join(unescape(re.sub("<[^>]*>", " ", text[: text.index('<script type="text/plain"')])).split())


WORST_FIRST = ("not met", "undecided", "met")


def verdicts(*rows: dict[str, Any]) -> dict[str, str]:
    """By quantity: the worst of its rules that any of the trials is about."""
    found: dict[str, list[str]] = {}
    for each in every_trial.judge(study(), rows):
        if each.trials + each.disturbed:
            found.setdefault(each.rule.quantity, []).append(each.verdict)
    return {quantity: min(of, key=WORST_FIRST.index) for quantity, of in found.items()}


def six(*faults: str, **changes: Any) -> list[dict[str, Any]]:
    """As many good trials of each fault as a rule needs."""
    return [row(fault, repetition=number, **changes) for fault in faults or ("kill-gateway",) for number in range(6)]


def test_enough_good_trials_meet_every_rule() -> None:
    rows = six("kill-gateway", "cut-gateway")
    assert set(verdicts(*rows).values()) == {"met"}
    assert every_trial.answer(every_trial.judge(study(), rows)) == "Yes: all 8 rules are met."


@pytest.mark.parametrize("repetitions", range(1, 6))
def test_fewer_trials_meet_no_rule_and_say_how_many_would(repetitions: int) -> None:
    """That none of five broke a rule is what would be seen once in thirteen times if 40 % of all trials broke it."""
    rows = [row(fault, repetition=number) for fault in ("kill-gateway", "cut-gateway") for number in range(repetitions)]
    assert set(verdicts(*rows).values()) == {"undecided"}
    said = every_trial.answer(every_trial.judge(study(), rows))
    assert said.startswith("Undecided: no trial breaks a rule") and f" {6 - repetitions} more repetition" in said
    assert f"{6 - repetitions} more of each of 2 faults would decide, if none breaks it (at most 40 %)" in words(*rows)
    assert "not met" in verdicts(*rows, row(gap_s=None, repetition=9)).values(), "one that breaks it is enough"


@pytest.mark.parametrize("name", ["failover", "million"])
def test_what_comes_with_the_lab_can_be_decided_by_its_full_form(name: str) -> None:
    found = studies.of_faults_named(name)
    assert found
    assert all(fewest(rule.broken_at_most) <= found.form["full"].repetitions for rule in found.rule)


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
    found = verdicts(*six(), row(repetition=6, **change))
    assert found.pop(quantity) == "not met"
    assert set(found.values()) == {"met"}


def test_rules_are_about_a_cluster_and_their_faults_alone() -> None:
    """Gateways that share nothing lose flows: that is what they are measured for."""
    others = [row(gateways="independent", kept_share=0.7), *six("upgrade-gateways", new_flows_s=None)]
    found = verdicts(*six(), *others)
    assert set(found.values()) == {"met"}


def test_a_disturbed_trial_decides_nothing_and_is_told(tmp_path: Path) -> None:
    disturbed = row(kept_share=0.5, guards=["the generator of many was 0.20 s late"])
    failed = row(fault="cut-lan", error="bgpd in gw1 does not get ready")
    assert set(verdicts(disturbed, failed).values()) == {"undecided"}
    text = page(tmp_path / "run", disturbed, failed)
    assert "Undecided: no trial breaks a rule" in text and "No: no trial decides anything." in text
    assert "fault kill-gateway failover 1 not used generator: the generator of many was 0.20 s late" in text
    assert "fault cut-lan failover 1 not used instrument: bgpd in gw1 does not get ready" in text


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
    assert failover_page.figures(values, lambda value: f"{value:.2f} s") == text


def judged(*rows: dict[str, Any]) -> dict[str, every_trial.Judged]:
    """By quantity: the first rule of each, which of gaps is about every fault."""
    found: dict[str, every_trial.Judged] = {}
    for each in every_trial.judge(study(), rows):
        found.setdefault(each.rule.quantity, each)
    return found


def test_trials_of_one_fault_say_nothing_of_another() -> None:
    silent = row(fault="cut-lan", guards=["the generator of fine was 0.20 s late"])
    found = judged(*six(), silent)
    assert (found["gap_s"].verdict, found["gap_s"].lacking) == ("undecided", {"cut-lan": 6})
    assert found["new_flows_s"].verdict == "met", "which is not about that fault"
    assert "6 more of cut-lan would decide, if none breaks it (at most 40 %); 1 more decide nothing" in words(*six(), silent)
    broken = judged(row(gap_s=1.5004), silent)
    assert (broken["gap_s"].verdict, every_trial.against(broken["gap_s"])) == ("not met", "kill-gateway, trial 1: 1.5004 s")
    assert "1.5004 s; 1 of 1 trial break it: 5.0 to 100 % of all such trials would" in every_trial.carried(broken["gap_s"])


def test_without_downloads_there_is_no_share_of_them() -> None:
    without = six(downloads=0, without=("downloads_share",))
    assert judged(*without)["downloads_share"].verdict == "undecided"
    assert set(verdicts(*without).values()) == {"met"}
    assert every_trial.figures([*without, row()], "downloads_share") == [1.0]


def test_a_gateway_that_does_not_come_back_is_the_worst_result_and_no_fault_of_the_lab() -> None:
    lost = row(fault="upgrade-gateways", **trial.LOST, lost="after its restart, gw2 is not announced again")
    assert outcome(lost) is Outcome.SYSTEM_FAILED
    found = judged(*six("upgrade-gateways"), lost)
    assert (found["kept_share"].verdict, found["gap_s"].verdict) == ("not met", "not met")
    assert found["wrong"].verdict == "met", "what went wrong before was measured"
    assert "upgrade-gateways, trial 1: never (after its restart, gw2 is not announced again)" in words(lost)
    assert every_trial.answer(every_trial.judge(study(), [lost])).startswith("No: ")


def test_selection_by_outcome_keeps_no_rule() -> None:
    """Of six trials of every fault, five end with gateways that do not come back, or were never there."""
    lost = "diolkos in gw1 was killed by SIGKILL"
    none = ("wrong", "duplicates")
    begun = [row(repetition=number, without=none, **trial.NEVER_BEGUN, lost=lost) for number in range(3)]
    ended = [row(repetition=number, **trial.LOST, lost=lost) for number in range(3, 5)]
    found = verdicts(*begun, *ended, row(repetition=5))
    about = {"kept_share", "gap_s", "new_flows_s", "downloads_share"}
    assert {quantity for quantity, verdict in found.items() if verdict == "not met"} == about
    assert "met" not in found.values(), "three trials measured what is wrong"
    assert all(outcome(each).counts for each in [*begun, *ended])


@pytest.mark.parametrize(("trials", "says"), [(1, "95 %"), (6, "39 %"), (59, "5 %")])
def test_trials_that_all_keep_a_rule_bound_the_share_that_would_not(trials: int, says: str) -> None:
    said = words(*(row(repetition=number) for number in range(trials)))
    assert f"breaks it: at most {says} of all such trials would (95 % confidence)" in said


@given(st.integers(1, 60), st.data())
def test_an_interval_of_shares_covers(trials: int, data: st.DataObject) -> None:
    """At each end of it, what was seen or more of it has the probability that the level leaves."""
    times = data.draw(st.integers(0, trials))
    low, high = interval(times, trials)
    beyond = 0.05 if times in (0, trials) else 0.025
    assert 0 <= low <= times / trials <= high <= 1
    if times:
        assert 1 - binomial_at_most(times - 1, trials, low) == pytest.approx(beyond, abs=1e-6)
    if times < trials:
        assert binomial_at_most(times, trials, high) == pytest.approx(beyond, abs=1e-6)


def test_a_run_reads_back_as_it_was_written(tmp_path: Path) -> None:
    rows = [row(), row(fault="cut-lan", gap_s=None, stream_stops_s=[0.2, None])]
    found = read(write(tmp_path / "new", rows))
    assert (found.trials, found.header["seed"], found.study.rule, found.done, found.planned) == (rows, 1, study().rule, 2, 8)


def test_an_older_result_is_moved_aside_and_not_overwritten(tmp_path: Path) -> None:
    for seed in (1, 2):
        write(tmp_path / "run", [row()], seed=seed)
    (aside,) = (each for each in tmp_path.iterdir() if each.name != "run")
    assert [read(each).header["seed"] for each in (aside, tmp_path / "run")] == [1, 2]


def test_the_report_says_limits_units_host_and_what_is_missing(tmp_path: Path) -> None:
    text = page(tmp_path / "run", row())
    for part in (
        "Longest gap ≤ 1.50 s",
        "flows kept ≥ 99.900 %",
        "cluster, freeze-gateway, cut-lan, cut-gateway-link, cut-gateway, drain-gateway",
        "Only 1 of 8 trials are here: the run was interrupted, or goes on.",
        "30000 UDP flows",
        "Linux 6.18, SYNTHETIC CPU, 2 CPUs.",
        "A trial decides nothing if",
        "One trial that breaks a rule is enough for not met.",
        "kill-gateway cluster 1 100.000 % 0.20 s",
    ):
        assert part in text, part
    assert "native" not in text.partition("What was compared")[2].partition("How to repeat it")[0].replace("Gateway", "")


def test_wrong_folders_are_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageFault, match=r"holds something that is not a result"):
        samples_folder.claim(tmp_path)


def test_every_kind_meets_every_fault_once_in_each_repetition() -> None:
    form = study().form["quick"]
    order = command.order(study(), form, 3)
    assert order == command.order(study(), form, 3)
    assert order != command.order(study(), form, 4)
    each = [(planned.kind, planned.fault.name, planned.repetition) for planned in order]
    # Two kinds with five faults, two of which are of the engine, which `independent` gateways do not have.
    assert form.gateways == ("independent", "cluster") and len(form.faults) == 5
    assert len(each) == len(set(each)) == form.repetitions * (3 + 5)


def test_a_study_names_only_faults_that_it_has(tmp_path: Path) -> None:
    text = (
        studies.of_faults()["failover"]
        .read_text()
        .replace('faults = ["kill-gateway", "cut-gateway"', 'faults = ["cut-gateway"')
    )
    file = tmp_path / "other.toml"
    file.write_text(text.replace('name = "kill-gateway"', 'name = "no-fault"'))
    with pytest.raises(UsageFault, match="kill-gateway"):
        studies.of_faults_named(str(file))
