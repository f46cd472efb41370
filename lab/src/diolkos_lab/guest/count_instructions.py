# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Instructions per packet of every system of a study, counted in a guest whose clock counts instructions.

study ─► loads that can be counted ─► archive ─► guest ─► its lines ─► result folder
"""

from __future__ import annotations

import json
import shlex
import sys
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diolkos_lab import run_study
from diolkos_lab.experiment.cells import LaneCell, TrialCell, lane_cells
from diolkos_lab.experiment.definition import Form, FormName, Study
from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.guest import memory_image
from diolkos_lab.guest.counted import CountedLoad, counted_loads, load_name
from diolkos_lab.guest.image import busybox, vmlinux
from diolkos_lab.guest.inside_count import RESULT
from diolkos_lab.guest.machine import EMULATED_CPU, KERNEL_LINE, MACHINE, boot
from diolkos_lab.guest.preparing import Prepared, work_folder
from diolkos_lab.run.trial import Trial
from diolkos_lab.samples import folder, host
from diolkos_lab.sut import definition, offer
from diolkos_lab.sut.lookup import program

MEMORY = "3G"
# One processor, whose clock goes on by a nanosecond with each instruction and does not wait where nothing is to be done.
COUNTING = ("-accel", "tcg,thread=single,tb-size=512", "-smp", "1", "-icount", "shift=0,sleep=off")
PROGRAMS = (
    *("iperf3", "ping", "nft", "nsenter", "setpriv", "taskset", "chrt", "env", "dash"),
    *("diolkos-pktgen", "ip", "tc", "ethtool"),
)
BLOCKS = 4  # with the warm-up: of three figures, one that is far off does not move the median
LIMIT_S = 3600.0
SLOWNESS = 20  # of an emulated processor that also waits for the verifier of BPF, in its own seconds


def count(prepared: Prepared, request: run_study.RunRequest, say: Callable[[str], None]) -> None:
    """Write the result folder, trial by trial."""
    study = counted(prepared.study, request.form_name)
    form = study.form[request.form_name]
    with work_folder(prepared.kernel) as place:
        _write(prepared, study, form, place)
        say(f"Linux {prepared.kernel.release} boots on an emulated processor whose clock counts instructions")
        _read(prepared, request, study, form, place, say)


def counted(study: Study, form_name: FormName) -> Study:
    """The same systems under the loads of a form that can be counted."""
    loads = counted_loads(study.form[form_name].load)
    if not loads:
        raise UsageFault(
            f"--count-instructions: the study {study.name} sends no TCP, no UDP with GSO, and no packets without a limit; "
            "clat, siit, nat64 and peers do"
        )
    names = {load.name for load in loads}
    subjects = tuple(
        subject.model_copy(update={"twin": False, "loads": mine, "forms": ()})
        for subject in offer.with_factor_levels(study, definition.load_all()).system
        if (mine := tuple(each for each in subject.loads if each in names))
    )
    form = Form(blocks=BLOCKS, build_blocks=0, load=loads)
    return study.model_copy(update={"system": subjects, "form": {form_name: form}, "claim": ()})


def qemu(place: Path) -> list[str]:
    """How QEMU is called."""
    return [
        *("qemu-system-x86_64", "-M", "microvm", *COUNTING, *EMULATED_CPU, "-m", MEMORY, *MACHINE),
        *("-kernel", str(place / "vmlinux"), "-initrd", str(place / "initramfs")),
        *("-append", " ".join([*KERNEL_LINE, "random.trust_cpu=on"])),
    ]


def _write(prepared: Prepared, study: Study, form: Form, place: Path) -> None:
    systems = definition.load_all()
    paths: dict[str, str] = {}
    for name in {subject.system for subject in study.system}:
        wanted = systems[name].binary
        if wanted and (path := program(wanted, prepared.paths.get(name), None)):
            paths[name] = str(path)
    tools = [path for name in PROGRAMS if (path := program(name, None, None))]
    told = {
        "study": study.model_copy(update={"form": {"quick": form}}).model_dump_json(),
        "paths": paths,
        "reasons": dict(prepared.reasons),
    }
    built = prepared.jool
    request = place / "request.json"
    request.write_text(json.dumps(told))
    environment = {
        "PYTHONPATH": ":".join(dict.fromkeys([str(memory_image.SOURCE), *(p for p in sys.path if "-packages" in p)])),
        "PYTHONHASHSEED": "0",
        "DIOLKOS_LAB_SLOWNESS": str(SLOWNESS),
        "LC_ALL": "C",
        "HOME": "/",
    }
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    command = f"exec env {settings} {memory_image.INTERPRETER} -P -S -m diolkos_lab.guest.inside_count"
    mine = [Path(path) for name, path in paths.items() if not (built and name in built.programs)]
    (place / "vmlinux").write_bytes(vmlinux(prepared.kernel.image))
    (place / "initramfs").write_bytes(
        memory_image.archive(
            prepared.kernel,
            busybox(prepared.packages),
            [*tools, *mine],
            built.files if built else [],
            built.modules if built else [],
            built.needs if built else [],
            command,
            request.read_bytes(),
        )
    )


def _read(
    prepared: Prepared, request: run_study.RunRequest, study: Study, form: Form, place: Path, say: Callable[[str], None]
) -> None:
    cells = {cell.name: cell for cell in lane_cells(study, form, {subject.system for subject in study.system})}
    loads = {load_name(load): load for load in form.load if isinstance(load, CountedLoad)}
    missing: list[dict[str, str]] = []
    writer: folder.Writer | None = None
    facts: dict[str, Any] = {}
    number = 0
    try:
        for line in boot(qemu(place), place / "console", LIMIT_S):
            found = _parse_line(line)
            if found is None:
                say(line)
            elif "missing" in found:
                missing += _missing(study, found)
                say(f"  without {found['missing']}: {found['reason']}")
            elif "systems" in found:
                writer, facts = _writer(prepared, request, study, found["systems"], missing)
            elif writer:
                trial = _trial(cells[found["cell"]], loads[found["load"]], found, number)
                writer.add(trial)
                number += 1
                if trial.error or trial.block == BLOCKS - 1:
                    say(_as_printed(trial))
        if writer:
            writer.host(facts | {"complete": True})
    finally:
        if writer:
            writer.close()
    if writer is None or not number:
        raise Fault(f"the guest counted nothing; its last words are in {place / 'console'}")


def _parse_line(line: str) -> dict[str, Any] | None:
    """What a line of the guest's program says; None for the kernel's lines, and for one that the kernel spoke into."""
    try:
        found: dict[str, Any] | None = json.loads(line.removeprefix(RESULT)) if line.startswith(RESULT) else None
    except ValueError:
        return None
    return found


def _writer(
    prepared: Prepared, request: run_study.RunRequest, study: Study, systems: Mapping[str, Any], missing: list[dict[str, str]]
) -> tuple[folder.Writer, dict[str, Any]]:
    """The folder, and what its host.json says so far."""
    known = definition.load_all()
    resolved = {
        name: {"binary": binary, "version": version, "definition": known[name].model_dump(mode="json", exclude_defaults=True)}
        for name, (binary, version) in systems.items()
    }
    started = datetime.now(UTC).isoformat(timespec="seconds")
    form = {"quick": request.form_name == run_study.QUICK, "form": request.form_name}
    header = {**form, "seed": request.seed or 0, "started": started, "missing": missing}
    writer = folder.Writer(prepared.out, study, resolved, header)
    whole = host.facts()
    mine = ("architecture", "distribution", "cpu_model", "python", "versions")
    facts = prepared.facts_for("TCG")
    told = {
        **{name: whole.get(name) for name in mine},
        **facts,
        "guest": {**facts["guest"], "clock": "instructions", "memory": MEMORY},
        "kernel": prepared.kernel.release,
        "cores": 1,
        "virtualisation": "QEMU",
        "run": str(uuid.uuid4()),
        "date": started,
        **form,
        "systems": {name: {"binary": binary, "version": version} for name, (binary, version) in systems.items()},
        "complete": False,
    }
    writer.host(told)
    return writer, told


def _trial(cell: LaneCell, load: CountedLoad, found: Mapping[str, Any], number: int) -> Trial:
    error = found.get("error")
    return Trial(
        block=found["block"],
        order=number,
        cell=TrialCell(cell, load),
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        duration_s=found.get("duration", 0.0),
        error=error,
        metrics={} if error else {"instructions": found["instructions"], "received": found["received"]},
    )


def _missing(study: Study, found: Mapping[str, str]) -> list[dict[str, str]]:
    """What `found` says, of each datapath; of one level of a factor the guest names the datapath too."""
    paths = [subject.datapath for subject in study.system if subject.system == found["missing"]]
    level = {name: found[name] for name in ("factor", "level") if name in found}
    return [
        {"system": found["missing"], "datapath": path, "reason": found["reason"], "how": found["how"], **level}
        for path in dict.fromkeys([found["datapath"]] if "datapath" in found else paths)
    ]


def _as_printed(trial: Trial) -> str:
    subject, load = trial.cell.lane.subject, trial.cell.load
    assert isinstance(load, CountedLoad)
    said = f"failed: {trial.error}" if trial.error else f"{trial.metrics['instructions']:.0f} instructions per packet"
    return f"  {subject.system} {subject.datapath}, {subject.family}, {load_name(load)}: {said}"
