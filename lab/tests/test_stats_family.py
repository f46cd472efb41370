# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Many rules that share a native path: how many does a lab decide in which nothing differs, and what does the care cost?"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from diolkos_lab import studies
from diolkos_lab.stats import family, median
from diolkos_lab.stats.pairing import Samples
from diolkos_lab.verdict import asked, decided, family_in_words, of_family

RULES, BLOCKS, RUNS = 34, 13, 150


def _run(random: np.random.Generator, effects: Sequence[float], blocks: int = BLOCKS) -> list[list[float]]:
    """Ratios by rule, all to the same native trials. Effects are in standard deviations of one path's block."""
    native = random.standard_normal(blocks)
    return [np.exp(0.05 * (effect + random.standard_normal(blocks) - native)).tolist() for effect in effects]


def _decided(rules: list[list[float]]) -> tuple[int, int]:
    """How many each by itself, and how many as a family."""

    def decides(values: list[float]) -> Callable[[float], bool]:
        def at(confidence: float) -> bool:
            ends = median.interval(values, confidence)
            return ends is not None and (ends[0] > 1 or ends[1] < 1)

        return at

    every = [decides(values) for values in rules]
    needed = family.confidence(every)
    return sum(each(0.95) for each in every), sum(each(needed) for each in every)


def test_where_nothing_differs_one_run_in_twenty_decides_anything() -> None:
    random = np.random.default_rng(4)
    found = np.array([_decided(_run(random, [0.0] * RULES)) for _ in range(RUNS)])
    alone, together = found.T
    assert np.mean(alone > 0) > 0.3 and np.quantile(alone, 0.95) >= 5, "the fault that the family is there for"
    assert np.mean(together > 0) <= 0.1  # binom.ppf(0.995, 150, 0.05) / 150
    assert together.mean() < 0.3


def test_rules_that_differ_are_still_decided() -> None:
    random = np.random.default_rng(5)
    found = np.array([_decided(_run(random, [3.0] * 10 + [0.0] * 24)) for _ in range(30)])
    assert found[:, 1].mean() > 0.9 * 10
    assert found[:, 1].mean() < 10.7, "of those decided, one in twenty is wrong at most"


def test_a_rule_by_itself_needs_95_percent() -> None:
    assert family.confidence([lambda _confidence: True]) == 0.95
    assert family.confidence([lambda _confidence: False]) == 0.95
    assert family.confidence([]) == 0.95
    assert family.confidence([lambda _confidence: True] * 4) == 0.95, "where all are decided, none needs more"


def test_what_chance_decides_is_found_from_the_run_itself() -> None:
    """By signs drawn anew for each block: the same numbers as those of runs in which nothing differs."""
    random = np.random.default_rng(6)
    runs = np.array([_decided(_run(random, [0.0] * RULES)) for _ in range(RUNS)])
    told = [family.by_chance([dict(enumerate(rule)) for rule in _run(random, [1.0] * RULES)]) for _ in range(10)]
    alone, together = (np.mean([each[place].mean for each in told]) for place in (0, 1))
    assert alone == pytest.approx(runs[:, 0].mean(), abs=0.7)
    assert together < 0.3
    assert max(each[0].most for each in told) >= 4


def test_failures_and_no_rules_do_no_harm() -> None:
    rules = [dict(enumerate([0.0, 0.0, math.inf, 1.0, 1.0, 1.0, 1.1])), {1: 1.0}]
    assert family.by_chance(rules)[1].mean <= family.by_chance(rules)[0].mean
    assert family.by_chance([])[0] == family.ByChance(0.0, 0)


def test_a_rule_that_only_its_own_interval_decides_says_so(record: Callable[..., dict[str, Any]]) -> None:
    """Six rules of six blocks each: one lies clearly on one side, but among six one such does by chance."""
    study = studies.load("clat")
    claims = tuple(claim.model_copy(update={"at_least": level, "at_most": None}) for claim in study.claim[:1]
                   for level in (0.5, 1.0, 1.001, 0.999, 1.002, 0.998))  # fmt: skip
    lines = []
    for block, value in enumerate([1.0, 0.9, 1.1, 0.95, 1.05, 1.0, 1.02]):
        for load in ("tcp-upload", "tcp-download"):
            for family_of in ("ipv4", "ipv6"):
                lines.append(record(block=block, load=load, family=family_of, metrics={"throughput": 1.0}))
            lines.append(record(block=block, load=load, system="diolkos", datapath="tc", family="ipv4",
                                metrics={"throughput": value}))  # fmt: skip
    rules = asked(study.model_copy(update={"claim": claims}), Samples(lines), {})
    first = decided(rules)[0]
    assert first["outcome"] == "undecided" and first["ci95"][0] > 0.5
    assert f"among {len(rules)} rules that takes a 99.5" in first["sentence"] or "too few blocks" in first["sentence"]
    told = of_family(rules)
    assert told and told["decided"] == 0
    said = family_in_words(told)
    assert said and said.startswith(f"{len(rules)} rules are judged together") and "a lab in which nothing differs" in said
