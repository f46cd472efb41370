# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Saturation and the three rules: what each says, how they relate, and the reasons in words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from diolkos_lab.curve.crossing import PDR
from diolkos_lab.curve.judge import BAD, GOOD, Judgement, judge, reason, remarks
from diolkos_lab.curve.loss import increase_ratio, measure
from diolkos_lab.curve.saturation import RULES, good, potential, saturation

STEP = 100_000


def of_tir(*tir: float, below: int = 2) -> Judgement:
    """A curve that loses nothing at `below` loads, then 10 % of the next, and has these TIR at the loads after it."""
    throughput = [STEP * (i + 1.0) for i in range(below)]
    throughput.append(STEP * (below + 1) * 0.9)
    for each in tir:
        throughput.append(throughput[-1] + each * STEP)
    rates = STEP * np.arange(1, len(throughput) + 1)
    tx = rates[:, None] * 10.0 * np.ones(6)
    return judge(measure(rates, tx, tx * (np.array(throughput) / rates)[:, None]))


@pytest.mark.parametrize(
    ("tir", "verdicts", "saturated"),
    [
        ((0.05, 0.0, -0.3), (GOOD, GOOD, GOOD), (3, 3, 3)),
        ((0.2, 0.0, 0.0), (BAD, GOOD, GOOD), (4, 3, 3)),
        ((0.8, 0.0, 0.0), (BAD, BAD, GOOD), (4, 4, 3)),
        ((0.05, 0.2, 0.05), (BAD, BAD, BAD), (5, 5, 5)),
        ((0.8, 0.7, 0.6), (BAD, BAD, BAD), (None, None, 5)),
        ((0.05, 0.05, 0.9), (BAD, BAD, BAD), (None, None, None)),
        ((0.05,), (GOOD, GOOD, GOOD), (3, 3, 3)),
        ((), (BAD, BAD, BAD), (None, None, None)),
    ],
)
def test_the_rules(tir: tuple, verdicts: tuple, saturated: tuple) -> None:
    found = of_tir(*tir)
    assert tuple(found.verdict.values()) == verdicts
    assert tuple(found.saturation.values()) == saturated
    assert found.potential == (3 if tir else None)
    assert found.depends_on_rule == (len(set(verdicts)) > 1)


def test_a_path_that_carries_nothing_is_not_good() -> None:
    """Its throughput does not grow any more, which is what the rules call saturation."""
    rates = STEP * np.arange(1, 7)
    tx = rates[:, None] * 10.0 * np.ones(6)
    found = judge(measure(rates, tx, 0 * tx))
    assert set(found.verdict.values()) == set(found.firm.values()) == {BAD}
    assert reason(found, RULES["paper"]) == "No packet arrived at any load."


@pytest.mark.parametrize(
    ("found", "rule", "words"),
    [
        (
            of_tir(0.05, 0.0),
            "paper",
            "Saturated from 400 kpps, the load after the first that loses more than 0.5 %: TIR is 0.00 to",
        ),
        (
            of_tir(0.8, 0.0),
            "paper",
            "Throughput still grows at 400 kpps, the load after the first that loses more than 0.5 %: TIR",
        ),
        (of_tir(0.8, 0.0), "paper", "sets in only at 500 kpps."),
        (of_tir(0.8, 0.8), "hysteresis", "Saturation is never reached."),
        (of_tir(0.05, 0.2, 0.0), "paper", "but no longer at 500 kpps: TIR is 0.20."),
        (of_tir(), "paper", "Only the highest load, 300 kpps, loses more than 0.5 %"),
        (judge(measure([1e6, 2e6], [[10], [10]], [[10], [10]])), "paper", "No load up to 2 Mpps loses more than 0.5 %"),
    ],
)
def test_reasons_in_words(found: Judgement, rule: str, words: str) -> None:
    assert words in reason(found, RULES[rule])


def test_remarks_say_what_is_peculiar() -> None:
    assert remarks(of_tir(0.0, 0.0)) == []
    stray = judge(measure([1e5, 2e5], [[1e6] * 6] * 2, [[1e6 + 2] * 6, [0.9e6] * 6]))
    assert stray.curve.excess_trials == 6 and not any("arrived" in remark for remark in remarks(stray))
    assert any("not bracketed: already the lowest" in remark for remark in remarks(of_tir(0.0, below=0)))
    assert any("depends on the rule" in remark for remark in remarks(of_tir(0.2, 0.0)))
    loads, full = [1e5, 2e5, 3e5], np.full(6, 1e6)
    rx = [full, full * 0.9, full * 3 * 0.999]
    said = remarks(judge(measure(loads, [full, full * 2 * 0.9, full * 3], [rx[0], rx[1] * 1.7, rx[2]])))
    assert any("loss falls to 0.5 % or less again at 300 kpps" in remark for remark in said)
    assert any("did the generator keep its rate" in remark and "at 200 kpps" in remark for remark in said)
    said = remarks(judge(measure(loads, [full[:3]] * 3, [full[:3] + 60] * 3)))
    assert any("in 9 of 9 trials far more packets arrived" in remark for remark in said)
    assert any("even the highest load" in remark for remark in said)
    assert any("fewer than 6 trials" in remark for remark in said)


def test_nearly_all_bootstrap_curves_agree_with_a_clear_verdict() -> None:
    random = np.random.default_rng(3)
    rates = STEP * np.arange(1, 8)
    plr = np.maximum(0, 1 - 3.5 * STEP / rates)[:, None] + 1e-4 * random.random((7, 20))
    found = judge(measure(rates, np.full((7, 20), 1e7), 1e7 * (1 - plr)))
    assert found.verdict["paper"] == GOOD and found.good_share["paper"] > 0.99


# ---- properties

curves = some.lists(some.floats(0, 0.6), min_size=2, max_size=16)
some_tir = some.lists(some.one_of(some.floats(-1, 1.5), some.sampled_from([0.1, 0.3, 0.0])), min_size=1, max_size=14)


@given(curves)
def test_good_by_a_stricter_rule_is_good_by_a_laxer_one(plr: list[float]) -> None:
    rates = STEP * np.arange(1, len(plr) + 1)
    tx = np.full((len(plr), 2), 1e8)
    verdict = judge(measure(rates, tx, tx * (1 - np.array(plr)[:, None]))).verdict
    goods = [verdict[name] == GOOD for name in ("paper", "hysteresis", "notebook")]
    assert goods == sorted(goods)


@given(curves, some.sampled_from(sorted(RULES)))
def test_the_verdict_of_many_curves_at_once_is_that_of_each(plr: list[float], name: str) -> None:
    rates, row = STEP * np.arange(1, len(plr) + 1), np.array([plr])
    tir = increase_ratio(rates, row)
    over = row[0] > PDR
    start = potential(int(np.argmax(over)) if over.any() else None, len(plr))
    alone = start is not None and saturation(tir[0], start, RULES[name]) == start
    assert good(row, tir, PDR, RULES[name])[0] == alone


@given(some_tir)
def test_saturation_by_the_papers_rule_is_the_start_of_the_low_tail(tir: list[float]) -> None:
    values = np.array([np.nan, *tir])
    index = saturation(values, 1, RULES["paper"])
    tails = [i for i in range(1, len(values)) if (values[i:] < 0.1).all()]
    assert index == (tails[0] if tails else None)


@given(some_tir)
def test_a_load_below_eta_never_clears_and_the_notebook_enters_anywhere(tir: list[float]) -> None:
    values = np.array([np.nan, *tir])
    by_rule = {name: saturation(values, 1, rule) for name, rule in RULES.items()}
    if by_rule["paper"] is not None:
        assert by_rule["hysteresis"] is not None and by_rule["notebook"] is not None
    if values[-1] < 0.1:
        assert None not in by_rule.values()
    if len(tir) == 1:
        assert by_rule["notebook"] == 1
