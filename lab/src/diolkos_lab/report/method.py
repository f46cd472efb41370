# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How a run measured, in a paragraph fit for a paper: made from the files of its folder alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from diolkos_lab import curves, merging, procedures
from diolkos_lab.faults import UsageFault
from diolkos_lab.report import facts, failover_page
from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.quantities import count, join_words
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import title
from diolkos_lab.samples import counting
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.samples.folder import AnyResult, FailoverResult, Result, form_of
from diolkos_lab.stats.pairing import WARM_UP, build_of

NATIVE = "native"
UNKNOWN = "unknown"


def sentences(result: AnyResult) -> list[str]:
    """One after the other they are the paragraph."""
    if isinstance(result, FailoverResult):
        return failover_page.sentences(result)
    begun = [_study(result), *_guest(result), *_systems(result)]
    if facts.counts_instructions(result.host):
        return [*begun, *_counts(result)]
    return [*begun, *_trials(result), *_statistics(result), *_guards(result)]


def chapter(results: Results) -> Chapter:
    """The same on the page; empty where the folder is not whole."""
    try:
        result = samples_folder.whole(results.contents)
    except UsageFault:
        return Chapter("measured-how", "How it was measured")
    return Chapter("measured-how", "How it was measured", [" ".join(sentences(result))])


def _study(result: Result) -> str:
    study, host = result.study, result.host
    form = form_of(result.header)
    name = host.get("hostname")
    machine = f"{name} ({facts.machine(host)})" if name else facts.machine(host)
    merged = host.get("merged") or []
    if merged:
        hosts = {entry["host"] for entry in merged}
        each = "; ".join(f"{entry['run']} ({facts.machine(entry['facts'])})" for entry in merged)
        where = f"{count(len(merged), 'time')} on {count(len(hosts), 'host')}: {each}"
        what = f"The study “{study.title}” ({study.name}, {form} form) ran{_date(result)} {where}."
        return f"{what} {merging.in_words(len(hosts), len(merged))}"
    where = "on one host,"
    if router := facts.router(host):
        machine = f"{machine}, and what is between them on {router}, reached over SSH"
        where = "over two machines: client and server were on"
    if box := facts.box(host):
        machine = f"{machine}, with a black box between its interfaces {box}"
    return f"The study “{study.title}” ({study.name}, {form} form) ran{_date(result)} {where} {machine}."


def _guest(result: Result) -> list[str]:
    guest = result.host.get("guest")
    if not isinstance(guest, dict):
        return []
    processor = "an emulated processor" if facts.emulated(result.host) else "the host's processor"
    emulator = guest.get("emulator") or "QEMU"
    return [f"All of it ran in a guest ({emulator}) with Linux {facts.kernel(result.host) or UNKNOWN} on {processor}."]


def _counts(result: Result) -> list[str]:
    measured = _measured(result)
    repetitions = len({trial["block"] for trial in measured})
    failed = sum(trial["error"] is not None for trial in measured)
    found = [
        "The guest's clock counted instructions: those of everything in the guest, over the packets that arrived.",
        f"The run has {count(len(measured), 'trial')}: on each path, {count(repetitions, 'repetition')} of each TCP stream, "
        "after one that is not counted. Offloads were off. A figure is the median of the repetitions.",
    ]
    return [*found, f"{count(failed, 'trial')} failed."] if failed else found


def _date(result: Result) -> str:
    text = str(result.header.get("started") or result.host.get("date") or "")
    try:
        return f" on {datetime.fromisoformat(text):%Y-%m-%d}"
    except ValueError:
        return ""


def _systems(result: Result) -> list[str]:
    measured = {trial["system"] for trial in result.trials}
    versions = result.host.get("systems") if isinstance(result.host.get("systems"), dict) else {}
    paths: dict[str, list[str]] = {}
    for subject in result.study.system:
        if subject.system in measured and subject.system != NATIVE:
            datapaths = paths.setdefault(subject.system, [])
            if subject.datapath not in datapaths:
                datapaths.append(subject.datapath)
    named = [f"{_versioned(system, versions or {})} ({', '.join(datapaths)})" for system, datapaths in paths.items()]
    joined = "veth pairs"
    if facts.router(result.host):
        joined = "macvlan devices on the cables between both machines"
    found = [
        f"Systems under test: {'; '.join(named) or 'none'}. Each had a path of its own, of network namespaces joined by "
        f"{joined}, beside the kernel's native forwarding over as many hops."
    ]
    missing = {_absent(entry): str(entry.get("reason")) for entry in result.header.get("missing") or []}
    found += [f"{what} was not measured: {reason.rstrip('.')}." for what, reason in missing.items()]
    return found


def _absent(entry: Mapping[str, Any]) -> str:
    level = f" with {entry.get('factor')} {entry['level']}" if entry.get("level") else ""
    return f"{title(str(entry.get('system')))}{level}"


def _versioned(system: str, versions: Mapping[str, Any]) -> str:
    entry = versions.get(system)
    version = entry.get("version") if isinstance(entry, dict) else None
    if not version:
        return f"{title(system)} of unknown version"
    return str(version) if str(version).casefold().startswith(system.casefold()) else f"{title(system)} {version}"


def _measured(result: Result) -> list[dict[str, Any]]:
    return [trial for trial in result.trials if trial["block"] != WARM_UP]


def _trials(result: Result) -> list[str]:
    measured = _measured(result)
    blocks, whole = _blocks(measured)
    merged = result.host.get("merged") or []
    seeds = [entry["facts"].get("seed", UNKNOWN) for entry in merged] or [result.host.get("seed", UNKNOWN)]
    seed = result.header.get("seed", ", ".join(map(str, seeds)))
    return [
        f"The run has {count(len(measured), 'trial')} in {count(blocks, 'block')}, after a warm-up that is not counted.",
        f"{_held(blocks, whole)} The order within a block was drawn at random (seed {seed}); trials that were rejected were "
        "repeated as far as there was time.",
    ]


def _blocks(measured: list[dict[str, Any]]) -> tuple[int, int]:
    """How many blocks there are, and how many of them hold every load that the run has on every path that it has it on."""
    held: dict[int, set[tuple[Any, ...]]] = {}
    for trial in measured:
        factors = repr(sorted((trial.get("factors") or {}).items())) if "test" not in (trial.get("factors") or {}) else ""
        path = tuple(trial[name] for name in ("system", "datapath", "family", "hops"))
        # A curve's rates and a search's attempts are parts of one load.
        what = "" if trial["load"] == curves.LOAD or trial["load"] in procedures.LOADS else factors
        held.setdefault(trial["block"], set()).add((*path, trial.get("replica", 1), trial["load"], what))
    every = set().union(*held.values()) if held else set()
    return len(held), sum(each == every for each in held.values())


def _held(blocks: int, whole: int) -> str:
    if whole == blocks:
        return "Each block holds every load on every path."
    few = f"{whole} of the blocks {'holds' if whole == 1 else 'hold'}" if whole else "No block holds"
    return f"{few} every load on every path; the others hold what rules compare, or what guards had rejected before."


def _statistics(result: Result) -> list[str]:
    measured = _measured(result)
    builds = {trial["block"]: build_of(trial) for trial in measured}
    figure = "A figure is the median over the blocks"
    if not any("build" in trial for trial in measured):
        built = "All paths were built once, so the intervals leave out how builds differ."
    else:
        built = f"The paths were built {count(len(set(builds.values())), 'time')}."
    if result.host.get("merged"):
        interval = "of order statistics over the hosts, or with fewer than six from a bootstrap of the builds of each"
        figure = "A figure is the median over the hosts, that of a host the median over its blocks"
    elif len(set(builds.values())) == len(builds):
        interval = "of order statistics over the blocks"
    else:
        interval = "of order statistics over the builds, each with the median of its blocks"
    return [
        built,
        f"{figure}; a ratio to the native path is taken within each block first.",
        f"Intervals are 95 % intervals {interval}. A rule is met, or not met, where its whole interval lies on one side, at a "
        "confidence that is adjusted for the number of rules (Benjamini and Yekutieli 2005).",
    ]


def _guards(result: Result) -> list[str]:
    counts = counting.counted(result.trials)
    rejected = [trial for trial in result.trials if trial["block"] != WARM_UP and trial["distrust"]]
    named = Counter(guard for trial in rejected for guard in {each["guard"] for each in trial["distrust"]})
    why = join_words([f"{guard} ({number})" for guard, number in named.most_common()])
    found = [counting.in_words(counts)]
    if why:
        found.append(f"Guards look at the host and not at the outcome; they objected by {why}.")
    if counts["failed"]:
        found.append("A failure counts as the worst value that there is.")
    return found
