# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One whole report, made once and looked at by many tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import synthetic

from diolkos_lab import report
from diolkos_lab.report import charts
from diolkos_lab.report.charts import RenderedPicture


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A result folder with its report in it."""
    folder = synthetic.folder(tmp_path_factory.mktemp("whole") / "result")
    report.write(folder)
    return folder


@pytest.fixture
def sketched(monkeypatch):
    """Each picture is specified and not drawn: for tests that look at the page, not at its pictures."""

    def sketch(pictures, folder):
        return {picture.name: RenderedPicture(charts.spec(picture), "", b"") for picture in pictures}

    monkeypatch.setattr(charts, "save", sketch)
