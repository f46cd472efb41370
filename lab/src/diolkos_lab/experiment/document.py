# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From a TOML file to a validated model, every fault with its place in the file."""

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from diolkos_lab.experiment import locate
from diolkos_lab.faults import UsageFault


class StrictModel(BaseModel):
    """A definition accepts no key it does not know, no number that is none, and does not change after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MisplacedError(ValueError):
    """A fault that a check of the whole document found, with the keys that lead to the table it is in."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = path


Model = TypeVar("Model", bound=StrictModel)
LARGEST = 1 << 20  # bytes of a definition


def read(file: Path, model: type[Model]) -> Model:
    """Read a definition. Raises UsageFault whose message starts with `file:line:column`."""
    return parse(text(file), file, model)


def text(file: Path) -> str:
    """What a definition says. Raises UsageFault."""
    try:
        if file.exists() and not file.is_file() and not file.is_dir():
            raise UsageFault(f"{file}: is not a regular file; give the path of a .toml file")
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageFault(f"{file}: is larger than 1 MiB, which no definition is")
        return content.decode("utf-8")
    except OSError as error:
        raise UsageFault(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise UsageFault(f"{file}:{line}:{column}: not UTF-8 text") from error


def has_kind(content: str, kind: str) -> bool:
    """Does a definition say that it is of this kind? One that is no TOML says nothing."""
    try:
        return tomllib.loads(content).get("kind") == kind
    except (ValueError, RecursionError):
        return False


def parse(content: str, file: Path, model: type[Model]) -> Model:
    """The same from the text of the file, which messages name."""
    try:
        values = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise UsageFault(f"{file}:{_place(str(error), content)}: {_without_place(str(error))}") from error
    except RecursionError:
        raise UsageFault(f"{file}: arrays or tables are too deeply nested") from None
    except ValueError:  # of a number with thousands of digits
        raise UsageFault(f"{file}: a number has too many digits") from None
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        path = first["loc"] + (cause.path if isinstance(cause, MisplacedError) else ())
        line, column = locate.nearest(locate.positions(content), _keys_only(path, values))
        where = ".".join(str(part) for part in path) or "the document"
        message = first["msg"].removeprefix("Value error, ")
        if first["loc"] == ("format",) and "input" in first and first["type"] != "missing":
            message = f"this lab reads format 1, not {str(first['input'])[:80]}"
        raise UsageFault(f"{file}:{line}:{column}: {where}: {message}") from error


def _place(message: str, text: str) -> str:
    """The parser says `(at line 3, column 7)` or `(at end of document)`."""
    if found := re.search(r"at line (\d+), column (\d+)", message):
        return f"{found[1]}:{found[2]}"
    lines = text.splitlines() or [""]
    return f"{len(lines)}:{len(lines[-1]) + 1}"


def _without_place(message: str) -> str:
    return re.sub(r" \(at (line \d+, column \d+|end of document)\)$", "", message)


def _keys_only(location: tuple[str | int, ...], values: Any) -> tuple[str | int, ...]:
    """The part of a validation error's location that is really in the document; it also names union members."""
    kept: tuple[str | int, ...] = ()
    for part in location:
        if isinstance(values, list):
            inside = isinstance(part, int) and part < len(values)
        else:
            inside = isinstance(values, dict) and part in values
        if not inside:
            continue
        values = values[part]
        kept += (part,)
    return kept
