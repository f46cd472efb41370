# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos-lab run failover`: from the study to its result folder.

Stages: is everything here? → trials in random order within each repetition → records after each → report.
"""

import contextlib
import os
import random
import shutil
import sys
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from diolkos_lab import open_folder
from diolkos_lab.experiment.definition import FormName
from diolkos_lab.failover import definition, engine, judge, records, report, routing, trial
from diolkos_lab.failover.definition import FailoverForm, FailoverStudy
from diolkos_lab.failover.records import Records
from diolkos_lab.failover.trial import Planned
from diolkos_lab.faults import Fault, Interrupted, MissingFault, UsageFault
from diolkos_lab.report.quantities import count
from diolkos_lab.samples import host
from diolkos_lab.sut.lookup import BESIDE
from diolkos_lab.topology import leftovers, scratch
from diolkos_lab.topology.machine import THIS_MACHINE

Say = Callable[[str], None]
OTHERS = {"curl": "apt-get install curl", "iperf3": "apt-get install iperf3", "openssl": "apt-get install openssl"}

VERSIONS = {"frr": [str(routing.DAEMONS / "bgpd"), "--version"], "etcd": ["etcd", "--version"]}


def run(study: FailoverStudy, form_name: FormName, out: Path | None, seed: int | None, program: str | None, say: Say) -> Path:
    """Measure it. Returns the page of the report. Leaves nothing on the host, however it ends."""
    form = definition.form_named(study, form_name)
    binary = _program(program)
    if missing := lacks():
        raise MissingFault("; ".join(f"{name} is missing: {how}" for name, how in missing.items()))
    if os.geteuid() != 0:
        raise MissingFault("the study failover makes network namespaces: run it as root")
    folder = out or Path("results") / f"failover-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    plan = order(study, form, seed)
    with contextlib.closing(records.claim(folder)) as opened:
        opened.lock()
        found = Records(study, form_name, seed, host.facts() | _facts_of_run(binary))
        found.write(opened)  # a run that is ended before its first trial is known as one
        leftovers.clean()
        minutes = max(1, round(expected_min(study, form)))
        say(f"{study.name}: {count(len(plan), 'trial')}, about {count(minutes, 'minute')}, to {folder}")
        try:
            with scratch.folder() as work:
                todo, number = deque(plan), 0
                while todo:
                    planned, number = todo.popleft(), number + 1
                    row = trial.run(study, found.traffic, planned, binary, work / f"trial-{number}")
                    found.rows.append(row)
                    found.write(opened)
                    # What it brought is not asked. Where everything is disturbed, the run comes to an end all the same.
                    if judge.is_disturbed(row) and planned.attempt < trial.TRIES and number + len(todo) < 2 * len(plan):
                        todo.append(replace(planned, attempt=planned.attempt + 1))
                    say(f"{number}/{number + len(todo)} {planned.kind}, {planned.fault.name}: {_in_words(row)}")
        except Interrupted as interrupted:
            interrupted.add_note(
                f"Stopped after {found.done} of {len(plan)} trials, which are kept in {folder} "
                f"(`diolkos-lab report {folder}` evaluates them; `diolkos-lab merge` adds those of another run)."
            )
            raise
        if all(row.get("error") for row in found.rows):
            raise Fault(f"no trial came to its end: {found.rows[0]['error']}")
        return report.write(found, opened)


def _facts_of_run(binary: Path) -> dict[str, Any]:
    """What tells runs and builds apart. The digest tells two builds apart that call themselves the same version."""
    return {
        "run": str(uuid.uuid4()),
        "command_line": sys.argv,
        "systems": {
            "diolkos": {
                "binary": str(binary),
                "version": host.version([str(binary), "--version"]),
                "sha256": THIS_MACHINE.digest(binary),
            }
        },
        "versions": {**host.versions(), **{name: host.version(command) for name, command in VERSIONS.items()}},
    }


def order(study: FailoverStudy, form: FailoverForm, seed: int) -> list[Planned]:
    """Every kind of gateway with every fault once in each repetition, in random order."""
    chance = random.Random(seed)
    plan: list[Planned] = []
    for repetition in range(form.repetitions):
        block = [Planned(kind, fault, repetition, seed) for kind in form.gateways for fault in study.faults_of(form, kind)]
        chance.shuffle(block)
        plan += block
    return plan


def expected_min(study: FailoverStudy, form: FailoverForm) -> float:
    """Minutes that it takes: what traffic takes, and 40 s for building and evaluating."""
    of_one = [fault.after_s + study.traffic.before_s + 40 for kind in form.gateways for fault in study.faults_of(form, kind)]
    return form.repetitions * sum(of_one) / 60


def lacks() -> dict[str, str]:
    """Programs that are not here, with how to get them."""
    others = {name: how for name, how in OTHERS.items() if not shutil.which(name)}
    return {**routing.missing(), **engine.missing(), **others}


def show(console: Console) -> None:
    """The studies of this kind, and what they lack."""
    for name in definition.shipped():
        study = definition.load(name)
        if study is None:
            continue
        forms = ", ".join(f"{form}: {expected_min(study, each):.0f} min" for form, each in study.form.items())
        console.print(f"{name}: {study.title} ({forms})", highlight=False, soft_wrap=True)
        for missing, how in lacks().items():
            console.print(f"[red]✗[/] needed for {name}: {missing}: {how}")


def again(folder: Path) -> Path:
    """The report of a folder once more. Raises UsageFault."""
    found = records.require_trials(folder, records.read(folder))
    with contextlib.closing(open_folder.to_write(folder)) as opened:
        return report.write(found, opened)


def _program(given: str | None) -> Path:
    found = given or shutil.which("diolkos") or _beside()
    if not found or not Path(found).exists():
        raise UsageFault("the program diolkos is not found: `make build` makes it, or name it by --diolkos FILE")
    return Path(found).absolute()


def _beside() -> str | None:
    """That of a clone."""
    built = BESIDE / "diolkos"
    return str(built) if built.exists() else None


def _in_words(row: dict[str, object]) -> str:
    if row.get("error"):
        return f"the lab failed: {row['error']}"
    gap = row["gap_s"]
    words = [f"{row['kept']} of {row['established']} flows go on", f"gap {f'{gap} s' if gap is not None else 'without end'}"]
    words += [str(row["lost"])] if row.get("lost") else []
    words += [str(each) for each in _guards(row)]
    return ", ".join(words)


def _guards(row: dict[str, object]) -> Sequence[object]:
    guards = row.get("guards")
    return guards if isinstance(guards, list) else []
