# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos-lab run failover`: from the study to its result folder.

Stages: is everything here? → trials in random order within each repetition → a line of samples.jsonl after each.
"""

import contextlib
import os
import random
import shutil
import sys
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diolkos_lab.every_trial import figure
from diolkos_lab.experiment.definition import FormName
from diolkos_lab.experiment.failover import FailoverForm, FailoverStudy
from diolkos_lab.failover import engine, routing, trial
from diolkos_lab.failover.trial import Planned
from diolkos_lab.faults import Fault, Interrupted, MissingFault, UsageFault
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.report.quantities import count
from diolkos_lab.samples import folder, host
from diolkos_lab.sut.lookup import BESIDE
from diolkos_lab.topology import leftovers, scratch
from diolkos_lab.topology.machine import THIS_MACHINE

Say = Callable[[str], None]
OTHERS = {"curl": "apt-get install curl", "iperf3": "apt-get install iperf3", "openssl": "apt-get install openssl"}
VERSIONS = {"frr": [str(routing.DAEMONS / "bgpd"), "--version"], "etcd": ["etcd", "--version"]}


def measure(
    study: FailoverStudy, form_name: FormName, out: Path | None, seed: int | None, program: str | None, say: Say
) -> Path:
    """Returns the result folder. Leaves nothing on the host, however it ends."""
    if form_name not in study.form:
        raise UsageFault(f"the study {study.name} has no {form_name} form; there are {', '.join(study.form)}")
    form = study.form[form_name]
    binary = _program(program)
    if missing := lacks():
        raise MissingFault("; ".join(f"{name} is missing: {how}" for name, how in missing.items()))
    if os.geteuid() != 0:
        raise MissingFault("the study failover makes network namespaces: run it as root")
    out = out or Path("results") / f"{study.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    system = facts_of(binary)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    header = {"form": form_name, "quick": form_name == "quick", "seed": seed, "started": started, "missing": []}
    facts = host.facts() | {"run": str(uuid.uuid4()), "date": started, "seed": seed, "command_line": sys.argv}
    facts |= {"form": form_name, "systems": {"diolkos": system}}
    facts["versions"] = {**host.versions(), **{name: host.version(command) for name, command in VERSIONS.items()}}
    writer = folder.Writer(out, study, {"diolkos": system}, header)
    run_planned(study, form, left(order(study, form, seed), []), binary, writer, facts, say)
    return out


def facts_of(binary: Path) -> dict[str, str | None]:
    """The digest tells two builds apart that call themselves the same version."""
    return {
        "binary": str(binary),
        "version": host.version([str(binary), "--version"]),
        "sha256": THIS_MACHINE.digest(binary),
    }


def run_planned(
    study: FailoverStudy,
    form: FailoverForm,
    todo: list[Planned],
    binary: Path,
    writer: folder.Writer,
    facts: Mapping[str, Any],
    say: Say,
) -> None:
    """All trials that are left, and those again that decide nothing. Leaves nothing on the host, however it ends."""
    whole = writer.trials + len(todo)
    with contextlib.closing(writer):
        writer.host({**facts, "complete": False})  # a run that is ended before its first trial is known as one
        leftovers.clean()
        minutes = max(1, round(study.expected_s(form) / 60 * len(todo) / study.trials_of(form)))
        say(f"{study.name}: {count(len(todo), 'trial')}, about {count(minutes, 'minute')}, to {writer.folder}")
        try:
            _trials(study, form, todo, binary, writer, say)
        except Interrupted as interrupted:
            where = writer.folder
            interrupted.add_note(
                f"Stopped after {count(writer.trials, 'trial')} of {whole}, which are kept in {where} "
                f"(`diolkos-lab report {where}` evaluates them, `diolkos-lab run --resume {where}` resumes the run)."
            )
            raise
        writer.host({**facts, "complete": True})


def _trials(
    study: FailoverStudy, form: FailoverForm, plan: list[Planned], binary: Path, writer: folder.Writer, say: Say
) -> None:
    flows, most = study.traffic_of(form), 2 * study.trials_of(form)
    todo, first, broken = deque(plan), writer.trials, []
    with scratch.folder() as work:
        while todo:
            planned = replace(todo.popleft(), number=writer.trials)
            found = trial.run(study, flows, planned, binary, work / f"trial-{planned.number}")
            writer.record(found)
            broken += [found["distrust"][0]["detail"]] if outcome(found) is Outcome.INSTRUMENT_FAILED else []
            # What it brought is not asked. Where everything is disturbed, the run comes to an end all the same.
            if not outcome(found).counts and planned.attempt < trial.TRIES and writer.trials + len(todo) < most:
                todo.append(replace(planned, attempt=planned.attempt + 1))
            done = f"{writer.trials}/{writer.trials + len(todo)}"
            say(f"{done} {planned.kind}, {planned.fault.name}: {_in_words(found)}")
    if broken and len(broken) == writer.trials - first:
        raise Fault(f"no trial came to its end: {broken[0]}")


def left(plan: Sequence[Planned], made: Sequence[Mapping[str, Any]]) -> list[Planned]:
    """Of a plan, what has not decided anything and may be tried again."""
    found = []
    for planned in plan:
        key = planned.kind, planned.fault.name, planned.repetition + 1
        mine = [each for each in made if (each["datapath"], each["factors"]["fault"], each["block"]) == key]
        if len(mine) < trial.TRIES and not any(outcome(each).counts for each in mine):
            found.append(replace(planned, attempt=len(mine) + 1))
    return found


def order(study: FailoverStudy, form: FailoverForm, seed: int) -> list[Planned]:
    """Every kind of gateway with every fault once in each repetition, in random order."""
    chance = random.Random(seed)
    plan: list[Planned] = []
    for repetition in range(form.repetitions):
        block = [Planned(kind, fault, repetition, seed) for kind in form.gateways for fault in study.faults_of(form, kind)]
        chance.shuffle(block)
        plan += block
    return plan


def lacks() -> dict[str, str]:
    """Programs that are not here, with how to get them."""
    others = {name: how for name, how in OTHERS.items() if not shutil.which(name)}
    return {**routing.missing(), **engine.missing(), **others}


def _program(given: str | None) -> Path:
    beside = BESIDE / "diolkos"  # of a clone
    found = given or shutil.which("diolkos") or beside
    if not Path(found).exists():
        raise UsageFault("the program diolkos is not found: `make build` makes it, or name it by --diolkos FILE")
    return Path(found).absolute()


def _in_words(found: dict[str, Any]) -> str:
    if outcome(found) is Outcome.INSTRUMENT_FAILED:
        return f"the lab failed: {found['distrust'][0]['detail']}"
    gap = found["metrics"].get("gap_s", "without end")
    words = [f"{found['metrics']['kept']:.0f} of {found['metrics']['established']:.0f} flows go on", f"gap {gap}"]
    words[1] += " s" if figure(found, "gap_s") == gap else ""
    return ", ".join([*words, *filter(None, [found["error"]]), *(each["detail"] for each in found["distrust"])])
