# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Words for every outcome: good, bad, undecided, unsure, missing."""

import json
from dataclasses import replace

import pytest
import synthetic

from diolkos_lab.report import answer, baselines, trust, undecided, words
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


def test_the_first_sentence_has_the_best_and_the_worst_translator_and_leaves_nat44_out(tmp_path):
    said = plain(answer.headline(results(tmp_path)))
    assert said.startswith("Through diolkos tc, TCP keeps 9") and "; through Tayga, it keeps 7." in said
    assert "NAT44" not in said and "native" in said
    assert said.count("times the CPU time per gigabyte") == 2, "a TCP ratio never stands alone"


def test_the_packet_rate_with_most_flows_stands_beside_what_tcp_keeps(tmp_path):
    run = results(tmp_path)
    rates = [
        row(ratio, (ratio - 0.01, ratio + 0.01), f"forwarding-rate flows={flows}", "rate")
        for flows, ratio in ((16, 1.9), (4096, 0.62))
    ]
    said = plain(answer.headline(replace(run, rows=[*run.rows, *rates])))
    assert "62 % of the packet rate" in said and "190 %" not in said


def kept(ratio, ci, load="tcp-upload", metric="throughput", what="TCP"):
    own = row(ratio, ci, load, metric)
    return answer.Kept(TC, what, own, baselines.Against(own.baseline, ratio, ci), ci)


@pytest.mark.parametrize(
    ("ratio", "ci", "text"),
    [
        (0.98, (0.97, 0.99), "TCP keeps 98 %"),
        (1.06, (0.95, 1.12), "TCP loses nothing that this run can see"),
        (1.2, (1.1, 1.3), "TCP loses nothing that this run can see"),
        (0.9, (0.5, 1.2), "TCP keeps at least 50 %"),
        (1.4, (0.5, 2.0), "TCP keeps at least 50 %"),
        (0.6, (0.0, 1.2), "TCP keeps at least 0.0 %"),
    ],
)
def test_a_sentence_says_no_more_than_its_interval(ratio, ci, text):
    assert plain(kept(ratio, ci).in_words) == text


@pytest.mark.parametrize(
    ("ratio", "ci", "text"),
    [
        (5.93, (5.5, 6.3), "a ping takes 5.9 times as long"),
        (1.02, (0.98, 1.1), "a ping takes no longer that this run can see"),
        (1.2, (0.9, 1.69), "a ping takes at most 1.69 times as long"),
    ],
)
def test_a_time_says_no_more_than_its_interval(ratio, ci, text):
    assert plain(kept(ratio, ci, "ping", "rtt", "a ping").in_words) == text


def test_a_quiet_run_deserves_trust(tmp_path):
    found = trust.of(results(tmp_path))
    assert (found.level, found.answer) == ("good", "Yes, within the intervals.")


def test_noise_denies_no_interval(tmp_path):
    """Before, a floor of 1.6 made the page say that smaller differences mean nothing, above rules decided for less."""
    restless = replace(results(tmp_path), noise_floor=[Floor(TC, "ping", "rtt", 1.2, (0.7, 1.6), 0.9)])
    assert trust.of(restless).level != "poor"
    assert answer.headline(restless).startswith("Through diolkos tc, TCP keeps")


def test_twins_that_differ_by_more_than_chance_are_named_and_widen_the_first_sentence(tmp_path):
    quiet = results(tmp_path)
    native = Cell("native", "kernel", "ipv6", 1)
    floors = [Floor(native, load, "throughput", 1.07, (1.05, 1.09), 0.05) for load in ("tcp-upload", "tcp-download")]
    biased = replace(quiet, noise_floor=floors)
    assert trust.of(biased).level == "limited"
    assert "more than chance" in trust.noise(floors)
    narrow, wide = (answer.kept(each, *answer.GROUPS[0])[0] for each in (quiet, biased))
    assert wide.ci[0] == pytest.approx(narrow.ci[0] * 0.95) and wide.ci[1] == pytest.approx(narrow.ci[1] * 1.05)


def test_few_blocks_are_limited_trust(tmp_path):
    assert trust.of(results(tmp_path, blocks=3)).level == "limited"


def test_many_distrusted_trials_are_limited_trust(tmp_path):
    some = frozenset((system, block) for system in ("tayga", "nat44", "native") for block in (1, 2, 3))
    found = trust.of(results(tmp_path, untrusted=some))
    assert found.level == "limited" and "of the trials were disturbed and do not count" in found.answer


def test_a_system_whose_every_trial_failed_says_why(tmp_path):
    run = results(tmp_path, failed=frozenset({"tayga"}))
    said = words.why_nothing(run, next(cell for cell in run.cells if cell.system == "tayga"))
    assert "27 of 27 trials failed" in said and "No route to host" in said


def test_a_system_whose_every_trial_is_distrusted_names_the_guard(tmp_path):
    run = results(tmp_path, untrusted=frozenset(("tayga", block) for block in range(10)))
    assert "steal" in words.why_nothing(run, next(cell for cell in run.cells if cell.system == "tayga"))


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
    assert "Tayga" not in answer.headline(results(tmp_path / "3", untrusted=every)), "no conclusion is drawn from them"


def test_twins_that_nobody_trusts_are_not_called_absent():
    assert "no trial of it is trusted" in trust.noise([], twins=True)
    assert "No path was compared with itself" in trust.noise([])


@pytest.mark.parametrize(
    ("have", "want", "further"),
    [(0.18, 0.10, 23), (0.10, 0.10, 1), (0.5, 0.1, None), (float("inf"), 0.1, None), (0.1, 0, None)],
)
def test_an_interval_narrows_with_the_root_of_the_number_of_blocks(have, want, further):
    assert undecided.more_blocks(10, have, want) == further


def test_an_undecided_rule_says_what_would_decide_it():
    verdict = {
        "rule": "throughput of diolkos tc / native IPv6 over 1 hop, TCP upload: at least 0.97", "outcome": "undecided",
        "sentence": "Undecided. …, 9 blocks); …", "value": 1.0, "ci95": [0.95, 1.05],
    }  # fmt: skip
    said = undecided._of_rule(verdict)
    assert said.startswith("Throughput of diolkos tc") and said.endswith(
        "the interval spans the limit. About 17 more blocks would decide if the ratio stays."
    )
    assert "wider one that so many rules ask for" in undecided._of_rule({**verdict, "ci95": [0.98, 1.02]})
    assert "more than 10 times as many blocks" in undecided._of_rule({**verdict, "value": 0.9701})
    assert undecided._of_rule(
        {**verdict, "value": None, "sentence": "Undecided. x: not decided, because a is b; the rule asks"}
    )


# ---- names


def cell(system, datapath, hops=1, alike=False):
    return Cell(system, datapath, "ipv6", hops, alike=alike)


def test_every_system_of_a_study_has_a_look_and_a_name_of_its_own():
    paths = ("direct", "inline", "tc", "tun", "xdp", "464xlat-tc", "nat64-tc", "dns64")
    each = [
        *(cell("diolkos", path) for path in paths),
        cell("nat44", "nftables"),
        cell("tayga", "tun"),
        cell("tayga", "masquerade"),
        cell("unbound", "dns64"),
        cell("jool64", "nat64-module"),
    ]
    assert len({look(c).name for c in each}) == len({short_label(c) for c in each}) == len(each)
    assert look(cell("diolkos", "nat64-tun")).name == "diolkos-nat64-tun"
    assert [look(cell("diolkos", f"siit-{p}")).name for p in ("tc", "tun")] == ["diolkos-tc", "diolkos-tun"]
    assert short_label(cell("tayga", "masquerade")) == "Tayga + masquerade"


def test_a_chain_comes_after_its_parts():
    names = ["464xlat-tc", "nat64-tun", "nat64-tc"]
    assert sorted(names, key=lambda name: order(cell("diolkos", name))) == ["nat64-tc", "nat64-tun", "464xlat-tc"]


def test_hops_are_named_where_they_tell_paths_apart():
    assert short_label(cell("jool", "module", 2)) == "Jool, 2 hops"
    assert short_label(cell("jool", "module", 2, alike=True)) == "Jool"
