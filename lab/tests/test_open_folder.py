# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A result folder whose owner means harm: nothing outside of it is read or written, and nothing waits for ever."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from diolkos_lab import open_folder
from diolkos_lab.analyze import output
from diolkos_lab.faults import UsageFault
from diolkos_lab.samples import folder as samples_folder

HERE = Path(__file__).parent
SECRET = "years of work\n"
STRANGER = 65534
DRAWN = "rtt-distribution"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes owners, which needs root")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file outside of the result folder, which must stay as it is."""
    file = tmp_path / "victim"
    file.write_text(SECRET)
    return file


@pytest.fixture
def result(tmp_path: Path, record: Callable[..., dict]) -> Path:
    path = tmp_path / "result"
    path.mkdir()
    shutil.copy(HERE / "study_small.toml", path / "study.toml")
    pings = [record(block=block, load="ping", factors={"offloads": "on"}, metrics={"rtt": 1e-5}, series={}) for block in (1, 2)]
    lines = [{"format": 1, "study": "small", "quick": True}, *pings]
    (path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "host.json").write_text('{"format": 1}\n')
    return path


def _report(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diolkos_lab", "report", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line.removeprefix("diolkos-lab: ")


def test_links_at_the_names_of_results_are_replaced(result: Path, victim: Path) -> None:
    """Symbolic links, hard links, and drafts of known names: what they lead to is never written."""
    for name in ("report.html", "report.html.part", "summary.tmp", "report.part"):
        (result / name).symlink_to(victim)
    os.link(victim, result / "summary.json")
    for folder, name in (("pictures", f"{DRAWN}.svg"), ("pictures", f"{DRAWN}.pdf"), ("tables", "rtt.csv")):
        (result / folder).mkdir(exist_ok=True)
        (result / folder / name).symlink_to(victim)
    done = _report(result)
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == SECRET and victim.stat().st_nlink == 1
    made = ("report.html", "summary.json", f"pictures/{DRAWN}.svg", f"pictures/{DRAWN}.pdf", "tables/rtt.csv")
    assert all((result / name).is_file() and not (result / name).is_symlink() for name in made)
    assert not list(result.rglob(".*")), "no draft is left"


@pytest.mark.parametrize("name", ["pictures", "tables"])
def test_a_link_in_place_of_a_folder_is_refused(result: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (result / name).symlink_to(tmp_path / "elsewhere")
    assert f"{result / name}: is a symbolic link" in _sentence(_report(result))
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ["samples.jsonl", "host.json", "study.toml"])
def test_links_and_pipes_are_not_read(result: Path, victim: Path, name: str) -> None:
    (result / name).unlink()
    (result / name).symlink_to(victim)
    assert _sentence(_report(result)).startswith(f"{result / name}: is a symbolic link")
    (result / name).unlink()
    os.mkfifo(result / name)
    assert _sentence(_report(result)).startswith(f"{result / name}: is not a regular file")
    (result / name).unlink()
    (result / name).mkdir()
    assert _sentence(_report(result)).startswith(f"{result / name}: is not a regular file")


def test_pipes_and_folders_at_the_names_of_results(result: Path) -> None:
    os.mkfifo(result / "summary.json")
    os.mkfifo(result / "report.html")
    assert _report(result).returncode == 0
    (result / "report.html").unlink()
    (result / "report.html").mkdir()
    assert _sentence(_report(result)).startswith(f"{result / 'report.html'}: is a folder")


@needs_root
def test_root_writes_into_no_folder_of_another_user(result: Path) -> None:
    os.chown(result, STRANGER, STRANGER)
    name = open_folder.user(STRANGER)
    said = _sentence(_report(result))
    assert f"{result}: belongs to the user {name}" in said and f"sudo -u {name}" in said
    assert sorted(path.name for path in result.iterdir()) == ["host.json", "samples.jsonl", "study.toml"]
    os.chown(result, 0, 0)
    (result / "tables").mkdir()
    os.chown(result / "tables", STRANGER, STRANGER)
    assert f"{result / 'tables'}: belongs to the user {name}" in _sentence(_report(result))


@needs_root
def test_root_follows_no_link_to_a_result_folder(result: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(result)
    assert _sentence(_report(tmp_path / "link")).startswith(f"{tmp_path / 'link'}: is a symbolic link")


@needs_root
def test_root_writes_for_whoever_called_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sudo make demo` twice: the first report became the caller's."""
    os.chown(tmp_path, STRANGER, STRANGER)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    with open_folder.to_write(tmp_path) as folder:
        folder.write("report.html", "page")
    assert (tmp_path / "report.html").read_text() == "page"
    monkeypatch.setenv("SUDO_UID", str(STRANGER - 1))
    with pytest.raises(UsageFault, match="belongs to the user"):
        open_folder.to_write(tmp_path)


@needs_root
def test_a_run_is_not_begun_in_a_folder_of_another_user(tmp_path: Path) -> None:
    for claim in (samples_folder.claim, output.claim):
        path = tmp_path / claim.__module__
        path.mkdir()
        os.chown(path, STRANGER, STRANGER)
        with pytest.raises(UsageFault, match="belongs to the user"):
            claim(path)
        link = tmp_path / f"{claim.__module__}-link"
        (tmp_path / "mine").mkdir(exist_ok=True)
        link.symlink_to(tmp_path / "mine")
        with pytest.raises(UsageFault, match="is a symbolic link"):
            claim(link)


def test_a_document_is_not_written_through_a_link_to_its_draft(tmp_path: Path, victim: Path) -> None:
    (tmp_path / ".out.json.part").symlink_to(victim)
    with output.document(tmp_path / "out.json") as document:
        document.add({"a": 1})
    assert victim.read_text() == SECRET and json.loads((tmp_path / "out.json").read_text()) == [{"a": 1}]


@needs_root
def test_root_follows_no_link_of_another_user_to_a_document(tmp_path: Path, victim: Path) -> None:
    link = tmp_path / "out.json"
    link.symlink_to(victim)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(UsageFault, match="a symbolic link of another user"), output.document(link):
        pass
    assert victim.read_text() == SECRET
