# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an analysis writes: its folder, the JSON document, the table. Each is whole or not there."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from diolkos_lab import open_folder
from diolkos_lab.faults import UsageFault

DOCUMENT, PICTURES = "analysis.json", "pictures"
STANDARD_OUTPUT = Path("-")


def claim(folder: Path) -> None:
    """Make the folder of pictures and report. An older analysis in it is moved to a name with its date. Raises UsageFault."""
    if folder.is_dir():
        open_folder.to_write(folder).close()
    folder = folder.resolve()
    if folder.exists():
        if not folder.is_dir():
            raise UsageFault(f"{folder}: exists and is not a folder")
        if (folder / DOCUMENT).exists():
            date = datetime.fromtimestamp((folder / DOCUMENT).stat().st_mtime, UTC)
            folder.rename(folder.with_name(f"{folder.name}-{date:%Y%m%dT%H%M%S.%fZ}"))
        elif any(folder.iterdir()):
            raise UsageFault(f"{folder}: holds something that is not an analysis; choose another folder with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageFault(f"{folder}: cannot be made: {error.strerror}") from error
    with open_folder.to_write(folder) as opened, opened.inside(PICTURES):
        pass


class Document:
    """A JSON array, one object per line, written as they come."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._separator = "[\n"

    def add(self, entry: dict[str, Any]) -> None:
        self._stream.write(self._separator + json.dumps(entry, allow_nan=False, separators=(",", ":")))
        self._separator = ",\n"

    def close(self) -> None:
        self._stream.write("\n]\n" if self._separator[0] == "," else "[]\n")


@contextmanager
def document(file: Path) -> Iterator[Document]:
    """A file that holds a whole document at the end, or is as it was before; `-` is the standard output.

    What is no file, such as a device or a pipe, is written to and never replaced.
    """
    if file == STANDARD_OUTPUT:
        yield from _written(sys.stdout)
        return
    if os.geteuid() == 0 and file.is_symlink() and file.lstat().st_uid != 0:
        raise UsageFault(f"{file}: is a symbolic link of another user, which root does not follow; name the file itself")
    file = file.resolve()  # what a link leads to is replaced, not the link
    if file.is_dir() or not file.parent.is_dir():
        raise UsageFault(f"{file}: is a folder" if file.is_dir() else f"{file.parent}: there is no such folder")
    if file.exists() and not file.is_file():
        with file.open("w", encoding="utf-8") as stream:
            yield from _written(stream)
        return
    # A draft of its own name goes in place of the file, so that it may stand in anybody's folder.
    with open_folder.to_read(file.parent) as folder, folder.draft(file.name) as raw:
        stream = io.TextIOWrapper(raw, encoding="utf-8")
        yield from _written(stream)
        stream.detach()


def _written(stream: TextIO) -> Iterator[Document]:
    written = Document(stream)
    yield written
    written.close()
    stream.flush()
