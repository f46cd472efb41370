# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Chapters of what the procedures found: rates, frame loss, latency and delay variation, and how far they follow the RFCs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diolkos_lab.curve.judge import rate_text
from diolkos_lab.experiment.frames import native_words
from diolkos_lab.experiment.procedures import TAGGED
from diolkos_lab.procedures import STREAMS, Found, Rate, loss_steps, percentiles
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.read import Cell
from diolkos_lab.report.systems import short_label
from diolkos_lab.report.tables import Table

CALLED = {"mlrsearch": "MLRsearch", "rfc8219": "RFC 2544 and RFC 8219"}
RAW_KEY = [
    "system",
    "datapath",
    "family",
    "hops",
    "replica",
    "procedure",
    "placement",
    "size_bytes",
    "seconds",
    "flows",
    "native_share",
]
SCALE = 1e6  # µs


def chapters(found: Sequence[Found]) -> list[Chapter]:
    """Those with content."""
    every = [_rates(found), _frame_loss(found), _delays(found), _method(found), _deviations(found)]
    return [chapter for chapter in every if not chapter.empty]


def kept_up(found: Found) -> str:
    """Whether what was offered is what was asked for, in a few words."""
    said = []
    if found.rates and not found.trusted:
        said.append("not trusted")
    if found.rates and found.limited_by_generator:
        said.append("generator-bound")
    if found.repeated:
        said.append(f"{found.repeated} of {found.trials} trials again")
    if found.untrusted:
        said.append(f"{found.untrusted} doubtful ones used")
    if found.unfinished:
        said.append("stopped before its end")
    return ", ".join([*said, *found.errors]) or "kept up"


def rate_words(rate: Rate) -> str:
    """ "812 kpps"; "(812 kpps)" where it is not trusted; "< 10 kpps" and "≥ 2 Mpps" where a limit was met."""
    if rate.value is None:
        text = f"< {_pps(rate.above)}" if rate.above else "–"
    else:
        text = _pps(rate.value) if rate.above else f"≥ {_pps(rate.value)}"
    return text if rate.trusted else f"({text})"


def _rates(found: Sequence[Found]) -> Chapter:
    heads = ["path", "frame, trial", "rate", "what", "bracket", "forwarded", "did the generator keep up?"]
    lines, raw = [], []
    for each in found:
        shown: Sequence[Rate | None] = each.rates or [None]
        for rate in shown:
            setting = each.setting
            lines.append(
                [
                    _name(each),
                    _frame(each) + (f", {setting.seconds:g} s" if setting.seconds else ""),
                    rate_words(rate) if rate else "–",
                    rate.name if rate else CALLED[setting.procedure],
                    _bracket(rate) if rate else "–",
                    _pps(rate.forwarded) if rate else "–",
                    kept_up(each),
                ]
            )
            figures = (
                [rate.name, rate.loss_ratio, rate.value, rate.above, rate.forwarded, *(rate.ci95 or (None, None))]
                if rate
                else [None] * 7
            )
            raw.append(
                [
                    *_raw_key(each),
                    *figures,
                    rate.trusted if rate else False,
                    rate.blocks if rate else 0,
                    each.trials,
                    each.repeated,
                    each.untrusted,
                    each.generator,
                ]
            )
    raw_heads = [*RAW_KEY, "rate", "loss_ratio", "lower_pps", "upper_pps", "conditional_pps", "low95_pps", "high95_pps"]
    raw_heads += ["trusted", "blocks", "trials", "repeated", "distrusted", "generator_pps"]
    caption = (
        "The highest rate that keeps to the loss ratio, and the bracket in which it lies; median over the blocks. NDR: nothing "
        "is lost. Throughput: nothing is lost in one long trial (RFC 2544 §26.1). Forwarded: conditional throughput. In "
        "brackets: not trusted."
    )
    table = Table("rates", caption, heads, lines, raw_heads, raw, frozenset({0, 1, 3, 6}))
    remarks = [
        f"{_name(each)}, {each.setting.size} bytes, {rate.name}: {rate.remark}."
        for each in found
        for rate in each.rates
        if rate.remark
    ]
    return Chapter("rates", "Rates without loss, or with little", [], remarks, tables=[table] if lines else [])


def _frame_loss(found: Sequence[Found]) -> Chapter:
    heads = ["path", "frame", "of the maximum", "offered", "frame loss rate"]
    lines, raw = [], []
    for each in found:
        for number, step in enumerate(loss_steps(each)):
            first = [_name(each), _frame(each)] if number == 0 else ["", ""]
            loss = f"{step['loss_ratio'] * 100:.3g} %"
            both = [(name, step.get(f"{name}_loss_ratio")) for name in ("translated", "native")]
            apart = [f"{name} {ratio * 100:.3g} %" for name, ratio in both if ratio is not None]
            loss += f" ({', '.join(apart)})" if apart else ""
            text = loss if step["trusted"] else f"({loss})"
            lines.append([*first, f"{step['percent']} %", _pps(step["offered_pps"]), text])
            raw.append(
                [
                    *_raw_key(each),
                    step["percent"],
                    step["offered_pps"],
                    step["loss_ratio"],
                    *(ratio for _, ratio in both),
                    step["trusted"],
                ]
            )
    raw_heads = [*RAW_KEY, "percent", "offered_pps", "loss_ratio", "translated_loss_ratio", "native_loss_ratio", "trusted"]
    caption = (
        "Share of the frames lost, from the maximum rate down until two rates lose none (RFC 2544 §26.3, RFC 8219 §7.4). "
        "Where native IPv6 goes beside what is translated, the loss of both together, and of each."
    )
    table = Table("frame-loss", caption, heads, lines, raw_heads, raw, frozenset({0, 1}))
    return Chapter("frame-loss", "Frame loss rate", tables=[table] if lines else [])


def _delays(found: Sequence[Found]) -> Chapter:
    """A table for each test, since their streams are not the same ones."""
    tables = [
        _streams(
            found,
            "latency",
            ["typical latency", "worst case latency"],
            "µs, one way, at the throughput: median over the streams, with 1st and 99th percentile. Typical latency is the "
            "median of a stream, worst case latency its 99.9th percentile (RFC 8219 §7.2).",
        ),
        _streams(
            found,
            "delay_variation",
            ["PDV", "least IPDV", "median IPDV", "greatest IPDV"],
            "µs, as above. PDV is the 99.9th percentile of the delays less the least of them (RFC 8219 §7.3.1). IPDV is a "
            "delay less that of the frame before (§7.3.2, RFC 5481), its median over the streams.",
        ),
    ]
    bullets = [
        f"{_name(each)}, {each.setting.size} bytes: a latency stream had fewer than {TAGGED} frames."
        for each in found
        if any(part.get("short") for part in each.of_test("latency"))
    ]
    return Chapter("delays", "Latency and delay variation", [], bullets, tables=[table for table in tables if table.lines])


def _streams(found: Sequence[Found], test: str, called: list[str], caption: str) -> Table:
    figures = STREAMS[test]
    lines, raw = [], []
    for each in found:
        made = [part for part in each.of_test(test) if not part.get("error")]
        if not made:
            continue
        summed = [percentiles(each.runs(test, figure)) for figure in figures]
        values = [_spread(figure, narrow="IPDV" in name) for name, figure in zip(called, summed, strict=True)]
        if not any(part["trusted"] for part in made):
            values = [f"({value})" for value in values]
        lost, frames = sum(part["lost"] for part in made), sum(sum(part["frames"]) for part in made)
        share = f"{lost / (lost + frames) * 100:.2g} %" if lost else "0"
        streams = f"{sum(len(part['frames']) for part in made)} × {made[0]['seconds']:g} s"
        rate = made[0]["offered_pps"]
        lines.append([_name(each), _frame(each), f"{streams} at {_pps(rate)}", *values, share])
        ends = [(figure or {}).get(name) for figure in summed for name in ("median", "p1", "p99")]
        raw.append([*_raw_key(each), rate, *ends, lost, sum(part["distrusted"] for part in made)])
    heads = ["path", "frame", "streams", *called, "lost"]
    raw_heads = [*RAW_KEY, "offered_pps", *(f"{figure}_{name}" for figure in figures for name in ("median", "p1", "p99"))]
    return Table(test.replace("_", "-"), caption, heads, lines, [*raw_heads, "lost", "distrusted"], raw, frozenset({0, 1, 2}))


def _method(found: Sequence[Found]) -> Chapter:
    text = [
        "Every procedure was carried out once in each block, all of them in random order; the next trial of one depends on "
        "those before. What the first ring of the path has no room for counts as lost. A trial to which a guard objects "
        "because the generator did not keep its rate or the host was busy is retried; where no attempt is trusted, the "
        "last one counts, and figures that rest on it are in brackets.",
    ]
    return Chapter("procedures", "How the rates were found", text if found else [], _goals(found))


def _deviations(found: Sequence[Found]) -> Chapter:
    bullets = []
    for procedure, called in CALLED.items():
        mine = [each for each in found if each.setting.procedure == procedure]
        bullets += [f"{called}: {text}." for text in dict.fromkeys(text for each in mine for text in each.deviations)]
    return Chapter("deviations", "What was done in another way than the RFCs say", [], bullets)


def _goals(found: Sequence[Found]) -> list[str]:
    searched = [each for each in found if each.setting.procedure == "mlrsearch"]
    outcomes = [outcome for each in searched for outcome in each.outcomes.values() if not outcome["error"]]
    said = [
        f"{outcome['library']}, goal: loss ratio {goal['loss_ratio']:g}, exceed ratio {goal['exceed_ratio']:g}, relative width "
        f"{goal['relative_width']:g}, trials of {outcome['plan']['seconds']:g} s that add up to {goal['duration_sum_s']:g} s."
        for outcome in outcomes
        for goal in (each["goal"] for each in outcome["goals"])
    ]
    return list(dict.fromkeys(said))


def _name(found: Found) -> str:
    setting = found.setting
    cell = Cell(setting.system, setting.datapath, setting.family, setting.hops)
    where = f" on {setting.run}" if setting.run else ""
    return short_label(cell) + (" (twin)" if setting.replica != 1 else "") + where


def _frame(found: Found) -> str:
    """ "84 bytes"; "84 bytes, 50 % native IPv6 beside"."""
    share = _native_share(found)
    return f"{found.setting.size} bytes" + (f", {native_words(share)}" if share else "")


def _native_share(found: Found) -> float:
    return float(dict(found.setting.host).get("native_share", 0.0))


def _raw_key(found: Found) -> list[Any]:
    setting = found.setting
    plain = [setting.system, setting.datapath, setting.family, setting.hops, setting.replica, setting.procedure]
    return [*plain, setting.placement, setting.size, setting.seconds, setting.flows, _native_share(found)]


def _bracket(rate: Rate) -> str:
    if not rate.value or not rate.above:
        return "open"
    return rate_text(*(float(f"{end:.4g}") for end in (rate.value, rate.above)))


def _pps(rate: float | None) -> str:
    return rate_text(float(f"{rate:.4g}")) if rate else "–"


def _spread(found: dict[str, float] | None, *, narrow: bool) -> str:
    """Median and percentiles in µs; the median alone where there is little room."""
    if found is None:
        return "–"
    middle, low, high = (_three(found[name] * SCALE) for name in ("median", "p1", "p99"))
    return middle if narrow or low == high else f"{middle} ({low} to {high})"


def _three(value: float) -> str:
    """Three digits, and no power of ten: "2350", "13.9", "−0.0288"."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
