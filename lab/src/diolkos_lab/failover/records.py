# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The result folder of a run: one file, written anew after each trial, from which alone the report is made.

failover.json    format, study, form, seed, facts of the host, a row for each trial; of a merged folder, the runs too
report.md, report.html

What is read may be anybody's, half written, or of a newer lab: it is checked here once, and all that follows takes its shape
for granted.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from diolkos_lab import open_folder
from diolkos_lab.experiment.definition import FormName
from diolkos_lab.failover.definition import KIND, FailoverStudy, FaultName, Kind, Traffic
from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.samples import json_text

FILE = "failover.json"
FORMAT = 2
OURS = (FILE, "report.md", "report.html")
MOST_BYTES = 64 * 1024 * 1024
Count = Annotated[int, Field(ge=0)]
Figure = Annotated[float, Field(ge=0)]
Text = Annotated[str, AfterValidator(json_text.shown)]


class _Shape(BaseModel):
    """Other keys may stand beside these."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Row(_Shape):
    """A trial. A figure that is null has no end; one that is absent was not measured."""

    gateways: Kind
    fault: FaultName
    repetition: Count
    error: str | None = None
    guards: list[str] = []
    lost: str | None = None  # why a gateway did not come back
    late_by_gateways: list[str] = []  # what would be a guard, had the gateways not used the CPUs
    run: str | None = None  # of a merged folder
    flows: Count = 0
    established: Count = 0
    kept: Count = 0
    kept_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    gap_s: Figure | None = None
    call_gap_s: Figure | None = None
    new_flows_s: Figure | None = None
    step_s: Figure | None = None
    downloads: Count = 0
    downloads_share: Annotated[float, Field(ge=0, le=1)] | None = None
    moved: Count = 0
    wrong: Count = 0
    duplicates: Count = 0


class _Run(_Shape):
    """One run of a merged folder."""

    run: str
    host: str
    folder: str
    begun: str
    seed: int
    trials: Count
    planned: Count
    facts: dict[str, Any]


class _Document(_Shape):
    format: Literal[2]
    study: FailoverStudy
    form: FormName
    seed: Annotated[int, Field(ge=0)]
    begun: str
    host: dict[str, Any]
    trials: list[_Row]
    merged: list[_Run] = []


@dataclass
class Records:
    """What a run has found so far; or several that were merged."""

    study: FailoverStudy
    form: str
    seed: int
    host: Mapping[str, Any]
    begun: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    rows: list[dict[str, Any]] = field(default_factory=list)
    merged: Sequence[Mapping[str, Any]] = ()

    def write(self, folder: OpenFolder) -> None:
        """Put the file in place of the last one; a reader sees one or the other. Raises OSError."""
        value: dict[str, Any] = {
            "format": FORMAT,
            "study": self.study.model_dump(mode="json"),
            "form": self.form,
            "seed": self.seed,
            "begun": self.begun,
            "host": self.host,
            "trials": self.rows,
        }
        if self.merged:
            value["merged"] = list(self.merged)
        samples_folder.write_json(folder, FILE, value)

    @property
    def traffic(self) -> Traffic:
        """As it ran: a form may have other flows than the study."""
        traffic, form = self.study.traffic, self.study.form.get(self.form)
        if form is None or form.flows is None:
            return traffic
        return traffic.model_copy(update={"many": traffic.many.model_copy(update={"flows": form.flows})})

    @property
    def done(self) -> int:
        """Planned trials that have been made."""
        return len({name(row) for row in self.rows})

    @property
    def planned(self) -> int:
        """The trials of a whole run, or of all that were merged. Fewer rows are a run that was interrupted or goes on."""
        if self.merged:
            return sum(int(run["planned"]) for run in self.merged)
        form = self.study.form.get(self.form)
        return len(self.rows) if form is None else self.study.trials_of(form)


def name(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The planned trial that a row is of. One that decided nothing was repeated, and has several."""
    return row["gateways"], row["fault"], row["repetition"], row.get("run")


def is_result(folder: Path) -> bool:
    """Is it the folder of a run of this study?"""
    return os.path.lexists(folder / FILE)


def all_results(folders: Sequence[Path], command: str) -> bool:
    """Are these folders of this study? Raises UsageFault where some are and others are not."""
    ours = [folder for folder in folders if is_result(folder)]
    if ours and (other := next((folder for folder in folders if folder not in ours), None)):
        raise UsageFault(f"{command}: {ours[0]} holds a run of the study {KIND}, {other} does not; name folders of one study")
    return bool(ours)


def read(folder: Path) -> Records:
    """A run that was written. Raises UsageFault."""
    with open_folder.to_read(folder) as opened:
        return read_open(opened)


def read_open(folder: OpenFolder) -> Records:
    """The same of a folder that is open."""
    file = folder.path / FILE
    text = folder.text(FILE, MOST_BYTES)
    if text is None:
        raise UsageFault(f"{folder.path}: not a result folder: it has no {FILE}")
    try:
        value = json_text.read_object(text)
    except ValueError as error:
        raise UsageFault(f"{file}: not a JSON object: {error}") from error
    found = value.get("format", "nothing")
    if found != FORMAT or isinstance(found, bool):
        raise UsageFault(f"{file}: this lab reads format {FORMAT}, not {str(found)[:80]}")
    try:
        study = _Document.model_validate(value).study
    except ValidationError as error:
        raise UsageFault(f"{file}: {_first(error)}") from error
    form, seed, host, begun = (value[key] for key in ("form", "seed", "host", "begun"))
    for row in value["trials"]:
        if row.get("flows") and {"kept", "kept_share"} <= row.keys():  # older labs left out flows that were never established
            row["kept_share"] = min(row["kept_share"], row["kept"] / row["flows"])
    return Records(study, form, seed, host, begun, value["trials"], value.get("merged", ()))


def require_trials(folder: Path, found: Records) -> Records:
    """Raises UsageFault for a run that was ended before its first trial."""
    if not found.rows:
        raise UsageFault(f"{folder}: holds no trials, so there is nothing to evaluate; run the study again")
    return found


def claim(folder: Path) -> OpenFolder:
    """Make the folder and open it. An older result in it is moved aside, one that holds something else refused (UsageFault)."""
    return samples_folder.claim(folder, FILE)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return json_text.shown(f"{where}: {first['msg'].removeprefix('Value error, ')}".removeprefix(": "))
