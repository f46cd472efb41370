# SPDX-License-Identifier: Apache-2.0 OR MIT
"""summary.json: all that a run says, made from the result folder alone, so that it can be made again at any time."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from diolkos_lab import curves, every_trial, instructions, open_folder, procedures
from diolkos_lab.experiment.definition import Study
from diolkos_lab.outcome import INSTRUMENT, Outcome, outcome
from diolkos_lab.samples import folder
from diolkos_lab.samples.contents import FORMAT
from diolkos_lab.samples.counting import counted
from diolkos_lab.stats import rows, untrusted
from diolkos_lab.stats.pairing import Samples
from diolkos_lab.verdict import asked, decided, of_family


def summarize(result: folder.AnyResult) -> dict[str, Any]:
    """Shape as in the design; every median and interval in SI units, null where there is none."""
    return _of_faults(result) if isinstance(result, folder.FailoverResult) else _of_lanes(result)


def _of_both(result: folder.AnyResult) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "study": result.study.name,
        "quick": result.header.get("quick", False),
        "form": folder.form_of(result.header),
        "generated": datetime.now(UTC).isoformat(timespec="seconds"),
        "trials": counted(result.trials),
        "missing": result.header.get("missing", []),
        "skipped": result.host.get("skipped") or [],
        "failures": failures(result.trials),
        "instrument_failures": instrument_failures(result.trials),
        "distrusted": objections_by_guard(result.trials),
    }


def _of_faults(result: folder.FailoverResult) -> dict[str, Any]:
    """What each fault does, and what became of the rules about every trial. No path is compared with another."""
    judged = every_trial.judge(result.study, result.trials)
    nothing: dict[str, list[Any]] = {name: [] for name in ("rows", "untrusted", "curves", "procedures", "instructions")}
    return {
        **_of_both(result),
        "answer": every_trial.answer(judged),
        "verdicts": every_trial.verdicts(judged),
        "faults": every_trial.rows(result.trials),
        "family": None,
        "noise_floor": {"rows": []},
        **nothing,
    }


def _of_lanes(result: folder.Result) -> dict[str, Any]:
    found = gathered(result)
    samples = sampled(result, found)
    missing = result.header.get("missing", [])
    why = {entry["system"]: entry["reason"] for entry in missing if "level" not in entry}
    rules = asked(result.study, samples, why)
    merged = {"hosts": samples.hosts, "runs": samples.runs} if samples.runs > 1 else None
    kernel = {"kernel": result.host.get("kernel")}
    found_rows = [{**kernel, **row} for row in rows.rows(result.study, samples)]  # of merged runs, a row may have its own
    return {
        **_of_both(result),
        "verdicts": decided(rules),
        "family": of_family(rules),
        "noise_floor": rows.noise_floor(result.study, samples),
        "merged": merged,
        "rows": found_rows,
        "instructions": instructions.entries(found_rows),
        "untrusted": untrusted.entries(result.study, samples),
        "curves": curves.entries(found),
        "procedures": procedures.entries(gathered_procedures(result)),
    }


def sampled(result: folder.Result, found: Sequence[curves.Measured]) -> Samples:
    """All figures of a run by cell: of trials, of procedures, and of the curves found."""
    return Samples(
        (trial for trial in procedures.replace_trials_by_rates(result.trials) if trial["load"] != curves.LOAD), found
    )


def gathered(result: folder.Result) -> list[curves.Measured]:
    """The load–loss curves of a run, in the order of the study's systems."""
    return in_order(curves.gather(result.trials, result.host.get("generator") or []), result.study)


def in_order(found: Sequence[curves.Measured], study: Study) -> list[curves.Measured]:
    """Curves in the order of the study's systems."""
    order = {subject.key: number for number, subject in enumerate(study.system)}
    return sorted(found, key=lambda curve: (order.get(curve.setting.subject, len(order)), curve.setting.replica))


def gathered_procedures(result: folder.Result) -> list[procedures.Found]:
    """What the procedures of a run found, in the order of the study's systems, then by frame size."""
    order = {subject.key: number for number, subject in enumerate(result.study.system)}

    def place(each: procedures.Found) -> tuple[int, int, int]:
        return order.get(each.setting.subject, len(order)), each.setting.size, each.setting.replica

    return sorted(procedures.gather(result.trials, result.host.get("generator") or []), key=place)


def write(result: folder.AnyResult) -> dict[str, Any]:
    summary = summarize(result)
    with open_folder.to_write(result.folder) as opened:
        folder.write_json(opened, "summary.json", summary)
    return summary


def failures(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Trials in which the system failed, those with the same reason counted together. The warm-up counts too."""
    return _by_reason((trial, trial["error"]) for trial in trials if trial["error"])


def instrument_failures(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of trials in which what measures failed, which are nobody's result."""
    broken = (trial for trial in trials if outcome(trial) is Outcome.INSTRUMENT_FAILED)
    return _by_reason(
        (trial, next(each["detail"] for each in trial["distrust"] if each["guard"] == INSTRUMENT)) for trial in broken
    )


def _by_reason(trials: Iterable[tuple[dict[str, Any], str]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for trial, reason in trials:
        path = {name: trial[name] for name in ("system", "datapath", "family", "hops")}
        key = (*map(str, path.values()), reason)
        entry = found.setdefault(key, path | {"reason": reason, "trials": 0, "first_block": trial["block"]})
        entry["trials"] += 1
    return list(found.values())


def objections_by_guard(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many trials each guard objected to, warm-up excluded, with one of its sentences."""
    found: dict[str, dict[str, Any]] = {}
    for trial in trials:
        if trial["block"]:
            for objection in trial["distrust"]:
                entry = found.setdefault(objection["guard"], {"guard": objection["guard"], "trials": 0, "example": ""})
                entry["trials"] += 1
                entry["example"] = objection["detail"]
    return sorted(found.values(), key=lambda entry: -entry["trials"])
