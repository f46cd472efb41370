# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From the rows of a run to a report for people: what each fault does, whether the rules are kept, and which trials to doubt.

Stages: rows → by gateway and fault → figures with their spread → Markdown; and the same as a page.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from diolkos_lab.failover import judge
from diolkos_lab.failover.definition import Rule
from diolkos_lab.failover.judge import Judged, Row
from diolkos_lab.failover.records import Records
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.report.quantities import count
from diolkos_lab.report.tables import Table

# heading, key, how a number is written
COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("flows kept", "kept_share", lambda value: f"{value * 100:.3f} %"),
    ("longest gap", "gap_s", lambda value: f"{value:.2f} s"),
    ("of calls", "call_gap_s", lambda value: f"{value:.2f} s"),
    ("new flows after", "new_flows_s", lambda value: f"{value:.1f} s"),
    ("longest step", "step_s", lambda value: f"{value:.1f} s"),
    ("downloads whole", "downloads_share", lambda value: f"{value * 100:.0f} %"),
    ("moved", "moved", lambda value: f"{value:.0f}"),
    ("wrong", "wrong", lambda value: f"{value:.0f}"),
    ("duplicates", "duplicates", lambda value: f"{value:.0f}"),
)
WRITTEN = {key: write for _, key, write in COLUMNS}
HEADINGS = {key: heading for heading, key, _ in COLUMNS}
MEANING = (
    "Median of the trials, and the least and the most of them. Of six trials or more, these two enclose the median of all "
    "such trials with a confidence of 97 % or more; of fewer, they say less, and of one nothing. Trials behind a + decide "
    "nothing: they are listed below, and no figure has them."
)
FIGURES = (
    "Flows kept: the share of all flows that were established before the fault and hear again, in both directions and by "
    "the same address and port, what was sent more than a second after the last step of the fault; a flow that was never "
    "established is lost. Longest gap: of the flows that send most often, the longest silence in one direction after the "
    "fault, beyond the flow's own interval; never: it did not end, or the flow was never established. Of calls: the same of "
    "the calls. New flows after: from the fault to the last new connection that failed. Longest step: of what was done to "
    "the gateways, such as one drain with the end of its process. Moved: flows that the server hears from another address "
    "or port. Wrong: datagrams that reached a flow that they are not of. Duplicates: datagrams that arrived again."
)
DECIDES = (
    "One trial that breaks a rule is enough for not met. Met needs trials of every fault, so many that at most the share "
    "which the rule allows of all such trials would break it (95 % confidence, exact binomial); with fewer, a rule is "
    "undecided. A trial decides nothing if a generator was late, a program did not read in time what had arrived for it, "
    "BFD lost a neighbour before the fault, the fault came late or had no effect, the flows sent less than twice in what "
    "counts, or an instrument failed: a program that sends or receives, FRR, etcd, or the host. The run repeats such "
    "trials. Gateways that do not start, drain or come back, or take longer for it than the study watches them, have "
    "failed: then no flow was kept, and no gap has an end. Where their programs used more than half of all CPUs for a second, "
    "what was late is their result."
)
Part = str | list[str] | Table  # a paragraph, a list or a table
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .7rem; text-align: left; }
td + td, th + th { text-align: right; } .met { color: #06622b; } .not { color: #9c1c1c; }
"""


def figure(values: Sequence[float], write: Callable[[float], str]) -> str:
    """Median and, of several, least and most. What never ended is more than every number."""

    def shown(value: float) -> str:
        return write(value) if math.isfinite(value) else "never"

    if not values:
        return "–"
    least, most = min(values), max(values)
    text = shown(median(values))
    return text if least == most else f"{text} ({shown(least)}–{shown(most)})"


def groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """The trials of each fault and kind of gateway, in the order in which they were measured."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["fault"], row["gateways"]), []).append(row)
    return found


def table(rows: Sequence[Row]) -> Table:
    """One line for each kind of gateway and fault; as CSV, one for each of their figures."""
    lines, raw = [], []
    for (fault, gateways), group in groups(rows).items():
        values = {key: judge.figures(group, key) for _, key, _ in COLUMNS}
        lines.append([fault, gateways, trials(group), *(figure(values[key], write) for _, key, write in COLUMNS)])
        disturbed = sum(judge.is_disturbed(row) for row in group)
        for key, found in values.items():
            spread = [_finite(each) for each in (median(found), min(found), max(found))] if found else [None] * 3
            raw.append([fault, gateways, key, len(found), disturbed, *spread])
    return Table(
        name="figures",
        caption=MEANING,
        heads=["Fault", "Gateways", "Trials", *(heading[:1].upper() + heading[1:] for heading, _, _ in COLUMNS)],
        lines=lines,
        raw_heads=["fault", "gateways", "quantity", "trials", "decide_nothing", "median", "least", "most"],
        raw_lines=raw,
        text_columns=frozenset({0, 1}),
    )


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else "never"


def trials(group: Sequence[Row]) -> str:
    """Those that decide and, behind a +, those that do not."""
    disturbed = sum(judge.is_disturbed(row) for row in group)
    return str(len(group) - disturbed) + (f" + {disturbed}" if disturbed else "")


def rules(judged: Iterable[Judged]) -> Table:
    """One line for each rule."""
    lines, raw = [], []
    for each in judged:
        rule = each.rule
        lines.append([rule.rule, ", ".join((rule.gateways, *rule.faults)), limit(rule), each.verdict, carried(each)])
        asked = [
            rule.rule,
            rule.gateways,
            " ".join(rule.faults),
            rule.quantity,
            rule.at_least,
            rule.at_most,
            rule.broken_at_most,
        ]
        raw.append([*asked, each.verdict, each.trials, each.disturbed, *each.broken, against(each)])
    return Table(
        name="rules",
        caption="The rules that stood in the study before the run, and what became of them",
        heads=["Rule", "About", "Limit of each trial", "Verdict", "Trials"],
        lines=lines,
        raw_heads=[
            *("rule", "gateways", "faults", "quantity", "at_least", "at_most", "broken_at_most"),
            *("verdict", "trials", "decide_nothing", "broken_ci95_low", "broken_ci95_high", "against"),
        ],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 2, 3, 4}),
    )


def carried(judged: Judged) -> str:
    """What the trials carry: how many broke the rule, what that says of all such trials, and what is missing."""
    low, high = judged.broken
    if not judged.trials:
        share = "no trial decides"
    elif judged.against:
        share = f"{len(judged.against)} of {_trials(judged.trials)} break it: {_percent(low, high)} of all such trials would"
    else:
        share = f"none of {_trials(judged.trials)} breaks it: at most {100 * high:.0f} % of all such trials would"
    said = [f"{share} (95 % confidence)" if judged.trials else share]
    if judged.verdict == "undecided" and judged.lacking:
        more = sorted(set(judged.lacking.values()))
        each = f"{more[0]}" if len(more) == 1 else f"{more[0]} to {more[-1]}"
        least = f"{100 * judged.rule.broken_at_most:.0f} %"
        faults = list(judged.lacking)
        of = f"each of {count(len(faults), 'fault')}" if len(faults) > 1 else faults[0]
        said.append(f"{each} more of {of} would decide, if none breaks it (at most {least})")
    said += [f"{judged.disturbed} more decide nothing"] if judged.disturbed else []
    return "; ".join(filter(None, [against(judged), *said]))


def _percent(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.0f} %"


def limit(rule: Rule) -> str:
    """As in the study: "longest gap ≤ 1.00 s"."""
    value = rule.at_least if rule.at_least is not None else rule.at_most
    sign = "≥" if rule.at_least is not None else "≤"
    return f"{HEADINGS[rule.quantity]} {sign} {WRITTEN[rule.quantity](value or 0.0)}"


def against(judged: Judged) -> str:
    """The trials that do not keep a rule, with enough digits to tell them from its limit."""
    quantity = judged.rule.quantity
    return "; ".join(
        f"{row['fault']}, trial {row['repetition'] + 1}: {_exactly(row.get(quantity), quantity)}{_why_lost(row)}"
        for row in judged.against
    )


def doubts(rows: Sequence[Row]) -> list[str]:
    """Trials that decide nothing, with the reason."""
    found = []
    for row in rows:
        where = f"{row['gateways']}, {row['fault']}, trial {row['repetition'] + 1}"
        found += [f"{where}: {reason}" for reason in judge.reasons(row)]
    return found


def verdict(judged: Sequence[Judged]) -> str:
    """One sentence."""
    broken = [each for each in judged if each.verdict == "not met"]
    open_ = [each for each in judged if each.verdict == "undecided"]
    if broken:
        return f"No: {len(broken)} of {len(judged)} rules are not met."
    if open_:
        more = max((number for each in open_ for number in each.lacking.values()), default=0)
        needs = f"; {count(more, 'more repetition')} of each fault would decide, if none breaks one" if more else ""
        return f"Undecided: no trial breaks a rule, and for {len(open_)} of {len(judged)} rules too few trials decide{needs}."
    return f"Yes: all {len(judged)} rules are met."


def unfinished(records: Records) -> str:
    """A sentence where trials are missing; empty where the run is whole."""
    done, planned = records.done, records.planned
    if done >= planned:
        return ""
    return f"Only {done} of {planned} trials are here: the run was interrupted, or goes on."


def sections(records: Records) -> Iterator[tuple[str, Sequence[Part]]]:
    """The whole report: each heading with what stands below it."""
    judged = judge.judge(records.study, records.rows)
    yield records.study.title, [records.study.question, f"{verdict(judged)} {unfinished(records)}".strip()]
    yield "What each fault does", [MEANING, table(records.rows), FIGURES]
    yield "Rules, fixed before the run", [rules(judged), DECIDES]
    if doubted := doubts(records.rows):
        yield "Trials that decide nothing", [doubted]
    yield "Where and how", [" ".join(about(records)), *([runs(records)] if records.merged else [])]


def markdown(records: Records) -> str:
    found = []
    for number, (heading, parts) in enumerate(sections(records)):
        found += [f"{'##' if number else '#'} {heading}", *map(_markdown, parts)]
    return "\n\n".join(found) + "\n"


def page(records: Records) -> str:
    """The same as HTML without anything from elsewhere."""
    body = ""
    for number, (heading, parts) in enumerate(sections(records)):
        level = 2 if number else 1
        body += f"<h{level}>{escape(heading)}</h{level}>{''.join(map(_html, parts))}"
    head = f'<meta charset="utf-8"><title>{escape(records.study.title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def write(records: Records, folder: OpenFolder) -> Path:
    """Both files. Returns the page."""
    folder.write("report.md", markdown(records))
    return folder.write("report.html", page(records))


def about(records: Records) -> list[str]:
    """Sentences on where and how it was measured."""
    bfd, host = records.study.bfd, records.host
    again = len(records.rows) - records.done
    repeated = f" and {_trials(again)} again, since they decided nothing" if again else ""
    said = [f"{_trials(records.done)} of {records.planned} planned{repeated}, begun {records.begun}, form {records.form}."]
    if not records.merged:
        said.append(f"The seed {records.seed} chose the order of the trials and the gateway that fails in each.")
    said.append(
        f"{records.traffic.many.flows} UDP flows, and calls, downloads, streams and new TCP connections beside them; "
        f"BFD with {bfd.multiplier} × {bfd.interval_ms} ms."
    )
    said.append(
        "Every trial builds all of it anew: three gateways, three members of etcd, two routers, in namespaces of one machine."
    )
    if programs := _programs(host):
        said.append(f"Programs: {', '.join(programs)}.")
    kernel, cpu, cores = (host.get(name) for name in ("kernel", "cpu_model", "cores"))
    facts = [f"Linux {kernel}" if kernel else "", str(cpu or ""), f"{cores} CPUs" if cores else ""]
    return [*said, f"{', '.join(filter(None, facts)) or 'The host is not recorded'}."]


def runs(records: Records) -> list[str]:
    """One sentence for each run that was merged."""
    return [
        f"{run['run']} ({run['folder']}): {run['trials']} of {run['planned']} trials, begun {run['begun']}, seed {run['seed']}"
        for run in records.merged
    ]


def _programs(host: Any) -> list[str]:
    """Their versions, as far as they are recorded."""
    systems, versions = host.get("systems"), host.get("versions")
    found = [
        str(entry.get("version") or name)
        for name, entry in (systems.items() if isinstance(systems, dict) else ())
        if isinstance(entry, dict)
    ]
    named = versions if isinstance(versions, dict) else {}
    return found + [str(named[name]) for name in ("frr", "etcd") if named.get(name)]


def _why_lost(row: Row) -> str:
    whys = [row["lost"]] if row.get("lost") else []
    whys += [f"{'; '.join(late)}, by the CPU time of the gateways"] if (late := row.get("late_by_gateways")) else []
    return f" ({'; '.join(whys)})" if whys else ""


def _exactly(value: float | None, quantity: str) -> str:
    if value is None:
        return "never"
    if quantity.endswith("_share"):
        return f"{100 * value:.4f} %"
    return f"{value:.4f} s" if quantity.endswith("_s") else f"{value:.0f}"


def _trials(number: int) -> str:
    return count(number, "trial")


def _markdown(part: Part) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "\n".join(f"- {each}" for each in part)
    lines = [part.heads, ["---"] * len(part.heads), *part.lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _html(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if isinstance(part, list):
        return "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in part) + "</ul>"

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}{_class(cell)}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(part.heads, "th") + "".join(line(row, "td") for row in part.lines) + "</table>"


def _class(cell: str) -> str:
    names: dict[str, Any] = {"met": "met", "not met": "not"}
    return f' class="{names[cell]}"' if cell in names else ""
