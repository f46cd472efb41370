# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The folder for configurations, logs and outputs while a run lasts. Its name carries the owner, as the namespaces' do."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from diolkos_lab.topology.namespace import PREFIX, Owner


def path_of(owner: Owner) -> Path:
    return Path(tempfile.gettempdir()) / f"{PREFIX}-{owner.pid}-{owner.started}"


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A new private folder that is gone afterwards. Raises FileExistsError rather than share one."""
    path = path_of(Owner.me())
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def abandoned() -> list[Path]:
    """Folders whose owner no longer lives."""
    found = []
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*"):
        numbers = path.name.split("-")[1:]
        ours = len(numbers) == 2 and all(number.isdigit() for number in numbers)
        if ours and not Owner(int(numbers[0]), int(numbers[1])).alive():
            found.append(path)
    return sorted(found)
