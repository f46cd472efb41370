# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shared by all tests: records as samples.jsonl holds them, a small study, and the rule that nothing may be left behind."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from diolkos_lab import cli, own_files
from diolkos_lab.sut.lookup import tool
from diolkos_lab.topology import namespace
from lines import line
from whole_program import Called, Lab

DATA = Path(__file__).parent / "data"
# No test depends on timing; what fails says how to repeat it.
derandomized = "DERANDOMIZE" in os.environ
settings.register_profile("lab", deadline=None, print_blob=not derandomized, derandomize=derandomized)
settings.load_profile("lab")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `root` make network namespaces; without the privilege they are skipped, and say so."""
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="makes network namespaces, which needs root"))


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture
def record() -> Callable[..., dict[str, Any]]:
    """Makes one line of samples.jsonl; every key can be given."""

    return line


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lab:
    """The whole program in this process: exit code, output, errors."""
    monkeypatch.setattr(cli, "stop_on_signals", lambda: None)

    def call(*arguments: object) -> Called:
        monkeypatch.setattr(sys, "argv", ["diolkos-lab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        own_files.use(None)
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture
def clean_machine() -> Iterator[None]:
    """Fails when the test leaves one of this process' namespaces behind."""
    me = namespace.Owner.me()
    yield
    left = [name for name in os.listdir(namespace.DIRECTORY) if namespace.owner_in_name(name) == me]
    namespace.remove(left)
    assert not left, "namespaces were left behind"


@pytest.fixture
def generator_built() -> None:
    """Measure with the real packet generator; without `make build` there is none."""
    if not tool("diolkos-pktgen"):
        pytest.skip("diolkos-pktgen is not built")
