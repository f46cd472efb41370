# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The files of a result folder, read once. What is wrong with them is written down here and judged by who reads on.

Statistics take a whole folder only (`folder.whole`); the report shows what there is, and says what is not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from diolkos_lab import open_folder
from diolkos_lab.experiment import nodes
from diolkos_lab.metric import RENAMED
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.samples import json_text, records
from diolkos_lab.samples.records import TrialRecord

FORMAT = 1
FileName = Literal["samples.jsonl", "study.toml", "host.json", "summary.json"]
# content: it is no JSON or not of the shape. unfinished: a power cut left a line without its end. empty: there is no header.
Kind = Literal["format", "content", "encoding", "unfinished", "empty"]


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong with a file."""

    place: str  # `file`, or `file:line:column`
    reason: str
    kind: Kind
    format: str = ""  # that the file has instead of ours

    @property
    def sentence(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True)
class Contents:
    """What the files hold. A file that is absent or of no use is an empty object; `study` is None then."""

    folder: Path
    header: dict[str, Any]
    trials: list[dict[str, Any]]
    records: list[TrialRecord]  # the same, typed
    study: str | None  # text of study.toml
    host: dict[str, Any]
    summary: dict[str, Any]
    absent: frozenset[FileName]
    damages: Mapping[FileName, list[Damage]]


class OtherFormat(ValueError):
    """A file of another version of the lab."""

    def __init__(self, found: str) -> None:
        super().__init__(f"this lab reads format {FORMAT}, not {found}")
        self.found = found


def load(folder: Path, *, with_summary: bool = True) -> Contents:
    """Raises UsageFault where there is no such folder, or a file in it cannot be opened.

    Who makes summary.json leaves the old one alone.
    """
    with open_folder.to_read(folder) as opened:
        return read(opened, with_summary=with_summary)


def read(opened: OpenFolder, *, with_summary: bool = True, most: int | None = None) -> Contents:
    """The same of a folder that is open. Raises UsageFault for a file of more than `most` bytes, too."""
    folder = opened.path
    reading = _Reading(folder)
    text: dict[FileName, str | None] = dict.fromkeys(reading.damages)
    for name in reading.damages:
        if with_summary or name != "summary.json":
            text[name] = reading.text(name, opened.read(name, most))
    header, trials = reading.lines(text["samples.jsonl"])
    return Contents(
        folder=folder,
        header=header,
        trials=trials,
        records=reading.records,
        study=text["study.toml"],
        host=reading.document("host.json", text["host.json"], _require_host),
        summary=reading.document("summary.json", text["summary.json"], _require_summary),
        absent=frozenset(name for name, content in text.items() if content is None),
        damages=reading.damages,
    )


class _Reading:
    """Notes the damages of each file on the way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.records: list[TrialRecord] = []
        self.damages: dict[FileName, list[Damage]] = {
            "samples.jsonl": [],
            "study.toml": [],
            "host.json": [],
            "summary.json": [],
        }

    def text(self, name: FileName, content: bytes | None) -> str | None:
        """None where there is no such file."""
        if content is None:
            return None
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            before = content[: error.start]
            line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
            self._note(name, "not UTF-8 text", "encoding", (line, column))
            return content.decode("utf-8", errors="replace")

    def lines(self, text: str | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Header and trials of samples.jsonl. A last line without its end counts where it is whole."""
        header: dict[str, Any] | None = None
        trials: list[dict[str, Any]] = []
        if text is None:
            return {}, []
        numbered = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        last = text.count("\n") + 1
        for index, (number, line) in enumerate(numbered):
            shape = records.TrialRecord if index else records.Header
            if value := self._line(line, number, shape, unfinished=number == last):
                if index:
                    trials.append(value)
                else:
                    header = value
            elif index == 0 and self.damages["samples.jsonl"][-1].kind == "format":
                return {}, []
        if header is None and not any(each.kind == "content" for each in self.damages["samples.jsonl"]):
            self._note("samples.jsonl", f"this lab reads format {FORMAT}, not nothing", "empty", (1, 1))
        return header or {}, trials

    def document(self, name: FileName, text: str | None, require: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        if text is None or self.damages[name]:
            return {}
        try:
            value = json_text.read_object(text)
            require(value)
        except OtherFormat as error:
            self._note(name, str(error), "format", found=error.found)
            return {}
        except ValueError as error:
            self._note(name, str(error), "content")
            return {}
        return value

    def _line(self, line: str, number: int, shape: type[Any], *, unfinished: bool) -> dict[str, Any] | None:
        place = (number, 1)
        try:
            value = json_text.read_object(line)
        except ValueError as error:
            self._note("samples.jsonl", f"not a JSON object: {error}", "unfinished" if unfinished else "content", place)
            return None
        try:
            if shape is records.Header:
                _require_format(value)
            if isinstance(metrics := value.get("metrics"), dict):
                value["metrics"] = {RENAMED.get(name, name): figure for name, figure in metrics.items()}
            if isinstance(factors := value.get("factors"), dict):
                nodes.fill_in(factors)
            record = records.require(shape, value)
        except OtherFormat as error:
            self._note("samples.jsonl", str(error), "format", place, error.found)
            return None
        except ValueError as error:
            self._note("samples.jsonl", str(error), "content", place)
            return None
        if isinstance(record, TrialRecord):
            self.records.append(record)
        return value

    def _note(self, name: FileName, reason: str, kind: Kind, place: tuple[int, int] | None = None, found: str = "") -> None:
        where = ":".join(map(str, [self._folder / name, *(place or ())]))
        self.damages[name].append(Damage(where, reason, kind, found))


def _require_host(value: dict[str, Any]) -> None:
    if "format" in value:  # the first folders had none here
        _require_format(value)
    records.require(records.Host, value)


def _require_summary(value: dict[str, Any]) -> None:
    _require_format(value)
    records.require(records.Summary, value)
    # A row is found among the trials by its factors.
    for rows in (value.get("rows"), value.get("untrusted"), (value.get("noise_floor") or {}).get("rows")):
        for row in rows or []:
            nodes.fill_in(row)


def _require_format(value: Mapping[str, Any]) -> None:
    found = value.get("format", "nothing")
    if found != FORMAT or isinstance(found, bool):
        raise OtherFormat(str(found)[:80])
