# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`merge` for this study: trials of several runs as one result folder.

Stages: read each folder → same study, form, kernel and program? → rows that say which run they are of → folder.

Rules hold for every trial, and tables show the trials of all runs in one line. So the runs have to be of the same rules, the
same kernel and the same program: of two programs, the whole would say something that holds for neither. Hosts may differ.
"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diolkos_lab.failover import records
from diolkos_lab.failover.definition import KIND
from diolkos_lab.failover.records import Records
from diolkos_lab.faults import UsageFault
from diolkos_lab.merging import require_distinct, require_several

OF_A_RUN = frozenset({"run", "command_line", "load_average"})
Run = dict[str, Any]


def merge(folders: Sequence[Path], out: Path, by: str | None = None) -> list[str]:
    """Write the folder `out`, without its report. Returns sentences on what a reader has to know. Raises UsageFault."""
    if by is not None:
        raise UsageFault(
            f"merge: --by {by}: means nothing to the study {KIND}, whose runs have to be of one kernel; leave it out"
        )
    require_several(folders, out)
    found = [records.require_trials(folder, records.read(folder)) for folder in folders]
    for folder, other in zip(folders[1:], found[1:], strict=True):
        _require_same(folders[0], found[0], folder, other)
    by_folder = [_runs(folder, each) for folder, each in zip(folders, found, strict=True)]
    require_distinct([(folder, map(_identity, runs)) for folder, runs in zip(folders, by_folder, strict=True)])
    runs = _labelled([run for runs in by_folder for run in runs])
    rows: list[dict[str, Any]] = []
    for each, mine in zip(found, by_folder, strict=True):
        rows += _moved(each, [runs[_identity(run)] for run in mine], 1 + max((row["repetition"] for row in rows), default=-1))
    whole = [{name: value for name, value in run.items() if name != "of_folder"} for run in runs.values()]
    first = found[0]
    begun = min(run["begun"] for run in whole)
    with contextlib.closing(records.claim(out)) as opened:
        Records(first.study, first.form, first.seed, _shared([run["facts"] for run in whole]), begun, rows, whole).write(opened)
    return _sentences(whole)


def _require_same(first: Path, one: Records, folder: Path, other: Records) -> None:
    before, after = (each.study.model_dump(mode="json") for each in (one, other))
    if name := next((name for name in before if before[name] != after[name]), None):
        raise UsageFault(
            f"merge: `{name}` of the study differs between {first} and {folder}; rules and traffic are fixed before a run, so "
            "measure both with one study"
        )
    if one.form != other.form:
        raise UsageFault(f"merge: {first} holds the {one.form} form and {folder} the {other.form} form; choose one form")
    for what, (mine, others) in {
        "kernel": [each.host.get("kernel") for each in (one, other)],
        "program diolkos": [_program(each) for each in (one, other)],
    }.items():
        if mine != others:
            raise UsageFault(
                f"merge: the {what} differs between {first} ({mine or 'not recorded'}) and {folder} "
                f"({others or 'not recorded'}); use `diolkos-lab compare` for these"
            )


def _program(found: Records) -> str | None:
    """Version and digest, by which builds of one version are told apart. Older folders have neither."""
    systems = found.host.get("systems")
    entry = systems.get("diolkos") if isinstance(systems, dict) else None
    if not isinstance(entry, dict):
        return None
    return f"{entry.get('version')}, SHA-256 {str(entry.get('sha256'))[:16]}"


def _runs(folder: Path, found: Records) -> list[Run]:
    """Those of a folder: one, or those of which it was made."""
    if found.merged:
        return [{**run, "of_folder": run["run"]} for run in found.merged]
    return [
        {
            "run": "",
            "host": str(found.host.get("hostname") or "unnamed"),
            "folder": folder.resolve().name,
            "begun": found.begun,
            "seed": found.seed,
            "trials": found.done,
            "planned": found.planned,
            "facts": dict(found.host),
            "of_folder": "",
        }
    ]


def _identity(run: Run) -> str:
    """Older folders have no number of their run."""
    return str(run["facts"].get("run") or f"{run['host']} {run['begun']} {run['seed']}")


def _labelled(runs: Sequence[Run]) -> dict[str, Run]:
    """By identity, in the order of time: each of several runs of a host gets a number."""
    counted: dict[str, int] = {}
    found = {}
    for run in sorted(runs, key=lambda run: str(run["begun"])):
        counted[run["host"]] = counted.get(run["host"], 0) + 1
        several = sum(each["host"] == run["host"] for each in runs) > 1
        found[_identity(run)] = {**run, "run": f"{run['host']} #{counted[run['host']]}" if several else run["host"]}
    return found


def _moved(found: Records, runs: Sequence[Run], first: int) -> list[dict[str, Any]]:
    """The rows of a folder. Repetitions get numbers of their own, so that each trial of the whole has one name."""
    labels = {run["of_folder"]: run["run"] for run in runs}
    return [
        {**row, "repetition": row["repetition"] + first, "run": labels.get(row.get("run") or "", runs[0]["run"])}
        for row in found.rows
    ]


def _shared(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is the same in all runs. The rest stands with each run."""
    names = [name for name in facts[0] if name not in OF_A_RUN and all(each.get(name) == facts[0][name] for each in facts)]
    hosts = dict.fromkeys(str(each.get("hostname") or "unnamed") for each in facts)
    return {**{name: facts[0][name] for name in names}, "hostname": ", ".join(hosts)}


def _sentences(runs: Sequence[Run]) -> list[str]:
    said = [f"{len(runs)} runs: {', '.join(run['run'] for run in runs)}."]
    said += [
        f"{run['run']} ({run['folder']}) has {run['trials']} of {run['planned']} trials: it was interrupted; "
        "those that it has count."
        for run in runs
        if run["trials"] < run["planned"]
    ]
    if any("systems" not in run["facts"] for run in runs):
        said.append("No run records which program it measured: whether all measured the same one is for you to know.")
    return said
