# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What is run once more, from real reports of pytest."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import e2e

TESTS = """
import os
import pytest

@pytest.mark.parametrize("path", ["[-inline.tun]", "tun"])
def test_traffic(path):
    assert path == "tun"

@pytest.fixture
def broken():
    raise RuntimeError("no network")

def test_network(broken):
    pass

def test_once(tmp_path_factory):
    seen = os.environ["SEEN"]
    assert os.path.exists(seen) or not open(seen, "w")

@pytest.mark.alone
def test_alone():
    pass
"""
CONFIG = "def pytest_configure(config):\n    config.addinivalue_line('markers', 'alone: nothing beside it')\n"


def folder(tmp_path: Path, text: str) -> Path:
    """A folder of tests."""
    (tmp_path / "test_some.py").write_text(text)
    (tmp_path / "conftest.py").write_text(CONFIG)
    return tmp_path


def outcome(monkeypatch: pytest.MonkeyPatch, tests: Path) -> int:
    """The exit code of a whole run of these tests."""
    monkeypatch.setattr(e2e, "TESTS", tests)
    monkeypatch.setattr(e2e, "CLONE", tests)
    monkeypatch.setenv("SEEN", str(tests / "seen"))
    monkeypatch.setattr(sys, "argv", ["e2e.py", "--jobs", "1"])
    return e2e.main()


def test_failures_are_named_as_pytest_takes_them(tmp_path: Path) -> None:
    """With parameters of any kind, and with what a fixture breaks."""
    report = folder(tmp_path, TESTS.replace("seen = os", "return; seen = os")) / "report.xml"
    subprocess.run([sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", str(tmp_path)], check=False)
    found = e2e.failures(ElementTree.parse(report).getroot())
    assert found == ["test_some.py::test_traffic[[-inline.tun]]", "test_some.py::test_network"]


def test_what_fails_twice_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken program stays broken."""
    assert outcome(monkeypatch, folder(tmp_path, TESTS)) == 1


def test_what_fails_once_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """It passes with nothing beside it."""
    text = TESTS.replace("[-inline.tun]", "tun").replace("raise RuntimeError", "return")
    assert outcome(monkeypatch, folder(tmp_path, text)) == 0
    assert "passed alone, to be mended: test_some.py::test_once" in capfd.readouterr().out


def test_what_fails_alone_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There it cannot be the neighbours' fault."""
    text = (
        TESTS.replace("[-inline.tun]", "tun")
        .replace("raise RuntimeError", "return")
        .replace("def test_alone():\n    pass", "def test_alone():\n    assert False")
    )
    assert outcome(monkeypatch, folder(tmp_path, text)) == 1


def test_more_than_three_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """So many do not fail by chance."""
    text = TESTS.replace('["[-inline.tun]", "tun"]', '["a", "b", "c"]')
    assert outcome(monkeypatch, folder(tmp_path, text)) == 1
    assert "once more" not in capfd.readouterr().out
