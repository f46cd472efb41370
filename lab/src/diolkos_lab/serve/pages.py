# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pages as text: chapters of tables and pictures, as a report has them. All that comes from folders is escaped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from diolkos_lab.failover.comparing import table as table_of_failovers
from diolkos_lab.report import publish
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.quantities import count
from diolkos_lab.report.tables import Table
from diolkos_lab.serve import changes, trends
from diolkos_lab.serve.changes import Comparison, ComparisonOfFailovers
from diolkos_lab.serve.figures import Kind
from diolkos_lab.serve.index import RunList
from diolkos_lab.serve.run_details import Run
from diolkos_lab.serve.trends import Trend

EMPTY = "There is no result folder here. A result folder is what `diolkos-lab run` writes: it has a file samples.jsonl."
HEADS = ["Start", "Study", "Host", "Kernel", "Systems", "Rules", "Trusted", "Folder"]


@dataclass(frozen=True)
class Extent:
    """What a site has a page for."""

    pairs: Sequence[tuple[Run, Run]] = ()  # the older run first
    reports: frozenset[str] = frozenset()  # of the keys of runs
    note: str = ""  # what is said of it, above the list


def listing(title: str, found: RunList, addresses: Mapping[str, str], extent: Extent) -> str:
    """All runs. `addresses` lead from a study to its trends."""
    links = Markup(", ").join(link(address, study) for study, address in addresses.items())
    lead = [f"{count(len(found.runs), 'run')}.", *([Markup("Trends: {}.").format(links)] if links else [])]
    lead += [extent.note] if extent.note else []
    lines = [_line(run, extent.reports) for run in found.runs]
    runs = Table("runs", "The newest first", HEADS, lines, [], [], frozenset(range(8)) - {6})
    pairs = [
        [first.study, first.place, second.place, link(f"compare/{first.key}-{second.key}.html", "What changed")]
        for first, second in extent.pairs
    ]
    heads = ["Study", "First", "Second", "Comparison"]
    compared = Table("pairs", "Neighbours in time before others", heads, pairs, [], [], frozenset(range(4)))
    body = [
        Chapter("left-out", "", [*found.remarks, *([] if lines else [EMPTY])]),
        Chapter("all", "All runs", tables=[runs] if lines else []),
        Chapter("compared", "Comparisons", tables=[compared] if pairs else []),
    ]
    return publish.plain(title, body, lead)


def _line(run: Run, reports: Collection[str]) -> list[str]:
    study = Markup("{} <small>{}{}</small>").format(run.study, run.form, ", emulated" if run.emulated else "")
    outcomes = zip(run.outcomes or (), ("met", "not met", "undecided"), strict=False)
    rules = ", ".join(f"{number} {word}" for number, word in outcomes if number)
    place = link(f"run/{run.key}/report.html", run.place) if run.key in reports else run.place
    folder = Markup("{} <small>{}</small>").format(place, run.remark) if run.remark else place
    who = [start(run), study, run.host, run.kernel, ", ".join(run.versions)]
    return [*who, rules, run.trusted_text, folder]


def trend(study: str, found: Trend, kinds: Sequence[tuple[Kind, str]], root: str) -> str:
    """One figure over the runs. `kinds` are all figures with the addresses of their pages."""
    words = found.kind.in_words
    lead = [f"The newest runs are shown; {found.left_out} older ones are left out."] if found.left_out else []
    others = Markup(" · ").join(link(root + address, kind.in_words) for kind, address in kinds if kind != found.kind)
    body = [Chapter("trend", "", pictures=trends.pictures(found), tables=[trends.table(found)])]
    body += [Chapter("figures", "Other figures of the study", [others])] if others else []
    return publish.plain(f"{words[0].upper()}{words[1:]} over the runs", body, lead, _over(root, study))


def comparison(found: Comparison | ComparisonOfFailovers, root: str, reported: Collection[str]) -> str:
    shown, tables = [], []
    if isinstance(found, ComparisonOfFailovers):
        tables = [table_of_failovers(found.found)]
    elif found.changes:
        shown, tables = [changes.picture(found)], [changes.table(found.changes)]
    both = [(name, _who(run, root, reported)) for name, run in (("First", found.first), ("Second", found.second))]
    none = [] if found.changes else ["No figure has enough trusted values in both runs."]
    differ = [list(each) for each in found.differing]
    hosts = Table("hosts", "Facts", ["Fact", "First", "Second"], differ, [], [], frozenset({0, 1, 2}))
    body = [
        Chapter("both", "", none, pairs=both),
        Chapter("changes", "", pictures=shown, tables=tables),
        Chapter(
            "hosts",
            "In what the hosts differ",
            [] if differ else ["In nothing that is recorded."],
            tables=[hosts] if differ else [],
        ),
    ]
    return publish.plain(found.sentence, body, over=_over(root, found.first.study))


def _who(run: Run, root: str, reported: Collection[str]) -> str:
    place = link(f"{root}run/{run.key}/report.html", run.place) if run.key in reported else run.place
    said = [start(run), f"{run.host}, Linux {run.kernel}", ", ".join(run.versions)]
    return Markup(" · ").join([place, *(each for each in said if each)])


def link(address: str, words: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(address, words)


def start(run: Run) -> str:
    return run.started[:16].replace("T", " ")


def _over(root: str, study: str) -> Markup:
    return Markup("{} · study {}").format(link(f"{root}index.html", "All runs"), study)
