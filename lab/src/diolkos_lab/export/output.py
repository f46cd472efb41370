# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The folder that an export is written into: an empty one, or that of an earlier export. No link in it is followed."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from diolkos_lab import open_folder
from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.samples import json_text
from diolkos_lab.serve.find_runs import EXPORT

MARK = EXPORT
FORMAT = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}(?:/[A-Za-z0-9][A-Za-z0-9._+-]{0,200}){0,3}")


class Output:
    """Use as a context manager. At its end, files of the earlier export that are not written again are removed."""

    def __init__(self, path: Path) -> None:
        """Raises UsageFault for a folder that holds anything but an export, and for one that cannot be made."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise UsageFault(f"{path}: exists and is not a folder") from None
        except OSError as error:
            raise UsageFault(f"{path}: cannot be made: {error.strerror}") from error
        self._folder = open_folder.to_write(path)
        self._written: list[str] = []
        try:
            self._before = self._earlier()
        except UsageFault:
            self._folder.close()
            raise

    def __enter__(self) -> Output:
        # From now on it is an export's: one that is interrupted can be written again.
        self._mark(self._before)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                for name in sorted(set(self._before) - set(self._written)):
                    self._remove(name)
                self._before = []
            self._mark([*self._before, *self._written])
        finally:
            self._folder.close()

    def write(self, name: str, content: bytes | str) -> None:
        """A file by its path, whose parts are names of ours."""
        *parents, last = PurePosixPath(name).parts
        with ExitStack() as stack:
            folder = self._folder
            for parent in parents:
                folder = stack.enter_context(folder.inside(parent))
            folder.write(last, content)
        self._written.append(name)

    def _earlier(self) -> list[str]:
        if not self._folder.entries():
            return []
        text = self._folder.text(MARK)
        if text is None:
            raise UsageFault(f"{self._folder.path}: holds something that is not an export; choose another folder with --out")
        try:
            found = json_text.read_object(text)
        except ValueError:
            found = {}
        if found.get("format") != FORMAT or found.get("made_by") != "diolkos-lab export":
            raise UsageFault(
                f"{self._folder.path / MARK}: is not of an export of this version; choose another folder with --out"
            )
        files = found.get("files")
        return [name for name in files if isinstance(name, str) and NAME.fullmatch(name)] if isinstance(files, list) else []

    def _mark(self, files: list[str]) -> None:
        value = {"format": FORMAT, "made_by": "diolkos-lab export", "files": sorted(set(files))}
        self._folder.write(MARK, json.dumps(value, indent=1) + "\n")

    def _remove(self, name: str) -> None:
        *parents, last = PurePosixPath(name).parts
        with ExitStack() as stack:
            folder: OpenFolder = self._folder
            try:
                for parent in parents:
                    folder = stack.enter_context(folder.within(parent))
                folder.remove(last)
            except UsageFault:
                return  # it is not there any more, or something else has its name
