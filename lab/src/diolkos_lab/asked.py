# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the command line makes of a study: --only, systems of the user's own, --blocks, --seconds, --hours.

Study as written → of the form → systems and loads asked for → length. All of it before the host is looked at, save --hours.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from diolkos_lab.experiment.cells import lane_cells, trial_cells, under
from diolkos_lab.experiment.definition import Form, FormName, Load, Study, Subject
from diolkos_lab.experiment.length import expected_of_cells_s
from diolkos_lab.faults import UsageFault
from diolkos_lab.sut.definition import Catalogue

NATIVE = "native"
LEAST_BLOCKS = 7  # an interval needs six, and the first warms up


@dataclass(frozen=True)
class Length:
    """How much of a form is measured; None leaves what the study says."""

    blocks: int | None = None
    seconds: float | None = None
    hours: float | None = None

    def __bool__(self) -> bool:
        return (self.blocks, self.seconds, self.hours) != (None, None, None)


def study(given: Study, form: FormName, only: Sequence[str], known: Catalogue, length: Length) -> Study:
    """The study of one form, with what is asked for and native paths to compare it with. Raises UsageFault."""
    found = limited(_with_own(given, only, known).of_form(form), form, only)
    return _with_form(found, form, _shaped(found.form[form], length))


def undefined(of: Study, known: Catalogue) -> Subject | None:
    """The first system of the study that nobody defines. Raises the UsageFault of a file that should and is faulty."""
    for subject in of.system:
        system = known.require(subject.system)
        if system is None or subject.datapath not in system.datapath:
            return subject
    return None


def limited(of: Study, form: FormName, only: Sequence[str]) -> Study:
    """With --only: the systems, datapaths and loads asked for, and native paths that have as many hops as one of them."""
    if not only:
        return of
    loads = {load.name for load in of.form[form].load} & set(only)
    paths = [name for name in only if name not in loads]
    for name in paths:
        if not any(_is(subject, name) for subject in of.system):
            raise UsageFault(
                f"--only {name}: not a system of the study {of.name}, nor a datapath or a load of it; {_choice(of, form)}"
            )
    if loads:
        left = tuple(load for load in of.form[form].load if load.name in loads)
        of = _with_form(of, form, of.form[form].model_copy(update={"load": left}))
        claims = tuple(claim for claim in of.claim if loads.issuperset(claim.loads))
        systems = tuple(subject for subject in of.system if loads & set(subject.loads))
        of = of.with_systems(systems).model_copy(update={"claim": claims})
    if not paths:
        return of
    chosen = [subject for subject in of.system if any(_is(subject, name) for name in paths)]
    if not chosen:
        raise UsageFault(f"--only {' --only '.join(only)}: {paths[0]} has none of these loads in the study {of.name}")
    hops = {subject.hops for subject in chosen}
    every = NATIVE in only
    kept = [
        subject for subject in of.system if subject in chosen or (subject.system == NATIVE and (every or subject.hops in hops))
    ]
    return of.with_systems(tuple(kept))


def names_system(only: Sequence[str], name: str) -> bool:
    """Does --only name this system, so that no run begins without it?"""
    return any(each.partition("/")[0] == name for each in only)


def fitting(of: Study, form: FormName, systems: Collection[str], hours: float | None) -> Study:
    """With as many blocks as the systems that are here can have in this time. Raises UsageFault where there are too few."""
    if hours is None:
        return of
    plain = of.form[form].model_copy(update={"claim_blocks": 0, "wide_blocks": 0, "time_budget_s": None})
    cells = trial_cells(plain, under(plain.vary.settings, lane_cells(of, plain, systems)))

    def expected_s(blocks: int) -> float:
        return expected_of_cells_s(of, plain.model_copy(update={"blocks": blocks}), cells)

    first, more = expected_s(2), expected_s(3) - expected_s(2)
    blocks = 2 + int((hours * 3600 - first) // more) if more > 0 else plain.blocks
    if blocks < LEAST_BLOCKS:
        least = expected_s(LEAST_BLOCKS) / 3600
        raise UsageFault(
            f"--hours {hours:g}: too short for the {form} form of {of.name}, which needs {least:.2g} hours for {LEAST_BLOCKS} "
            "blocks (an interval needs six and a warm-up); choose with --only, or shorten trials with --seconds"
        )
    return _with_form(of, form, plain.model_copy(update={"blocks": blocks, "time_budget_s": hours * 3600.0}))


def _with_own(of: Study, only: Sequence[str], known: Catalogue) -> Study:
    """With systems that the study does not list, where --only names them: beside the ones that they say they are like."""
    listed = {subject.system for subject in of.system}
    own: list[Subject] = []
    for name in dict.fromkeys(each.partition("/")[0] for each in only):
        if name in listed or (system := known.require(name)) is None:
            continue
        for path, datapath in system.datapath.items():
            own += [
                subject.model_copy(update={"system": name, "datapath": path, "factors": {}, "twin": False})
                for subject in of.system
                if f"{subject.system}/{subject.datapath}" == datapath.like
            ]
        if not any(subject.system == name for subject in own):
            wants = sorted({datapath.like for datapath in system.datapath.values() if datapath.like})
            there = ", ".join(dict.fromkeys(f"{subject.system}/{subject.datapath}" for subject in of.system))
            said = f"is like {' and '.join(wants)}" if wants else 'has no line `like = "SYSTEM/DATAPATH"`'
            raise UsageFault(f"--only {name}: not a system of the study {of.name}, and it {said}; the study has {there}")
    return of.model_copy(update={"system": (*of.system, *dict.fromkeys(own))})


def _is(subject: Subject, name: str) -> bool:
    """`tayga`, `tayga/siit`, `siit-direct`, or a word of a datapath's name, as the placement `direct`."""
    whole = (subject.system, f"{subject.system}/{subject.datapath}", subject.datapath, subject.key)
    return name in whole or name in subject.datapath.split("-")


def _choice(of: Study, form: FormName) -> str:
    def every(names: Collection[str]) -> str:
        return ", ".join(dict.fromkeys(names))

    systems = every([subject.system for subject in of.system])
    datapaths = every([subject.datapath for subject in of.system if subject.system != NATIVE])
    return f"there are {systems}; {datapaths}; {every([load.name for load in of.form[form].load])}"


def _with_form(of: Study, name: FormName, form: Form) -> Study:
    return of.model_copy(update={"form": {**of.form, name: form}})


def _shaped(form: Form, length: Length) -> Form:
    changed: dict[str, object] = {}
    if length.blocks is not None:
        budget_s = form.time_budget_s and form.time_budget_s * length.blocks / form.blocks
        changed |= {"blocks": length.blocks, "claim_blocks": 0, "wide_blocks": 0, "time_budget_s": budget_s}
    if length.seconds is not None:
        changed["load"] = tuple(_for_seconds(load, length.seconds) for load in form.load)
    return form.model_copy(update=changed)


def _for_seconds(load: Load, seconds: float) -> Load:
    if not getattr(load, "seconds", 0):
        return load
    whole = int(seconds) if seconds == int(seconds) else seconds
    try:
        return type(load).model_validate({**load.model_dump(), "seconds": whole})
    except ValidationError as error:
        raise UsageFault(
            f"--seconds {seconds:g}: {load.name}: {error.errors()[0]['msg'].removeprefix('Value error, ')}"
        ) from None
