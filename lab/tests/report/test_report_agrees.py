# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No sentence of a page denies another, whatever the run was. SYNTHETIC: runs are drawn at random and go through the real
statistics."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diolkos_lab import studies, summary
from diolkos_lab.report import answer, method, page, trust, undecided, words
from diolkos_lab.report.read import Results, read
from diolkos_lab.samples import folder as samples_folder

PATHS = (
    ("native", "kernel", "ipv6", 1),
    ("native", "kernel", "ipv4", 1),
    ("diolkos", "tc", "ipv4", 1),
    ("diolkos", "tun", "ipv4", 1),
    ("tayga", "tun", "ipv4", 1),
)
LOADS = {"tcp-upload": ("throughput", 1e10), "tcp-download": ("throughput", 1.2e10), "ping": ("rtt", 2e-5)}
DECIDED = ("met", "not met")


@dataclass(frozen=True)
class Drawn:
    """A run: its folder, its trials, and what the page says of it."""

    folder: Path
    trials: list[dict[str, Any]]
    results: Results
    headline: str
    trust: trust.Trust
    undecided: list[str]

    @property
    def decided(self) -> list[dict[str, Any]]:
        return [verdict for verdict in self.results.verdicts if verdict["outcome"] in DECIDED]


def drawn(folder: Path, seed: int) -> Drawn:
    folder.mkdir()
    (folder / "study.toml").write_text(studies.shipped()["clat"].read_text())
    trials = list(_trials(np.random.default_rng(seed)))
    lines = [{"format": 1, "study": "clat", "quick": True}, *trials]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "host.json").write_text(json.dumps({"format": 1, "seed": seed}))
    summary.write(samples_folder.read(folder))
    results = read(folder)
    content = page.content(results)
    return Drawn(folder, trials, results, page.answer_of(results, content)[0], content.trust, undecided.sentences(results))


def _trials(rng: np.random.Generator) -> Any:
    """Of quiet and restless hosts, with blocks that lack paths, as those that make up for others do."""
    blocks, spread = int(rng.integers(1, 20)), float(rng.choice([0.005, 0.02, 0.05, 0.3, 1.0]))
    untrusted, failed = float(rng.choice([0, 0, 0.1, 0.4, 1.0])), float(rng.choice([0, 0, 0, 0.1, 0.6]))
    whole, twin = int(rng.integers(0, blocks + 1)), float(rng.choice([1.0, 1.0, 1.2]))
    speed = {path: float(rng.choice([1.1, 1.0, 0.98, 0.7, 0.05])) for path in PATHS[1:]}
    for block in range(blocks + 1):
        for path in PATHS:
            for load, (metric, level) in LOADS.items():
                for replica in (1, 2) if path == PATHS[0] else (1,):
                    if block > whole and rng.random() < 0.4:
                        continue
                    ratio = speed.get(path, 1.0) * (twin if replica == 2 else 1.0)
                    value = level * (ratio if metric == "throughput" else 1 / ratio) * float(np.exp(rng.normal(0, spread)))
                    doubts = [{"guard": "steal", "detail": "…"}] if rng.random() < untrusted else []
                    error = "no answer" if rng.random() < failed else None
                    metrics = {metric: value} | ({"cpu_s_per_gb": 1 / ratio} if metric == "throughput" else {})
                    yield {
                        **dict(zip(("system", "datapath", "family", "hops"), path, strict=True)),
                        **{"block": block, "order": 0, "replica": replica, "load": load, "factors": {"offloads": "on"}},
                        **{"started": "2026-01-01T00:00:00.000+00:00", "duration": 0.2, "error": error, "distrust": doubts},
                        **{"valid": not doubts and not error, "metrics": {} if error else metrics, "series": {}},
                    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Drawn]:
    base = tmp_path_factory.mktemp("runs")
    return [drawn(base / str(seed), seed) for seed in range(40)]


def test_the_runs_are_of_all_kinds(runs: list[Drawn]) -> None:
    """Otherwise the other tests would show nothing."""
    outcomes = {verdict["outcome"] for run in runs for verdict in run.results.verdicts}
    assert outcomes == {"met", "not met", "undecided"}
    assert {run.trust.level for run in runs} >= {"poor", "limited"}
    said = " ".join(run.headline for run in runs)
    for words_of_it in ("This run cannot say", "loses nothing that this run can see", "keeps at least", "it keeps "):
        assert words_of_it in said


def test_a_run_that_cannot_say_has_decided_nothing(runs: list[Drawn]) -> None:
    for run in runs:
        cannot = "cannot say" in run.headline
        assert not (cannot and run.decided), run.headline
        assert not (run.trust.level == "poor" and (run.decided or not cannot)), run.trust.answer


def test_no_difference_is_called_meaningless_above_a_rule_that_rests_on_it(runs: list[Drawn]) -> None:
    for run in runs:
        said = " ".join([run.headline, run.trust.answer, *run.trust.reasons, *run.undecided])
        if run.decided:
            assert not re.search(r"mean nothing|means anything|not what they cost|Only what differs", said), said


def test_the_first_sentence_and_the_rules_agree(runs: list[Drawn]) -> None:
    """By the baseline that both have: the first sentence takes the one that asks more."""
    for run in runs:
        for each in answer.kept(run.results, *answer.GROUPS[0]):
            path = f"{each.cell.system} {each.cell.datapath}"
            for verdict in run.decided:
                rule = str(verdict["rule"])
                if not rule.startswith(f"throughput of {path} / native"):
                    continue
                limit = float(rule.rsplit(" ", maxsplit=1)[1])
                if "loses nothing" in each.in_words and verdict["outcome"] == "not met":
                    assert each.ci[0] < limit, "a rule that is not met asks for more than the interval's end"
                if each.best < limit:
                    assert verdict["outcome"] == "not met" or each.row.load not in rule_load(rule), (each, verdict)


def rule_load(rule: str) -> str:
    return "tcp-upload" if "TCP upload" in rule else "tcp-download"


def test_a_share_in_the_first_sentence_is_told_from_native_by_its_interval(runs: list[Drawn]) -> None:
    for run in runs:
        for group in answer.GROUPS:
            for each in answer.kept(run.results, *group):
                if "loses nothing" in each.in_words or "takes no longer" in each.in_words:
                    assert each.best >= 1 and each.safe >= answer.NARROW
                elif "at least" not in each.in_words and "at most" not in each.in_words:
                    assert each.best < 1


def test_what_is_undecided_is_listed_and_nothing_else(runs: list[Drawn]) -> None:
    for run in runs:
        open_rules = [str(verdict["rule"]) for verdict in run.results.verdicts if verdict["outcome"] == "undecided"]
        listed = [text.lower() for text in run.undecided]
        assert all(any(text.startswith(rule.lower()) for text in listed) for rule in open_rules)
        closed = {str(verdict["rule"]).lower() for verdict in run.decided}
        assert not any(text.startswith(tuple(closed)) for text in listed if closed)


def test_blocks_and_trials_are_counted_as_they_were(runs: list[Drawn]) -> None:
    for run in runs:
        measured = [trial for trial in run.trials if trial["block"]]
        said = " ".join(run.trust.reasons)
        blocks = {trial["block"] for trial in measured}
        assert f"the run has {len(blocks)} block" in said.lower()
        if found := re.search(r"Behind each stand (\d+)(?:–(\d+))? blocks", said):
            low, high = int(found[1]), int(found[2] or found[1])
            most, least = (_pairs(measured, failed=each) for each in (True, False))
            assert min(least) <= low <= high <= max(most) <= len(blocks)
        for number, text in ((sum(bool(t["distrust"]) for t in measured), "guards rejected {}, "),
                             (sum(t["error"] is not None for t in measured), "{} failed, ")):  # fmt: skip
            assert not number or text.format(number) in said


def _pairs(measured: list[dict[str, Any]], *, failed: bool) -> set[int]:
    """How many blocks have a usable trial of a path and of a native one, of each path and load. `failed` ones may count."""
    usable = defaultdict(set)
    for trial in measured:
        if trial["replica"] == 1 and (trial["valid"] or (failed and trial["error"] is not None)):
            usable[trial["system"], trial["datapath"], trial["family"], trial["load"]].add(trial["block"])
    natives = [("native", "kernel", family) for family in ("ipv6", "ipv4")]
    translated = {key: found for key, found in usable.items() if key[0] != "native"}
    return {len(found & usable[*native, key[3]]) for key, found in translated.items() for native in natives}


def test_the_paragraph_for_papers_says_what_blocks_held(runs: list[Drawn]) -> None:
    """Before, it said of every run that a block holds every load on every path."""
    for run in runs:
        held = defaultdict(set)
        for trial in run.trials:
            if trial["block"]:
                held[trial["block"]].add((*(trial[k] for k in ("system", "datapath", "family", "replica", "load")),))
        whole = sum(each == set().union(*held.values()) for each in held.values())
        said = " ".join(method.sentences(samples_folder.read(run.folder)))
        assert ("Each block holds every load on every path." in said) == (whole == len(held))
        if 0 < whole < len(held):
            assert f"{whole} of the blocks hold" in said


def test_the_count_of_verdicts_is_that_of_the_list(runs: list[Drawn]) -> None:
    for run in runs:
        said = words.verdict_count(run.results.verdicts)
        for outcome in (*DECIDED, "undecided"):
            number = sum(verdict["outcome"] == outcome for verdict in run.results.verdicts)
            assert (re.search(rf"\b{number} (is|are) {outcome}\b", said) is not None) == bool(number)
