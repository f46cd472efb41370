# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Words for every outcome: good, bad, undecided, unsure, missing."""

import json
from dataclasses import replace

import pytest
import synthetic

from diolkos_lab.report import ratio_words, words
from diolkos_lab.report.quantities import factor, percent
from diolkos_lab.report.read import Cell, Floor, Row, read
from diolkos_lab.report.systems import look, order, short_label

TC = Cell("diolkos", "tc", "ipv4", 1)
THIN = "\u202f"


def row(ratio, ci=None, load="tcp-upload", metric="throughput", baseline="native/kernel/ipv6/1"):
    return Row(TC, load, metric, "", 10, 10, 1.0, None, baseline, ratio, ci)


def plain(text):
    return text.replace(THIN, " ").replace("\u2013", "-").replace("\u2212", "-")


@pytest.mark.parametrize(
    ("ratio", "ci", "text"),
    [
        (0.981, (0.971, 0.992), "98 % [97-99 %]"),
        (0.0712, (0.0694, 0.0731), "7.1 % [6.9-7.3 %]"),
        (0.98, (0.9797, 0.9805), "98.00 % [97.97-98.05 %]"),
        (0.98, None, "98 %"),
        (0.019, None, "1.9 %"),
        (None, None, "-"),
    ],
)
def test_percent_has_the_decimals_its_interval_deserves(ratio, ci, text):
    assert plain(percent(ratio, ci)) == text


@pytest.mark.parametrize(
    ("ratio", "ci", "text"),
    [
        (5.93, (5.5, 6.3), "5.9 [5.5-6.3]"),
        (1.03, (1.01, 1.05), "1.03 [1.01-1.05]"),
        (0.9, (0.6, 1.2), "0.90 [0.60-1.20]"),
        (2.36, None, "2.36"),
    ],
)
def test_factor_never_rounds_a_ratio_near_one_to_nothing(ratio, ci, text):
    assert plain(factor(ratio, ci)) == text


@pytest.mark.parametrize(
    ("ratio", "ci", "text"),
    [
        (1.03, (1.01, 1.05), "a ping takes 3 % [1-5 %] longer"),
        (0.96, (0.94, 0.98), "a ping takes 4 % [2-6 %] shorter"),
        (5.93, (5.5, 6.3), "a ping takes 5.9 times [5.5-6.3] as long"),
        (1.01, (0.98, 1.04), "a ping takes as long as native, as far as this run can tell [-2 % to +4 %]"),
        (1.25, None, "a ping takes 25 % longer"),
    ],
)
def test_rtt_in_words(ratio, ci, text):
    assert plain(ratio_words.rtt_words(row(ratio, ci, "ping", "rtt"))) == text


@pytest.mark.parametrize(
    ("ratio", "ci", "text"),
    [
        (0.9999, None, "as long"),
        (0.9996, (0.99, 1.02), "as long [-1 % to +2 %]"),
        (0.999, (0.99, 1.02), "0.1 % shorter [-1 % to +2 %]"),
    ],
)
def test_no_difference_is_not_called_a_shorter_time(ratio, ci, text):
    assert plain(ratio_words.longer(ratio, ci)) == text


def test_throughput_names_both_directions_and_the_baseline():
    said = ratio_words.throughput_words(row(0.98, (0.97, 0.99)), row(0.95, (0.94, 0.96), "tcp-download"))
    assert plain(said) == "a TCP stream gets 98 % [97-99 %] up and 95 % [94-96 %] down of what native IPv6 gets"


def test_throughput_names_the_hops_of_the_baseline():
    said = ratio_words.throughput_words(row(0.9, (0.88, 0.92), baseline="native/kernel/ipv4/2"), None)
    assert "native IPv4 over 2 hops" in said
    assert "down" not in said


def test_no_difference_is_called_none_only_when_both_directions_say_so():
    one, two = row(0.99, (0.97, 1.01)), row(1.0, (0.98, 1.02), "tcp-download")
    assert "cannot tell from none" in ratio_words.throughput_words(one, two)
    assert "cannot tell" not in ratio_words.throughput_words(one, row(0.9, (0.88, 0.92), "tcp-download"))


def test_faster_than_native_is_said():
    assert "more than native" in ratio_words.throughput_words(row(1.1, (1.05, 1.15)), None)


def test_nothing_measured_has_no_words():
    assert ratio_words.throughput_words(None, row(None)) is None
    assert ratio_words.rtt_words(None) is None


@pytest.mark.parametrize(
    ("cis", "grade"),
    [
        ([(0.98, 1.0), (0.97, 1.01)], "firm"),
        ([(0.98, 1.0), (0.90, 1.05)], "fair"),
        ([(0.98, 1.0), (0.70, 1.3)], "coarse"),
        ([(0.98, 1.0), None], "no interval"),
    ],
)
def test_the_widest_interval_decides_the_grade(cis, grade):
    assert words.grade([row(0.99, ci) for ci in cis]) == grade


def test_no_ratio_has_the_grade_nothing():
    assert words.grade([None, row(None)]) == "nothing"


@pytest.mark.parametrize("outcome", ["met", "not met", "undecided"])
def test_every_outcome_is_counted_in_words(outcome):
    assert f"2 are {outcome}" in words.verdict_count([{"outcome": outcome}] * 2)
    assert words.outcome({"outcome": outcome})[1] == outcome


def test_an_outcome_of_a_later_version_is_shown_as_it_is():
    assert words.outcome({"outcome": "withdrawn"}) == ("?", "withdrawn")
    assert "1 is withdrawn" in words.verdict_count([{"outcome": "withdrawn"}])


# ---- the whole run


def results(tmp_path, **plan):
    return read(synthetic.folder(tmp_path / "result", synthetic.Plan(**plan)))


def test_headline_spans_the_translators_and_leaves_nat44_out(tmp_path):
    said = words.headline(results(tmp_path))
    assert "Tayga" in said and "diolkos tc" in said
    assert "NAT44" not in said


def test_a_quiet_run_deserves_trust_above_its_noise_floor(tmp_path):
    trust = words.trust(results(tmp_path))
    assert trust.level == "good"
    assert plain(trust.answer) == "Yes, for differences above 1.2 %."


def test_a_restless_host_deserves_none_and_the_headline_says_so(tmp_path):
    quiet = results(tmp_path)
    floor = Floor(TC, "ping", "rtt", 1.2, (0.7, 1.6), 0.9)
    restless = replace(quiet, noise_floor=[floor])
    assert words.trust(restless).level == "poor"
    assert "1.6 times" in words.trust(restless).answer
    assert words.headline(restless).startswith("This run cannot say")
    assert words.lead(restless).startswith("As measured")


def test_twins_that_differ_by_more_than_chance_are_named(tmp_path):
    biased = Floor(Cell("native", "kernel", "ipv6", 1), "ping", "rtt", 1.04, (1.02, 1.06), 0.05)
    run = replace(results(tmp_path), noise_floor=[biased])
    assert words.trust(run).level == "limited"
    assert "more than chance" in words.noise_sentence([biased])


def test_few_blocks_are_limited_trust(tmp_path):
    assert words.trust(results(tmp_path, blocks=3)).level == "limited"


def test_one_block_has_no_interval_and_no_trust(tmp_path):
    trust = words.trust(results(tmp_path, blocks=1))
    assert trust.level == "poor"
    assert "no interval" in trust.answer


def test_many_distrusted_trials_are_no_trust(tmp_path):
    every = frozenset((system, block) for system in ("tayga", "nat44", "native") for block in range(10))
    assert words.trust(results(tmp_path, untrusted=every)).level == "poor"


def test_a_system_whose_every_trial_failed_says_why(tmp_path):
    answer = next(a for a in words.answers(results(tmp_path, failed=frozenset({"tayga"}))) if a.cell.system == "tayga")
    assert answer.failed
    assert "27 of 27 trials failed" in answer.cost
    assert "No route to host" in answer.cost


def test_a_system_whose_every_trial_is_distrusted_names_the_guard(tmp_path):
    every = frozenset(("tayga", block) for block in range(10))
    answer = next(a for a in words.answers(results(tmp_path, untrusted=every)) if a.cell.system == "tayga")
    assert answer.failed
    assert "steal" in answer.cost
    assert "Not trusted: a TCP stream gets" in answer.cost


def test_basis_counts_used_distrusted_and_failed_trials(tmp_path):
    run = results(tmp_path)
    tayga = next(c for c in run.cells if c.system == "tayga")
    assert words.basis(run, tayga) == "27 trials: 24 used, 3 untrusted"


def test_systems_that_were_not_measured_are_named(tmp_path):
    assert words.not_measured(results(tmp_path)).startswith("Not measured: Jool and Tundra")
    assert words.not_measured(replace(results(tmp_path / "2"), missing=[])) is None


def test_an_interrupted_run_names_what_is_missing_from_its_header(tmp_path):
    folder = synthetic.folder(tmp_path / "result")
    (folder / "summary.json").unlink()
    samples = (folder / "samples.jsonl").read_text().splitlines()
    samples[0] = json.dumps({"format": 1, "study": "clat", "missing": [{"system": "jool", "reason": "no module"}]})
    (folder / "samples.jsonl").write_text("\n".join(samples))
    assert "Jool" in words.not_measured(read(folder))


def test_the_sentence_about_brackets_is_there_when_something_is_not_trusted_and_only_then(tmp_path):
    assert words.untrusted(results(tmp_path)) is None
    every = frozenset(("tayga", block) for block in range(10))
    said = words.untrusted(results(tmp_path / "2", untrusted=every))
    assert said.startswith("In brackets: not trusted.") and "“steal”" in said and "no verdict" in said
    assert "Tayga" not in words.headline(results(tmp_path / "3", untrusted=every)), "no conclusion is drawn from them"


def test_a_noise_floor_that_nobody_trusts_is_not_called_absent():
    assert "no trial of it is trusted" in words.noise_sentence([], twins=True)
    assert "is in this folder" in words.noise_sentence([])


# ---- names


def cell(system, datapath, hops=1, alike=False):
    return Cell(system, datapath, "ipv6", hops, alike=alike)


def test_every_system_of_a_study_has_a_look_and_a_name_of_its_own():
    paths = ("direct", "inline", "tc", "tun", "xdp", "464xlat-tc", "nat64-tc", "dns64")
    each = [
        *(cell("diolkos", path) for path in paths),
        cell("nat44", "nftables"),
        cell("tayga", "tun"),
        cell("unbound", "dns64"),
        cell("jool64", "nat64-module"),
    ]
    assert len({look(c).name for c in each}) == len({short_label(c) for c in each}) == len(each)
    assert look(cell("diolkos", "nat64-tun")).name == "diolkos-tun"
    assert [look(cell("diolkos", f"siit-{p}")).name for p in ("tc", "tun")] == ["diolkos-tc", "diolkos-tun"]
    assert short_label(cell("tayga", "masquerade")) == "Tayga + masquerade"


def test_a_chain_comes_after_its_parts():
    names = ["464xlat-tc", "nat64-tun", "nat64-tc"]
    assert sorted(names, key=lambda name: order(cell("diolkos", name))) == ["nat64-tc", "nat64-tun", "464xlat-tc"]


def test_hops_are_named_where_they_tell_paths_apart():
    assert short_label(cell("jool", "module", 2)) == "Jool, 2 hops"
    assert short_label(cell("jool", "module", 2, alike=True)) == "Jool"
