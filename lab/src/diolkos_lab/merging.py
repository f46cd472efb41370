# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`merge`: runs of one study, from several hosts or one, as a result folder of the whole.

Stages: read each folder → same study and form? → name hosts and runs → rows that say where they are from → folder.

Every row keeps its host, kernel and run. Blocks and builds get numbers of their own, so that nothing is compared across runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diolkos_lab.curves import LOAD as CURVE
from diolkos_lab.experiment.failover import KIND
from diolkos_lab.faults import UsageFault
from diolkos_lab.samples import folder
from diolkos_lab.samples.folder import AnyResult, FailoverResult, form_of
from diolkos_lab.samples.unfinished import is_complete
from diolkos_lab.stats import hosts as of_hosts

BY = ("host", "kernel", "run")
# What tells two machines of one name apart.
MACHINE = ("architecture", "cpu_model", "cores", "memory_bytes")
OF_A_RUN = frozenset({"format", "run", "date", "seed", "command_line", "duration_s", "load_average", "parts", "complete"})


@dataclass(frozen=True)
class Run:
    """One run of the whole. `identity` is that of host.json; `label` is its name in rows."""

    identity: str
    host: str
    label: str
    kernel: str
    facts: Mapping[str, Any]
    started: str
    missing: Sequence[Mapping[str, Any]]
    where: str
    complete: bool


def merge(folders: Sequence[Path], out: Path, by: str | None = None) -> list[str]:
    """Write the folder `out`, without its summary. Returns sentences on what a reader has to know."""
    if by is not None and by not in BY:
        raise UsageFault(f"merge: --by {by}: no such fact; there are {', '.join(BY)}")
    require_several(folders, out)
    results = [folder.require_trials(folder.read(each)) for each in folders]
    for other in results[1:]:
        _require_same_study(results[0], other)
        if isinstance(other, FailoverResult):
            _require_same_program(results[0], other, by)
    by_folder = [_runs(result) for result in results]
    require_distinct([(result.folder, [run.identity for run in mine]) for result, mine in zip(results, by_folder, strict=True)])
    runs = _labelled([run for runs in by_folder for run in runs])
    writer = folder.Writer(out, results[0].study, _systems(results), _header(results, runs))
    writer.host(_facts(runs))
    first_block, first_build = 0, 0
    for result, mine in zip(results, by_folder, strict=True):
        known = {old.label: runs[old.identity] for old in mine}
        for trial in result.trials:
            run = known.get(trial.get("run", ""), runs[mine[0].identity])
            writer.record(_moved(trial, run, first_block, first_build, by))
        first_block += max(trial["block"] for trial in result.trials)
        first_build += 1 + max((trial.get("build", 0) for trial in result.trials), default=0)
    writer.close()
    return _summary_sentences(list(runs.values()), isinstance(results[0], FailoverResult))


def require_several(folders: Sequence[Path], out: Path) -> None:
    """Raises UsageFault for a single folder, and for one that would be overwritten."""
    if len(folders) < 2:
        raise UsageFault("merge: one folder is whole already; name two or more")
    if inside := next((each for each in folders if each.resolve() == out.resolve()), None):
        raise UsageFault(f"merge: --out {out}: is one of the folders, {inside}, which stay as they are; choose another")


def require_distinct(identities: Iterable[tuple[Path, Iterable[str]]]) -> None:
    """Raises UsageFault where two folders hold the same run. `identities` are those of the runs of each folder."""
    seen: dict[str, Path] = {}
    for folder_, mine in identities:
        for identity in mine:
            if identity in seen:
                raise UsageFault(f"merge: {seen[identity]} and {folder_} hold the same run; name each run once")
            seen[identity] = folder_


def _runs(result: AnyResult) -> list[Run]:
    """Those of a folder: one, or those of which it was made."""
    merged = result.host.get("merged")
    if merged:
        return [_run(entry["facts"], entry, str(entry["run"])) for entry in merged]
    entry = {
        "started": result.header.get("started"),
        "missing": result.header.get("missing") or [],
        "folder": result.folder.resolve().name,
        "complete": is_complete(result) or "complete" not in result.host,
    }
    return [_run(result.host, entry, "")]


def _run(facts: Mapping[str, Any], entry: Mapping[str, Any], label: str) -> Run:
    started = str(entry.get("started") or facts.get("date") or "")
    return Run(
        identity=str(facts.get("run") or f"{facts.get('hostname')} {entry.get('folder')} {started} {facts.get('seed')}"),
        host=str(facts.get("hostname") or "unnamed"),
        label=label,
        kernel=str(facts.get("kernel") or "unknown"),
        facts=facts,
        started=started,
        missing=entry.get("missing") or [],
        where=str(entry.get("folder")),
        complete=bool(entry.get("complete")),
    )


def _labelled(runs: Sequence[Run]) -> dict[str, Run]:
    """By identity. A second machine of a name gets a number, as does each of several runs of a host."""
    machines: dict[str, list[list[Any]]] = {}
    named: list[Run] = []
    for run in sorted(runs, key=lambda run: run.started):
        known = machines.setdefault(run.host, [])
        machine = [run.facts.get(name) for name in MACHINE]
        if machine not in known:
            known.append(machine)
        number = known.index(machine) + 1
        named.append(replace(run, host=run.host if number == 1 else f"{run.host} ({number})"))
    counted: dict[str, int] = {}
    found = {}
    for run in named:
        counted[run.host] = counted.get(run.host, 0) + 1
        several = sum(each.host == run.host for each in named) > 1
        found[run.identity] = replace(run, label=f"{run.host} #{counted[run.host]}" if several else run.host)
    return found


def _moved(trial: Mapping[str, Any], run: Run, block: int, build: int, by: str | None) -> dict[str, Any]:
    values = {"host": run.host, "kernel": run.kernel, "run": run.label}
    moved = {**trial, "block": trial["block"] + block if trial["block"] else 0, **values}
    if "build" in trial:
        moved["build"] = trial["build"] + build
    factors = {name: value for name, value in trial["factors"].items() if name not in BY}
    # A curve is of one run in any case: each finds rates of its own.
    if split := "run" if trial["load"] == CURVE else by:
        factors[split] = values[split]
    return {**moved, "factors": factors}


def _require_same_study(first: AnyResult, other: AnyResult) -> None:
    one, two = (folder.plain(each.study.model_dump(mode="json", exclude={"resolved"})) for each in (first, other))
    name = next((name for name in {**one, **two} if one.get(name) != two.get(name)), None)
    if name == "name":
        raise UsageFault(
            f"merge: {first.folder} holds the study {first.study.name}, {other.folder} the study {other.study.name}; "
            "only runs of one study can be put together"
        )
    if name:
        raise UsageFault(
            f"merge: `{name}` of the study differs between {first.folder} and {other.folder}; measure both with one study"
        )
    forms = [form_of(result.header) for result in (first, other)]
    if forms[0] != forms[1]:
        raise UsageFault(
            f"merge: {first.folder} holds the {forms[0]} form and {other.folder} the {forms[1]} form; choose one form"
        )


def _require_same_program(first: AnyResult, other: AnyResult, by: str | None) -> None:
    """Rules about every trial hold for all runs, so of two kernels or programs the whole would say what holds for neither."""
    if by is not None:
        raise UsageFault(
            f"merge: --by {by}: means nothing to the study {KIND}, whose runs have to be of one kernel; leave it out"
        )
    for what, read in (("kernel", lambda host: host.get("kernel")), ("program diolkos", _program)):
        mine, others = (read(result.host) for result in (first, other))
        if mine != others:
            raise UsageFault(
                f"merge: the {what} differs between {first.folder} ({mine or 'not recorded'}) and {other.folder} "
                f"({others or 'not recorded'}); use `diolkos-lab compare` for these"
            )


def _program(host: Mapping[str, Any]) -> str | None:
    """Version and digest, by which builds of one version are told apart."""
    runs = [run["facts"] for run in host.get("merged") or []] or [host]
    entry = (runs[0].get("systems") or {}).get("diolkos") or {}
    return f"{entry.get('version')}, SHA-256 {str(entry.get('sha256'))[:16]}" if entry else None


def _systems(results: Sequence[AnyResult]) -> dict[str, Any]:
    """As the first run has them. Versions stand with each run's own facts."""
    found: dict[str, Any] = {}
    for result in reversed(results):
        found |= getattr(result.study, "resolved", {}).get("systems", {})
    return found


def _header(results: Sequence[AnyResult], runs: Mapping[str, Run]) -> dict[str, Any]:
    lacked = [{entry["system"]: entry for entry in run.missing} for run in runs.values()]
    everywhere = [entry for name, entry in lacked[0].items() if all(name in each for each in lacked)]
    return {
        "quick": bool(results[0].header.get("quick")),
        "form": form_of(results[0].header),
        "started": min(run.started for run in runs.values()),
        "missing": everywhere,
        "merged": [run.label for run in runs.values()],
    }


def _facts(runs: Mapping[str, Run]) -> dict[str, Any]:
    """What all hosts have in common, or the words of each; and the facts of every run by themselves."""
    every = list(runs.values())
    shared: dict[str, Any] = {}
    for name in dict.fromkeys(name for run in every for name in run.facts if name not in OF_A_RUN):
        values = [run.facts.get(name) for run in every]
        if all(value == values[0] for value in values):
            shared[name] = values[0]
        elif all(isinstance(value, str) for value in values):
            shared[name] = ", ".join(dict.fromkeys(map(str, values)))
    generators = [{**entry, "run": run.label} for run in every for entry in run.facts.get("generator") or []]
    shared |= _guest(every)
    return shared | {
        "hostname": ", ".join(dict.fromkeys(run.host for run in every)),
        "date": min(run.started for run in every),
        "generator": generators,
        "systems": _versions(every),
        "merged": [_entry(run) for run in every],
        "complete": True,
    }


def _guest(runs: Sequence[Run]) -> dict[str, Any]:
    """What guests have in common. The whole says no more of time than the run that says least: one on an emulated processor."""
    guests = [guest for run in runs if isinstance(guest := run.facts.get("guest"), dict)]
    if not guests:
        return {}
    shared = {name: value for name, value in guests[0].items() if all(guest.get(name) == value for guest in guests)}
    emulated = {"acceleration": "TCG"} if any(guest.get("acceleration") == "TCG" for guest in guests) else {}
    return {"guest": shared | emulated}


def _entry(run: Run) -> dict[str, Any]:
    return {
        "run": run.label,
        "host": run.host,
        "kernel": run.kernel,
        "folder": run.where,
        "started": run.started,
        "complete": run.complete,
        "missing": list(run.missing),
        "facts": dict(run.facts),
    }


def _versions(runs: Sequence[Run]) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for run in runs:
        for name, entry in (run.facts.get("systems") or {}).items():
            found.setdefault(name, []).extend([entry["version"]] if entry.get("version") else [])
    return {name: {"version": ", ".join(dict.fromkeys(versions)) or None} for name, versions in found.items()}


def _summary_sentences(runs: Sequence[Run], of_faults: bool) -> list[str]:
    hosts = list(dict.fromkeys(run.host for run in runs))
    where = "one host" if len(hosts) == 1 else f"{len(hosts)} hosts"
    said = [f"{len(runs)} runs of {where}: {', '.join(run.label for run in runs)}."]
    said += [] if of_faults else [in_words(len(hosts), len(runs))]
    said += [f"{run.label} ({run.where}) was interrupted; the blocks that it has count." for run in runs if not run.complete]
    for name in dict.fromkeys(name for run in runs for name in run.facts.get("systems") or {}):
        versions = {str((run.facts.get("systems") or {}).get(name, {}).get("version")) for run in runs}
        if len(versions) > 1:
            said.append(f"{name} differs between the runs: {', '.join(sorted(versions))}.")
    for run in runs:
        said += [f"{run.label} has no trials of {entry['system']}: {entry['reason']}." for entry in run.missing]
    return said


def in_words(hosts: int, runs: int) -> str:
    """What intervals of so many hosts say."""
    units, what = (hosts, "hosts") if hosts > 1 else (runs, "runs")
    if units >= of_hosts.FEWEST:
        return f"The {what} are a random effect: intervals are for any {what} such as these {units}."
    return f"{units} {what} are too few to know how {what} differ ({of_hosts.FEWEST} are needed): intervals are for just these."
