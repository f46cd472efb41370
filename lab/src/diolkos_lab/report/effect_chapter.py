# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Does a factor of a system matter? In words, and each step of each factor with its effect, interval and chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diolkos_lab.metric import METRICS, RowMetric
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.quantities import count, join_words, limits, percent
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import load_label, subject_label
from diolkos_lab.report.tables import Table
from diolkos_lab.stats import effects
from diolkos_lab.stats.effects import Effect

ASKED: tuple[RowMetric, ...] = ("throughput", "rtt", "latency", "rate", "established")
ORDER: dict[str, Sequence[Any]] = {"position": ("top", "middle", "append"), "place": ("client", "router")}
WITHIN: dict[str, Sequence[str]] = {"rules": ("position", "backend"), "position": ("rules",), "backend": ("rules",)}
NAMES = {"rules": "the number of rules", "position": "the position of the rule", "place": "the host that carries the rules"}
HOW = (
    "Two levels of a factor are compared in cells that agree in everything else, within the same blocks. The effect is the "
    "median of the blocks' ratios. Cells that share a pair of lanes have one voice in each build. The test draws the sign of "
    "each ratio anew (a permutation within blocks, of signed ranks); its p-values are corrected for their number "
    "(Benjamini-Hochberg), {n} in this run. A difference that is not significant is not shown to be absent: its interval says "
    "how large it could be."
)


def found(results: Results) -> list[Effect]:
    return effects.effects(results.samples, factors_of(results), ASKED, WITHIN, ORDER)


def factors_of(results: Results) -> dict[str, list[str]]:
    """Subjects of the run with the names of their factors, as its study.toml has them."""
    named: dict[str, list[str]] = {}
    for system in results.study.get("system") or []:
        if isinstance(system, Mapping) and isinstance(system.get("factors"), Mapping) and system["factors"]:
            key = "/".join(str(system.get(part, 1)) for part in ("system", "datapath", "family", "hops"))
            named[key] = sorted(system["factors"])
    return named


def chapter(every: Sequence[Effect]) -> Chapter:
    if not every:
        return Chapter("effects", "Do the factors matter?")
    tests = sum(effect.p is not None for effect in every)
    return Chapter("effects", "Do the factors matter?", [HOW.format(n=tests)], sentences(every), tables=[_table(every)])


def sentences(every: Sequence[Effect]) -> list[str]:
    """One for each subject, factor and figure: its last step, over all other levels and, where they differ, by these."""
    said = []
    groups: dict[tuple[str, ...], list[Effect]] = {}
    for effect in every:
        groups.setdefault((effect.subject, effect.factor, effect.load, effect.metric), []).append(effect)
    for (subject, factor, load, _), group in groups.items():
        last = group[-1].levels
        steps = [effect for effect in group if effect.levels == last]
        whole = next(effect for effect in steps if not effect.given)
        conditions = [effect for effect in steps if effect.given and effect.significant != whole.significant]
        conditions = conditions or [effect for effect in steps if effect.given and whole.significant and _differ(effect, whole)]
        parts = [f"{_in_words(effect)} where {_given(effect)}" for effect in conditions]
        more = f" By itself: {join_words(parts)}." if parts else ""
        what = f"{METRICS[group[0].metric].words} of {subject_label(subject)}, {load_label(load)}"
        name = NAMES.get(factor, factor)
        if whole.p is None:
            verdict = f"whether {name} matters cannot be said, with {count(whole.pairs, 'pair')}"
        else:
            verdict = f"{name} {'matters' if whole.significant else 'makes no difference that could be seen'}"
        said.append(f"{what[:1].upper()}{what[1:]}: {verdict}. {last[0]} → {last[1]}: {_in_words(whole)}.{more}")
    return said


def _differ(one: Effect, other: Effect) -> bool:
    """Their intervals have nothing in common."""
    return bool(one.ci95 and other.ci95 and (one.ci95[1] < other.ci95[0] or one.ci95[0] > other.ci95[1]))


def _in_words(effect: Effect) -> str:
    chance = "" if effect.p is None else f", p {_p(effect.p)}"
    return f"{_ratio(effect)}{chance}"


def _ratio(effect: Effect) -> str:
    number = effect.ratio.number
    return percent(number, effect.ci95, 0) if number is not None else limits((effect.ratio.low, effect.ratio.high), percent)


def _p(p: float) -> str:
    return f"= {p:.2g}" if p >= 0.001 else "< 0.001"


def _given(effect: Effect) -> str:
    return join_words([f"{name} is {level}" for name, level in effect.given])


def _table(every: Sequence[Effect]) -> Table:
    lines = [
        [
            f"{load_label(effect.load)}, {METRICS[effect.metric].words}",
            effect.factor,
            f"{effect.levels[0]} → {effect.levels[1]}",
            _ratio(effect),
            "–" if effect.p is None else _p(effect.p).removeprefix("= "),
            "yes" if effect.significant else "too few" if effect.p is None else "no",
            _given(effect) if effect.given else "all",
            subject_label(effect.subject),
        ]
        for effect in every
    ]
    raw = [
        [effect.subject, effect.load, effect.metric, effect.factor, *effect.levels, _given(effect) if effect.given else "",
         effect.ratio.number, *(effect.ci95 or (None, None)), effect.blocks, effect.pairs, effect.p]
        for effect in every
    ]  # fmt: skip
    heads = ["Figure", "Factor", "From → to", "Effect [95 % interval]", "p", "Matters?", "Where", "System"]
    names = ["subject", "load", "metric", "factor", "from", "to", "where", "ratio", "ci95_low", "ci95_high"]
    return Table(
        "effects",
        "Effect of each step of each factor: the figure at the second level, of that at the first",
        heads,
        lines,
        [*names, "blocks", "pairs", "p_corrected"],
        raw,
        frozenset({0, 1, 2, 5, 6, 7}),
        frozenset(number for number, effect in enumerate(every) if effect.significant),
    )
