# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The result folder: study.toml, host.json and samples.jsonl, written as the run goes on and read again years later.

Stages: claim the folder → write what is known before → one line per trial, flushed → facts known only at the end.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import tomli_w
from pydantic import Field, model_validator

from diolkos_lab import open_folder
from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import FormName, Study
from diolkos_lab.experiment.failover import KIND, FailoverStudy, Traffic
from diolkos_lab.faults import UsageFault
from diolkos_lab.metric import RENAMED
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.run.trial import Trial
from diolkos_lab.samples import contents
from diolkos_lab.samples.contents import FORMAT, Contents


class Writer:
    """Writes one run's result folder. Every trial is on disk when `add` returns."""

    def __init__(
        self, folder: Path, study: Study | FailoverStudy, systems: Mapping[str, Any], header: Mapping[str, Any]
    ) -> None:
        """Raises UsageFault when the folder holds something that is not a result; an older result is moved aside."""
        self.folder = folder
        self._open = claim(folder)
        self._open.lock()
        self.trials = 0
        resolved = {**plain(study.model_dump(mode="json")), "resolved": {"systems": plain(systems)}}
        self._open.write("study.toml", tomli_w.dumps(resolved))
        self._samples = self._open.create("samples.jsonl")
        self._line({"format": FORMAT, "study": study.name, **header})

    @classmethod
    def resume(cls, opened: OpenFolder, header: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]) -> Self:
        """Go on with a folder that is open and locked, whose samples become those that are kept."""
        writer = cls.__new__(cls)
        writer.folder, writer._open, writer.trials = opened.path, opened, len(kept)
        opened.write("samples.jsonl", "".join(one_line(each) for each in (header, *kept)))
        writer._samples = opened.append("samples.jsonl")
        return writer

    def host(self, facts: Mapping[str, Any]) -> None:
        write_json(self._open, "host.json", {"format": FORMAT, **facts})

    def add(self, trial: Trial) -> None:
        self.record(trial.as_json())

    def record(self, trial: Mapping[str, Any]) -> None:
        """One that is JSON already."""
        self._line(trial)
        self.trials += 1

    def close(self) -> None:
        self._samples.close()
        self._open.close()

    def _line(self, value: Mapping[str, Any]) -> None:
        self._samples.write(one_line(value))
        self._samples.flush()


def form_of(header: Mapping[str, Any]) -> FormName:
    """The form that ran. Older folders say only whether it was the quick one."""
    return str(header.get("form") or ("quick" if header.get("quick") else "full"))


@dataclass(frozen=True)
class Result:
    """A result folder as read."""

    folder: Path
    study: Study
    host: dict[str, Any]
    header: dict[str, Any]
    trials: list[dict[str, Any]]


@dataclass(frozen=True)
class FailoverResult:
    """That of a study of faults."""

    folder: Path
    study: FailoverStudy
    host: dict[str, Any]
    header: dict[str, Any]
    trials: list[dict[str, Any]]

    @property
    def traffic(self) -> Traffic:
        """As it ran."""
        form = self.study.form.get(form_of(self.header))
        return self.study.traffic_of(form) if form else self.study.traffic

    @property
    def done(self) -> int:
        """Planned trials that were made. One that decided nothing was repeated, and has several lines."""
        return len({(trial["datapath"], trial["factors"]["fault"], trial["block"]) for trial in self.trials})

    @property
    def planned(self) -> int:
        """The trials of a whole run, or of all that were merged. Fewer are a run that was interrupted or goes on."""
        form = self.study.form.get(form_of(self.header))
        runs = len(self.host.get("merged") or [None])
        return self.done if form is None else runs * self.study.trials_of(form)


AnyResult = Result | FailoverResult
Some = TypeVar("Some", Result, FailoverResult, AnyResult)


def read(folder: Path) -> AnyResult:
    """Read a result folder of any age. Raises UsageFault when it is none, is of a later format, or something in it is broken.

    A last line without its end is what a power cut leaves; it is left out.
    """
    return whole(contents.load(folder, with_summary=False))


def whole(found: Contents) -> AnyResult:
    """The same of files that were read before."""
    folder = found.folder
    for name in ("samples.jsonl", "study.toml"):
        if name in found.absent:
            raise UsageFault(f"{folder}: not a result folder: it has no {name}")
    for damage in (*found.damages["samples.jsonl"], *found.damages["study.toml"]):
        if damage.kind != "unfinished":
            raise UsageFault(damage.sentence)
    for damage in found.damages["host.json"]:
        if damage.kind == "format":
            raise UsageFault(damage.sentence)
        raise UsageFault(f"{damage.sentence}; mend the file or remove it, the report is then made without it")
    text, file, read = found.study or "", folder / "study.toml", (found.host, found.header, found.trials)
    failover = document.has_kind(text, KIND)
    if (
        stray := next((number for number, trial in enumerate(found.trials) if (trial["load"] == KIND) != failover), None)
    ) is not None:
        raise UsageFault(f"{folder / 'samples.jsonl'}:{stray + 2}: a trial that is not of the study in study.toml")
    if failover:
        return FailoverResult(folder, document.parse(text, file, FailoverAsRun), *read)
    return Result(folder, document.parse(text, file, StudyAsRun), *read)


def of_lanes(found: Contents) -> Result:
    """The same of a study of lanes. Raises UsageFault for another one."""
    result = whole(found)
    if isinstance(result, FailoverResult):
        raise UsageFault(f"{result.folder}: holds a run of the study {result.study.name}, which has no lanes")
    return result


def require_trials(result: Some) -> Some:
    """Raises UsageFault for a run that ended before its first block did."""
    if not any(trial["block"] for trial in result.trials):
        raise UsageFault(f"{result.folder}: holds no trials after the warm-up, so there is nothing to evaluate")
    return result


def differing_facts(first: AnyResult, second: AnyResult) -> dict[str, tuple[Any, Any]]:
    """Host facts in which two results differ, apart from those that always do."""
    always = {"run", "date", "seed", "command_line", "duration_s", "load_average", "format"}
    always |= {"parts", "complete", "merged"}
    names = [name for name in {**first.host, **second.host} if name not in always]
    pairs = {name: (first.host.get(name), second.host.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


class StudyAsRun(Study):
    """A study with what was found out when it was run: the systems' definitions, paths and versions."""

    resolved: dict[str, Any] = Field({})

    @model_validator(mode="before")
    @classmethod
    def _without_what_is_gone(cls, value: Any) -> Any:
        """Keys of older studies: two guards that did nothing, a factor that no path had, and a metric's old name."""
        with contextlib.suppress(AttributeError, KeyError, TypeError):  # the shape is checked after this
            for key in ("retransmit_ratio", "late_ratio"):
                value.get("guards", {}).pop(key, None)
            for form in value["form"].values():
                form.get("vary", {}).pop("ring", None)
            for claim in value["claim"]:
                claim["metric"] = RENAMED.get(claim["metric"], claim["metric"])
        return value

    def _claims_have_baselines(self) -> None:
        """A run of before may compare with the other family alone."""


class FailoverAsRun(FailoverStudy):
    """The same of a study of faults."""

    resolved: dict[str, Any] = Field({})


def claim(folder: Path) -> OpenFolder:
    """Make the folder and open it. A result already in it is moved to a name with its date, never overwritten."""
    if folder.exists():
        if not folder.is_dir():
            raise UsageFault(f"{folder}: exists and is not a folder")
        open_folder.to_write(folder).close()  # a link is refused before its end takes its place
        folder = folder.resolve()  # `.` has no name to add a date to
        if (folder / "samples.jsonl").exists():
            date = datetime.fromtimestamp((folder / "samples.jsonl").stat().st_mtime, UTC)
            aside = folder.with_name(f"{folder.name}-{date:%Y%m%dT%H%M%SZ}")
            folder.rename(aside)
        elif any(folder.iterdir()):
            raise UsageFault(f"{folder}: holds something that is not a result; choose another folder with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageFault(f"{folder}: cannot be made: {error.strerror}") from error
    return open_folder.to_write(folder)


def one_line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"


def write_json(folder: OpenFolder, name: str, value: Any) -> None:
    folder.write(name, json.dumps(value, indent=1, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """TOML has no null: leave such keys out."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value
