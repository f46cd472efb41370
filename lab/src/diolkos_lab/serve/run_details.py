# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a list of runs says of one of them: host.json, summary.json and the first line of samples.jsonl.

Samples are not read: a thousand runs have to be listed within a second. What is damaged costs a column and gives a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.report.facts import emulated
from diolkos_lab.samples import counting
from diolkos_lab.samples.contents import FORMAT
from diolkos_lab.samples.json_text import shown
from diolkos_lab.serve import figures

MOST_BYTES = 16 * 1024 * 1024  # of a file that the list reads
LONGEST_LINE = 64 * 1024  # of the header of samples.jsonl
LONGEST_TEXT = 120  # characters of a text in the list


def short(text: str) -> str:
    """Without what moves a cursor, and not too long for a list."""
    text = shown(text)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


Text = Annotated[str, AfterValidator(short)]


class _Lenient(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    format: Any = None


Shape = TypeVar("Shape", bound=_Lenient)


class _Header(_Lenient):
    study: Text
    quick: bool = False
    form: Text | None = None
    started: Text = ""
    seed: int | None = None


class _Version(_Lenient):
    version: Text | None = None


class _Host(_Lenient):
    hostname: Text | None = None
    kernel: Text | None = None
    cpu_model: Text | None = None
    cores: int | None = None
    date: Text | None = None
    systems: dict[Text, _Version] = {}
    guest: Any = None


class _Verdict(_Lenient):
    outcome: Text


class _Row(_Lenient):
    """Checked for damage alone."""

    trials: figures.Count = 0
    valid_trials: figures.Count = 0


class _Trials(_Lenient):
    measured: figures.Count = 0
    untrusted: figures.Count = 0
    failed: figures.Count = 0


class _Summary(_Lenient):
    study: Text
    quick: bool = False
    form: Text | None = None
    generated: Text | None = None
    verdicts: list[_Verdict] = []
    trials: _Trials = _Trials()
    rows: Annotated[list[_Row], Field(max_length=figures.MOST_ROWS)] = []


@dataclass(frozen=True)
class Run:
    """One result folder as the list shows it."""

    key: str  # in addresses
    place: str  # below the folder that is shown; for people
    study: str
    form: str  # or empty
    emulated: bool  # its processor: speeds say nothing of hardware
    started: str  # ISO 8601, or empty
    host: str
    kernel: str
    versions: tuple[str, ...]  # of the systems: "diolkos 0.1.0"
    outcomes: tuple[int, int, int] | None  # rules that are met, not met and undecided
    trusted: float | None  # share of the trials
    remark: str  # what is wrong with the folder, one sentence; or empty
    whole: bool  # it has samples or trials of this format, so that it can be compared

    @property
    def trusted_text(self) -> str:
        return "" if self.trusted is None else counting.percent(self.trusted)


def read(opened: OpenFolder, key: str, place: str) -> Run:
    """Never raises: what cannot be read is said in the run's remark."""
    damages: list[str] = []
    header = _part(opened, "samples.jsonl", _Header, damages)
    whole = header is not None
    summary = _part(opened, "summary.json", _Summary, damages)
    host = _part(opened, "host.json", _Host, damages, format_needed=False) or _Host()
    outcomes = [verdict.outcome for verdict in summary.verdicts] if summary else []
    return Run(
        key=key,
        place=place,
        study=header.study if header else summary.study if summary else "unknown",
        form=_form(header or summary),
        emulated=emulated({"guest": host.guest}),
        started=(header.started if header else "") or host.date or (summary.generated if summary else "") or "",
        host=host.hostname or _machine(host),
        kernel=host.kernel or "unknown",
        versions=tuple(_named(name, each.version) for name, each in sorted(host.systems.items()) if each.version),
        outcomes=_counted(outcomes) if summary else None,
        trusted=counting.trusted_share(summary.trials.model_dump()) if summary else None,
        remark=damages[0] if damages else "",
        whole=whole,
    )


def _shaped(content: bytes, shape: type[Shape]) -> Shape:
    """Raises ValueError. What another version wrote may have any shape, and has its format all the same."""
    try:
        return shape.model_validate_json(content)
    except ValidationError:
        value = from_json(content, allow_inf_nan=False)
        if isinstance(value, dict) and value.get("format", FORMAT) != FORMAT:
            return cast(Shape, shape.model_construct(format=value["format"]))
        raise


def _part(opened: OpenFolder, name: str, shape: type[Shape], damages: list[str], *, format_needed: bool = True) -> Shape | None:
    """One file in its shape; None, and a sentence in `damages`, where that cannot be."""
    try:
        content = opened.first_line(name, LONGEST_LINE) if name == "samples.jsonl" else opened.read(name, MOST_BYTES)
        if content is None:
            damages.append(MISSING[name])
            return None
        found = _shaped(content, shape)
        if found.format is None and not format_needed:
            return found
        if found.format == FORMAT and not isinstance(found.format, bool):
            return found
        damages.append(
            f"{name} has format {short(str(found.format or 'nothing'))}; this diolkos-lab reads format {FORMAT}. "
            "Use the version that made the folder, or a newer one."
        )
    except UsageFault as fault:
        damages.append(f"{name}: {short(str(fault).removeprefix(f'{opened.path / name}: '))}.")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = [str(part) for part in first["loc"]]
        damages.append(f"{name} is damaged: {short(': '.join(['.'.join(where), first['msg']]))}.")
    except ValueError as error:
        damages.append(f"{name} is damaged: {short(str(error))}.")
    return None


MISSING = {
    "samples.jsonl": "It has no samples.jsonl: it cannot be compared.",
    "host.json": "It has no host.json: the host is unknown.",
    "summary.json": "It has no statistics yet: the run goes on, or was stopped; `diolkos-lab report` makes them.",
}


def _form(said: _Header | _Summary | None) -> str:
    """Older folders say only whether it was the quick one."""
    return (said.form or ("quick" if said.quick else "full")) if said else ""


def _machine(host: _Host) -> str:
    """Older folders have no name of the host; its CPU tells most hosts apart."""
    if not host.cpu_model:
        return "unknown"
    return short(f"{host.cpu_model}, {host.cores} CPUs" if host.cores else host.cpu_model)


def _named(system: str, version: str | None) -> str:
    version = version or ""
    return version if version.casefold().startswith(system.casefold()) else short(f"{system} {version}")


def _counted(outcomes: list[str]) -> tuple[int, int, int]:
    met, not_met = outcomes.count("met"), outcomes.count("not met")
    return met, not_met, len(outcomes) - met - not_met
