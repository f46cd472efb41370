# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`run --resume`: resume an interrupted run, if everything that its figures depend on is unchanged.

Stages: read the folder → same study, systems and host? → whole blocks are kept → a new warm-up → the blocks that are left.

What differs is refused, and not recorded as a factor: a run answers one question on one host, and `merge` is there for
several. A restart of the host is no difference, since the blocks after it have a build of the lanes and a warm-up of their own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from diolkos_lab import open_folder, run_study, studies, summary
from diolkos_lab.experiment.definition import Study
from diolkos_lab.experiment.failover import FailoverStudy
from diolkos_lab.failover import command as failover
from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.run.completed import CompletedTrials
from diolkos_lab.run_study import Observer, RunRequest
from diolkos_lab.samples import contents, folder, host, unfinished
from diolkos_lab.samples.json_text import read_object
from diolkos_lab.samples.unfinished import Unfinished
from diolkos_lab.sut import definition, offer
from diolkos_lab.topology import leftovers

LEFT_OUT = "left-out.jsonl"  # trials of half blocks; no statistics read them
# Of the facts about a host, those that change by themselves or by a restart.
FREE = frozenset({"load_average", "memory_bytes", "clocksources"})
Say = Callable[[str], None]
GoOn = Callable[[OpenFolder], None]
ADVICE = "measure into a folder of its own without --resume, and put both together with `diolkos-lab merge`"


def resume(request: RunRequest, observer: Observer, say: Say) -> tuple[folder.AnyResult, dict[str, Any]]:
    """Measure what an interrupted run has not. Raises UsageFault where something differs from when it began."""
    assert request.resume
    with open_folder.to_read(request.resume):
        run_study.require_root()
    opened = open_folder.to_write(request.resume)
    try:
        opened.lock()
        result = folder.whole(contents.read(opened, with_summary=False))
        _require_same_options(result, request)
        if isinstance(result, folder.FailoverResult):
            go_on = _rest_of_faults(result, request, say)
        else:
            go_on = _rest_of_lanes(result, request, observer, say)
    except BaseException:
        opened.close()
        raise
    if go_on is None:
        opened.close()
        say(f"{request.resume}: the run is complete; there is nothing to resume.")
        return result, summary.write(result)
    go_on(opened)
    whole = folder.read(request.resume)
    return whole, summary.write(whole)


def _rest_of_lanes(result: folder.Result, request: RunRequest, observer: Observer, say: Say) -> GoOn | None:
    """Nothing where the run is complete."""
    _require_same_request(result, request)
    if unfinished.is_complete(result):
        return None
    planned, facts = _planned(result, request), _same_facts(result)

    def go_on(opened: OpenFolder) -> None:
        leftovers.clean()
        found = unfinished.look(result)
        kept = CompletedTrials(found.kept, found.seconds)
        say(f"Resuming with block {kept.next_block}, after a warm-up. {_counted(found)}")
        if found.left_out:
            before = opened.read(LEFT_OUT) or b""
            opened.write(LEFT_OUT, before + "".join(folder.one_line(trial) for trial in found.left_out).encode())
        writer = folder.Writer.resume(opened, result.header, found.kept)
        run_study.run_planned(replace(planned, completed=kept), writer, facts, observer)

    return go_on


def _rest_of_faults(result: folder.FailoverResult, request: RunRequest, say: Say) -> GoOn | None:
    """Each trial of a study of faults stands by itself: all that were made are kept."""
    where, before = result.folder, getattr(result.study, "resolved", {}).get("systems", {})
    if request.study:
        _require_same_study(result, studies.of_faults_named(request.study) or studies.load(request.study))
    if unfinished.is_complete(result):
        return None
    binary = Path({**_binaries(where, before, request.paths), **request.paths}["diolkos"]).absolute()
    _require_same_programs(where, before, {"diolkos": failover.facts_of(binary)})
    facts, form = _same_facts(result), result.study.form[folder.form_of(result.header)]
    todo = failover.left(failover.order(result.study, form, _seed(result)), result.trials)

    def go_on(opened: OpenFolder) -> None:
        writer = folder.Writer.resume(opened, result.header, result.trials)
        failover.run_planned(result.study, form, todo, binary, writer, facts, say)

    return go_on


def is_free(where: Path) -> bool:
    """There is nothing of that name, or an empty folder."""
    if not where.is_dir():
        return not (where.exists() or where.is_symlink())
    return not any(where.iterdir())


def _counted(found: Unfinished) -> str:
    if not found.left_out:
        return f"{len(found.kept)} trials are kept."
    return f"{len(found.kept)} trials of whole blocks are kept, {len(found.left_out)} of an unfinished block are repeated."


def _planned(result: folder.Result, request: RunRequest) -> run_study.Planned:
    """The same systems as before, looked up again."""
    before = result.study.resolved.get("systems", {}) if isinstance(result.study, folder.StudyAsRun) else {}
    again = replace(request, only=(), paths={**_binaries(result.folder, before, request.paths), **request.paths})
    lacked = {entry["system"] for entry in result.header.get("missing", [])}
    found, missing = run_study.choose(result.study, again)
    for entry in missing:
        if entry.system.system not in lacked:
            raise UsageFault(f"{result.folder}: cannot resume without {entry.system.title}: {entry.reason}; {entry.how}")
    found = {name: each for name, each in found.items() if name not in lacked}
    form = run_study.chosen_form(result.study, replace(request, form=folder.form_of(result.header)))
    run_study.require_fit(result.study, form)
    resolvers = run_study.find_resolvers(result.study, form, found, again.paths)
    _require_same_programs(result.folder, before, folder.plain(run_study.resolved(found | resolvers)))
    return run_study.Planned(result.study, form, found, missing, _seed(result), resolvers)


def _seed(result: folder.AnyResult) -> int:
    seed = result.header.get("seed")
    if not isinstance(seed, int):
        raise UsageFault(f"{result.folder / 'samples.jsonl'}: its first line has no seed, which the order of the trials needs")
    return seed


def _require_same_options(result: folder.AnyResult, request: RunRequest) -> None:
    """What the command line asks for beside the folder has to be what the folder has."""
    where = result.folder
    if request.router or result.host.get("router") or result.host.get("box"):
        raise UsageFault(f"{where}: a run with the router on another machine, or through a box, cannot be resumed; {ADVICE}")
    form = folder.form_of(result.header)
    if request.length:
        raise UsageFault(f"{where}: a resumed run is as long as it began; leave --blocks, --seconds and --hours out")
    if (request.quick or request.form) and request.form_name != form:
        raise UsageFault(f"{where}: holds the {form} form of {result.study.name}, not {request.form_name}; leave --form out")
    if request.seed is not None and request.seed != result.header.get("seed"):
        raise UsageFault(f"{where}: has the seed {result.header.get('seed')}, not {request.seed}; leave --seed out")
    if not request.study and request.only:
        raise UsageFault(f"{where}: a resumed run has the systems that it began with; leave --only out")


def _require_same_request(result: folder.Result, request: RunRequest) -> None:
    if not request.study:
        return
    given = run_study.asked_study(replace(request, form=folder.form_of(result.header)))
    asked = offer.with_factor_levels(given, definition.load_all())
    asked, _ = offer.available_levels(asked, run_study.choose(given, request)[0])
    _require_same_study(result, asked)


def _require_same_study(result: folder.AnyResult, asked: Study | FailoverStudy) -> None:
    where = result.folder
    if (name := _first_difference(_shown(result.study), _shown(asked))) is None:
        return
    if asked.name != result.study.name:
        raise UsageFault(f"{where}: holds the study {result.study.name}, not {asked.name}; leave STUDY out")
    raise UsageFault(f"{where}: cannot resume: `{name}` of the study {asked.name} differs from when the run began; {ADVICE}")


def _binaries(where: Path, before: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """The programs that the run began with."""
    found = {name: str(entry["binary"]) for name, entry in before.items() if entry.get("binary") and name not in given}
    for name, binary in found.items():
        if not Path(binary).is_file():
            raise UsageFault(f"{where}: cannot resume: the program {binary} of {name} is gone; {ADVICE}")
    return found


def _require_same_programs(where: Path, before: Mapping[str, Any], now: Mapping[str, Mapping[str, Any]]) -> None:
    for name, entry in now.items():
        was = before.get(name, {})
        if was.get("version") != entry.get("version"):
            raise UsageFault(
                f"{where}: cannot resume: {name} was version “{was.get('version')}” and is “{entry.get('version')}”; {ADVICE}"
            )
        for key, what in (("sha256", "the program"), ("definition", "the definition")):
            if key in was and was[key] != entry.get(key):
                raise UsageFault(f"{where}: cannot resume: {what} of {name} was changed since the run began; {ADVICE}")


def _same_facts(result: folder.AnyResult) -> dict[str, Any]:
    """host.json, to which the run adds. Raises UsageFault when it was measured somewhere else."""
    now = read_object(folder.one_line(host.facts()))
    for path, was, current in _differences(result.host, {name: now[name] for name in now if name not in FREE}):
        raise UsageFault(f"{result.folder}: cannot resume: {path} was “{was}” and is “{current}”; {ADVICE}")
    return {name: value for name, value in result.host.items() if name != "format"}


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Facts that differ between both; facts that the folder lacks are skipped."""
    for name, value in now.items():
        if name in before and before[name] != value:
            if isinstance(value, dict) and isinstance(before[name], dict):
                yield from _differences(before[name], value, f"{within}{name}.")
            else:
                yield f"{within}{name}", before[name], value


def _first_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    return next((name for name in {**before, **now} if before.get(name) != now.get(name)), None)


def _shown(study: Study | FailoverStudy) -> dict[str, Any]:
    """As study.toml has it."""
    found: dict[str, Any] = folder.plain(study.model_dump(mode="json", exclude={"resolved"}))
    return found
