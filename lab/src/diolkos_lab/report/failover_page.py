# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kind of page of a study of faults: what each fault does to each kind of gateway, and what became of its rules."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from diolkos_lab import every_trial
from diolkos_lab.every_trial import QUANTITIES, Trial, fault_of, groups, undecided_trials
from diolkos_lab.experiment.failover import KIND
from diolkos_lab.faults import UsageFault
from diolkos_lab.report.chapters import Chapter, Content
from diolkos_lab.report.quantities import count
from diolkos_lab.report.read import Results
from diolkos_lab.report.tables import Table
from diolkos_lab.report.trust import Trust
from diolkos_lab.report.words import verdict_count
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.samples.folder import FailoverResult, form_of

MEANING = (
    "Median of the trials, and the least and the most of them. Of six trials or more, these two enclose the median of all "
    "such trials with a confidence of 97 % or more; of fewer, they say less, and of one nothing. Trials behind a + decide "
    "nothing, and no figure has them."
)
DECIDES = (
    "One trial that breaks a rule is enough for not met. Met needs trials of every fault, so many that at most the share "
    "which the rule allows of all such trials would break it (95 % confidence, exact binomial); with fewer, a rule is "
    "undecided."
)
AGAIN = (
    "More trials: run the study again into another folder and put both together (`diolkos-lab merge`), or choose the full form."
)
DECIDES_NOTHING = (
    "A trial decides nothing if a generator was late, a program did not read in time what had arrived for it, BFD lost a "
    "neighbour before the fault, the fault came late or had no effect, the flows sent less than twice in what counts, or an "
    "instrument failed: a program that sends or receives, FRR, etcd, or the host. The run repeats such trials."
)
WORST = (
    "Gateways that do not start, drain or come back, or take longer for it than the study watches them, have failed: then no "
    "flow was kept, and no gap has an end. Where their programs used more than half of all CPUs for a second, what was late is "
    "their result."
)
WORDS = (
    (
        "flows kept",
        "the share of all flows that were established before the fault and hear again, in both directions and by the same "
        "address and port, what was sent more than a second after the last step of the fault; a flow that was never "
        "established is lost",
    ),
    (
        "longest gap",
        "of the flows that send most often, the longest silence in one direction after the fault, beyond the flow's own "
        "interval; never: it did not end, or the flow was never established",
    ),
    ("of calls", "the same of the calls"),
    ("new flows after", "from the fault to the last new connection that failed"),
    ("longest step", "of what was done to the gateways, such as one drain with the end of its process"),
    ("moved", "flows that the server hears from another address or port"),
    ("wrong, duplicates", "datagrams that reached a flow that they are not of, or arrived again"),
)
FIRST, LAST = ("gateways", "fault", "trial", "run", "victim"), ("decides", "why_not")  # columns of the trials around figures


def applies_to(results: Results) -> bool:
    return results.study.get("kind") == KIND


def content(results: Results) -> Content:
    trials = _trials_of(results)
    lead = verdict_count(results.verdicts)
    if result := _whole(results):
        lead = f"{every_trial.answer(every_trial.judge(result.study, trials))} {unfinished(result)}".strip()
    own = Chapter("faults", "What each fault does", [MEANING], tables=[table(trials)] if trials else [])
    return Content([own], _trust(trials), WORDS, lead, leads=True, decides=DECIDES, again=AGAIN)


def _trials_of(results: Results) -> list[Trial]:
    return [trial for trial in results.contents.trials if trial["load"] == KIND]


def _whole(results: Results) -> FailoverResult | None:
    try:
        found = samples_folder.whole(results.contents)
    except UsageFault:
        return None
    return found if isinstance(found, FailoverResult) else None


def _trust(trials: Sequence[Trial]) -> Trust:
    nothing = undecided_trials(trials)
    reasons = [f"Of {count(len(trials), 'trial')}, {nothing} decide nothing.", DECIDES_NOTHING, WORST]
    if nothing == len(trials):
        return Trust("poor", "No: no trial decides anything.", reasons)
    fewest = min(len(group) - undecided_trials(group) for group in groups(trials).values())
    if fewest < 6:
        return Trust("limited", f"As a look: for one fault, {fewest} of its trials decide; six say more.", reasons)
    return Trust("good", "Yes, for what the share of trials that break a rule says.", reasons)


def unfinished(result: FailoverResult) -> str:
    """A sentence where trials are missing; empty where the run is whole."""
    if result.done >= result.planned:
        return ""
    return f"Only {result.done} of {result.planned} trials are here: the run was interrupted, or goes on."


# ---- tables


def figures(values: Sequence[float], write: Callable[[float], str]) -> str:
    """Median and, of several, least and most. What never ended is more than every number."""

    def shown(value: float) -> str:
        return write(value) if math.isfinite(value) else "never"

    if not values:
        return "–"
    least, most = min(values), max(values)
    text = shown(median(values))
    return text if least == most else f"{text} ({shown(least)}–{shown(most)})"


def trials_in_words(group: Sequence[Trial]) -> str:
    """Those that decide and, behind a +, those that do not."""
    nothing = undecided_trials(group)
    return str(len(group) - nothing) + (f" + {nothing}" if nothing else "")


def table(trials: Sequence[Trial]) -> Table:
    """One line for each kind of gateway and fault; as CSV, one for each of their figures."""
    lines = []
    for (fault, gateways), group in groups(trials).items():
        shown = (figures(every_trial.figures(group, name), write) for name, (_, write, _) in QUANTITIES.items())
        lines.append([fault, gateways, trials_in_words(group), *shown])
    raw_heads = ["fault", "gateways", "quantity", "trials", "decide_nothing", "median", "least", "most"]
    raw = [
        ["never" if (value := row.get(name, "")) is None else value for name in raw_heads] for row in every_trial.rows(trials)
    ]
    heads = [heading[:1].upper() + heading[1:] for heading, _, _ in QUANTITIES.values()]
    caption = "Median (least–most) of the trials"
    return Table("figures", caption, ["Fault", "Gateways", "Trials", *heads], lines, raw_heads, raw, frozenset({0, 1}))


def tables(results: Results) -> list[Table]:
    """Of an export: figures, rules and every trial."""
    trials, result = _trials_of(results), _whole(results)
    verdicts = every_trial.verdicts(every_trial.judge(result.study, trials)) if result else results.verdicts
    return [table(trials), _rules(verdicts), _trials(trials)]


def _rules(verdicts: Sequence[Mapping[str, Any]]) -> Table:
    names = ("claim", "gateways", "faults", "quantity", "at_least", "at_most", "broken_at_most", "outcome", "trials")
    raw_heads = ["rule", *names[1:7], "verdict", "trials", "decide_nothing", "broken_ci95_low", "broken_ci95_high", "against"]
    lines, raw = [], []
    for each in verdicts:
        known = {**each, "faults": " ".join(each.get("faults") or ())}
        lines.append([str(each.get(name)) for name in ("claim", "rule", "outcome")] + [_carried(each)])
        ends = each.get("broken_ci95") or (None, None)
        raw.append([*(known.get(name) for name in names), each.get("decide_nothing"), *ends, each.get("against")])
    caption = "The rules that stood in the study before the run, and what became of them"
    return Table("rules", caption, ["Rule", "Limit", "Verdict", "Trials"], lines, raw_heads, raw, frozenset(range(4)))


def _carried(verdict: Mapping[str, Any]) -> str:
    return str(verdict.get("sentence", "")).partition(". ")[2]


def _trials(trials: Sequence[Trial]) -> Table:
    """Every trial with all that it measured, and whether it decides anything. A figure without end is `never`. CSV alone."""
    flat = [_flat(trial) for trial in trials]
    between = dict.fromkeys(key for each in flat for key in each if key not in (*FIRST, *LAST))
    heads = [*FIRST, *between, *LAST]
    return Table("trials", "Every trial", heads, [], heads, [[each.get(head) for head in heads] for each in flat])


BESIDE = ("drops", "late_by_gateways", "steps_s", "stream_stops_s", "duration")


def _flat(trial: Trial) -> dict[str, Any]:
    first = (trial["datapath"], fault_of(trial), trial["block"], trial.get("run"), trial.get("victim"))
    why = "; ".join(each["detail"] for each in trial["distrust"])
    return {
        **dict(zip(FIRST, first, strict=True)),
        **trial["metrics"],
        **dict.fromkeys(trial.get("bounds", {}), "never"),
        "lost": trial["error"],
        **{name: json.dumps(trial[name]) for name in BESIDE if name in trial},
        **dict(zip(LAST, ("no" if why else "yes", why), strict=True)),
    }


# ---- method


def sentences(result: FailoverResult) -> list[str]:
    """On where and how it was measured, fit for a paper."""
    study, host, form = result.study, result.host, form_of(result.header)
    again = len(result.trials) - result.done
    repeated = f" and {count(again, 'trial')} again, since they decided nothing" if again else ""
    systems, versions = host.get("systems") or {}, host.get("versions") or {}
    programs = [str(each.get("version") or name) for name, each in systems.items()]
    programs += [str(versions[name]) for name in ("frr", "etcd") if isinstance(versions, dict) and versions.get(name)]
    facts = [f"Linux {host['kernel']}" if host.get("kernel") else "", str(host.get("cpu_model") or "")]
    facts += [f"{host['cores']} CPUs" if host.get("cores") else ""]
    seed = result.header.get("seed")
    said = [
        f"The study “{study.title}” ({study.name}): {study.question}",
        unfinished(result),
        f"{count(result.done, 'trial')} of {result.planned} planned{repeated}, begun {result.header.get('started')}, "
        f"form {form}.",
        "" if host.get("merged") else f"The seed {seed} chose the order of the trials and the gateway that fails in each.",
        f"{result.traffic.many.flows} UDP flows, and calls, downloads, streams and new TCP connections beside them; BFD with "
        f"{study.bfd.multiplier} × {study.bfd.interval_ms} ms.",
        "Every trial builds all of it anew: three gateways, three members of etcd, two routers, in namespaces of one machine.",
        f"Programs: {', '.join(programs)}." if programs else "",
        f"{', '.join(filter(None, facts)) or 'The host is not recorded'}.",
        *(f"{run['run']} ({run.get('folder')}) began {run.get('started')}." for run in host.get("merged") or []),
        *(DECIDES, DECIDES_NOTHING, WORST),
    ]
    return [each for each in said if each]
