# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Chapters of a study of load–loss curves: systems side by side, the factors, who paid, every curve."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from diolkos_lab.curve import judge
from diolkos_lab.curve.judge import BAD, DEFAULT_RULE, GOOD, rate_text
from diolkos_lab.curve.saturation import RULES
from diolkos_lab.curves import VARIED, Measured, Setting
from diolkos_lab.experiment.frames import CpuPlacement, flows_words
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, load_loss, load_loss_sheet
from diolkos_lab.report.read import Cell, Results
from diolkos_lab.report.systems import LOOKS, Look, look, short_label
from diolkos_lab.report.tables import Table

WORDS: dict[CpuPlacement, str] = {
    "apart": "generator and system on CPUs of their own",
    "beside": "the system's programs on a CPU of their own",
    "one-cpu": "all on one CPU",
    "free": "nothing pinned",
}
DISTINCT = [each for each in LOOKS if each.name in {"native6", "diolkos-tc", "tayga", "tundra", "jool", "nat44"}]
HOW = (
    "Left what is lost, with its upper confidence band and a stroke at the PDR; right what is delivered, where the dotted line "
    "is a router that loses nothing. The verdict says whether the PDR is a truthful number."
)

MEANINGS = (
    ("PLR", "packet loss ratio, 1 − received/offered; its 95 % interval is Student's over the trials of a rate"),
    (
        "PDR@0.5 %",
        "rate at which 0.5 % is lost, interpolated between two measured rates; where they do not enclose it, not bracketed",
    ),
    ("NDR", "no-drop rate: the highest rate at which nothing is lost; found by MLRsearch, the same over several trials"),
    ("throughput", "the highest rate at which one long trial loses nothing (RFC 2544, RFC 8219)"),
    ("forwarded", "conditional throughput: what gets through at the lower bound of a rate that MLRsearch found"),
    ("TIR", "throughput increase ratio: the share of the load added since the rate before that gets through"),
    ("GOOD", "saturation (TIR below 0.1) sets in at the first rate after 0.5 % is exceeded, and holds at every later one"),
    (
        "by intervals",
        "GOOD or BAD where the 95 % intervals of TIR say so together; undecided where chance can have made the paper's word",
    ),
    ("generator-bound", "generator and sink alone do not reach twice the highest rate, so they may be what was measured"),
    (
        "distrusted",
        "a guard found a reason to doubt the trial: another program took CPU time, the generator did not keep its rate…",
    ),
)


def chapters(results: Results, curves: Sequence[Measured]) -> list[Chapter]:
    """What was measured; a chapter without content is left out."""
    main, varied = divided(curves)
    every = [
        *(_side_by_side(main, hops) for hops in sorted({curve.setting.hops for curve in main})),
        _factors(varied, main),
        _twins(main),
        _payers(curves),
        _all(curves),
        _each(curves),
        _method(results),
    ]
    return [chapter for chapter in every if not chapter.empty]


def divided(curves: Sequence[Measured]) -> tuple[list[Measured], list[Measured]]:
    """Those in the setting that most paths have, and those in others."""
    settings = [_how(curve.setting) for curve in curves]
    usual = max(settings, key=settings.count, default=None)
    main = [curve for curve in curves if _how(curve.setting) == usual]
    return main, [curve for curve in curves if _how(curve.setting) != usual]


def name(setting: Setting) -> str:
    """The path: "diolkos siit-tc, 2 hops"."""
    cell = Cell(setting.system, setting.datapath, setting.family, setting.hops)
    bare = short_label(cell)
    mode = f" {setting.datapath}" if setting.system == "tayga" and setting.datapath == "siit" else ""
    where = f" on {setting.run}" if setting.run else ""
    return bare.replace("Tayga", f"Tayga{mode}", 1) + (" (twin)" if setting.replica != 1 else "") + where


def setting_words(setting: Setting, others: Sequence[Setting]) -> str:
    """How it was measured, as far as the others were measured in another way."""
    said = []
    if len({other.placement for other in others}) > 1:
        said.append(WORDS[setting.placement])
    if len({other.size for other in others}) > 1:
        said.append(f"{setting.size} bytes")
    if len({other.seconds for other in others}) > 1:
        said.append(f"{setting.seconds:g} s")
    said.append(flows_words(setting.flows))
    if len({other.host for other in others}) > 1:
        said += [f"{name} {level}" for name, level in setting.host]
    return ", ".join(said if len(said) > 1 else [WORDS[setting.placement], *said])


def pdr_text(curve: Measured) -> str:
    """ "812 kpps (805–820 kpps)"; "< 20 kpps" where it is not bracketed."""
    pdr, ends = curve.found.pdr, curve.found.pdr_ci95
    if pdr.rate is None:
        end, sign = (pdr.above, "<") if pdr.above is not None else (pdr.below, ">")
        return f"{sign} {rate_text(end)}" if end else "–"
    known = ends is not None and all(abs(end) != float("inf") for end in ends)
    return f"{_three(pdr.rate)} ({_three(ends[0])}–{_three(ends[1])})" if known and ends else _three(pdr.rate)


def _three(rate: float) -> str:
    return rate_text(float(f"{rate:.3g}"))


def _how(setting: Setting) -> tuple[Any, ...]:
    return setting.placement, setting.size, setting.seconds, setting.flows, setting.host


def _side_by_side(main: Sequence[Measured], hops: int) -> Chapter:
    mine = [curve for curve in main if curve.setting.hops == hops and curve.setting.replica == 1]
    if len(mine) < 2:
        return Chapter("", "")
    title = "Routers, NAT44 and NAT64" if hops == 1 else "Stateless translation, and routing over the same two hops"
    entries = [load_loss_sheet.Entry(_marked(curve), curve.found, _look(curve.setting), curve.trusted) for curve in mine]
    return Chapter(f"hops-{hops}", title, pictures=[_sheet(f"sheet-{hops}", title, entries, mine)])


def _marked(curve: Measured) -> str:
    return name(curve.setting) + ("" if curve.trusted else " (not trusted)")


def _sheet(file: str, title: str, entries: Sequence[load_loss_sheet.Entry], mine: Sequence[Measured]) -> Picture:
    alt = "; ".join(
        f"{entry.name}: PDR {pdr_text(curve)}, {load_loss.verdict_words(curve.found, DEFAULT_RULE)}"
        for entry, curve in zip(entries, mine, strict=True)
    )
    return Picture(file, title, HOW, alt + ".", functools.partial(load_loss_sheet.draw, entries, DEFAULT_RULE))


def _factors(varied: Sequence[Measured], main: Sequence[Measured]) -> Chapter:
    """The same path in other settings: where everything runs, how long packets and trials are."""
    pictures = []
    for subject in dict.fromkeys(curve.setting.subject for curve in varied):
        same = [c for c in (*main, *varied) if c.setting.subject == subject and c.setting.replica == 1]
        settings = [curve.setting for curve in same]
        called = [setting_words(setting, settings) for setting in settings]
        entries = [
            load_loss_sheet.Entry(words, curve.found, each, curve.trusted)
            for words, curve, each in zip(called, same, DISTINCT, strict=False)
        ]
        title = f"{name(settings[0])}: the same path, measured in another way"
        file = f"factors-{subject.replace('/', '-')}"
        pictures.append(_sheet(file, title, entries, same[: len(entries)]))
    text = [
        "The path is the same in every curve of a sheet; what differs is how it was measured. Where generator and system share "
        "a CPU, the kernel forwards in the generator's own time: it slows down with the router, and an overload that it was "
        "asked for is not offered. Guards mark such trials, and a curve of them says little about the router."
    ]
    return Chapter("factors", "What the measurement itself does", text if pictures else [], pictures=pictures)


def _twins(main: Sequence[Measured]) -> Chapter:
    """A path against itself: how much of a difference is chance."""
    bullets = []
    for twin in (curve for curve in main if curve.setting.replica != 1):
        other = next((c for c in main if c.setting.subject == twin.setting.subject and c.setting.replica == 1), None)
        if other is None:
            continue
        sentence = f"{name(other.setting)}: PDR {pdr_text(other)} and {pdr_text(twin)}"
        if other.found.pdr.rate and twin.found.pdr.rate:
            sentence += f", a difference of {abs(twin.found.pdr.rate / other.found.pdr.rate - 1):.1%}"
        verdicts = {curve.found.verdict[DEFAULT_RULE] for curve in (other, twin)}
        bullets.append(f"{sentence}; verdicts {'agree' if len(verdicts) == 1 else 'differ'}.")
    text = ["One path was built and measured twice. Differences between systems that are no larger say nothing."]
    return Chapter("twins", "Noise floor", text if bullets else [], bullets)


def _payers(curves: Sequence[Measured]) -> Chapter:
    """CPU time per packet, by who was charged."""
    heads = ["path", "setting", "generator's process", "system's processes", "system's queue threads", "all CPUs"]
    settings = [curve.setting for curve in curves]
    names = ("generator", "system", "threads", "all")
    paid = [curve for curve in curves if curve.cpu and curve.setting.replica == 1]
    text = (
        "CPU time per packet that arrived, µs, over all rates. What the kernel does in a queue's thread is the system's; what "
        "it does in software interrupts is charged to the running process. All CPUs include everything that ran meanwhile. The "
        "generator's time includes its start, and all of the trial, since it waits without sleeping."
    )
    lines = [
        [name(c.setting), setting_words(c.setting, settings), *(f"{c.cpu.get(each, 0):.2f}" for each in names)] for c in paid
    ]
    raw = [[*_raw_key(c.setting), *(c.cpu.get(each) for each in names)] for c in paid]
    raw_heads = [*_RAW_KEY, *(f"cpu_{each}_s_per_million" for each in names)]
    table = Table("cpu", "CPU time per packet, µs", heads, lines, raw_heads, raw, frozenset({0, 1}))
    return Chapter("payers", "Who paid", [text] if paid else [], tables=[table] if paid else [])


_RAW_KEY = ["system", "datapath", "family", "hops", "replica", "placement", "size_bytes", "seconds", "flows", *VARIED]


def _raw_key(setting: Setting) -> list[Any]:
    plain = [setting.system, setting.datapath, setting.family, setting.hops, setting.replica]
    varied = (dict(setting.host).get(name) for name in VARIED)
    return [*plain, setting.placement, setting.size, setting.seconds, setting.flows, *varied]


def _all(curves: Sequence[Measured]) -> Chapter:
    heads = ["path", "setting", "verdict", "by intervals", "PDR@0.5 %", "latency, µs", "worst, µs", "trusted trials"]
    settings = [curve.setting for curve in curves]
    lines, raw = [], []
    for curve in curves:
        found, latency = curve.found, curve.latency
        shown = [f"{value * 1e6:.0f}" for value in latency] if latency else ["–", "–"]
        trusted = f"{curve.trials - curve.untrusted} of {curve.trials}"
        verdict = found.verdict[DEFAULT_RULE]
        if not curve.trusted:
            verdict = f"({verdict})"
        elif found.depends_on_rule:
            verdict += " *"
        words = setting_words(curve.setting, settings)
        firm = found.firm[DEFAULT_RULE] if curve.trusted else f"({found.firm[DEFAULT_RULE]})"
        lines.append([name(curve.setting), words, verdict, firm, pdr_text(curve), *shown, trusted])
        ends = found.pdr_ci95 or (None, None)
        raw.append(
            [
                *_raw_key(curve.setting),
                *(found.verdict[rule] for rule in RULES),
                *(found.firm[rule] for rule in RULES),
                found.pdr.rate,
                *ends,
                *(latency or (None, None)),
                curve.trials,
                curve.trials - curve.untrusted,
            ]
        )
    raw_heads = [
        *_RAW_KEY,
        *(f"verdict_{rule}" for rule in RULES),
        *(f"firm_{rule}" for rule in RULES),
        "pdr_pps",
        "pdr_low_pps",
        "pdr_high_pps",
    ]
    raw_heads += ["latency_s", "latency_worst_s", "trials", "trusted_trials"]
    caption = (
        f"Verdict by the rule {DEFAULT_RULE}, as the paper gives it; * depends on the rule; in brackets: not trusted. By "
        "intervals: GOOD or BAD where chance cannot have made it, undecided otherwise. Latency at half of the PDR, "
        "median and 99.9th percentile. < or >: the PDR is not bracketed by the measured rates."
    )
    table = Table("curves", caption, heads, lines, raw_heads, raw, frozenset({0, 1, 2, 3}))
    return Chapter("all", "All curves", tables=[table] if lines else [])


def _each(curves: Sequence[Measured]) -> Chapter:
    settings = [curve.setting for curve in curves]
    pictures = []
    for number, curve in enumerate(curves, start=1):
        title = f"{name(curve.setting)}; {setting_words(curve.setting, settings)}"
        verdict = load_loss.verdict_words(curve.found, DEFAULT_RULE)
        said = [
            f"{verdict}. {judge.reason(curve.found, RULES[DEFAULT_RULE])}",
            *(_sentence(remark) for remark in curve.remarks),
        ]
        pictures.append(
            Picture(
                f"curve-{number:02}-{curve.setting.subject.replace('/', '-')}",
                title,
                " ".join(said[1:]) or "Nothing else to know.",
                " ".join(said),
                functools.partial(load_loss.draw, curve.found, title, DEFAULT_RULE),
            )
        )
    return Chapter("each", "Each curve with its reason", pictures=pictures)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _method(results: Results) -> Chapter:
    text = [
        "Every rate of every path was offered once in each block, in random order, so that a mood of the machine meets all "
        "alike. The rates lie around the knee that the warm-up found. Up to six more lie near the PDR, where the trials so far "
        "showed it; they say what the PDR is, and the verdict does not use them. Packets are known by a signature in their "
        "payload, so packets of other programs are not counted. What the first ring of the path has no room for counts as lost."
    ]
    alone = results.host.get("generator") or []
    said = [
        f"Generator and sink with nothing between them, {entry['size']} bytes, {entry['family'].replace('ipv', 'IPv')}, "
        f"{WORDS[entry['placement']]}: {_three(entry['rate'])}."
        for entry in alone
        if entry.get("rate")
    ]
    return Chapter("method", "How rates were offered", text, said)


def _look(setting: Setting) -> Look:
    return look(Cell(setting.system, setting.datapath, setting.family, setting.hops))


def counts(curves: Sequence[Measured]) -> dict[str, int]:
    """Curves by verdict; one that is not trusted counts as neither."""
    firm = [curve.found.verdict[DEFAULT_RULE] for curve in curves if curve.trusted]
    return {GOOD: firm.count(GOOD), BAD: firm.count(BAD), "not trusted": len(curves) - len(firm)}
