# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an analysis shows, in report.html and on the terminal: the counts, one line for each file, and what was wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from diolkos_lab.analyze import names
from diolkos_lab.analyze.results import Analysis, Line, line, shared_folder
from diolkos_lab.curve.judge import GOOD
from diolkos_lab.curve.saturation import RULES
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.report import charts, curve_chapters, publish
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.charts import Picture, load_loss_sheet
from diolkos_lab.report.tables import Table

LEAD = (
    "{good} of {all} experiments are GOOD by the rule {rule}: the rate at which 0.5 % of the packets is lost, PDR@0.5 %, is "
    "also about the most that the router can do. For the others this is not so, or was not shown, and a comparison of routers "
    "by it can mislead."
)
RAW = ("depends_on_rule", "pdr_0_5_pps", "bracketed")


def write(folder: OpenFolder, lines: Sequence[Line], rule: str, few: Sequence[Analysis], seed: int) -> Path:
    """report.html and verdicts.csv, in a folder whose `pictures` has that of every line. `few` are drawn on one sheet."""
    root = shared_folder([each.file for each in lines])

    def linked(each: Line) -> str:
        address, title, file = f"pictures/{quote(each.picture or '')}.svg", each.title, each.file.removeprefix(root)
        return Markup('<a href="{}">{}</a><br><small>{}</small>').format(address, title, file)

    found = table(lines, rule, linked)
    found.write(folder)
    together = [sheet(few, rule)] if len(few) > 1 else []
    with folder.inside("pictures") as pictures:
        stills = charts.save(together, pictures)
    where = [f"All files are in {root}. A picture of each curve opens from its name."] if root else []
    words = [*curve_chapters.MEANINGS, ("seed", f"of the bootstrap that the intervals of TIR and PDR are from: {seed}")]
    body = [
        Chapter("sheet", "", pictures=together),
        Chapter("counts", "By each rule", bullets=counts(lines, list(RULES))),
        Chapter("wrong", "What could not be read", bullets=wrong(lines)),
        Chapter("files", "All experiments", where, tables=[found]),
        Chapter("words", "Words", pairs=words),
    ]
    good = sum(each.verdict[rule] == GOOD for each in lines)
    lead = LEAD.format(good=good, all=len(lines), rule=rule)
    title = "Can these machines be trusted with a PDR?"
    return folder.write("report.html", publish.plain(title, body, [lead], stills=stills))


def table(lines: Sequence[Line], rule: str, named: Callable[[Line], str]) -> Table:
    """One line for each file. `named` says how it is called."""
    shown, raw = [], []
    for each in lines:
        verdicts = [each.verdict[name] for name in RULES]
        said = " ".join([each.reason, *(f"{remark[:1].upper()}{remark[1:]}." for remark in each.remarks)])
        matters = "yes" if each.depends_on_rule else ""
        shown.append([named(each), f"{each.loads} × {each.runs}", each.pdr_text, *verdicts, matters, said])
        pdr = None if each.pdr.rate is None else f"{each.pdr.rate:.0f}"
        raw.append([each.file, *verdicts, each.depends_on_rule, pdr, each.pdr.bracketed, each.reason, "; ".join(each.remarks)])
    heads = ["File", "Loads × trials", "PDR@0.5 %, Mpps", *RULES, "Rule matters", "Why, and what else to know"]
    texts = frozenset({0, *range(3, len(heads))})
    return Table("verdicts", "", heads, shown, ["file", *RULES, *RAW, f"reason_{rule}", "remarks"], raw, texts)


def counts(lines: Sequence[Line], rules: Sequence[str]) -> list[str]:
    """How many are GOOD by each rule, and how many depend on which."""
    good = {rule: sum(each.verdict[rule] == GOOD for each in lines) for rule in rules}
    depends = sum(each.depends_on_rule for each in lines)
    said = [f"GOOD by the rule {rule} ({RULES[rule].words}): {count} of {len(lines)}" for rule, count in good.items()]
    return [*said, *([f"The verdict of {depends} depends on the rule: “yes” in the column “Rule matters”"] if depends else [])]


def wrong(lines: Sequence[Line]) -> list[str]:
    """Lines that were no measurement, and parts of names without a meaning."""
    malformed = [f"{each.file}:{entry.line}:{entry.column}: {entry.reason}" for each in lines for entry in each.malformed]
    return [*malformed, *unknown(lines)]


def unknown(lines: Sequence[Line]) -> list[str]:
    return [f"{each.file}: name not understood: {', '.join(each.unknown)}" for each in lines if each.unknown]


def sheet(few: Sequence[Analysis], rule: str) -> Picture:
    """At most one for each of the looks that are told apart at a glance."""
    called = names.differences([each.named.factors for each in few])
    entries = [
        load_loss_sheet.Entry(name or each.title, each.found, look)
        for name, each, look in zip(called, few, curve_chapters.DISTINCT, strict=False)
    ]
    lines = [line(each, rule) for each in few]
    alt = "; ".join(f"{each.title}: PDR {each.pdr_text} Mpps, {each.verdict[rule]}" for each in lines) + "."
    draw = partial(load_loss_sheet.draw, entries, rule)
    return Picture("curves", "The curves on one sheet", curve_chapters.HOW, alt, draw)
