# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A study measured in a guest, by the clock. Its trials are in the host's folder as soon as they are made."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import tomli_w

import diolkos_lab
from diolkos_lab import run_study
from diolkos_lab.experiment.definition import Study
from diolkos_lab.experiment.length import expected_of_form_s
from diolkos_lab.faults import Fault, MissingFault, UsageFault
from diolkos_lab.guest.image import busybox
from diolkos_lab.guest.inside_run import FAULT
from diolkos_lab.guest.machine import BOOTS, PATIENCE_BOOT, Acceleration, CommandFailed, Failed, Guest, boot
from diolkos_lab.guest.preparing import Prepared, cache, work_folder
from diolkos_lab.samples.folder import plain
from diolkos_lab.sut.lookup import CLONE

SOURCE = Path(diolkos_lab.__file__).parents[1]
SLOWNESS = 6  # of programs on an emulated processor
BUDGET = 3  # times the study's: each build of the lanes takes longer
LIMIT, LIMIT_S = 10, 3600.0  # times the expected length, and more: a guest that takes longer has stopped working
KVM_BOOT_S = 10.0
KVM = Path("/dev/kvm")


def measure(prepared: Prepared, request: run_study.RunRequest, say: Callable[[str], None]) -> None:
    """Write the result folder. Raises the fault that the lab in the guest ended with."""
    with work_folder(prepared.kernel) as folder:
        for acceleration in ways():
            guest = Guest(
                prepared.kernel,
                CLONE,
                busybox(prepared.packages),
                folder,
                prepared.out,
                (SOURCE, Path(sys.prefix), Path(sys.base_prefix), *(Path(path).parent for path in prepared.paths.values())),
                acceleration,
            )
            _write_request(prepared, request, guest)
            try:
                _run(guest, prepared, request, say)
                return
            except Unbootable:
                remember()
                say("KVM is here, but starts no guest: its processor is emulated instead")


class Unbootable(Fault):
    """KVM does not start a guest; another way is left."""


def _run(guest: Guest, prepared: Prepared, request: run_study.RunRequest, say: Callable[[str], None]) -> None:
    how = "KVM" if guest.acceleration == "KVM" else "an emulated processor (TCG); only ratios say something"
    say(f"Linux {guest.kernel.release} boots on {how}")
    expected_s = expected_of_form_s(prepared.study, request.form_name)
    boots, patience = (1, KVM_BOOT_S) if guest.acceleration == "KVM" else (BOOTS, PATIENCE_BOOT)
    limit = LIMIT * expected_s + LIMIT_S
    fault = ""
    try:
        for line in boot(guest.qemu(), guest.folder / "console", limit, boots, patience):
            if line.startswith(FAULT):
                fault = line.removeprefix(FAULT)
            else:
                say(line)
    except CommandFailed as ended:
        kind = {2: UsageFault, 3: MissingFault}.get(ended.status, Fault)
        raise kind(f"in the guest: {fault}" if fault else f"{ended}; see {guest.folder / 'console'}") from ended
    except Failed as failed:
        if guest.acceleration == "KVM" and "did not boot" in str(failed):
            raise Unbootable(str(failed)) from failed
        raise


def _write_request(prepared: Prepared, request: run_study.RunRequest, guest: Guest) -> None:
    """What the lab in the guest is asked to do."""
    emulated = guest.acceleration == "TCG"
    modules = prepared.jool
    told = {
        "study": "/run/results/study.toml",
        "quick": request.quick,
        "form": request.form_name,
        "only": list(request.only),
        "out": str(prepared.out),
        "seed": request.seed,
        "paths": dict(prepared.paths),
        "facts": prepared.facts_for(guest.acceleration),
        "reasons": dict(prepared.reasons),
        "modules": [str(file) for file in modules.modules] if modules else [],
        "needs": modules.needs if modules else [],
    }
    environment = {"PYTHONPATH": str(SOURCE), "DIOLKOS_LAB_SLOWNESS": str(SLOWNESS if emulated else 1)}
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    guest.prepare(f"exec env {settings} {shlex.quote(sys.executable)} -P -m diolkos_lab.guest.inside_run")
    (guest.results / "request.json").write_text(json.dumps(told))
    longer = _longer(prepared.study, BUDGET if emulated else 1)
    (guest.results / "study.toml").write_text(tomli_w.dumps(plain(longer.model_dump(mode="json"))))


def _longer(study: Study, times: float) -> Study:
    forms = {
        name: form.model_copy(update={"time_budget_s": form.time_budget_s and form.time_budget_s * times})
        for name, form in study.form.items()
    }
    return study.model_copy(update={"form": forms})


# ---- KVM, which may be there and not work


def ways() -> list[Acceleration]:
    """How a guest's processor can be had here, the best first."""
    works = os.access(KVM, os.R_OK | os.W_OK) and not (_note().exists() and _note().read_text() == _this_boot())
    return ["KVM", "TCG"] if works else ["TCG"]


def remember() -> None:
    """KVM started no guest: until this host boots again, nobody waits for it."""
    _note().parent.mkdir(parents=True, exist_ok=True)
    _note().write_text(_this_boot())


def _note() -> Path:
    return cache() / "kvm-starts-no-guest"


def _this_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text()
