# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One whole report, made once and looked at by many tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import synthetic

from diolkos_lab import report


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A result folder with its report in it."""
    folder = synthetic.folder(tmp_path_factory.mktemp("whole") / "result")
    report.write(folder)
    return folder
