# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Published rates at 0.5 % loss with their verdicts beside this run's, for the study `router-accuracy`.

A rate of another machine is no measure for this one. What compares is how many can be trusted, how far rates of one testbed
spread, and forwarding by BPF over routing where one testbed has both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from diolkos_lab.curve.judge import DEFAULT_RULE, GOOD, rate_text
from diolkos_lab.curves import Measured
from diolkos_lab.published import ratios
from diolkos_lab.published.definition import NATIVE, Figure, Group, Published
from diolkos_lab.report import counterparts
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, rows
from diolkos_lab.report.charts.beside_published import PUBLISHED
from diolkos_lab.report.charts.rows import Mark, Panel
from diolkos_lab.report.curve_chapters import name as path_name
from diolkos_lab.report.curve_chapters import pdr_text
from diolkos_lab.report.quantities import NONE, TO, factor
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import Look, look
from diolkos_lab.report.tables import Table

OURS = "This run"
MILLION = 1e6
ROUTING = "IPv6 routing"


def chapter(results: Results, data: Published) -> Chapter:
    (group,) = data.group
    panels = [*_published(data, group), *_ours(results.curves)]
    caption = (
        "Bar: from the lowest to the highest rate of the experiments of one testbed, over kernels, ring sizes and pinnings; "
        "ring: their middle. Point: a curve of this run with its 95 % interval. Right: rates, and GOOD by the paper's rule."
    )
    alt = "; ".join(f"{panel.title}, {mark.path}: {mark.text}" for panel in panels for mark in panel.marks) + "."
    picture = Picture(
        "published-pdr", f"{group.title}, published and ours", caption, alt, partial(rows.draw, panels, shared=True)
    )
    every, ours = group.figures, [curve for curve in results.curves if curve.trusted]
    good = sum(curve.found.verdict[DEFAULT_RULE] == GOOD for curve in ours)
    published = sum("paper" in (figure.good or ()) for figure in every)
    unbracketed = sum(not figure.bracketed for figure in every)
    bullets = [
        f"GOOD by the paper's rule: {published} of the {len(every)} published experiments that are here, {good} of the "
        f"{len(ours)} trusted curves of this run.",
        f"Not bracketed: {unbracketed} published, {sum(c.found.pdr.rate is None for c in results.curves)} here.",
        *_bpf(group, results.curves),
    ]
    text = [
        f"Source: {data.source.cite}, {data.source.year}; {group.source}.",
        *data.source.notes,
        "Rates of other machines stand here for reading, not for comparing: most published ones are of servers with network "
        "cards, and ours of a path of veth pairs.",
    ]
    return Chapter("published", "The published figures and ours", text, bullets, [picture], [_table(data, group)])


def _published(data: Published, group: Group) -> list[Panel]:
    """A panel for each function, a line for each testbed."""
    panels = []
    for system, words in ((NATIVE, ROUTING), *((each.name, each.words) for each in data.system)):
        marks = []
        for environment in data.environment:
            mine = [f for f in group.figures if (f.system, f.environment) == (system, environment.name)]
            if mine:
                marks.append(_mark(environment.words, PUBLISHED, mine))
        panels.append(Panel(f"{words}, published", "", marks, log=True))
    return panels


def _mark(words: str, own: Look, mine: Sequence[Figure]) -> Mark:
    rates = [figure.value for figure in mine if figure.value is not None]
    good = sum("paper" in (figure.good or ()) for figure in mine)
    text = f"{_span(rates)}; {good} of {len(mine)} GOOD"  # short: it stands at the right of the picture
    if not rates:
        return Mark(words, own, None, None, text, {"rates": text}, trusted=False)
    ends = (min(rates) / MILLION, max(rates) / MILLION)
    return Mark(words, own, (ends[0] * ends[1]) ** 0.5, ends, text, {"rates": text}, ranged=True, hollow=True)


def _ours(curves: Sequence[Measured]) -> list[Panel]:
    """Routing and BPF forwarding of this run, as far as trials are trusted."""
    mine = [c for c in curves if c.setting.system in (NATIVE, "forwarder") and c.setting.replica == 1]
    marks, seen = [], set()
    for curve in mine:
        name = path_name(curve.setting)
        if name in seen:  # measured in several ways; the first is the usual one
            continue
        seen.add(name)
        rate, ends = curve.found.pdr.rate, curve.found.pdr_ci95
        verdict = curve.found.verdict[DEFAULT_RULE] if curve.trusted else "not trusted"
        said = f"{pdr_text(curve)}; {verdict}"
        setting = curve.setting
        own = look(Cell(setting.system, setting.datapath, setting.family, setting.hops))
        value = None if rate is None else rate / MILLION
        spread = None if rate is None or ends is None else (ends[0] / MILLION, ends[1] / MILLION)
        marks.append(Mark(name, own, value, spread, said, {"rate": said}, curve.trusted))
    if not marks:
        marks = [Mark("routing, BPF forwarding", PUBLISHED, None, None, "not in this run", {}, trusted=False)]
    axis = "rate at which 0.5 % is lost, million packets/s (log scale)"
    return [Panel(f"{OURS}: routing and BPF forwarding", axis, marks, log=True)]


def _span(rates: Sequence[float]) -> str:
    if not rates:
        return "not bracketed"
    low, high = (f"{end / MILLION:.2f}" for end in (min(rates), max(rates)))
    return f"{low if low == high else f'{low}{TO}{high}'} Mpps"


def _bpf(group: Group, curves: Sequence[Measured]) -> Iterable[str]:
    """Forwarding by BPF as a ratio to routing of the same environment, there and here."""
    for figure in group.figures:
        ends = ratios.ratio(group, figure)
        if figure.system != NATIVE and ends:
            levels = counterparts.in_words(figure.factors)
            yield f"Published: eBPF forwarding reaches {factor(ends[0])} times the rate of IPv6 routing ({levels})."
    rates = {_key(c): c.found.pdr.rate for c in reversed(curves) if c.trusted and c.setting.replica == 1}
    for (system, datapath, family, hops), rate in sorted(rates.items()):
        below = rates.get((NATIVE, "kernel", family, hops))
        if system == "forwarder" and rate and below:
            words = {"ipv6": "IPv6", "ipv4": "IPv4"}[family]
            yield f"This run: BPF forwarding at {datapath} reaches {factor(rate / below)} times the rate of {words} routing."


def _key(curve: Measured) -> tuple[str, str, str, int]:
    return curve.setting.system, curve.setting.datapath, curve.setting.family, curve.setting.hops


def _table(data: Published, group: Group) -> Table:
    lines, raw = [], []
    words = {each.name: each.words for each in data.environment}
    functions = {NATIVE: ROUTING, **{each.name: each.words for each in data.system}}
    for f in group.figures:
        said = {key: f.factors.get(key, "") for key in ("kernel", "ring", "pinning", "seconds")}
        rules = [rule for rule in ("paper", "hysteresis", "notebook") if rule in (f.good or ())]
        ends = ratios.ratio(group, f) if f.system != NATIVE else None
        rate = NONE if f.value is None else rate_text(float(f"{f.value:.3g}"))
        plain = [functions[f.system], words[f.environment], *(str(value) for value in said.values()), str(f.n or NONE)]
        lines.append(
            [*plain, rate if f.bracketed else "not bracketed", ", ".join(rules) or "none", factor(ends[0]) if ends else NONE]
        )
        raw.append([*plain, f.value, " ".join(rules), ends[0] if ends else None])
    return Table(
        name="published-pdr",
        caption="Every published experiment that is here, with the rules by which its rate can be trusted (GOOD); of BPF "
        "forwarding the ratio to routing on the same testbed, kernel, ring and pinning, where that is here",
        heads=["Function", "Where", "Kernel", "Ring", "Pinning", "Trial, s", "Trials", "PDR@0.5 %", "GOOD by", "Of routing"],
        lines=lines,
        raw_heads=["function", "where", "kernel", "ring", "pinning", "seconds", "trials", "pdr_pps", "good_by", "of_routing"],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 4, 8}),
    )
