# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What is run once more, and what a whole run says, by real runs of pytest."""

import sys
from pathlib import Path

import parallel
import pytest

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
CONFIG = """
def pytest_configure(config):
    config.addinivalue_line("markers", "alone: nothing beside it")
    config.addinivalue_line("markers", "chosen: some")
"""


def folder(tmp_path: Path, text: str) -> Path:
    """A folder of tests."""
    (tmp_path / "test_some.py").write_text(text)
    (tmp_path / "conftest.py").write_text(CONFIG)
    return tmp_path


def outcome(monkeypatch: pytest.MonkeyPatch, tests: Path, *which: str) -> int:
    """The exit code of a whole run of these tests, of all or of those with marks."""
    monkeypatch.setattr(parallel, "CLONE", tests)
    monkeypatch.setenv("SEEN", str(tests / "seen"))
    # Hypothesis takes a second of each run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr(sys, "argv", ["parallel.py", *(f"{tests}{mark}=1" for mark in which or [""])])
    return parallel.main()


def test_failures_are_named_as_pytest_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With parameters of any kind, what a fixture breaks, classes and folders."""
    monkeypatch.setattr(parallel, "MOST_AGAIN", 3)
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper/test_more.py").write_text("class TestMore:\n    def test_it(self):\n        assert False\n")
    assert outcome(monkeypatch, folder(tmp_path, TESTS.replace("seen = os", "return; seen = os"))) == 1
    named = "deeper/test_more.py::TestMore::test_it, test_some.py::test_network, test_some.py::test_traffic[[-inline.tun]]"
    shown = capfd.readouterr().out
    assert f"once more and alone: {named}\n" in shown
    assert "\n2 failed, 1 error in " in shown, "of these no other is run again"


def test_what_fails_twice_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A broken program stays broken."""
    assert (
        outcome(
            monkeypatch,
            folder(tmp_path, TESTS.replace("raise RuntimeError", "return").replace("seen = os", "return; seen = os")),
        )
        == 1
    )
    assert "once more and alone: test_some.py::test_traffic[[-inline.tun]]\n" in capfd.readouterr().out


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


def test_more_than_one_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two do not fail by chance."""
    text = TESTS.replace('["[-inline.tun]", "tun"]', '["a", "b"]').replace("raise RuntimeError", "return")
    text = text.replace("seen = os", "return; seen = os")
    assert outcome(monkeypatch, folder(tmp_path, text)) == 1
    assert "once more" not in capfd.readouterr().out


def test_only_those_with_a_mark_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Others may fail; that none of them has to be alone is no failure."""
    text = TESTS.replace("def test_once", "@pytest.mark.chosen\ndef test_once").replace(
        '["[-inline.tun]", "tun"]', '["a", "b", "c"]'
    )
    assert outcome(monkeypatch, folder(tmp_path, text), ":chosen") == 0
    assert "to be mended: test_some.py::test_once" in capfd.readouterr().out


def test_one_failure_of_several_folders_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Wherever it is; each folder says what it has run."""
    text = TESTS.replace("def test_traffic", "@pytest.mark.chosen\ndef test_traffic").replace("raise RuntimeError", "return")
    assert outcome(monkeypatch, folder(tmp_path, text), ":not chosen", ":chosen") == 1
    shown = capfd.readouterr().out
    assert f"== pytest {tmp_path} (chosen), 1 at once: " in shown
    assert "to be mended: test_some.py::test_once" in shown, "the other part has passed"
    assert outcome(monkeypatch, folder(tmp_path, text.replace("[-inline.tun]", "tun")), ":not chosen", ":chosen") == 0


def test_a_folder_without_tests_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What checks nothing does not pass."""
    assert outcome(monkeypatch, folder(tmp_path, "")) == parallel.NONE


# proc_pid_mountinfo(5): number, parent, device, root of the mount, mount point, …
PROC = "36 35 0:21 / /proc rw,relatime shared:5 - proc proc rw\n"


@pytest.mark.parametrize(("line", "found"), [("35 1 254:0 / / rw - ext4 /dev/root rw\n", True), ("", False)])
def test_the_root_of_a_chroot_is_no_mount(line: str, found: bool) -> None:
    assert parallel.root_is_a_mount(line + PROC) is found
