# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Folders of runs for all tests of pages and exports."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import runs


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """Four runs of a study on two hosts, the last of them faster; one of another study; and one without statistics."""
    folder = tmp_path_factory.mktemp("few") / "results"
    runs.write(folder / "alpha" / "first", 1)
    runs.write(folder / "alpha" / "second", 2)
    runs.write(folder / "beta" / "third", 3, host="beta", kernel="6.18.2")
    runs.write(folder / "beta" / "fourth", 4, host="beta", kernel="6.18.2", version="0.2.0", level=0.99)
    runs.write(folder / "other", 5, study="another")
    runs.write(folder / "stopped", 6, evaluated=False)
    return folder
